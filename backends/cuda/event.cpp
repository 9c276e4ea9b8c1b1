// Events: marks in streams, and the order between two.
#include "backends/cuda/interface.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

constexpr std::int32_t kDlpackCuda = 2;

// Whether the event stands in a capture that hasn't ended; then nobody may wait for it outside.
bool in_capture(const Event& event) {
  const auto capture = event.capture.lock();
  return capture && !capture->ended;
}

// Whether there is anything to wait for: a mark that runs.
bool is_pending(const Event& event) { return (event.recorded && !event.captured) || event.adopted || event.lent; }

// The event, to ask or to wait for; null where nothing is to be waited for.
const Event* pending(tern_event event, const char* what) {
  if (event == nullptr) throw Error(TERN_INVALID_ARGUMENT, cat(what, ": no event"));
  if (in_capture(*event)) throw Error(TERN_INVALID_ARGUMENT, cat(what, ": the event is part of a capture"));
  if (!is_pending(*event)) return nullptr;
  event->state->use();
  return event;
}

}  // namespace

tern_status stream_wait_event(tern_stream stream, tern_event event) {
  return guarded([&]() -> tern_status {
    const Driver& api = use(stream, "stream_wait_event");
    if (event == nullptr) return fail(TERN_INVALID_ARGUMENT, "stream_wait_event: no event");
    if (in_capture(*event)) {
      const auto capture = event->capture.lock();
      if (stream->recording() != nullptr && stream->capture != capture) {
        return fail(TERN_INVALID_ARGUMENT, "stream_wait_event: the event belongs to another stream's capture");
      }
      check(api.StreamWaitEvent(stream->handle, event->handle, 0), "waiting for an event of a capture");
      stream->capture = capture;
      return TERN_OK;
    }
    if (!is_pending(*event)) return TERN_OK;
    if (stream->recording() != nullptr) {
      return fail(TERN_INVALID_ARGUMENT,
                  "stream_wait_event: the stream is being captured, and the event isn't part of it");
    }
    check_stream(*stream, api.StreamWaitEvent(stream->handle, event->handle, 0), "waiting for an event");
    return TERN_OK;
  });
}

tern_status event_create(tern_device device, int32_t timing, tern_event* event) {
  return guarded([&]() -> tern_status {
    (void)require_present(device);
    if (event == nullptr) return fail(TERN_INVALID_ARGUMENT, "event_create: no place for the event");
    auto made = std::make_unique<tern_event_s>();
    made->state = device->state;
    made->timing = timing != 0;
    made->handle = make_event(made->timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING).release();
    *event = made.release();
    return TERN_OK;
  });
}

tern_status event_destroy(tern_event event) {
  return guarded([&]() -> tern_status {
    const std::unique_ptr<tern_event_s> owner(event);
    if (!owner || owner->adopted) return TERN_OK;
    (void)driver().CtxSetCurrent(owner->state->context.get());
    (void)driver().EventDestroy(owner->handle);
    return TERN_OK;
  });
}

tern_status event_record(tern_event event, tern_stream stream) {
  return guarded([&]() -> tern_status {
    const Driver& api = use(stream, "event_record");
    if (event == nullptr) return fail(TERN_INVALID_ARGUMENT, "event_record: no event");
    if (event->state != stream->state) {
      return fail(TERN_INVALID_ARGUMENT, "event_record: the event is another device's");
    }
    check_stream(*stream, api.EventRecord(event->handle, stream->handle), "recording an event");
    event->recorded = true;
    event->captured = stream->recording() != nullptr;
    event->capture.reset();
    if (event->captured) event->capture = stream->capture;
    return TERN_OK;
  });
}

tern_status event_query(tern_event event) {
  return guarded([&]() -> tern_status {
    if (pending(event, "event_query") == nullptr) return TERN_OK;
    const CUresult code = driver().EventQuery(event->handle);
    if (code == CUDA_ERROR_NOT_READY) return TERN_NOT_READY;
    check(code, "asking an event");
    return TERN_OK;
  });
}

tern_status event_synchronize(tern_event event) {
  return guarded([&]() -> tern_status {
    if (pending(event, "event_synchronize") == nullptr) return TERN_OK;
    check(driver().EventSynchronize(event->handle), "waiting for an event");
    return TERN_OK;
  });
}

tern_status event_elapsed(tern_event start, tern_event end, float* milliseconds) {
  return guarded([&]() -> tern_status {
    if (start == nullptr || end == nullptr || milliseconds == nullptr) {
      return fail(TERN_INVALID_ARGUMENT, "event_elapsed: a null argument");
    }
    if (!start->timing || !end->timing) return fail(TERN_INVALID_ARGUMENT, "event_elapsed: an event without timing");
    if (pending(start, "event_elapsed") == nullptr || pending(end, "event_elapsed") == nullptr) {
      return fail(TERN_INVALID_ARGUMENT, "event_elapsed: an event that was never recorded");
    }
    check(driver().EventElapsedTime(milliseconds, start->handle, end->handle), "measuring between two events");
    return TERN_OK;
  });
}

tern_status event_native(tern_event event, tern_native* native) {
  return guarded([&]() -> tern_status {
    if (event == nullptr) return fail(TERN_INVALID_ARGUMENT, "event_native: no event");
    tern_native filled{};
    filled.device_type = kDlpackCuda;
    filled.device_id = event->state->id;
    filled.handle = reinterpret_cast<std::uintptr_t>(event->handle);
    require(give_info(native, filled));
    event->lent = true;
    return TERN_OK;
  });
}

tern_status event_adopt(tern_device device, const tern_native* native, tern_event* event) {
  return guarded([&]() -> tern_status {
    const DeviceState& state = require_present(device);
    tern_native own;
    require(tern_plugin_take_struct(&own, sizeof own, offsetof(tern_native, handle) + sizeof own.handle, native));
    if (own.device_type != kDlpackCuda || own.device_id != state.id || event == nullptr) {
      return fail(TERN_INVALID_ARGUMENT, cat("event_adopt: the event is none of CUDA's device ", state.id));
    }
    auto made = std::make_unique<tern_event_s>();
    made->state = device->state;
    made->handle = reinterpret_cast<CUevent>(own.handle);  // NOLINT(performance-no-int-to-ptr): a handle
    made->adopted = true;
    made->timing = true;  // the driver says so where it measured none
    *event = made.release();
    return TERN_OK;
  });
}

}  // namespace tern::cuda
