// libascendcl's functions about graphs that are captured from streams.
#include <string>

#include "backends/npu/cann/runtime.h"
#include "tests/fakes/cann/acl/graph.h"
#include "tests/fakes/cann/acl/process.h"

using fake::guarded;
using fake::process;
using fake::refuse;

namespace {

void need(const void* argument, const char* name) {
  if (argument == nullptr) refuse(ACL_ERROR_INVALID_PARAM, std::string("[Check][") + name + "]param must not be null.");
}

// rt: A2, A3 and A5, and 310P in newer runtimes; never 910.
void need_capture() {
  const fake::Family family = fake::chip().family;
  if (family == fake::Family::k910 || (family == fake::Family::k310P && !fake::at_least(9, 0))) {
    refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "The chip or its driver can't capture streams.");
  }
}

fake::Graph& captured(fake::Stream& stream) {
  if (stream.capture == nullptr) refuse(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "The stream isn't captured.");
  return *stream.capture;
}

fake::Graph& graph_of(aclmdlRI handle) {
  need(handle, "modelRI");
  const auto found = process().graphs.find(handle);
  if (found == process().graphs.end() || !found->second->ended) {
    refuse(ACL_ERROR_RT_INVALID_HANDLE, "The handle is no graph.");
  }
  return *found->second;
}

fake::TaskGroup& group_of(aclrtTaskGrp handle) {
  for (auto& [key, graph] : process().graphs) {
    for (auto& group : graph->groups) {
      if (group.get() == handle) return *group;
    }
  }
  refuse(ACL_ERROR_RT_INVALID_HANDLE, "The handle is no group of tasks.");
}

// The streams of a capture are free again, whatever comes of it.
std::unique_ptr<fake::Graph> end(fake::Graph& graph) {
  for (auto& [handle, stream] : process().streams) {
    if (stream->capture == &graph) stream->capture = nullptr;
  }
  for (auto& [handle, event] : process().events) {
    if (event->capture == &graph) event->capture = nullptr;
  }
  std::unique_ptr<fake::Graph> own = std::move(process().graphs[&graph]);
  process().graphs.erase(&graph);
  return own;
}

// What a captured graph holds mustn't be given other kinds of tasks, or more or fewer.
void update(fake::Stream& stream) {
  fake::TaskGroup& group = *stream.updating;
  std::deque<fake::Task> tasks = std::move(stream.update);
  stream.update.clear();
  stream.updating = nullptr;
  bool same = tasks.size() == group.nodes.size();
  for (std::size_t i = 0; same && i < tasks.size(); ++i) {
    const fake::Task& old = group.graph->nodes[group.nodes[i]].task;
    same = old.kind == tasks[i].kind && old.name == tasks[i].name;
  }
  if (!same) {
    refuse(ACL_ERROR_STREAM_TASK_GROUP_STATUS,
           "The update's tasks aren't the group's " + std::to_string(group.nodes.size()) + " in number and kind.");
  }
  auto shared = std::make_shared<std::deque<fake::Task>>(std::move(tasks));
  stream.queue({fake::TaskKind::kFill, "aclmdlRICaptureTaskUpdate", [&group, shared] {
                  const std::lock_guard lock(group.graph->running);
                  for (std::size_t i = 0; i < shared->size(); ++i) {
                    group.graph->nodes[group.nodes[i]].task = (*shared)[i];
                  }
                  return 0;
                }});
}

}  // namespace

extern "C" {

aclError aclmdlRICaptureBegin(aclrtStream handle, aclmdlRICaptureMode mode) {
  return guarded("aclmdlRICaptureBegin", [&] {
    need_capture();
    if (mode < ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "The mode is none.");
    }
    if (handle == nullptr) refuse(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "The default stream can't be captured.");
    fake::Stream& stream = fake::stream_of(handle);
    const std::lock_guard lock(process().mutex);
    if (stream.capture != nullptr || stream.updating != nullptr) {
      refuse(ACL_ERROR_RT_STREAM_CAPTURED, "The stream is captured already.");
    }
    auto graph = std::make_unique<fake::Graph>(stream, mode);
    graph->frontier[&stream] = {};
    stream.capture = graph.get();
    process().graphs[graph.get()] = std::move(graph);
  });
}

aclError aclmdlRICaptureGetInfo(aclrtStream handle, aclmdlRICaptureStatus* status, aclmdlRI* graph) {
  return guarded("aclmdlRICaptureGetInfo", [&] {
    need_capture();
    need(status, "status");
    need(graph, "modelRI");
    *graph = nullptr;
    *status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    if (handle == nullptr) return;
    fake::Stream& stream = fake::stream_of(handle);
    const std::lock_guard lock(process().mutex);
    if (stream.capture == nullptr) return;
    *graph = stream.capture;
    *status = stream.capture->invalid ? ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED : ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
  });
}

aclError aclmdlRICaptureEnd(aclrtStream handle, aclmdlRI* made) {
  return guarded("aclmdlRICaptureEnd", [&] {
    need_capture();
    need(made, "modelRI");
    *made = nullptr;
    if (handle == nullptr) refuse(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "The default stream can't be captured.");
    fake::Stream& stream = fake::stream_of(handle);
    const std::lock_guard lock(process().mutex);
    fake::Graph& graph = captured(stream);
    if (graph.origin != &stream) {
      graph.invalid = true;
      refuse(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, "The capture wasn't begun in this stream.");
    }
    if (graph.thread != std::this_thread::get_id()) {
      refuse(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, "A capture ends on the thread that began it.");
    }
    std::unique_ptr<fake::Graph> own = end(graph);
    if (own->invalid) refuse(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "An earlier error ended the capture.");
    if (own->open_group) refuse(ACL_ERROR_STREAM_TASK_GROUP_INTR, "A group of tasks wasn't ended.");
    if (!own->joined()) refuse(ACL_ERROR_RT_STREAM_UNJOINED, "A stream of the capture wasn't joined to its first.");
    own->ended = true;
    *made = own.get();
    process().graphs[own.get()] = std::move(own);
  });
}

aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode) {
  return guarded("aclmdlRICaptureThreadExchangeMode", [&] {
    need_capture();
    need(mode, "mode");
    if (*mode < ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || *mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED) {
      refuse(ACL_ERROR_RT_PARAM_INVALID, "The mode is none.");
    }
    fake::exchange_mode(*mode);
  });
}

aclError aclmdlRICaptureTaskGrpBegin(aclrtStream handle) {
  return guarded("aclmdlRICaptureTaskGrpBegin", [&] {
    need_capture();
    fake::Stream& stream = fake::stream_of(handle);
    const std::lock_guard lock(process().mutex);
    fake::Graph& graph = captured(stream);
    if (graph.open_group) refuse(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "A group of tasks is begun already.");
    graph.open_group = std::make_unique<fake::TaskGroup>();
    graph.open_group->graph = &graph;
    graph.open_group->stream = &stream;
  });
}

aclError aclmdlRICaptureTaskGrpEnd(aclrtStream handle, aclrtTaskGrp* group) {
  return guarded("aclmdlRICaptureTaskGrpEnd", [&] {
    need_capture();
    need(group, "handle");
    fake::Stream& stream = fake::stream_of(handle);
    const std::lock_guard lock(process().mutex);
    fake::Graph& graph = captured(stream);
    if (!graph.open_group || graph.open_group->stream != &stream) {
      refuse(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "No group of tasks is begun in the stream.");
    }
    *group = graph.open_group.get();
    graph.groups.push_back(std::move(graph.open_group));
  });
}

aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream handle, aclrtTaskGrp group_handle) {
  return guarded("aclmdlRICaptureTaskUpdateBegin", [&] {
    need_capture();
    need(group_handle, "handle");
    fake::Stream& stream = fake::stream_of(handle);
    const std::lock_guard lock(process().mutex);
    if (stream.capture != nullptr) refuse(ACL_ERROR_RT_STREAM_CAPTURED, "The stream is captured: take another.");
    if (stream.updating != nullptr) refuse(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "An update is begun already.");
    fake::TaskGroup& group = group_of(group_handle);
    if (!group.graph->ended) refuse(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "The group's graph is still captured.");
    stream.updating = &group;
  });
}

aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream handle) {
  return guarded("aclmdlRICaptureTaskUpdateEnd", [&] {
    need_capture();
    fake::Stream& stream = fake::stream_of(handle);
    const std::lock_guard lock(process().mutex);
    if (stream.updating == nullptr) refuse(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "No update is begun in the stream.");
    update(stream);
  });
}

aclError aclmdlRIExecuteAsync(aclmdlRI handle, aclrtStream stream_handle) {
  return guarded("aclmdlRIExecuteAsync", [&] {
    need_capture();
    fake::Stream& stream = fake::stream_of(stream_handle);
    fake::Graph* graph = nullptr;
    {
      const std::lock_guard lock(process().mutex);
      graph = &graph_of(handle);
      ++graph->executions;
    }
    // Not running any more when the task is let go, whether it ran or not.
    std::shared_ptr<fake::Graph> running(graph, [](fake::Graph* one) { --one->executions; });
    fake::launch(stream, {fake::TaskKind::kGraph, "aclmdlRIExecuteAsync", [running] { return running->execute(); }});
  });
}

aclError aclmdlRIDestroy(aclmdlRI handle) {
  return guarded("aclmdlRIDestroy", [&] {
    need_capture();
    const std::lock_guard lock(process().mutex);
    fake::Graph& graph = graph_of(handle);
    if (graph.executions > 0) refuse(ACL_ERROR_RT_MODEL_RUNNING, "The graph is still running.");
    process().graphs.erase(&graph);
  });
}
}
