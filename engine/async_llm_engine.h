// One LLM that many callers ask at once, from any thread (vLLM's AsyncLLMEngine).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/llm.h"

namespace tern::engine {

// How the engine stands after its last step.
struct EngineStats {
  std::int64_t running = 0;  // requests in the batch
  std::int64_t waiting = 0;  // requests that have come and are not computed yet
  std::int64_t cache_blocks = 0;
  std::int64_t cache_blocks_used = 0;
  std::int64_t preemptions = 0;
  std::int64_t cache_queries = 0;  // prompt tokens that were looked for in the prefix cache
  std::int64_t cache_hits = 0;     // of them, found
  std::int64_t swap_queries = 0;   // of them, looked for in its second tier
  std::int64_t swap_hits = 0;      // and found there
  Guesses guesses;
  std::int64_t steps = 0;
  bool sleeps = false;                                       // weights and caches have been given back
  std::set<std::string> running_adapters, waiting_adapters;  // of the requests, where these choose any
};

// Told each output of a request as it comes; the last one is `finished`. Called on the engine's thread: it must not
// block, and it may abort() or submit().
using OutputCallback = std::function<void(RequestOutput&& output)>;

// What becomes of requests on their way while the engine pauses (vLLM's names): they stand still, end first, or are
// aborted.
enum class PauseMode { keep, wait, abort };

class AsyncLLMEngine {
 public:
  using Ticket = std::uint64_t;

  // Makes the engine of `llm` where it generates, which outlives this and which nobody else uses meanwhile, and begins
  // to serve it on a thread of its own. Throws what LLM::engine throws. `sleep_on_idle`: after so long without a
  // request the LLM gives its memory back, until the next comes; 0: never.
  explicit AsyncLLMEngine(LLM& llm, std::chrono::seconds sleep_on_idle = {});
  // Aborts what is on its way, whose callers are told, and ends the thread.
  ~AsyncLLMEngine();
  AsyncLLMEngine(const AsyncLLMEngine&) = delete;
  AsyncLLMEngine& operator=(const AsyncLLMEngine&) = delete;

  // Queues a request. What is wrong with it is told by a last output with `error` and FinishReason::failed.
  // `continues`: it's the next round of a search that is on its way, and so counts as on its way already. Such requests
  // come from callbacks alone.
  Ticket submit(EncodedPrompt prompt, SamplingParams params, OutputCallback callback,
                const RequestOptions& options = {}, bool continues = false);
  // Ends a request before the next step; its last output says FinishReason::aborted. Nothing where it has ended.
  void abort(Ticket ticket);
  // Runs `work` between two steps, when its turn comes, and returns once it is done and stats() tell of it: for what
  // else the model computes (embeddings, scores). What it throws is a defect of it. Never from a callback.
  void run(std::function<void(LLM& llm)> work);

  // The same at once. False: requests are on their way, and nothing happens.
  [[nodiscard]] bool sleep();
  // Begins no request until resume(): those that come wait. Returns once no step runs, nor any that `mode` lets end.
  // What run() is given is still run. A search ends, or is aborted, with all its rounds.
  void pause(PauseMode mode);
  void resume();
  [[nodiscard]] bool paused() const;

  [[nodiscard]] EngineStats stats() const;
  // Why the engine serves no more: it failed, and failed again when it was made anew. Empty while it serves.
  [[nodiscard]] std::optional<Error> dead() const;

 private:
  struct Job {
    Ticket ticket = 0;
    EncodedPrompt prompt;
    SamplingParams params;
    OutputCallback callback;
    RequestOptions options;
    bool continues = false;
  };
  struct Work {
    std::function<void(LLM&)> run;
    std::promise<void> done;
  };
  struct Commands {
    std::deque<Job> jobs;
    std::vector<Ticket> aborts;
    std::deque<Work> work;
    [[nodiscard]] bool empty() const { return jobs.empty() && aborts.empty() && work.empty(); }
  };

  void serve();
  [[nodiscard]] bool wait_for_work();  // false: the end
  [[nodiscard]] bool has_work() const;
  [[nodiscard]] bool rests() const;  // nothing is on its way, nor a search between two rounds
  [[nodiscard]] Commands take_commands();
  void take(Commands&& commands);
  void fall_asleep();
  void keep_sleep();
  void begin(Job&& job);
  void step();
  void fail_all(const Error& error);
  void keep_stats();

  LLM& llm_;
  const std::chrono::seconds sleep_on_idle_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Commands commands_;
  bool stop_ = false;
  std::optional<PauseMode> pause_;
  std::condition_variable quiet_;  // told before the engine waits or steps
  bool is_quiet_ = true;           // it rests
  EngineStats stats_;
  std::optional<Error> dead_;
  std::atomic<Ticket> next_ticket_{1};
  std::atomic<std::int64_t> queued_{0};  // jobs that the engine has not taken yet
  // Of the engine's thread.
  std::map<SequenceId, Job> on_their_way_;
  std::map<Ticket, SequenceId> ids_;
  std::int64_t steps_ = 0;
  bool stands_still_ = false;
  std::thread thread_;
};

}  // namespace tern::engine
