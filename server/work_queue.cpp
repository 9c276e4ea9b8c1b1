#include "server/work_queue.h"

namespace tern::server {

WorkQueue::WorkQueue(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { serve(); });
}

void WorkQueue::push(std::function<void()> work) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopped_) return;
    waiting_.push_back(std::move(work));
  }
  wake_.notify_one();
}

void WorkQueue::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
    waiting_.clear();
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void WorkQueue::serve() {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopped_ || !waiting_.empty(); });
      if (stopped_) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work();
  }
}

}  // namespace tern::server
