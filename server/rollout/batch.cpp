#include "server/rollout/batch.h"

#include <cmath>
#include <utility>

#include "server/openai/api_error.h"

namespace tern::server::rollout {
namespace {

class Batch {
 public:
  Batch(std::vector<engine::TokenIds> prompts, std::int64_t n, BatchWriter write,
        std::shared_ptr<HttpExchange> exchange)
      : write_(std::move(write)), exchange_(std::move(exchange)), open_(prompts.size()) {
    prompts_.resize(prompts.size());
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      prompts_[i].ids = std::move(prompts[i]);
      prompts_[i].answers.resize(static_cast<std::size_t>(n));
    }
  }

  RolledPrompt& at(std::size_t prompt) { return prompts_[prompt]; }

  // False: it has failed already, and nothing more is to be asked.
  [[nodiscard]] bool keep(std::shared_ptr<RequestHandle> handle) {
    {
      const std::scoped_lock lock(mutex_);
      if (!failed_ && open_ > 0 && handle != nullptr) handles_.push_back(std::move(handle));
      if (!failed_) return true;
    }
    if (handle != nullptr) handle->abort();
    return false;
  }

  void finished(std::size_t prompt, const TokenUsage& usage) {
    prompts_[prompt].usage = usage;
    std::vector<std::shared_ptr<RequestHandle>> done;  // which hold their sinks, and these the batch
    {
      const std::scoped_lock lock(mutex_);
      if (--open_ > 0 || failed_) return;
      done = std::exchange(handles_, {});
    }
    exchange_->respond(200, "application/json", write_(std::move(prompts_)).dump());
  }

  void failed(const Error& error, int status) {
    {
      const std::scoped_lock lock(mutex_);
      if (std::exchange(failed_, true)) return;
    }
    openai::refuse(*exchange_, error, status);
    abort();
  }

  void abort() {
    std::vector<std::shared_ptr<RequestHandle>> handles;
    {
      const std::scoped_lock lock(mutex_);
      failed_ = true;
      handles = std::exchange(handles_, {});
    }
    for (const auto& handle : handles) handle->abort();
  }

 private:
  BatchWriter write_;
  std::shared_ptr<HttpExchange> exchange_;
  std::vector<RolledPrompt> prompts_;  // each of its request's callbacks, which come one at a time
  std::mutex mutex_;
  std::size_t open_;
  bool failed_ = false;
  std::vector<std::shared_ptr<RequestHandle>> handles_;
};

class PromptSink : public AnswerSink {
 public:
  PromptSink(std::shared_ptr<Batch> batch, std::size_t prompt) : batch_(std::move(batch)), prompt_(prompt) {}

  void prompt(std::vector<TokenText>&& tokens) override { batch_->at(prompt_).logprobs = std::move(tokens); }
  void piece(AnswerPiece&& piece) override {
    RolledAnswer& answer = batch_->at(prompt_).answers[static_cast<std::size_t>(piece.choice)];
    answer.text += piece.text;
    for (TokenText& token : piece.tokens) answer.tokens.push_back(std::move(token));
  }
  void ended(const AnswerEnd& end) override {
    batch_->at(prompt_).answers[static_cast<std::size_t>(end.choice)].end = end;
  }
  void finished(const TokenUsage& usage) override { batch_->finished(prompt_, usage); }
  void failed(const Error& error, int status) override { batch_->failed(error, status); }

 private:
  std::shared_ptr<Batch> batch_;
  std::size_t prompt_;
};

}  // namespace

void answer_batch(ChatService& service, std::vector<engine::TokenIds> prompts, const GenerationFields& fields,
                  BatchWriter write, const std::shared_ptr<HttpExchange>& exchange) {
  if (prompts.empty()) {
    exchange->respond(200, "application/json", write({}).dump());
    return;
  }
  const auto batch = std::make_shared<Batch>(prompts, fields.n, std::move(write), exchange);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    CompletionRequest request;
    request.prompt = std::move(prompts[i]);
    request.sampling = fields.sampling;
    request.constraint = fields.constraint;
    request.n = fields.n;
    // Ids come beside log-probabilities alone, and a trainer wants them always.
    if (!request.sampling.top_logprobs) request.sampling.top_logprobs = 0;
    if (!batch->keep(service.complete(std::move(request), std::make_shared<PromptSink>(batch, i)))) break;
  }
  exchange->on_gone([batch] { batch->abort(); });
}

io::Json number_json(double value) { return std::isfinite(value) ? io::Json(value) : io::Json(); }

}  // namespace tern::server::rollout
