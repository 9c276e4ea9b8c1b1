// Streams, events and copies. A stream is a queue in order; what is queued by one call may run long after it.
#include <memory>

#include "backends/opencl/interface.h"
#include "backends/opencl/runtime.h"
#include "backends/opencl/text.h"

namespace tern::opencl {
namespace {

void require_stream(const Stream* stream, const char* what) {
  if (stream == nullptr) throw Error(TERN_INVALID_ARGUMENT, cat(what, ": no stream"));
}

// Whether the memory came from host_alloc, so that it stays as it is until the stream has passed.
bool is_pinned(DeviceState& state, const void* pointer) {
  const std::lock_guard lock(state.mutex);
  const auto* at = static_cast<const std::byte*>(pointer);
  for (const auto& [begin, block] : state.host_blocks) {
    const auto* first = static_cast<const std::byte*>(begin);
    if (at >= first && at < first + block.second) return true;
  }
  return false;
}

// What a mark's own status says of the work before it.
tern_status status_of_mark(cl_event mark) {
  cl_int status = CL_COMPLETE;
  check(cl().GetEventInfo(mark, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr), "asking an event");
  if (status < 0) {
    return fail(TERN_ASYNC_ERROR,
                cat("work that was queued before the event failed (", error_name(status), ", ", status, ")"));
  }
  return status == CL_COMPLETE ? TERN_OK : TERN_NOT_READY;
}

OwnedEvent mark_of(Event& event) {
  const std::lock_guard lock(event.mutex);
  return share(event.mark.get());
}

// An event of the stream's own context that completes with one of another device's.
OwnedEvent bridge(const Stream& stream, OwnedEvent mark) {
  cl_int code = CL_SUCCESS;
  OwnedEvent here(cl().CreateUserEvent(stream.state->context.get(), &code));
  check(code, "waiting for another device");
  const auto complete = [](cl_event, cl_int status, void* data) {
    const OwnedEvent target(static_cast<cl_event>(data));
    (void)cl().SetUserEventStatus(target.get(), status < 0 ? status : CL_COMPLETE);
  };
  OwnedEvent for_callback = share(here.get());
  check(cl().SetEventCallback(mark.get(), CL_COMPLETE, complete, for_callback.get()), "waiting for another device");
  (void)for_callback.release();  // the callback's
  return here;
}

std::uint64_t end_of(cl_event mark) {
  cl_ulong time = 0;
  check(cl().GetEventProfilingInfo(mark, CL_PROFILING_COMMAND_END, sizeof time, &time, nullptr),
        "asking an event for its time");
  return time;
}

}  // namespace

tern_status copy_to_device(tern_plane dst, const void* src, uint64_t bytes, tern_stream stream) {
  return guarded([&]() -> tern_status {
    require_stream(stream, "copy_to_device");
    if (src == nullptr && bytes > 0) return fail(TERN_INVALID_ARGUMENT, "copy_to_device: no source");
    const Place to = find_place(dst, bytes, "copy_to_device");
    if (bytes == 0) return TERN_OK;
    const cl_bool wait = is_pinned(*stream->state, src) ? CL_FALSE : CL_TRUE;
    submit(*stream, TERN_PROFILE_COPY, "copy", bytes, [&](cl_event* event) {
      return cl().EnqueueWriteBuffer(stream->queue.get(), to.memory, wait, to.offset, bytes, src, 0, nullptr, event);
    });
    return TERN_OK;
  });
}

tern_status copy_to_host(void* dst, tern_plane src, uint64_t bytes, tern_stream stream) {
  return guarded([&]() -> tern_status {
    require_stream(stream, "copy_to_host");
    if (dst == nullptr && bytes > 0) return fail(TERN_INVALID_ARGUMENT, "copy_to_host: no destination");
    const Place from = find_place(src, bytes, "copy_to_host");
    if (bytes == 0) return TERN_OK;
    submit(*stream, TERN_PROFILE_COPY, "copy", bytes, [&](cl_event* event) {
      return cl().EnqueueReadBuffer(stream->queue.get(), from.memory, CL_FALSE, from.offset, bytes, dst, 0, nullptr,
                                    event);
    });
    return TERN_OK;
  });
}

tern_status copy_on_device(tern_plane dst, tern_plane src, uint64_t bytes, tern_stream stream) {
  return guarded([&]() -> tern_status {
    require_stream(stream, "copy_on_device");
    const Place to = find_place(dst, bytes, "copy_on_device: destination");
    const Place from = find_place(src, bytes, "copy_on_device: source");
    if (bytes == 0) return TERN_OK;
    submit(*stream, TERN_PROFILE_COPY, "copy", bytes, [&](cl_event* event) {
      return cl().EnqueueCopyBuffer(stream->queue.get(), from.memory, to.memory, from.offset, to.offset, bytes, 0,
                                    nullptr, event);
    });
    return TERN_OK;
  });
}

void fill_bytes(Stream& stream, const Place& to, std::uint8_t byte, std::uint64_t bytes) {
  if (bytes == 0) return;
  submit(stream, TERN_PROFILE_FILL, "fill", bytes, [&](cl_event* event) {
    return cl().EnqueueFillBuffer(stream.queue.get(), to.memory, &byte, 1, to.offset, bytes, 0, nullptr, event);
  });
}

tern_status fill(tern_plane dst, uint8_t byte, uint64_t bytes, tern_stream stream) {
  return guarded([&]() -> tern_status {
    require_stream(stream, "fill");
    fill_bytes(*stream, find_place(dst, bytes, "fill"), byte, bytes);
    return TERN_OK;
  });
}

tern_status stream_create(tern_device device, int32_t /*priority*/, tern_stream* stream) {
  return guarded([&]() -> tern_status {
    const DeviceState& state = require_present(device);
    if (stream == nullptr) return fail(TERN_INVALID_ARGUMENT, "stream_create: no place for the stream");
    auto made = std::make_unique<tern_stream_s>();
    made->state = device->state;
    made->queue = make_queue(state);
    *stream = made.release();
    return TERN_OK;
  });
}

tern_status stream_destroy(tern_stream stream) {
  const std::unique_ptr<tern_stream_s> owner(stream);
  if (owner) (void)cl().Finish(owner->queue.get());
  return TERN_OK;
}

tern_status stream_synchronize(tern_stream stream) {
  return guarded([&]() -> tern_status {
    require_stream(stream, "stream_synchronize");
    const cl_int code = stream->failed ? CL_SUCCESS : cl().Finish(stream->queue.get());
    stream->failed = stream->failed || code != CL_SUCCESS;
    stream->unflushed = 0;
    if (!stream->failed) return TERN_OK;
    return fail(TERN_ASYNC_ERROR,
                cat("work that was queued on the stream failed (", error_name(code), ", ", code, ")"));
  });
}

tern_status stream_wait_event(tern_stream stream, tern_event event) {
  return guarded([&]() -> tern_status {
    require_stream(stream, "stream_wait_event");
    if (event == nullptr) return fail(TERN_INVALID_ARGUMENT, "stream_wait_event: no event");
    OwnedEvent mark = mark_of(*event);
    if (!mark) return TERN_OK;
    if (event->state != stream->state) mark = bridge(*stream, std::move(mark));
    const cl_event waited = mark.get();
    check(cl().EnqueueBarrierWithWaitList(stream->queue.get(), 1, &waited, nullptr), "waiting for an event");
    return TERN_OK;
  });
}

tern_status event_create(tern_device device, int32_t timing, tern_event* event) {
  return guarded([&]() -> tern_status {
    (void)require_present(device);
    if (event == nullptr) return fail(TERN_INVALID_ARGUMENT, "event_create: no place for the event");
    auto made = std::make_unique<tern_event_s>();
    made->timing = timing != 0;
    *event = made.release();
    return TERN_OK;
  });
}

tern_status event_destroy(tern_event event) {
  const std::unique_ptr<tern_event_s> owner(event);
  return TERN_OK;
}

tern_status event_record(tern_event event, tern_stream stream) {
  return guarded([&]() -> tern_status {
    require_stream(stream, "event_record");
    if (event == nullptr) return fail(TERN_INVALID_ARGUMENT, "event_record: no event");
    cl_event mark = nullptr;
    check(cl().EnqueueMarkerWithWaitList(stream->queue.get(), 0, nullptr, &mark), "recording an event");
    check(cl().Flush(stream->queue.get()), "recording an event");  // others may wait for it, or keep asking
    stream->unflushed = 0;
    const std::lock_guard lock(event->mutex);
    event->mark.reset(mark);
    event->state = stream->state;
    return TERN_OK;
  });
}

tern_status event_query(tern_event event) {
  return guarded([&]() -> tern_status {
    if (event == nullptr) return fail(TERN_INVALID_ARGUMENT, "event_query: no event");
    const OwnedEvent mark = mark_of(*event);
    return mark ? status_of_mark(mark.get()) : TERN_OK;
  });
}

tern_status event_synchronize(tern_event event) {
  return guarded([&]() -> tern_status {
    if (event == nullptr) return fail(TERN_INVALID_ARGUMENT, "event_synchronize: no event");
    const OwnedEvent mark = mark_of(*event);
    if (!mark) return TERN_OK;
    const cl_event waited = mark.get();
    (void)cl().WaitForEvents(1, &waited);  // its failure is the mark's
    return status_of_mark(waited);
  });
}

tern_status event_elapsed(tern_event start, tern_event end, float* milliseconds) {
  return guarded([&]() -> tern_status {
    if (start == nullptr || end == nullptr || milliseconds == nullptr) {
      return fail(TERN_INVALID_ARGUMENT, "event_elapsed: a null argument");
    }
    if (!start->timing || !end->timing) return fail(TERN_INVALID_ARGUMENT, "event_elapsed: an event without timing");
    const OwnedEvent first = mark_of(*start);
    const OwnedEvent last = mark_of(*end);
    if (!first || !last) return fail(TERN_INVALID_ARGUMENT, "event_elapsed: an event that was never recorded");
    const auto nanoseconds = static_cast<std::int64_t>(end_of(last.get()) - end_of(first.get()));
    *milliseconds = static_cast<float>(static_cast<double>(nanoseconds) * 1e-6);
    return TERN_OK;
  });
}

}  // namespace tern::opencl
