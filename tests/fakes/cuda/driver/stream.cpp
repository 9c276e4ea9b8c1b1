// Streams: each has a worker that does what it was given, in order, while the host goes on.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "tests/fakes/cuda/driver/symbols.h"

namespace tern::cuda {

void CUstream_st::push(std::function<void()> command) {
  const std::lock_guard lock(mutex);
  queue.push_back(std::move(command));
  ++queued;
  if (!worker.joinable()) {
    worker = std::thread([this] {
      std::unique_lock held(mutex);
      for (;;) {
        changed.wait(held, [&] { return !queue.empty() || ends; });
        if (queue.empty()) return;
        const std::function<void()> next = std::move(queue.front());
        queue.pop_front();
        held.unlock();
        next();
        held.lock();
        ++done;
        changed.notify_all();
      }
    });
  }
  changed.notify_all();
}

void CUstream_st::drain() {
  std::unique_lock lock(mutex);
  const std::uint64_t target = queued;
  changed.wait(lock, [&] { return done >= target; });
}

bool CUstream_st::idle() {
  const std::lock_guard lock(mutex);
  return done == queued;
}

}  // namespace tern::cuda

namespace tern::cuda::fake {
namespace {

// Streams' memory stays: a thread may still wait for one that another destroys.
std::vector<std::unique_ptr<CUstream_st>>& all_streams() {
  static auto& streams = *new std::vector<std::unique_ptr<CUstream_st>>;
  return streams;
}

CUstream make_stream(unsigned flags) {
  auto stream = std::make_unique<CUstream_st>();
  stream->context = current();
  stream->flags = flags;
  const CUstream made = stream.get();
  all_streams().push_back(std::move(stream));
  current()->streams.insert(made);
  return made;
}

std::shared_ptr<CUgraphNode_st> copy_node(void* to, const void* from, std::size_t bytes) {
  auto node = std::make_shared<CUgraphNode_st>();
  node->kind = CUgraphNode_st::Kind::copy;
  node->to = to;
  node->from = from;
  node->bytes = bytes;
  return node;
}

// Captures the node, or gives it to the stream's worker. `waits`: until it's done.
CUresult give(CUstream stream, const std::shared_ptr<CUgraphNode_st>& node, bool waits = false) {
  node->context = stream->context;
  {
    const Lock lock(state().mutex);
    if (stream->capture != nullptr) return add_node(stream, node);
    stream->push([node] {
      if (node->context->error == CUDA_SUCCESS) run_node(*node);
    });
  }
  if (!waits) return CUDA_SUCCESS;
  stream->drain();
  return stream->context->error;
}

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

CUresult check_stream(CUstream& stream) {
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  stream = find_stream(stream);
  return stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

}  // namespace

void Record::complete() {
  const std::lock_guard lock(mutex);
  done = true;
  nanoseconds =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  changed.notify_all();
}

void Record::wait() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done; });
}

bool Record::is_done() {
  const std::lock_guard lock(mutex);
  return done;
}

CUstream find_stream(CUstream stream) {
  const Lock lock(state().mutex);
  CUctx_st& context = *current();
  if (stream == nullptr) {
    if (context.default_stream == nullptr) context.default_stream = make_stream(0);
    return context.default_stream;
  }
  return context.streams.contains(stream) ? stream : nullptr;
}

void drain_context(CUcontext context) {
  std::vector<CUstream> streams;
  {
    const Lock lock(state().mutex);
    streams.assign(context->streams.begin(), context->streams.end());
  }
  for (const CUstream stream : streams) stream->drain();
}

CUresult MemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  if (const CUresult error = check_stream(stream); error != CUDA_SUCCESS) return error;
  if (bytes == 0) return CUDA_SUCCESS;
  if (from == nullptr || !is_device_range(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const auto node = copy_node(pointer(to), from, bytes);
  if (!is_pinned(from, bytes) && stream->capture == nullptr) {  // it's read before the call returns, and arrives later
    const auto staged = std::make_shared<std::vector<std::byte>>(bytes);
    std::memcpy(staged->data(), from, bytes);
    stream->push([=, context = stream->context] {
      if (context->error == CUDA_SUCCESS) std::memcpy(pointer(to), staged->data(), bytes);
    });
    return CUDA_SUCCESS;
  }
  return give(stream, node);
}

CUresult MemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  if (const CUresult error = check_stream(stream); error != CUDA_SUCCESS) return error;
  if (bytes == 0) return CUDA_SUCCESS;
  if (to == nullptr || !is_device_range(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return give(stream, copy_node(to, pointer(from), bytes), !is_pinned(to, bytes));
}

CUresult MemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  if (const CUresult error = check_stream(stream); error != CUDA_SUCCESS) return error;
  if (bytes == 0) return CUDA_SUCCESS;
  if (!is_device_range(to, bytes) || !is_device_range(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return give(stream, copy_node(pointer(to), pointer(from), bytes));
}

CUresult MemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                         std::size_t bytes, CUstream stream) {
  if (to_context == nullptr || from_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return MemcpyDtoDAsync(to, from, bytes, stream);
}

CUresult MemsetD8Async(CUdeviceptr to, unsigned char byte, std::size_t bytes, CUstream stream) {
  if (const CUresult error = check_stream(stream); error != CUDA_SUCCESS) return error;
  if (bytes == 0) return CUDA_SUCCESS;
  if (!is_device_range(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  auto node = std::make_shared<CUgraphNode_st>();
  node->kind = CUgraphNode_st::Kind::memset;
  node->memset = {.dst = to, .pitch = 0, .value = byte, .elementSize = 1, .width = bytes, .height = 1};
  return give(stream, node);
}

// For the fakes of NVIDIA's libraries, whose kernels these functions stand for; the backend doesn't use it.
__attribute__((visibility("default"))) CUresult LaunchHostFunc(CUstream stream, void (*function)(void*),
                                                               void* data) asm("cuLaunchHostFunc");
CUresult LaunchHostFunc(CUstream stream, void (*function)(void*), void* data) {
  if (const CUresult error = check_stream(stream); error != CUDA_SUCCESS) return error;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto node = std::make_shared<CUgraphNode_st>();
  node->kind = CUgraphNode_st::Kind::host;
  node->host = function;
  node->to = data;
  return give(stream, node);
}

CUresult StreamCreateWithPriority(CUstream* stream, unsigned flags, int /*priority*/) {
  const Lock lock(state().mutex);
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  if (stream == nullptr || (flags & ~CU_STREAM_NON_BLOCKING) != 0) return CUDA_ERROR_INVALID_VALUE;
  *stream = make_stream(flags);
  return CUDA_SUCCESS;
}

CUresult StreamDestroy(CUstream stream) {
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Lock lock(state().mutex);
  if (!state().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  for (const auto& context : state().contexts) {
    if (context->streams.erase(stream) == 0) continue;
    if (stream->capture != nullptr) {
      stream->capture->valid = false;
      stream->capture->streams.erase(stream);
      stream->capture = nullptr;
    }
    const std::lock_guard held(stream->mutex);
    stream->ends = true;  // once its work is done
    if (stream->worker.joinable()) stream->worker.detach();
    stream->changed.notify_all();
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_HANDLE;
}

CUresult StreamSynchronize(CUstream stream) {
  if (const CUresult error = check_stream(stream); error != CUDA_SUCCESS) return error;
  {
    const Lock lock(state().mutex);
    if (stream->capture != nullptr) return invalidate(*stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  stream->drain();
  return stream->context->error;
}

CUresult StreamQuery(CUstream stream) {
  if (const CUresult error = check_stream(stream); error != CUDA_SUCCESS) return error;
  const Lock lock(state().mutex);
  if (stream->capture != nullptr) return invalidate(*stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  if (!stream->idle()) return CUDA_ERROR_NOT_READY;
  return stream->context->error;
}

CUresult EventCreate(CUevent* event, unsigned flags) {
  const Lock lock(state().mutex);
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  if (event == nullptr || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<CUevent_st>();
  made->context = current();
  made->flags = flags;
  *event = made.release();
  state().events.insert(*event);
  return CUDA_SUCCESS;
}

CUresult EventDestroy(CUevent event) {
  const Lock lock(state().mutex);
  if (!state().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (state().events.erase(event) == 0) return CUDA_ERROR_INVALID_HANDLE;
  const std::unique_ptr<CUevent_st> gone(event);
  return CUDA_SUCCESS;
}

CUresult EventRecord(CUevent event, CUstream stream) {
  if (const CUresult error = check_stream(stream); error != CUDA_SUCCESS) return error;
  const Lock lock(state().mutex);
  if (!state().events.contains(event) || event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) {
    if (!stream->capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->capture = stream->capture;
    event->nodes = stream->nodes;
    event->record = nullptr;
    return CUDA_SUCCESS;
  }
  event->capture = nullptr;
  event->record = std::make_shared<Record>();
  stream->push([record = event->record] { record->complete(); });
  return CUDA_SUCCESS;
}

CUresult EventQuery(CUevent event) {
  const Lock lock(state().mutex);
  if (!state().events.contains(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (event->context->error != CUDA_SUCCESS) return event->context->error;
  if (event->capture != nullptr) return invalidate(*event->capture, CUDA_ERROR_CAPTURED_EVENT);
  return event->record == nullptr || event->record->is_done() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult EventSynchronize(CUevent event) {
  std::shared_ptr<Record> record;
  CUcontext context = nullptr;
  {
    const Lock lock(state().mutex);
    if (!state().events.contains(event)) return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture != nullptr) return invalidate(*event->capture, CUDA_ERROR_CAPTURED_EVENT);
    record = event->record;
    context = event->context;
  }
  if (record != nullptr) record->wait();
  return context->error;
}

CUresult EventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  const Lock lock(state().mutex);
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const CUevent event : {start, end}) {
    if (!state().events.contains(event) || (event->flags & CU_EVENT_DISABLE_TIMING) != 0)
      return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
    if (event->record == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!start->record->is_done() || !end->record->is_done()) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(static_cast<double>(end->record->nanoseconds - start->record->nanoseconds) * 1e-6);
  return CUDA_SUCCESS;
}

CUresult StreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  const Lock lock(state().mutex);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  stream = find_stream(stream);
  if (stream == nullptr || !state().events.contains(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture != nullptr) {
    if (!event->capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (event->capture->origin == nullptr) return CUDA_ERROR_INVALID_VALUE;  // that capture has ended
    if (stream == stream->context->default_stream)
      return invalidate(*event->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (stream->capture == nullptr) {  // it joins
      stream->capture = event->capture;
      stream->capture->streams.insert(stream);
      stream->nodes.clear();
    } else if (stream->capture != event->capture) {
      invalidate(*event->capture, 902);
      return invalidate(*stream->capture, 902);  // CUDA_ERROR_STREAM_CAPTURE_MERGE
    }
    for (const CUgraphNode node : event->nodes) {
      if (std::find(stream->nodes.begin(), stream->nodes.end(), node) == stream->nodes.end())
        stream->nodes.push_back(node);
    }
    return CUDA_SUCCESS;
  }
  if (event->record == nullptr) return CUDA_SUCCESS;
  if (stream->capture != nullptr) return invalidate(*stream->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  stream->push([record = event->record] { record->wait(); });
  return CUDA_SUCCESS;
}

}  // namespace tern::cuda::fake
