// Streams: each has a thread that works off its tasks, later than it could, in their order.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace fake {

struct Device;
class Graph;
struct TaskGroup;

enum class TaskKind { kKernel, kCopy, kFill, kRecord, kWait, kReset, kCallback, kGraph };

struct Task {
  TaskKind kind = TaskKind::kKernel;
  std::string name;
  std::function<int()> run;  // an aclError, 0 where it went well
};

class Stream {
 public:
  explicit Stream(Device& device, std::uint32_t number);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void queue(Task task);
  [[nodiscard]] bool idle();
  void wait();                                                 // until all that was queued is done
  [[nodiscard]] bool wait(std::chrono::milliseconds longest);  // false: it isn't yet

  Device& device;
  const std::uint32_t number;
  Graph* capture = nullptr;           // what it is being captured into
  TaskGroup* updating = nullptr;      // whose tasks are being given anew
  std::deque<Task> update;            // those that were given
  std::uint64_t callback_thread = 0;  // aclrtSubscribeReport; 0: no callback is taken

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool busy_ = false;
  bool ending_ = false;
  std::thread worker_;
};

// Marks of a place in a stream's work.
struct Event {
  std::uint32_t flags = 0;
  bool reusable = false;  // aclrtCreateEventExWithFlag: what capture takes
  std::uint64_t recorded = 0, done = 0, reset = 0;
  std::chrono::steady_clock::time_point time;
  Graph* capture = nullptr;  // in which it was last recorded
  std::deque<std::size_t> frontier;
};

}  // namespace fake
