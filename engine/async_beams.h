// A beam search among the requests of an AsyncLLMEngine: what a server answers use_beam_search with.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/async_llm_engine.h"
#include "engine/beam_requests.h"

namespace tern::engine {

// Owned by what it asked for until it's told, so that whoever began it may go away.
class AsyncBeams : public std::enable_shared_from_this<AsyncBeams> {
 public:
  struct Outcome {
    std::vector<BeamAnswer> answers;  // the best first; none where it was aborted or failed
    // When the first round was told; none: it wasn't.
    std::optional<std::chrono::steady_clock::time_point> first_round;
    // How that was told, and when the first step began, how long the prompt is and how much of it was found.
    RequestOutput told;
  };
  // Told the outcome, once, on the engine's thread: it must not block.
  using Callback = std::function<void(Outcome&& outcome)>;

  // `engine` outlives it.
  AsyncBeams(AsyncLLMEngine& engine, BeamRequests requests, RequestOptions options, Callback callback);

  void begin();
  // Ends it before the next step. Any thread.
  void abort();

 private:
  void ask(bool continues);
  void take(std::size_t beam, const RequestOutput& output);
  void end(Outcome&& outcome);

  AsyncLLMEngine& engine_;
  BeamRequests requests_;
  RequestOptions options_;
  std::mutex mutex_;
  std::vector<AsyncLLMEngine::Ticket> tickets_;  // of the tokens that are asked for
  bool aborted_ = false;
  // Of the engine's thread, once begun.
  Callback callback_;  // null: the outcome has been told
  std::optional<RequestOutput> first_;
  std::optional<std::chrono::steady_clock::time_point> first_round_;
};

}  // namespace tern::engine
