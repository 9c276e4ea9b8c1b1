// Events: marks in streams, and the order between two.
#include "backends/npu/interface.h"
#include "backends/npu/runtime.h"

namespace tern::npu {
namespace {

constexpr std::int32_t kExtensionDevice = 12;  // DLPack's kDLExtDev

// Whether the event stands in a capture that hasn't ended; then nobody may wait for it outside.
bool in_capture(const Event& event) {
  const auto capture = event.capture.lock();
  return capture && !capture->ended;
}

// Whether there is anything to wait for: a mark that runs.
bool is_pending(const Event& event) { return (event.recorded && !event.captured) || event.adopted || event.lent; }

}  // namespace

tern_status stream_wait_event(tern_stream stream, tern_event event) {
  return guarded([&]() -> tern_status {
    if (event == nullptr) return fail(TERN_INVALID_ARGUMENT, "stream_wait_event: no event");
    const Acl& api = use(stream, "stream_wait_event");
    if (in_capture(*event)) {
      const auto capture = event->capture.lock();
      if (stream->recording() != nullptr && stream->capture != capture) {
        return fail(TERN_INVALID_ARGUMENT, "stream_wait_event: the event belongs to another stream's capture");
      }
      check(api.aclrtStreamWaitEvent(stream->handle, event->handle), "aclrtStreamWaitEvent");
      stream->capture = capture;
      return TERN_OK;
    }
    if (!is_pending(*event)) return TERN_OK;
    if (stream->recording() != nullptr) {
      return fail(TERN_INVALID_ARGUMENT,
                  "stream_wait_event: the stream is being captured, and the event isn't part of it");
    }
    if (event->shared != stream->shared) {  // no call orders two devices; the host waits
      event->shared->use();
      check(api.aclrtSynchronizeEvent(event->handle), "aclrtSynchronizeEvent");
      return TERN_OK;
    }
    check_stream(*stream, api.aclrtStreamWaitEvent(stream->handle, event->handle), "aclrtStreamWaitEvent");
    return TERN_OK;
  });
}

tern_status event_create(tern_device device, int32_t timing, tern_event* event) {
  return guarded([&]() -> tern_status {
    if (event == nullptr) return fail(TERN_INVALID_ARGUMENT, "event_create: no place for the event");
    (void)present(device);
    const Acl& api = acl();
    auto made = std::make_unique<tern_event_s>();
    made->shared = device->shared;
    made->timing = timing != 0;
    const std::uint32_t flags = made->timing ? ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE : ACL_EVENT_SYNC;
    // Events of the newer call are recorded again and again without a reset, and join captures.
    const int code = api.aclrtCreateEventExWithFlag != nullptr ? api.aclrtCreateEventExWithFlag(&made->handle, flags)
                                                               : api.aclrtCreateEventWithFlag(&made->handle, flags);
    check(code, "making an event");
    *event = made.release();
    return TERN_OK;
  });
}

tern_status event_destroy(tern_event event) {
  return guarded([&]() -> tern_status {
    const std::unique_ptr<tern_event_s> owner(event);
    if (event == nullptr || event->adopted) return TERN_OK;
    event->shared->use();
    check(acl().aclrtDestroyEvent(event->handle), "aclrtDestroyEvent");
    return TERN_OK;
  });
}

tern_status event_record(tern_event event, tern_stream stream) {
  return guarded([&]() -> tern_status {
    if (event == nullptr) return fail(TERN_INVALID_ARGUMENT, "event_record: no event");
    const Acl& api = use(stream, "event_record");
    if (event->shared != stream->shared)
      return fail(TERN_INVALID_ARGUMENT, "event_record: the event is another device's");
    check_stream(*stream, api.aclrtRecordEvent(event->handle, stream->handle), "aclrtRecordEvent");
    event->recorded = true;
    event->captured = stream->recording() != nullptr;
    event->capture.reset();
    if (event->captured) event->capture = stream->capture;
    return TERN_OK;
  });
}

tern_status event_query(tern_event event) {
  return guarded([&]() -> tern_status {
    if (event == nullptr) return fail(TERN_INVALID_ARGUMENT, "event_query: no event");
    if (in_capture(*event)) return fail(TERN_INVALID_ARGUMENT, "event_query: the event is part of a capture");
    if (!is_pending(*event)) return TERN_OK;
    event->shared->use();
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    check(acl().aclrtQueryEventStatus(event->handle, &status), "aclrtQueryEventStatus");
    return status == ACL_EVENT_RECORDED_STATUS_COMPLETE ? TERN_OK : TERN_NOT_READY;
  });
}

tern_status event_synchronize(tern_event event) {
  return guarded([&]() -> tern_status {
    if (event == nullptr) return fail(TERN_INVALID_ARGUMENT, "event_synchronize: no event");
    if (in_capture(*event)) return fail(TERN_INVALID_ARGUMENT, "event_synchronize: the event is part of a capture");
    if (!is_pending(*event)) return TERN_OK;
    event->shared->use();
    check(acl().aclrtSynchronizeEvent(event->handle), "aclrtSynchronizeEvent");
    return TERN_OK;
  });
}

tern_status event_elapsed(tern_event start, tern_event end, float* milliseconds) {
  return guarded([&]() -> tern_status {
    if (start == nullptr || end == nullptr || milliseconds == nullptr) {
      return fail(TERN_INVALID_ARGUMENT, "event_elapsed: a null argument");
    }
    if (!start->timing || !end->timing) return fail(TERN_INVALID_ARGUMENT, "event_elapsed: an event without timing");
    if (!(start->recorded || start->lent) || !(end->recorded || end->lent)) {
      return fail(TERN_INVALID_ARGUMENT, "event_elapsed: an event that was never recorded");
    }
    start->shared->use();
    check(acl().aclrtEventElapsedTime(milliseconds, start->handle, end->handle), "aclrtEventElapsedTime");
    return TERN_OK;
  });
}

tern_status event_native(tern_event event, tern_native* native) {
  return guarded([&]() -> tern_status {
    if (event == nullptr) return fail(TERN_INVALID_ARGUMENT, "event_native: no event");
    tern_native filled{};
    filled.device_type = kExtensionDevice;
    filled.device_id = event->shared->ordinal;
    filled.handle = reinterpret_cast<std::uintptr_t>(event->handle);
    event->lent = true;
    return give_info(native, filled);
  });
}

tern_status event_adopt(tern_device device, const tern_native* native, tern_event* event) {
  return guarded([&]() -> tern_status {
    const Shared& shared = present(device);
    tern_native own;
    require(tern_plugin_take_struct(&own, sizeof own, offsetof(tern_native, handle) + sizeof own.handle, native));
    if (own.device_type != kExtensionDevice || own.device_id != shared.ordinal || event == nullptr) {
      return fail(TERN_INVALID_ARGUMENT, "event_adopt: the event is none of npu:" + std::to_string(shared.ordinal));
    }
    auto made = std::make_unique<tern_event_s>();
    made->shared = device->shared;
    made->handle = reinterpret_cast<aclrtEvent>(own.handle);
    made->adopted = true;
    *event = made.release();
    return TERN_OK;
  });
}

}  // namespace tern::npu
