// Captures, and the graphs that come of them.
#include <algorithm>
#include <cstring>

#include "tests/fakes/cuda/driver/module.h"
#include "tests/fakes/cuda/driver/symbols.h"

namespace tern::cuda::fake {
namespace {

void leave(Capture& capture) {
  for (const CUstream stream : capture.streams) {
    stream->nodes.clear();
    stream->capture = nullptr;
  }
  capture.streams.clear();
  capture.origin = nullptr;
}

// Whether all that other streams captured comes before where the origin is.
bool is_joined(const Capture& capture) {
  std::set<CUgraphNode> reached;
  std::vector<CUgraphNode> left = capture.origin->nodes;
  while (!left.empty()) {
    const CUgraphNode node = left.back();
    left.pop_back();
    if (reached.insert(node).second) left.insert(left.end(), node->after.begin(), node->after.end());
  }
  return std::all_of(capture.streams.begin(), capture.streams.end(), [&](CUstream stream) {
    return std::all_of(stream->nodes.begin(), stream->nodes.end(),
                       [&](CUgraphNode node) { return reached.contains(node); });
  });
}

CUresult find_node(CUgraphExec exec, CUgraphNode node, CUgraphNode_st::Kind kind, std::size_t& place) {
  if (!state().execs.contains(exec)) return CUDA_ERROR_INVALID_HANDLE;
  const auto found = exec->place.find(node);
  if (found == exec->place.end() || exec->nodes[found->second]->kind != kind) return CUDA_ERROR_INVALID_VALUE;
  place = found->second;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult invalidate(Capture& capture, CUresult error) {
  capture.valid = false;
  return error;
}

CUresult check_unsafe() {
  for (const auto& capture : state().captures) {
    const bool concerns =
        capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
        (capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && capture->thread == std::this_thread::get_id());
    if (concerns) return invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return CUDA_SUCCESS;
}

CUresult add_node(CUstream stream, std::shared_ptr<CUgraphNode_st> node) {
  Capture& capture = *stream->capture;
  if (!capture.valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  node->after = stream->nodes;
  stream->nodes = {node.get()};
  capture.graph->nodes.push_back(std::move(node));
  return CUDA_SUCCESS;
}

void run_node(const CUgraphNode_st& node) {
  switch (node.kind) {
    case CUgraphNode_st::Kind::copy:
      std::memmove(node.to, node.from, node.bytes);
      return;
    case CUgraphNode_st::Kind::memset: {
      const CUDA_MEMSET_NODE_PARAMS& set = node.memset;
      for (std::size_t y = 0; y < set.height; ++y) {
        auto* const row = reinterpret_cast<unsigned char*>(set.dst + y * set.pitch);
        if (set.elementSize == 1) {
          std::memset(row, static_cast<int>(set.value), set.width);
          continue;
        }
        for (std::size_t x = 0; x < set.width; ++x) std::memcpy(row + x * set.elementSize, &set.value, set.elementSize);
      }
      return;
    }
    case CUgraphNode_st::Kind::host:
      node.host(node.to);
      return;
    case CUgraphNode_st::Kind::kernel:
      run_kernel_node(node);
      return;
  }
}

CUresult StreamBeginCapture(CUstream stream, int mode) {
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  const Lock lock(state().mutex);
  if (stream == nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // the legacy stream
  if (find_stream(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture != nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto capture = std::make_shared<Capture>();
  capture->id = state().next_id++;
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->graph = std::make_unique<CUgraph_st>();
  capture->streams.insert(stream);
  stream->capture = capture;
  stream->nodes.clear();
  state().captures.insert(capture);
  return CUDA_SUCCESS;
}

CUresult StreamEndCapture(CUstream stream, CUgraph* graph) {
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  const Lock lock(state().mutex);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *graph = nullptr;
  if (stream == nullptr || find_stream(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr)
    return CUDA_ERROR_INVALID_VALUE;  // CUDA has ILLEGAL_STATE for it, of which nobody tells us more
  if (capture->origin != stream) return invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id()) {
    return invalidate(*capture, 908);  // CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
  }
  const bool joined = is_joined(*capture);
  leave(*capture);
  state().captures.erase(capture);
  if (!capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = capture->graph.release();
  state().graphs.insert(*graph);
  return CUDA_SUCCESS;
}

CUresult StreamGetCaptureInfo(CUstream stream, int* status, std::uint64_t* id, CUgraph* graph,
                              const CUgraphNode** nodes, std::size_t* count) {
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  const Lock lock(state().mutex);
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  stream = find_stream(stream);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Capture* const capture = stream->capture.get();
  *status = capture == nullptr ? 0 : capture->valid ? 1 : 2;  // CU_STREAM_CAPTURE_STATUS_NONE, _ACTIVE, _INVALIDATED
  if (*status != 1) return CUDA_SUCCESS;
  if (id != nullptr) *id = capture->id;
  if (graph != nullptr) *graph = capture->graph.get();
  if (nodes != nullptr) *nodes = stream->nodes.data();  // until the stream's next call
  if (count != nullptr) *count = stream->nodes.size();
  return CUDA_SUCCESS;
}

CUresult GraphInstantiate(CUgraphExec* exec, CUgraph graph, unsigned long long /*flags*/) {
  const Lock lock(state().mutex);
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!state().graphs.contains(graph)) return CUDA_ERROR_INVALID_HANDLE;
  auto made = std::make_unique<CUgraphExec_st>();
  made->context = current();
  for (const auto& node : graph->nodes) {
    made->place[node.get()] = made->nodes.size();
    made->nodes.push_back(std::make_shared<const CUgraphNode_st>(*node));
  }
  *exec = made.release();
  state().execs.insert(*exec);
  return CUDA_SUCCESS;
}

CUresult GraphLaunch(CUgraphExec exec, CUstream stream) {
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  const Lock lock(state().mutex);
  if (!state().execs.contains(exec)) return CUDA_ERROR_INVALID_HANDLE;
  stream = find_stream(stream);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) return invalidate(*stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  stream->push([nodes = exec->nodes] {  // nodes come after what they depend on
    for (const auto& node : nodes) {
      if (node->context->error == CUDA_SUCCESS) run_node(*node);
    }
  });
  return CUDA_SUCCESS;
}

CUresult GraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  const Lock lock(state().mutex);
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  std::size_t place = 0;
  if (const CUresult error = find_node(exec, node, CUgraphNode_st::Kind::kernel, place); error != CUDA_SUCCESS)
    return error;
  if (params == nullptr || params->extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  const emulated::Grid grid{{params->gridDimX, params->gridDimY, params->gridDimZ},
                            {params->blockDimX, params->blockDimY, params->blockDimZ},
                            params->sharedMemBytes};
  auto changed = std::make_shared<CUgraphNode_st>(*exec->nodes[place]);
  if (const CUresult error = set_launch(*changed, params->func, grid, params->kernelParams); error != CUDA_SUCCESS)
    return error;
  exec->nodes[place] = changed;
  return CUDA_SUCCESS;
}

CUresult GraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params,
                                      CUcontext context) {
  const Lock lock(state().mutex);
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  std::size_t place = 0;
  if (const CUresult error = find_node(exec, node, CUgraphNode_st::Kind::memset, place); error != CUDA_SUCCESS)
    return error;
  if (params == nullptr || context != exec->nodes[place]->context) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t size = params->elementSize;
  if ((size != 1 && size != 2 && size != 4) || params->width == 0 || params->height == 0 || params->dst % size != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!is_device_range(params->dst, (params->height - 1) * params->pitch + params->width * size))
    return CUDA_ERROR_INVALID_VALUE;
  auto changed = std::make_shared<CUgraphNode_st>(*exec->nodes[place]);
  changed->memset = *params;
  exec->nodes[place] = changed;
  return CUDA_SUCCESS;
}

CUresult GraphExecDestroy(CUgraphExec exec) {
  const Lock lock(state().mutex);
  if (state().execs.erase(exec) == 0) return CUDA_ERROR_INVALID_HANDLE;
  const std::unique_ptr<CUgraphExec_st> gone(exec);
  return CUDA_SUCCESS;
}

CUresult GraphDestroy(CUgraph graph) {
  const Lock lock(state().mutex);
  if (state().graphs.erase(graph) == 0) return CUDA_ERROR_INVALID_HANDLE;
  const std::unique_ptr<CUgraph_st> gone(graph);
  return CUDA_SUCCESS;
}

}  // namespace tern::cuda::fake
