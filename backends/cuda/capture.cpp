// Captured graphs. A launch that is captured keeps what it queued; an update runs it again on a stream that only writes
// down, and gives the kernels of the graph what is new.
#include <algorithm>

#include "backends/cuda/interface.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

// What a launch would queue with other numbers.
std::vector<Step> rehearse(const Capture& capture, const Bound& bound, const tern_host_args* host_args) {
  const HostArgs numbers = host_args == nullptr ? HostArgs() : HostArgs(*bound.plan->desc, host_args);
  std::vector<Step> steps;
  Stream stream;
  stream.state = capture.state;
  stream.steps = &steps;
  stream.dry = true;
  run_bound(bound, numbers, stream);
  return steps;
}

bool same_places(const std::vector<Step>& a, const std::vector<Step>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Step& x, const Step& y) { return x.same_place(y); });
}

// Gives a node of the graph what the step says.
CUresult set_node(const Capture& capture, CUgraphNode node, const Step& step) {
  if (node == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const Function& function = step.empty ? capture.state->modules.get("nothing") : *step.function;
  std::vector<void*> params;
  CUDA_KERNEL_NODE_PARAMS node_params{};
  node_params.func = function.handle;
  node_params.gridDimX = node_params.gridDimY = node_params.gridDimZ = 1;
  node_params.blockDimX = node_params.blockDimY = node_params.blockDimZ = 1;
  if (!step.empty) {
    for (const std::size_t begin : step.begins) params.push_back(const_cast<std::byte*>(step.data.data()) + begin);
    node_params.gridDimX = step.blocks[0];
    node_params.gridDimY = step.blocks[1];
    node_params.gridDimZ = step.blocks[2];
    node_params.blockDimX = step.threads[0];
    node_params.blockDimY = step.threads[1];
    node_params.blockDimZ = step.threads[2];
    node_params.sharedMemBytes = static_cast<unsigned>(step.shared);
    node_params.kernelParams = params.data();
  }
  return driver().GraphExecKernelNodeSetParams(capture.exec, node, &node_params);
}

// Sets what differs. Where the driver refuses one, those before it are set back.
CUresult set_nodes(const Capture& capture, const std::vector<Step>& now, const std::vector<Step>& wanted) {
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i] == wanted[i]) continue;
    const CUresult code = set_node(capture, now[i].node, wanted[i]);
    if (code == CUDA_SUCCESS) continue;
    for (std::size_t j = 0; j < i; ++j) {
      if (!(now[j] == wanted[j])) (void)set_node(capture, now[j].node, now[j]);
    }
    return code;
  }
  return CUDA_SUCCESS;
}

}  // namespace

tern_status capture_begin(tern_stream stream) {
  return guarded([&]() -> tern_status {
    const Driver& api = use(stream, "capture_begin");
    if (stream->recording() != nullptr) {
      return fail(TERN_INVALID_ARGUMENT, "capture_begin: the stream is being captured");
    }
    // Relaxed: this and other threads go on allocating and waiting for other streams.
    check(api.StreamBeginCapture(stream->handle, CU_STREAM_CAPTURE_MODE_RELAXED), "beginning a capture");
    stream->capture = std::make_shared<Recording>();
    stream->origin = true;
    return TERN_OK;
  });
}

tern_status capture_end(tern_stream stream, tern_capture* capture) {
  return guarded([&]() -> tern_status {
    const Driver& api = use(stream, "capture_end");
    if (capture == nullptr) return fail(TERN_INVALID_ARGUMENT, "capture_end: no place for the graph");
    if (stream->recording() == nullptr || !stream->origin) {
      return fail(TERN_INVALID_ARGUMENT, "capture_end: capture_begin was not called on this stream");
    }
    const std::shared_ptr<Recording> recording = std::move(stream->capture);
    recording->ended = true;
    stream->capture.reset();
    stream->origin = false;
    CUgraph graph = nullptr;
    check(api.StreamEndCapture(stream->handle, &graph), "ending a capture");
    auto made = std::make_unique<tern_capture_s>();
    made->state = stream->state;
    made->recording = recording;
    made->graph = graph;
    const CUresult code = api.GraphInstantiate(&made->exec, graph, 0);
    if (code != CUDA_SUCCESS) {
      (void)api.GraphDestroy(graph);
      check(code, "making a graph of a capture");
    }
    *capture = made.release();
    return TERN_OK;
  });
}

tern_status capture_launch(tern_capture capture, tern_stream stream) {
  return guarded([&]() -> tern_status {
    if (capture == nullptr) return fail(TERN_INVALID_ARGUMENT, "capture_launch: no graph");
    const Driver& api = use(stream, "capture_launch");
    if (stream->recording() != nullptr) return fail(TERN_UNSUPPORTED, "capture_launch: captures do not nest");
    submit(*stream, TERN_PROFILE_OTHER, "a captured graph", 0,
           [&] { return api.GraphLaunch(capture->exec, stream->handle); });
    return TERN_OK;
  });
}

// What is set holds from the next launch on; launches that are queued already keep their numbers.
tern_status capture_update(tern_capture capture, tern_stream stream, const tern_node_update* updates, uint32_t count) {
  return guarded([&]() -> tern_status {
    if (capture == nullptr || (updates == nullptr && count > 0)) {
      return fail(TERN_INVALID_ARGUMENT, "capture_update: a null argument");
    }
    (void)use(stream, "capture_update");
    auto& launches = capture->recording->launches;
    std::vector<std::vector<Step>> wanted;  // all before any is changed
    for (std::uint32_t i = 0; i < count; ++i) {
      if (updates[i].node >= launches.size()) {
        return fail(TERN_INVALID_ARGUMENT, cat("capture_update: node ", updates[i].node, " is no launch"));
      }
      const Recording::Launched& launched = launches[updates[i].node];
      std::vector<Step> steps = rehearse(*capture, *launched.bound, updates[i].host_args);
      if (!same_places(launched.steps, steps)) {
        return fail(TERN_UNSUPPORTED, "capture_update: at these numbers other kernels run; capture them again");
      }
      for (std::size_t s = 0; s < steps.size(); ++s) steps[s].node = launched.steps[s].node;
      wanted.push_back(std::move(steps));
    }
    const auto exchange = [&](std::uint32_t i) {
      auto& steps = launches[updates[i].node].steps;
      const CUresult code = set_nodes(*capture, steps, wanted[i]);
      if (code == CUDA_SUCCESS) std::swap(steps, wanted[i]);
      return code;
    };
    for (std::uint32_t i = 0; i < count; ++i) {
      const CUresult code = exchange(i);
      if (code == CUDA_SUCCESS) continue;
      while (i-- > 0) (void)exchange(i);
      return fail(TERN_UNSUPPORTED, describe("capture_update: capture these launches again", code));
    }
    return TERN_OK;
  });
}

tern_status capture_destroy(tern_capture capture) {
  return guarded([&]() -> tern_status {
    const std::unique_ptr<tern_capture_s> owner(capture);
    if (!owner) return TERN_OK;
    (void)driver().CtxSetCurrent(owner->state->context.get());
    (void)driver().GraphExecDestroy(owner->exec);
    (void)driver().GraphDestroy(owner->graph);
    return TERN_OK;
  });
}

}  // namespace tern::cuda
