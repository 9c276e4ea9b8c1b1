// What LLM makes of whole texts.
#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>

#include "base/strings.h"
#include "engine/known_tokens.h"
#include "engine/llm.h"
#include "engine/non_finite_logit.h"

namespace tern::engine {
namespace {

constexpr std::int64_t kRunTokens = 8192;  // of several texts together; a longer one runs alone
constexpr std::int64_t kFewestTokens = 64;

// A longer text than any before needs a program of its own: sizes double, so that few are built.
std::int64_t capacity_for(std::int64_t tokens) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(tokens, kFewestTokens))));
}

void scale_to_unit(std::span<float> values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  const double length = std::max(std::sqrt(squares), 1e-12);  // as PyTorch's normalize
  for (float& value : values) value = static_cast<float>(static_cast<double>(value) / length);
}

std::optional<Error> problem_of(const std::vector<float>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) return non_finite_logit(cat("number ", i, " of the text"), values[i]);
  }
  return std::nullopt;
}

Error no_instruction() {
  return data_error("the pair", "a query and a document alone, as an encoder reads them", "an instruction beside them",
                    "leave the system message out");
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace

EmbedOptions LLM::default_pooling() const {
  const session::PoolingConfig told = session::read_pooling_config(*session_.source).value();
  const Pooling otherwise = session_.model.architecture->encoder ? Pooling::mean : Pooling::last;
  return {told.pooling.value_or(otherwise), told.normalize.value_or(true), told.prompt};
}

void LLM::prepare_pooler(std::int64_t tokens, Pooling pooling, PooledOutput output) {
  const bool fits = pooler_ && pooler_->options().max_tokens >= tokens && pooler_->options().pooling == pooling &&
                    pooler_->options().output == output;
  if (fits) return;
  PoolerOptions options;
  options.max_tokens = capacity_for(tokens);
  options.max_texts = options_.engine.max_num_seqs;
  options.pooling = pooling;
  options.output = output;
  options.numerics = options_.engine.numerics;
  options.adapters = options_.engine.adapters;
  wake().value();
  pooler_.reset();  // its memory first
  pooler_ = std::make_unique<Pooler>(session_.model, options, *session_.runtime);
  session_.runtime->choices.save();
  session::keep_bindings(pooler_->program());
}

void LLM::pool_run(std::span<const Result<TextTokens>> texts, std::span<const std::size_t> some,
                   std::vector<PooledText>& out) {
  std::vector<std::span<const std::int32_t>> ids;
  std::vector<std::span<const std::int32_t>> types;
  for (const std::size_t i : some) {
    ids.emplace_back(texts[i]->ids);
    types.emplace_back(texts[i]->types);
  }
  auto rows = pooler_->run(ids, types);
  for (std::size_t i = 0; i < some.size(); ++i) {
    PooledText& text = out[some[i]];
    text.error = problem_of(rows[i]);
    if (!text.error) text.values = std::move(rows[i]);
  }
}

std::vector<PooledText> LLM::pool(std::span<const Result<TextTokens>> texts, Pooling pooling, PooledOutput output) {
  std::vector<PooledText> out(texts.size());
  std::vector<std::size_t> some;  // that run together
  std::int64_t tokens = 0;
  const auto run = [&] {
    if (some.empty()) return;
    const Status ran = catching([&] {
      prepare_pooler(tokens, pooling, output);
      return pool_run(texts, some, out), Unit{};
    });
    for (const std::size_t i : some) {
      if (!ran) out[i].error = ran.error();  // those of other runs go on
    }
    some.clear();
    tokens = 0;
  };
  const std::int64_t most = options_.engine.max_model_len;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i]) {
      out[i].error = texts[i].error();
      continue;
    }
    const auto length = static_cast<std::int64_t>(texts[i]->ids.size());
    out[i].tokens = length;
    if (length == 0 || length > most) {
      out[i].error = data_error("the text", cat("1 to ", most, " tokens"), cat(length, " tokens"),
                                length == 0 ? "leave it out" : "shorten it");
      continue;
    }
    out[i].error = unknown_token(texts[i]->ids, session_.model.config.vocab_size, session_.text->tokenizer);
    if (out[i].error) continue;
    const bool is_full = static_cast<std::int64_t>(some.size()) == options_.engine.max_num_seqs;
    if (is_full || tokens + length > std::max(kRunTokens, length)) run();
    some.push_back(i);
    tokens += length;
  }
  run();
  return out;
}

std::vector<Result<TextTokens>> LLM::tokens_of(std::span<const Prompt> prompts) const {
  std::vector<Result<TextTokens>> out;
  for (const Prompt& prompt : prompts) {
    out.push_back(catching([&] { return TextTokens{encode(prompt).value(), {}}; }));
  }
  return out;
}

Pooling LLM::label_pooling() const {
  const auto& encoder = session_.model.architecture->encoder;
  return encoder ? encoder->label_pooling(session_.model.config) : Pooling::last;
}

Result<TextTokens> LLM::pair_tokens(const RerankPair& pair) const {
  const tokenizer::Tokenizer& tokenizer = session_.text->tokenizer;
  const auto& encoder = session_.model.architecture->encoder;
  return catching([&]() -> TextTokens {
    if (!encoder) return {rerank_prompt(tokenizer, pair).value(), {}};
    if (pair.instruction) throw Failure(no_instruction());
    tokenizer::PairEncoding joined = tokenizer.encode_pair(pair.query, pair.document);
    if (!encoder->second_has_type) joined.type_ids.clear();
    const std::int64_t types = encoder->second_has_type ? encoder->token_types(session_.model.config) : 1;
    for (const std::int32_t type : joined.type_ids) {
      if (type < types) continue;
      throw Failure(data_error("the tokenizer's types of tokens in a pair",
                               cat("0 to ", types - 1, ", as the model has"), cat(type),
                               "choose a model that was made to rerank"));
    }
    return {std::move(joined.ids), std::move(joined.type_ids)};
  });
}

PoolingJob LLM::embedding(std::span<const Prompt> texts, const EmbedOptions& options) const {
  std::vector<Prompt> prompts(texts.begin(), texts.end());
  for (Prompt& prompt : prompts) {
    if (auto* text = std::get_if<std::string>(&prompt)) text->insert(0, options.prompt);
  }
  PoolingJob job{tokens_of(prompts), options.pooling, PooledOutput::hidden, {}};
  if (!options.normalize) return job;
  job.finish = [each = options.pooling == Pooling::each](std::vector<PooledText>&& out) {
    for (PooledText& text : out) {
      if (text.error) continue;
      const std::size_t width = text.values.size() / static_cast<std::size_t>(each ? text.tokens : 1);
      for (std::size_t at = 0; at < text.values.size(); at += width) {
        scale_to_unit(std::span(text.values).subspan(at, width));
      }
    }
    return std::move(out);
  };
  return job;
}

PoolingJob LLM::classification(std::span<const Prompt> prompts, bool each) const {
  if (session_.model.config.head != models::ModelHead::classification) {
    throw Failure(data_error(cat(session_.path.string(), ": config.json: field \"architectures\""),
                             "a class for sequence classification", "another", "choose a model that has labels"));
  }
  return {tokens_of(prompts), each ? Pooling::each : label_pooling(), PooledOutput::labels, {}};
}

PoolingJob LLM::cosines(std::span<const RerankPair> pairs) const {
  std::vector<Prompt> texts;
  std::map<std::string, std::size_t> places;  // a query that many documents are compared with is computed once
  const auto place = [&](const std::string& text) {
    const auto [at, is_new] = places.emplace(text, texts.size());
    if (is_new) texts.emplace_back(text);
    return at->second;
  };
  struct Compared {
    std::size_t first, second;
    bool has_instruction;
  };
  std::vector<Compared> compared;
  for (const RerankPair& pair : pairs) {
    const std::size_t first = place(pair.query);
    compared.push_back({first, place(pair.document), pair.instruction.has_value()});
  }
  EmbedOptions options = default_pooling();
  options.normalize = true;
  PoolingJob job = embedding(texts, options);
  job.finish = [compared, to_unit = std::move(job.finish)](std::vector<PooledText>&& texts) {
    const std::vector<PooledText> vectors = to_unit(std::move(texts));
    std::vector<PooledText> out;
    for (const Compared& one : compared) {
      const PooledText& first = vectors[one.first];
      const PooledText& second = vectors[one.second];
      PooledText& made = out.emplace_back();
      made.tokens = first.tokens + second.tokens;
      made.error = first.error ? first.error : second.error;
      if (one.has_instruction) made.error = no_instruction();
      if (made.error) continue;
      made.values = {std::inner_product(first.values.begin(), first.values.end(), second.values.begin(), 0.0F)};
    }
    return out;
  };
  return job;
}

PoolingJob LLM::ranking(std::span<const RerankPair> pairs, bool use_activation) const {
  const models::ModelConfig& config = session_.model.config;
  if (config.head == models::ModelHead::none) return cosines(pairs);
  const bool classifies = config.head == models::ModelHead::classification;
  const bool has_label = classifies && config.labels.size() == 1;
  // As llama.cpp cuts Qwen3-Reranker's head: rows of these two words.
  const bool has_verdicts = classifies && config.labels == std::vector<std::string>{"yes", "no"};
  if (!has_label && !has_verdicts && config.head != models::ModelHead::language) {
    throw Failure(data_error(cat(session_.path.string(), ": config.json: field \"architectures\""),
                             "a language model, or a classification with one label or with yes and no", "another",
                             "choose a model that was made to rerank"));
  }
  const Verdicts verdicts = classifies ? Verdicts{0, 1} : verdict_ids(session_.text->tokenizer).value();
  PoolingJob job;
  for (const RerankPair& pair : pairs) job.texts.push_back(pair_tokens(pair));
  job.pooling = label_pooling();
  job.output = classifies ? PooledOutput::labels : PooledOutput::tokens;
  const bool is_logit = !use_activation || (has_label && !config.label_sigmoid);
  job.finish = [has_label, verdicts, is_logit](std::vector<PooledText>&& out) {
    for (PooledText& text : out) {
      if (text.error) continue;
      const auto at = [&](std::int32_t id) { return static_cast<double>(text.values[static_cast<std::size_t>(id)]); };
      const double logit = has_label ? at(0) : at(verdicts.yes) - at(verdicts.no);
      text.values = {static_cast<float>(is_logit ? logit : sigmoid(logit))};
    }
    return std::move(out);
  };
  return job;
}

// Jobs of a kind go together as one list of texts, which is cut into runs wherever it has to be.
std::vector<std::vector<PooledText>> LLM::pool(std::span<PoolingJob> jobs) {
  std::vector<std::vector<PooledText>> out(jobs.size());
  std::vector<bool> done(jobs.size());
  for (std::size_t first = 0; first < jobs.size(); ++first) {
    if (done[first]) continue;
    std::vector<std::size_t> alike;
    std::vector<Result<TextTokens>> texts;
    for (std::size_t i = first; i < jobs.size(); ++i) {
      if (jobs[i].pooling != jobs[first].pooling || jobs[i].output != jobs[first].output) continue;
      done[i] = true;
      alike.push_back(i);
      out[i].resize(jobs[i].texts.size());
      std::ranges::move(jobs[i].texts, std::back_inserter(texts));
    }
    auto all = pool(texts, jobs[first].pooling, jobs[first].output);
    auto from = all.begin();
    for (const std::size_t i : alike) {
      for (PooledText& text : out[i]) text = std::move(*from++);
    }
  }
  return out;
}

std::vector<PooledText> LLM::pooled(PoolingJob&& job) {
  auto texts = std::move(pool(std::span(&job, 1)).front());
  return job.finish ? job.finish(std::move(texts)) : std::move(texts);
}

std::vector<PooledText> LLM::embed(std::span<const Prompt> texts, const EmbedOptions& options) {
  return pooled(embedding(texts, options));
}

std::vector<PooledText> LLM::classify(std::span<const Prompt> prompts, bool each) {
  return pooled(classification(prompts, each));
}

std::vector<PooledText> LLM::rerank(std::span<const RerankPair> pairs, bool use_activation) {
  return pooled(ranking(pairs, use_activation));
}

}  // namespace tern::engine
