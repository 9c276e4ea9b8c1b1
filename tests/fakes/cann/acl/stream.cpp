#include "tests/fakes/cann/acl/stream.h"

#include "tests/fakes/cann/acl/graph.h"
#include "tests/fakes/cann/acl/process.h"

namespace fake {

Stream::Stream(Device& on, std::uint32_t which) : device(on), number(which) {}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (worker_.joinable()) worker_.join();
}

void Stream::queue(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (!worker_.joinable()) worker_ = std::thread([this] { work(); });  // a stream without work costs nothing
  }
  changed_.notify_all();
}

bool Stream::idle() {
  const std::lock_guard lock(mutex_);
  return tasks_.empty() && !busy_;
}

void Stream::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_.empty() && !busy_; });
}

bool Stream::wait(std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, longest, [this] { return tasks_.empty() && !busy_; });
}

void Stream::work() {
  // Kernels and copies run as this device's: what they allocate or look up is its own.
  set_current_device(device.number);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !tasks_.empty() || ending_; });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    const std::uint32_t lateness = process().settings.lateness;
    if (lateness > 0 && chance(16) == 0) std::this_thread::sleep_for(std::chrono::microseconds(chance(lateness)));
    const bool marks = task.kind == TaskKind::kRecord || task.kind == TaskKind::kWait || task.kind == TaskKind::kReset;
    // After a failure nothing is worked on, but who waits isn't left to wait.
    if (marks || device.error == 0) {
      int code = 0;
      try {
        code = task.run();
      } catch (const Refusal& refusal) {
        code = refusal.code;
        note_device_failure(task.name, refusal.text);
      }
      int none = 0;
      if (code != 0) device.error.compare_exchange_strong(none, code);
    }
    task.run = nullptr;  // what it held is let go before anyone hears that it is done
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void launch(Stream& stream, Task task) {
  std::unique_lock lock(process().mutex);
  if (stream.capture != nullptr) {
    add_to_capture(stream, std::move(task));
    return;
  }
  if (stream.updating != nullptr) {
    stream.update.push_back(std::move(task));
    return;
  }
  lock.unlock();
  stream.queue(std::move(task));
}

}  // namespace fake
