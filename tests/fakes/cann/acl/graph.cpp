#include "tests/fakes/cann/acl/graph.h"

#include <algorithm>

namespace fake {
namespace {

// Of the calling thread: aclmdlRICaptureThreadExchangeMode.
thread_local aclmdlRICaptureMode thread_mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;

template <typename Visit>
void each_capture(Visit&& visit) {
  for (auto& [handle, graph] : process().graphs) {
    if (!graph->ended) visit(*graph);
  }
}

}  // namespace

int Graph::execute() {
  const std::lock_guard lock(running);
  std::vector<std::size_t> waits(nodes.size());
  std::vector<std::vector<std::size_t>> next(nodes.size());
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    waits[i] = nodes[i].after.size();
    for (const std::size_t before : nodes[i].after) next[before].push_back(i);
    if (waits[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    std::swap(ready[chance(ready.size())], ready.back());
    const std::size_t node = ready.back();
    ready.pop_back();
    if (const int code = nodes[node].task.run()) return code;
    for (const std::size_t after : next[node]) {
      if (--waits[after] == 0) ready.push_back(after);
    }
  }
  return 0;
}

bool Graph::joined() const {
  std::vector<bool> seen(nodes.size());
  std::vector<std::size_t> open = frontier.at(origin);
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (seen[node]) continue;
    seen[node] = true;
    open.insert(open.end(), nodes[node].after.begin(), nodes[node].after.end());
  }
  return std::find(seen.begin(), seen.end(), false) == seen.end();
}

void add_to_capture(Stream& stream, Task task) {
  Graph& graph = *stream.capture;
  if (graph.invalid) refuse(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "The capture was ended by an earlier error.");
  if (task.kind == TaskKind::kCallback || task.kind == TaskKind::kGraph || task.kind == TaskKind::kReset) {
    graph.invalid = true;
    refuse(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, task.name + " can't be captured.");
  }
  std::vector<std::size_t>& frontier = graph.frontier[&stream];
  std::sort(frontier.begin(), frontier.end());
  frontier.erase(std::unique(frontier.begin(), frontier.end()), frontier.end());
  const std::size_t number = graph.nodes.size();
  graph.nodes.push_back({std::move(task), std::move(frontier)});
  frontier = {number};
  if (graph.open_group && graph.open_group->stream == &stream) graph.open_group->nodes.push_back(number);
}

bool any_capture(const Device& device) {
  bool any = false;
  each_capture([&](const Graph& graph) { any = any || &graph.origin->device == &device; });
  return any;
}

void invalidate_captures(const Device& device) {
  each_capture([&](Graph& graph) {
    if (&graph.origin->device == &device) graph.invalid = true;
  });
}

void record_in_capture(Stream& stream, Event& event) {
  Graph& graph = *stream.capture;
  if (graph.invalid) refuse(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "The capture was ended by an earlier error.");
  // The docs of aclmdlRICaptureBegin: events of aclrtCreateEventExWithFlag alone.
  if (!event.reusable) {
    graph.invalid = true;
    refuse(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "Only events of aclrtCreateEventExWithFlag are captured.");
  }
  event.capture = &graph;
  const auto& frontier = graph.frontier[&stream];
  event.frontier.assign(frontier.begin(), frontier.end());
}

bool wait_in_capture(Stream& stream, Event& event) {
  const bool live =
      event.capture != nullptr && std::any_of(process().graphs.begin(), process().graphs.end(), [&](const auto& entry) {
        return entry.second.get() == event.capture && !entry.second->ended;
      });
  if (stream.capture == nullptr && !live) return false;
  if (!live || (stream.capture != nullptr && stream.capture != event.capture)) {
    if (stream.capture != nullptr) stream.capture->invalid = true;
    if (live) event.capture->invalid = true;
    refuse(ACL_ERROR_RT_CAPTURE_DEPENDENCY, "A captured stream waits for what isn't in its capture.");
  }
  Graph& graph = *event.capture;
  if (graph.invalid) refuse(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "The capture was ended by an earlier error.");
  stream.capture = &graph;
  auto& frontier = graph.frontier[&stream];
  frontier.insert(frontier.end(), event.frontier.begin(), event.frontier.end());
  return true;
}

void forbid_in_capture(const char* what, int code) {
  const std::lock_guard lock(process().mutex);
  if (thread_mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED) return;
  each_capture([&](Graph& graph) {
    const bool own = graph.thread == std::this_thread::get_id();
    if (graph.mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED) return;
    if (!own && (graph.mode == ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL ||
                 thread_mode == ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL)) {
      return;
    }
    graph.invalid = true;
    refuse(code, std::string(what) + " isn't permitted while a stream is captured.");
  });
}

void exchange_mode(aclmdlRICaptureMode& mode) { std::swap(mode, thread_mode); }

}  // namespace fake
