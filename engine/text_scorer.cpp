#include "engine/text_scorer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/strings.h"
#include "engine/known_tokens.h"

namespace tern::engine {
namespace {

template <typename Of>
std::optional<double> mean_comparison(const TextScore& score, const Of& of) {
  if (score.comparison.empty()) return std::nullopt;
  double sum = 0;
  for (const TokenComparison& token : score.comparison) sum += of(token);
  return sum / static_cast<double>(score.comparison.size());
}

}  // namespace

std::optional<double> TextScore::loss() const {
  if (logprobs.empty()) return std::nullopt;
  return -std::accumulate(logprobs.begin(), logprobs.end(), 0.0) / static_cast<double>(logprobs.size());
}

std::optional<double> TextScore::perplexity() const {
  const auto mean = loss();
  return mean ? std::optional(std::exp(*mean)) : std::nullopt;
}

std::optional<double> TextScore::kl_divergence() const {
  return mean_comparison(*this, [](const TokenComparison& token) { return token.kl; });
}

std::optional<double> TextScore::same_top() const {
  return mean_comparison(*this, [](const TokenComparison& token) { return token.same_top ? 1.0 : 0.0; });
}

void TextScorer::require_windows(std::span<const TokenIds> texts, std::int64_t stride) const {
  const std::int64_t length = options_.max_tokens;
  if (stride >= length) {
    throw Failure(usage_error(cat("--stride is ", stride, ", and windows have ", length,
                                  " tokens: the first token of each would not be scored"),
                              cat("give a stride below ", length)));
  }
  for (std::size_t i = 0; i < texts.size() && stride == 0; ++i) {
    if (static_cast<std::int64_t>(texts[i].size()) <= length) continue;
    throw Failure(data_error(cat("text ", i), cat("at most ", length, " tokens"), cat(texts[i].size(), " tokens"),
                             "split the text"));
  }
}

// Probabilities are compared by their ids: each must stand for the same piece.
void TextScorer::require_comparable(const TextScorer& reference, std::int64_t tokens) const {
  const std::string path = reference.session_.path.string();
  if (const auto most = reference.options_.max_tokens; most < tokens) {
    throw Failure(usage_error(cat("windows have ", tokens, " tokens, and ", path, " computes at most ", most),
                              "open both with one max_model_len"));
  }
  const auto size = session_.model.config.vocab_size;
  if (const auto found = reference.session_.model.config.vocab_size; found != size) {
    throw Failure(data_error(path, cat("the vocabulary of ", session_.path.string(), ", ", size, " tokens"),
                             cat(found, " tokens"), "compare models that share a tokenizer"));
  }
  const tokenizer::Tokenizer& mine = session_.text->tokenizer;
  const tokenizer::Tokenizer& other = reference.session_.text->tokenizer;
  // Room beyond the last token has names in a GGUF, and none elsewhere.
  for (tokenizer::TokenId id = 0; id < std::min(mine.vocab_size(), other.vocab_size()); ++id) {
    if (mine.id_to_piece(id) == other.id_to_piece(id)) continue;
    throw Failure(data_error(cat(path, ": token ", id),
                             cat("\"", mine.id_to_piece(id), "\", as ", session_.path.string(), " has it"),
                             cat("\"", other.id_to_piece(id), "\""), "compare models that share a tokenizer"));
  }
}

template <typename P>
P& TextScorer::planned(Planned<P>& of, std::int64_t tokens) {
  if (!of.program || tokens > of.tokens) {
    ScorerOptions options = options_;
    options.max_tokens = tokens;
    of.program.reset();  // its cache's memory comes first
    of.program = std::make_unique<P>(session_.model, options, *session_.runtime);
    of.tokens = tokens;
  }
  return *of.program;
}

NextTokenLogits& TextScorer::logits(std::int64_t tokens, bool cached) {
  if (cached) return planned(cached_, tokens);
  return planned(packed_, tokens);
}

std::size_t TextScorer::score(std::span<const TokenIds> texts, const ScoreCallbacks& callbacks,
                              const ScoreOptions& options, TextScorer* reference) {
  require_windows(texts, options.stride);
  std::int64_t longest = 2;
  for (const TokenIds& ids : texts) longest = std::max(longest, static_cast<std::int64_t>(ids.size()));
  longest = std::min(longest, options_.max_tokens);
  std::optional<Comparer> comparer;
  if (reference != nullptr) {
    require_comparable(*reference, longest);
    comparer.emplace(reference->logits(longest, false), logits(longest, options.cached), options.threads);
  }
  const auto score_window = [&](const ScoreWindow& window, TextScore& score) {
    if (comparer) {
      for (const TokenComparison& token : comparer->compare(score.ids, window)) {
        score.logprobs.push_back(token.logprob);
        score.comparison.push_back(token);
      }
    } else {
      const auto logprobs = options.cached ? token_logprobs(logits(longest, true), score.ids, window)
                                           : planned(scorer_, longest).score(score.ids, window);
      score.logprobs.insert(score.logprobs.end(), logprobs.begin(), logprobs.end());
    }
  };
  std::size_t scored = 0;
  for (const TokenIds& ids : texts) {
    TextScore score{ids, {}, {}, {}};
    bool stopped = callbacks.stopped && callbacks.stopped();
    const auto computed = catching([&] {
      if (const auto error = unknown_token(ids, session_.model.config.vocab_size, session_.text->tokenizer)) {
        throw Failure(*error);
      }
      for (const ScoreWindow& window : score_windows(ids.size(), static_cast<std::size_t>(options_.max_tokens),
                                                     static_cast<std::size_t>(options.stride))) {
        if (stopped) break;
        score_window(window, score);
        stopped = window.end < ids.size() && callbacks.stopped && callbacks.stopped();
      }
      return Unit{};
    });
    if (stopped) break;
    if (!computed.ok()) score = TextScore{ids, {}, computed.error(), {}};
    callbacks.on_score(scored++, score);
  }
  session_.runtime->choices.save();
  return scored;
}

}  // namespace tern::engine
