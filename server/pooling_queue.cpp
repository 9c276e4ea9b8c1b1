#include "server/pooling_queue.h"

#include <atomic>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/strings.h"

namespace tern::server {
namespace {

constexpr std::int64_t kTurnTokens =
    8192;                    // that keep answers to others from their next step at most, if texts are short
constexpr int kTellers = 2;  // that write answers while the next texts are computed

double seconds(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

struct PoolingQueue::Asked {
  explicit Asked(PoolingRequest&& asked) : request(std::move(asked)) {}
  PoolingRequest request;
  const Clock::time_point arrival = Clock::now();
  std::optional<Clock::time_point> begun;
  engine::PoolingJob job;
  std::vector<engine::PooledText> texts;
  std::optional<Error> error;        // why there are none
  std::atomic<bool> dropped{false};  // its client went away, or its time is over
};

PoolingQueue::~PoolingQueue() {
  {
    const std::scoped_lock lock(mutex_);
    stops_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  if (tellers_) tellers_->stop();
}

void PoolingQueue::ask(PoolingRequest&& request) {
  const auto asked = std::make_shared<Asked>(std::move(request));
  const std::weak_ptr<Asked> weak = asked;
  asked->request.exchange->on_gone([weak] {
    if (const auto still = weak.lock()) still->dropped = true;
  });
  if (asked->request.record != nullptr) {
    asked->request.record->on_expiry([weak] {
      const auto still = weak.lock();
      if (still == nullptr || still->dropped.exchange(true)) return;
      still->request.errors(*still->request.exchange, out_of_time(), 504, {});
    });
  }
  {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(asked);
    if (!thread_.joinable()) {
      tellers_ = std::make_unique<WorkQueue>(kTellers);
      thread_ = std::thread([this] { serve(); });
    }
  }
  wake_.notify_one();
}

std::int64_t PoolingQueue::waiting() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::int64_t>(waiting_.size());
}

std::int64_t PoolingQueue::running() const {
  const std::scoped_lock lock(mutex_);
  return running_;
}

void PoolingQueue::serve() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      running_ = 0;
      wake_.wait(lock, [this] { return stops_ || !waiting_.empty(); });
      if (stops_) return;
    }
    try {
      run_([this](engine::LLM& llm) { compute(llm); });
    } catch (const Failure& failure) {
      for (const AskedPtr& asked : turn_) {
        if (!asked->error) asked->error = failure.error();
      }
    } catch (const std::exception& error) {  // no memory
      log_warn(cat("texts could not be pooled: ", error.what()));
      turn_.clear();  // an exchange that nobody has any more is answered by HTTP
    }
    for (AskedPtr& asked : std::exchange(turn_, {})) {
      tellers_->push([this, asked = std::move(asked)] { answer(asked); });
    }
  }
}

PoolingQueue::AskedPtr PoolingQueue::take() {
  const std::scoped_lock lock(mutex_);
  if (waiting_.empty()) return nullptr;
  AskedPtr first = std::move(waiting_.front());
  waiting_.pop_front();
  ++running_;
  return first;
}

// All that wait, but for those that would keep the answers to others waiting for long: these have the next turn.
void PoolingQueue::compute(engine::LLM& llm) {
  std::vector<engine::PoolingJob> jobs;
  std::vector<AskedPtr> computed;
  std::int64_t tokens = 0;
  while (tokens < kTurnTokens) {
    const AskedPtr asked = take();
    if (asked == nullptr) break;
    turn_.push_back(asked);
    if (asked->dropped) continue;
    asked->begun = Clock::now();
    auto job = catching([&] { return asked->request.make(llm); });
    asked->request.make = nullptr;
    asked->request.share.reset();
    if (!job) {
      asked->error = job.error();
      continue;
    }
    for (const auto& text : job->texts) tokens += text ? static_cast<std::int64_t>(text->ids.size()) : 0;
    asked->job.finish = std::move(job->finish);
    jobs.push_back(std::move(*job));
    computed.push_back(asked);
  }
  auto texts = llm.pool(jobs);
  for (std::size_t i = 0; i < computed.size(); ++i) computed[i]->texts = std::move(texts[i]);
}

void PoolingQueue::answer(const AskedPtr& asked) {
  if (asked->dropped) return count(*asked, "abort", 0);
  try {
    if (asked->error) return fail(*asked, *asked->error);
    if (asked->job.finish) asked->texts = asked->job.finish(std::move(asked->texts));
    std::int64_t tokens = 0;
    for (const engine::PooledText& text : asked->texts) tokens += text.tokens;
    std::string body = asked->request.body(std::move(asked->texts));
    count(*asked, "stop", tokens);  // first: who has the answer finds it counted
    asked->request.exchange->respond(200, asked->request.content_type, std::move(body), {});
  } catch (const Failure& failure) {
    fail(*asked, failure.error());
  } catch (const std::exception& error) {
    log_warn(cat("an answer about texts: ", error.what()));
  }
}

void PoolingQueue::fail(Asked& asked, const Error& error) {
  const bool theirs = error.kind == ErrorKind::data || error.kind == ErrorKind::usage;
  count(asked, "error", 0);
  asked.request.errors(*asked.request.exchange, error, theirs ? 400 : 500, {});
}

void PoolingQueue::count(const Asked& asked, std::string_view reason, std::int64_t tokens) {
  RequestTimes times;
  times.finished_reason = reason;
  times.prompt_tokens = tokens;
  const auto now = Clock::now();
  times.whole = seconds(now - asked.arrival);
  if (asked.begun) times.queue = seconds(*asked.begun - asked.arrival);
  metrics_.count_request(times);
  if (asked.request.record == nullptr) return;
  asked.request.record->asks(asked.request.model, tokens);
  if (asked.begun) asked.request.record->began(*asked.begun);
  asked.request.record->finished(reason);
}

}  // namespace tern::server
