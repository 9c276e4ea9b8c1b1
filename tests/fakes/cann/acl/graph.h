// What is captured from streams, and the rules while it is.
#pragma once

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "backends/npu/cann/types.h"
#include "tests/fakes/cann/acl/process.h"

namespace fake {

struct TaskGroup {
  Graph* graph = nullptr;
  Stream* stream = nullptr;  // in which it is captured
  std::vector<std::size_t> nodes;
};

struct Node {
  Task task;
  std::vector<std::size_t> after;
};

class Graph {
 public:
  Graph(Stream& stream, aclmdlRICaptureMode mode) : origin(&stream), mode(mode), thread(std::this_thread::get_id()) {}

  // Runs the nodes in an order that their dependencies allow, another each time.
  [[nodiscard]] int execute();
  // Whether everything that was captured comes before what the first stream did last.
  [[nodiscard]] bool joined() const;

  Stream* origin;
  const aclmdlRICaptureMode mode;
  const std::thread::id thread;
  bool ended = false, invalid = false;
  std::vector<Node> nodes;
  std::map<Stream*, std::vector<std::size_t>> frontier;  // what the stream's next task comes after
  std::unique_ptr<TaskGroup> open_group;
  std::vector<std::unique_ptr<TaskGroup>> groups;
  std::mutex running;
  std::atomic<int> executions{0};
};

void exchange_mode(aclmdlRICaptureMode& mode);  // of the calling thread

// All under process().mutex.
void add_to_capture(Stream& stream, Task task);
[[nodiscard]] bool any_capture(const Device& device);
void invalidate_captures(const Device& device);
void record_in_capture(Stream& stream, Event& event);
// An event of a capture is waited for: the stream joins it. False: the event is of no capture and neither is the
// stream.
[[nodiscard]] bool wait_in_capture(Stream& stream, Event& event);

}  // namespace fake
