// A few threads for what takes a moment: reading a body, rendering a prompt.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tern::server {

class WorkQueue {
 public:
  explicit WorkQueue(int threads);
  ~WorkQueue() { stop(); }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // `work` throws nothing.
  void push(std::function<void()> work);
  // Waits for what runs, and drops what waits.
  void stop();

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tern::server
