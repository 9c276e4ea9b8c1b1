// Texts that many clients ask to have pooled: those that wait at the same moment are computed together.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/llm.h"
#include "server/error_forms.h"
#include "server/metrics.h"
#include "server/request_record.h"
#include "server/work_queue.h"

namespace tern::server {

struct PoolingRequest {
  // What is to be computed; called on the engine's thread. Throws Failure.
  std::function<engine::PoolingJob(const engine::LLM& llm)> make;
  // The answer's body of what was computed, on a thread of the queue. Throws as the handler of a route does.
  std::function<std::string(std::vector<engine::PooledText>&& texts)> body;
  const char* content_type = "application/json";
  std::string model;  // as the access log tells it
  std::shared_ptr<HttpExchange> exchange;
  ErrorWriter errors = nullptr;  // of the route's protocol
  std::shared_ptr<RequestRecord> record;
  std::shared_ptr<ByteShare> share;  // of the memory for bodies, until the texts are encoded
};

class PoolingQueue {
 public:
  // `run`: calls its argument between two steps of the engine, and returns when that has returned; throws as it throws.
  using Run = std::function<void(const std::function<void(engine::LLM& llm)>& work)>;
  PoolingQueue(Run run, Metrics& metrics) : run_(std::move(run)), metrics_(metrics) {}
  // Drops what waits: nobody is left who could be answered.
  ~PoolingQueue();
  PoolingQueue(const PoolingQueue&) = delete;
  PoolingQueue& operator=(const PoolingQueue&) = delete;

  void ask(PoolingRequest&& request);
  [[nodiscard]] std::int64_t waiting() const;
  [[nodiscard]] std::int64_t running() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Asked;
  using AskedPtr = std::shared_ptr<Asked>;

  void serve();
  void compute(engine::LLM& llm);
  [[nodiscard]] AskedPtr take();
  void answer(const AskedPtr& asked);
  void count(const Asked& asked, std::string_view reason, std::int64_t tokens);
  void fail(Asked& asked, const Error& error);

  const Run run_;
  Metrics& metrics_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<AskedPtr> waiting_;
  std::int64_t running_ = 0;
  bool stops_ = false;
  std::vector<AskedPtr> turn_;          // those that are computed now; of the thread
  std::unique_ptr<WorkQueue> tellers_;  // they begin with the first request, as the thread does
  std::thread thread_;
};

}  // namespace tern::server
