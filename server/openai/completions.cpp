#include "server/openai/completions.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

#include "base/strings.h"
#include "io/json.h"
#include "server/json_body.h"
#include "server/openai/answer_json.h"
#include "server/openai/chunk_stream.h"
#include "server/openai/vllm_fields.h"
#include "server/texts_field.h"

namespace tern::server::openai {
namespace {

using io::Json;

constexpr const char* kObject = "text_completion";

// What the sinks of one batch write together.
class BatchAnswer {
 public:
  BatchAnswer(WriterOptions options, std::size_t prompts, std::vector<std::string> echoes,
              std::shared_ptr<HttpExchange> exchange)
      : options_(std::move(options)),
        echoes_(std::move(echoes)),
        out_(options_, kObject, std::move(exchange)),
        open_(prompts) {
    choices_.resize(prompts * static_cast<std::size_t>(options_.n));
    prompt_ids_.resize(prompts);
  }

  void told(std::size_t prompt, const engine::TokenIds& ids) {
    const std::scoped_lock lock(mutex_);
    prompt_ids_[prompt] = Json(ids);
  }

  void told(std::size_t prompt, std::vector<TokenText>&& tokens) {
    const std::scoped_lock lock(mutex_);
    for (std::int64_t i = 0; i < options_.n; ++i) choices_[index(prompt, i)].prompt = tokens;
  }

  void piece(std::size_t prompt, AnswerPiece&& piece) {
    const std::scoped_lock lock(mutex_);
    if (options_.prompt_alone) {
      piece.text.clear();
      piece.tokens.clear();
    }
    const std::size_t at = index(prompt, piece.choice);
    Choice& choice = choices_[at];
    if (!options_.stream.stream) {
      choice.text += piece.text;
      for (TokenText& token : piece.tokens) choice.tokens.push_back(std::move(token));
      return;
    }
    std::string text = std::exchange(choice.begun, true) || echoes_.empty() ? "" : echoes_[prompt];
    text += piece.text;
    send_choice(at, std::move(text), piece.tokens, nullptr);
  }

  void ended(std::size_t prompt, const AnswerEnd& end) {
    const std::scoped_lock lock(mutex_);
    const std::size_t at = index(prompt, end.choice);
    choices_[at].end = end;
    if (options_.stream.stream) send_choice(at, "", {}, &end);
  }

  void finished(const TokenUsage& usage) {
    const std::scoped_lock lock(mutex_);
    usage_.prompt_tokens += usage.prompt_tokens;
    usage_.cached_tokens += usage.cached_tokens;
    if (!options_.prompt_alone) usage_.completion_tokens += usage.completion_tokens;
    if (--open_ > 0 || failed_) return;
    if (options_.stream.stream) {
      out_.finish(usage_);
    } else {
      out_.respond(whole());
    }
  }

  void failed(const Error& error, int status) {
    const std::scoped_lock lock(mutex_);
    if (!std::exchange(failed_, true)) out_.fail(error, status);
  }

 private:
  struct Choice {
    std::string text;
    std::vector<TokenText> prompt;  // where its log-probabilities are asked for
    std::vector<TokenText> tokens;
    AnswerEnd end;
    std::int64_t offset = 0;  // of the next token in the text
    bool begun = false;
    bool told = false;  // something of it has been sent
  };

  std::size_t index(std::size_t prompt, std::int64_t choice) const {
    return prompt * static_cast<std::size_t>(options_.n) + static_cast<std::size_t>(choice);
  }

  Json logprobs_of(const std::vector<TokenText>& tokens, std::int64_t& offset) const {
    Json out = Json::object();
    out["text_offset"] = Json::array();
    out["token_logprobs"] = Json::array();
    out["tokens"] = Json::array();
    out["top_logprobs"] = Json::array();
    for (const TokenText& token : tokens) {
      out["text_offset"].push_back(offset);
      offset += static_cast<std::int64_t>(token.text.size());
      out["token_logprobs"].push_back(token.logprob);
      out["tokens"].push_back(token_name(token, options_.tokens_as_ids));
      Json top = Json::object();
      for (const TokenText& one : token.likeliest) top[token_name(one, options_.tokens_as_ids)] = one.logprob;
      out["top_logprobs"].push_back(std::move(top));
    }
    return out;
  }

  static Json choice_of(std::size_t at, std::string text, Json logprobs, const AnswerEnd* end) {
    Json choice = Json::object();
    choice["index"] = at;
    choice["text"] = std::move(text);
    choice["logprobs"] = std::move(logprobs);
    choice["finish_reason"] = end == nullptr ? Json() : finish_reason(*end);
    choice["stop_reason"] = end == nullptr ? Json() : stop_reason(*end);
    return choice;
  }

  // What is asked for of the ids: those of `tokens`, and the prompt's with the first choice of each.
  void put_ids(Json& choice, std::size_t prompt, const std::vector<TokenText>& tokens, bool first) const {
    if (prompt_ids_[prompt].is_null()) return;
    if (first) choice["prompt_token_ids"] = prompt_ids_[prompt];
    choice["token_ids"] = Json::array();
    for (const TokenText& token : tokens) choice["token_ids"].push_back(token.id);
  }

  void send_choice(std::size_t at, std::string text, const std::vector<TokenText>& tokens, const AnswerEnd* end) {
    if (failed_) return;
    Choice& one = choices_[at];
    Json logprobs = options_.logprobs && end == nullptr ? logprobs_of(tokens, one.offset) : Json();
    Json choice = choice_of(at, std::move(text), std::move(logprobs), end);
    put_ids(choice, at / static_cast<std::size_t>(options_.n), tokens, !std::exchange(one.told, true));
    out_.send_choice(out_.head(), std::move(choice));
  }

  // Those answers to a prompt that are told, in their order: all, or the likeliest first.
  std::vector<std::size_t> told_of(std::size_t prompt) const {
    std::vector<std::size_t> out(static_cast<std::size_t>(options_.n));
    std::iota(out.begin(), out.end(), prompt * out.size());
    if (options_.told == 0 || options_.told == options_.n) return out;
    std::stable_sort(out.begin(), out.end(), [&](std::size_t a, std::size_t b) {
      return choices_[a].end.mean_logprob > choices_[b].end.mean_logprob;
    });
    out.resize(static_cast<std::size_t>(options_.told));
    return out;
  }

  Json whole() {
    Json out = out_.head(kObject);
    Json choices = Json::array();
    for (std::size_t prompt = 0; prompt < prompt_ids_.size(); ++prompt) {
      for (const std::size_t at : told_of(prompt))
        choices.push_back(whole_choice(choices.size(), prompt, choices_[at]));
    }
    out["choices"] = std::move(choices);
    out["usage"] = usage_json(usage_);
    return out;
  }

  Json whole_choice(std::size_t index, std::size_t prompt, Choice& one) const {
    std::string text = echoes_.empty() ? "" : echoes_[prompt];
    text += one.text;
    Json logprobs;
    if (options_.logprobs) {
      std::vector<TokenText> shown = echoes_.empty() ? std::vector<TokenText>() : one.prompt;
      const std::size_t echoed = shown.size();
      shown.insert(shown.end(), one.tokens.begin(), one.tokens.end());
      logprobs = logprobs_of(shown, one.offset);
      if (echoed > 0) {  // nothing stands before the first token
        logprobs["token_logprobs"][0] = Json();
        logprobs["top_logprobs"][0] = Json();
      }
    }
    Json choice = choice_of(index, std::move(text), std::move(logprobs), &one.end);
    if (echoes_.empty() && !one.prompt.empty()) choice["prompt_logprobs"] = prompt_logprobs_json(one.prompt);
    put_ids(choice, prompt, one.tokens, true);
    return choice;
  }

  std::mutex mutex_;
  WriterOptions options_;
  std::vector<std::string> echoes_;
  ChunkStream out_;
  std::vector<Choice> choices_;
  std::vector<Json> prompt_ids_;  // of each prompt, where ids are asked for
  TokenUsage usage_;
  std::size_t open_;
  bool failed_ = false;
};

class PromptWriter : public AnswerSink {
 public:
  PromptWriter(std::shared_ptr<BatchAnswer> batch, std::size_t prompt) : batch_(std::move(batch)), prompt_(prompt) {}
  void prompt_ids(const engine::TokenIds& ids) override { batch_->told(prompt_, ids); }
  void prompt(std::vector<TokenText>&& tokens) override { batch_->told(prompt_, std::move(tokens)); }
  void piece(AnswerPiece&& piece) override { batch_->piece(prompt_, std::move(piece)); }
  void ended(const AnswerEnd& end) override { batch_->ended(prompt_, end); }
  void finished(const TokenUsage& usage) override { batch_->finished(usage); }
  void failed(const Error& error, int status) override { batch_->failed(error, status); }

 private:
  std::shared_ptr<BatchAnswer> batch_;
  std::size_t prompt_;
};

}  // namespace

CompletionBatch parse_completion(std::string_view text) {
  constexpr std::int64_t kDefaultTokens = 16;  // OpenAI's
  JsonBody body(text);
  CompletionBatch out;
  CompletionRequest one;
  one.model = body.text("model").value_or("");
  one.sampling = sampling_fields(body);
  one.sampling.max_tokens = body.integer("max_tokens", 0).value_or(kDefaultTokens);
  vllm_fields(body, one.sampling);
  out.n = body.integer("n", 1, 128).value_or(1);
  one.n = body.integer("best_of", 1, 128).value_or(out.n);
  if (one.n < out.n) throw body.wrong("best_of", R"(at least "n")");
  const std::int64_t width = one.n;
  if (one.sampling.beams) one.n = out.n;  // the best of the beams are told, and no others known
  if (const auto logprobs = body.integer("logprobs", 0)) {
    out.logprobs = true;
    one.sampling.top_logprobs = logprobs;
  }
  one.constraint = constraint_fields(body);
  one.echo = body.boolean("echo").value_or(false);
  if (one.sampling.max_tokens == 0) {
    if (!one.echo) throw body.wrong("max_tokens", R"(at least 1 where "echo" is not true)");
    out.prompt_alone = true;
    one.sampling.max_tokens = 1;  // which the engine draws
  }
  if (one.echo && out.logprobs) one.sampling.prompt_logprobs = one.sampling.top_logprobs;
  out.suffix = body.text("suffix").value_or("");
  if (!out.suffix.empty() && one.echo) throw body.wrong("echo", "false where a suffix is given");
  one.cache_salt = body.text("cache_salt").value_or("");
  out.add_special_tokens = body.boolean("add_special_tokens").value_or(true);
  out.tokens_as_ids = body.boolean("return_tokens_as_token_ids").value_or(false);
  out.stream = stream_fields(body);
  if (out.stream.stream && one.n > out.n) {
    throw body.wrong("best_of", R"(the same as "n" in a stream: which answers are best is known at their end)");
  }
  if (out.stream.stream && one.sampling.prompt_logprobs) {
    throw body.wrong("stream", "false where log-probabilities of the prompt are asked for");
  }
  beam_fields(body, one.sampling,
              {.width = width,
               .streams = out.stream.stream,
               .is_held = out.prompt_alone || one.constraint.kind != Constraint::Kind::none});
  for (engine::Prompt& prompt : prompts_field(body, "prompt")) {
    if (!out.suffix.empty() && !std::holds_alternative<std::string>(prompt)) {
      throw body.wrong("prompt", "a text where a suffix is given");
    }
    CompletionRequest request = one;
    request.prompt = std::move(prompt);
    out.requests.push_back(std::move(request));
  }
  body.takes({"user"});
  body.finish();
  return out;
}

std::vector<std::shared_ptr<AnswerSink>> completion_writers(WriterOptions options, std::size_t prompts,
                                                            std::vector<std::string> echoes,
                                                            std::shared_ptr<HttpExchange> exchange) {
  const auto batch = std::make_shared<BatchAnswer>(std::move(options), prompts, std::move(echoes), std::move(exchange));
  std::vector<std::shared_ptr<AnswerSink>> sinks;
  for (std::size_t i = 0; i < prompts; ++i) sinks.push_back(std::make_shared<PromptWriter>(batch, i));
  return sinks;
}

}  // namespace tern::server::openai
