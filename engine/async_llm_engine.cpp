#include "engine/async_llm_engine.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/strings.h"

namespace tern::engine {
namespace {

RequestOutput ended(FinishReason reason, std::optional<Error> error) {
  RequestOutput output;
  output.finished = true;
  output.reason = reason;
  output.error = std::move(error);
  return output;
}

}  // namespace

AsyncLLMEngine::AsyncLLMEngine(LLM& llm, std::chrono::seconds sleep_on_idle)
    : llm_(llm), sleep_on_idle_(sleep_on_idle) {
  llm_.be_ready();
  keep_stats();
  thread_ = std::thread([this] { serve(); });
}

AsyncLLMEngine::~AsyncLLMEngine() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

AsyncLLMEngine::Ticket AsyncLLMEngine::submit(EncodedPrompt prompt, SamplingParams params, OutputCallback callback,
                                              const RequestOptions& options, bool continues) {
  const Ticket ticket = next_ticket_++;
  {
    const std::scoped_lock lock(mutex_);
    commands_.jobs.push_back({ticket, std::move(prompt), std::move(params), std::move(callback), options, continues});
    ++queued_;
  }
  wake_.notify_one();
  return ticket;
}

void AsyncLLMEngine::abort(Ticket ticket) {
  {
    const std::scoped_lock lock(mutex_);
    commands_.aborts.push_back(ticket);
  }
  wake_.notify_one();
}

void AsyncLLMEngine::run(std::function<void(LLM&)> work) {
  std::future<void> done;
  {
    const std::scoped_lock lock(mutex_);
    done = commands_.work.emplace_back(Work{std::move(work), {}}).done.get_future();
  }
  wake_.notify_one();
  done.get();
}

EngineStats AsyncLLMEngine::stats() const {
  const std::scoped_lock lock(mutex_);
  EngineStats stats = stats_;
  stats.waiting += queued_;
  return stats;
}

std::optional<Error> AsyncLLMEngine::dead() const {
  const std::scoped_lock lock(mutex_);
  return dead_;
}

void AsyncLLMEngine::pause(PauseMode mode) {
  run([](LLM&) {});  // with it, what came before is taken: it's on its way
  std::future<void> between_steps;
  {
    const std::scoped_lock lock(mutex_);
    if (stop_) return;
    pause_ = mode;
    is_quiet_ = false;
    const auto end_all = [this, mode](LLM& llm) {
      if (mode != PauseMode::abort) return;
      for (const auto& [id, job] : on_their_way_) llm.engine().abort(id);
    };
    between_steps = commands_.work.emplace_back(Work{end_all, {}}).done.get_future();
  }
  wake_.notify_one();
  between_steps.get();
  if (mode == PauseMode::keep) return;
  std::unique_lock lock(mutex_);
  quiet_.wait(lock, [this] { return stop_ || !pause_ || is_quiet_; });
}

void AsyncLLMEngine::resume() {
  {
    const std::scoped_lock lock(mutex_);
    pause_.reset();
  }
  quiet_.notify_all();
  wake_.notify_one();
}

bool AsyncLLMEngine::paused() const {
  const std::scoped_lock lock(mutex_);
  return pause_.has_value();
}

bool AsyncLLMEngine::rests() const {
  return on_their_way_.empty() && std::ranges::none_of(commands_.jobs, &Job::continues);
}

bool AsyncLLMEngine::has_work() const {
  if (!commands_.work.empty() || !commands_.aborts.empty()) return true;
  if (!pause_) return !on_their_way_.empty() || !commands_.jobs.empty();
  return pause_ != PauseMode::keep && !rests();
}

// While the engine pauses, jobs stay where they are, but for those that nobody waits for any more, and for rounds of
// searches that are to end.
AsyncLLMEngine::Commands AsyncLLMEngine::take_commands() {
  Commands taken = std::exchange(commands_, {});
  if (!pause_) return taken;
  for (Job& job : std::exchange(taken.jobs, {})) {
    const bool is_aborted = std::find(taken.aborts.begin(), taken.aborts.end(), job.ticket) != taken.aborts.end();
    const bool is_to_end = job.continues && pause_ != PauseMode::keep;
    if (is_to_end && pause_ == PauseMode::abort) taken.aborts.push_back(job.ticket);
    (is_aborted || is_to_end ? taken.jobs : commands_.jobs).push_back(std::move(job));
  }
  return taken;
}

bool AsyncLLMEngine::wait_for_work() {
  Commands commands;
  {
    std::unique_lock lock(mutex_);
    is_quiet_ = rests();
    quiet_.notify_all();
    const auto something = [this] { return stop_ || has_work(); };
    if (is_quiet_ && sleep_on_idle_.count() > 0 && !llm_.sleeps() && !wake_.wait_for(lock, sleep_on_idle_, something)) {
      lock.unlock();
      fall_asleep();
      lock.lock();
    }
    wake_.wait(lock, something);
    if (stop_) return false;
    commands = take_commands();
    stands_still_ = pause_ == PauseMode::keep;
  }
  take(std::move(commands));
  return true;
}

void AsyncLLMEngine::fall_asleep() {
  llm_.sleep();
  log_info("asleep: weights and caches are given back until a request comes");
  const std::scoped_lock lock(mutex_);
  stats_.sleeps = true;
  stats_.cache_blocks = 0;
}

bool AsyncLLMEngine::sleep() {
  bool can = false;
  run([&](LLM&) {
    std::unique_lock lock(mutex_);
    can = rests();
    lock.unlock();
    if (can) fall_asleep();
  });
  return can;
}

void AsyncLLMEngine::take(Commands&& commands) {
  for (Job& job : commands.jobs) begin(std::move(job));  // first: work that asks what is on its way counts them
  for (Work& work : commands.work) {
    work.run(llm_);
    keep_sleep();
    work.done.set_value();
  }
  for (const Ticket ticket : commands.aborts) {
    if (const auto found = ids_.find(ticket); found != ids_.end()) llm_.engine().abort(found->second);
  }
  keep_sleep();
}

void AsyncLLMEngine::keep_sleep() {
  const std::scoped_lock lock(mutex_);
  stats_.sleeps = llm_.sleeps();
}

void AsyncLLMEngine::begin(Job&& job) {
  --queued_;
  if (const auto why = dead()) {
    job.callback(ended(FinishReason::failed, why));
    return;
  }
  const auto added = catching([&] {
    return llm_.engine()
        .add_request(std::move(job.prompt.ids), std::move(job.params), std::move(job.prompt.images), job.options)
        .value();
  });
  if (!added) {
    job.callback(ended(FinishReason::failed, added.error()));
    return;
  }
  ids_[job.ticket] = *added;
  on_their_way_.emplace(*added, std::move(job));
}

void AsyncLLMEngine::step() {
  ++steps_;
  const auto stepped = catching([&] { return llm_.engine().step(); });
  if (!stepped) {
    fail_all(stepped.error());
    return;
  }
  keep_stats();  // before anybody is told: who knows that a request has ended finds it so in stats()
  for (RequestOutput& output : *stepped) {
    const auto found = on_their_way_.find(output.id);
    if (found == on_their_way_.end()) continue;
    if (!output.finished) {
      found->second.callback(std::move(output));
      continue;
    }
    const Job job = std::move(found->second);
    on_their_way_.erase(found);
    ids_.erase(job.ticket);
    job.callback(std::move(output));
  }
}

// A device that failed may do its work in an engine made anew; one that fails at that is given up.
void AsyncLLMEngine::fail_all(const Error& error) {
  log_warn(cat("the engine failed: ", error.line()));
  const auto failed = std::exchange(on_their_way_, {});
  ids_.clear();
  llm_.drop_engine();
  const auto made = catching([&] {
    (void)llm_.engine();
    return Unit{};
  });
  if (!made) {
    log_warn(cat("the engine could not be made anew: ", made.error().line()));
    const std::scoped_lock lock(mutex_);
    dead_ = made.error();
  }
  if (made) keep_stats();
  for (const auto& [id, job] : failed) job.callback(ended(FinishReason::failed, error));
}

void AsyncLLMEngine::keep_stats() {
  if (!llm_.generates()) return;
  LLMEngine& engine = llm_.engine();
  EngineStats stats;
  stats.running = engine.num_running();
  stats.waiting = engine.num_waiting();
  stats.cache_blocks = engine.cache().num_blocks();
  const CacheStatistics cache = engine.cache_statistics();
  stats.cache_blocks_used = cache.used_blocks;
  stats.cache_queries = cache.query_tokens;
  stats.cache_hits = cache.hit_tokens;
  stats.swap_queries = cache.swap_query_tokens;
  stats.swap_hits = cache.swap_hit_tokens;
  stats.preemptions = engine.num_preemptions();
  stats.guesses = engine.guesses();
  stats.steps = steps_;
  if (engine.adapters().num_slots() > 0) {
    stats.running_adapters = engine.running_adapters();
    stats.waiting_adapters = engine.waiting_adapters();
  }
  const std::scoped_lock lock(mutex_);
  stats_ = stats;
}

void AsyncLLMEngine::serve() {
  while (wait_for_work()) {
    if (!on_their_way_.empty() && !stands_still_) step();
  }
  quiet_.notify_all();
  const auto left = std::exchange(on_their_way_, {});
  for (const auto& [id, job] : left) llm_.engine().abort(id);
  if (!left.empty()) (void)catching([&] { return llm_.engine().step(); });
  for (const auto& [id, job] : left) job.callback(ended(FinishReason::aborted, std::nullopt));
  Commands rest;
  {
    const std::scoped_lock lock(mutex_);
    std::swap(rest, commands_);
  }
  for (const Job& job : rest.jobs) job.callback(ended(FinishReason::aborted, std::nullopt));
}

}  // namespace tern::engine
