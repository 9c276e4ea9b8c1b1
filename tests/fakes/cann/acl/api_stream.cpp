// libascendcl's functions about streams, events and the host's callbacks.
#include <pthread.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <future>
#include <map>
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

constexpr std::size_t kMostStreams = 1984;  // rt's docs: what A2 has

// A stream that may be waited for or asked.
fake::Stream& settled(aclrtStream handle) {
  fake::Stream& stream = fake::stream_of(handle);
  const std::lock_guard lock(process().mutex);
  if (stream.capture != nullptr) {
    stream.capture->invalid = true;
    refuse(ACL_ERROR_RT_STREAM_CAPTURED, "The stream is captured.");
  }
  return stream;
}

std::shared_ptr<fake::Event> settled_event(aclrtEvent handle) {
  std::shared_ptr<fake::Event> event = fake::event_of(handle);
  const std::lock_guard lock(process().mutex);
  if (event->capture != nullptr) {
    event->capture->invalid = true;
    refuse(ACL_ERROR_RT_EVENT_CAPTURED, "The event is captured.");
  }
  return event;
}

void say_failure(const fake::Stream& stream) {
  if (stream.device.error != 0) refuse(stream.device.error, fake::take_device_failure());
}

void make_stream(aclrtStream* handle, std::uint32_t priority) {
  need(handle, "stream");
  if (priority > 7) refuse(ACL_ERROR_RT_PARAM_INVALID, "The priority must be in [0, 7].");
  fake::Device& device = fake::current_device();
  const std::lock_guard lock(process().mutex);
  if (process().streams.size() >= kMostStreams) refuse(ACL_ERROR_RT_NO_STREAM_RESOURCE, "There are no streams left.");
  auto stream = std::make_unique<fake::Stream>(device, ++process().streams_made);
  *handle = stream.get();
  process().streams[*handle] = std::move(stream);
}

void make_event(aclrtEvent* handle, std::uint32_t flags, bool reusable) {
  need(handle, "event");
  constexpr std::uint32_t known =
      ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE | ACL_EVENT_EXTERNAL;
  if (flags == 0 || (flags & ~known) != 0) refuse(ACL_ERROR_RT_PARAM_INVALID, "The flags are none.");
  (void)fake::current_device();
  auto event = std::make_shared<fake::Event>();
  event->flags = flags;
  event->reusable = reusable;
  const std::lock_guard lock(process().mutex);
  *handle = event.get();
  process().events[*handle] = std::move(event);
}

bool reached(const fake::Event& event, std::uint64_t number) { return event.done >= number; }

struct Reports {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint64_t, std::deque<std::function<void()>>> waiting;  // by pthread_self
};

Reports& reports() {
  static auto* const one = new Reports;
  return *one;
}

}  // namespace

extern "C" {

aclError aclrtCreateStream(aclrtStream* stream) {
  return guarded("aclrtCreateStream", [&] { make_stream(stream, 0); });
}

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, std::uint32_t priority, std::uint32_t flag) {
  return guarded("aclrtCreateStreamWithConfig", [&] {
    if (flag > (ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC))
      refuse(ACL_ERROR_RT_PARAM_INVALID, "The flags are none.");
    make_stream(stream, priority);
  });
}

aclError aclrtDestroyStream(aclrtStream handle) {
  return guarded("aclrtDestroyStream", [&] {
    need(handle, "stream");
    fake::Stream& stream = settled(handle);
    std::unique_ptr<fake::Stream> last;
    {
      const std::lock_guard lock(process().mutex);
      last = std::move(process().streams[&stream]);
      process().streams.erase(&stream);
    }
  });
}

aclError aclrtSynchronizeStream(aclrtStream handle) {
  return guarded("aclrtSynchronizeStream", [&] {
    fake::Stream& stream = settled(handle);
    stream.wait();
    say_failure(stream);
  });
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream handle, std::int32_t timeout) {
  return guarded("aclrtSynchronizeStreamWithTimeout", [&] {
    if (timeout < -1) refuse(ACL_ERROR_RT_PARAM_INVALID, "The timeout must be -1 or more.");
    fake::Stream& stream = settled(handle);
    if (timeout == -1) {
      stream.wait();
    } else if (!stream.wait(std::chrono::milliseconds(timeout))) {
      refuse(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "The stream wasn't done after " + std::to_string(timeout) + " ms.");
    }
    say_failure(stream);
  });
}

aclError aclrtStreamQuery(aclrtStream handle, aclrtStreamStatus* status) {
  return guarded("aclrtStreamQuery", [&] {
    need(status, "status");
    fake::Stream& stream = settled(handle);
    *status = stream.idle() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    if (*status == ACL_STREAM_STATUS_COMPLETE) say_failure(stream);
  });
}

aclError aclrtStreamWaitEvent(aclrtStream handle, aclrtEvent event_handle) {
  return guarded("aclrtStreamWaitEvent", [&] {
    const std::shared_ptr<fake::Event> event = fake::event_of(event_handle);
    fake::Stream& stream = fake::stream_of(handle);
    {
      const std::lock_guard lock(process().mutex);
      if (wait_in_capture(stream, *event)) return;
    }
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(process().events_mutex);
      // Who waits for an event that isn't recorded waits until it is.
      number = std::max(event->recorded, event->reset + 1);
    }
    fake::launch(stream, {fake::TaskKind::kWait, "aclrtStreamWaitEvent", [event, number] {
                            std::unique_lock lock(process().events_mutex);
                            process().events_changed.wait(lock, [&] { return reached(*event, number); });
                            return 0;
                          }});
  });
}

aclError aclrtCreateEvent(aclrtEvent* event) {
  return guarded("aclrtCreateEvent", [&] { make_event(event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE, false); });
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, std::uint32_t flag) {
  return guarded("aclrtCreateEventWithFlag", [&] { make_event(event, flag, false); });
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, std::uint32_t flag) {
  return guarded("aclrtCreateEventExWithFlag", [&] { make_event(event, flag, true); });
}

aclError aclrtDestroyEvent(aclrtEvent handle) {
  return guarded("aclrtDestroyEvent", [&] {
    (void)fake::event_of(handle);
    const std::lock_guard lock(process().mutex);
    process().events.erase(handle);  // streams that come to it still do
  });
}

aclError aclrtRecordEvent(aclrtEvent handle, aclrtStream stream_handle) {
  return guarded("aclrtRecordEvent", [&] {
    const std::shared_ptr<fake::Event> event = fake::event_of(handle);
    fake::Stream& stream = fake::stream_of(stream_handle);
    {
      const std::lock_guard lock(process().mutex);
      if (stream.capture != nullptr) return record_in_capture(stream, *event);
      event->capture = nullptr;
    }
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(process().events_mutex);
      number = ++event->recorded;
    }
    fake::launch(stream, {fake::TaskKind::kRecord, "aclrtRecordEvent", [event, number] {
                            const std::lock_guard lock(process().events_mutex);
                            event->done = std::max(event->done, number);
                            event->time = std::chrono::steady_clock::now();
                            process().events_changed.notify_all();
                            return 0;
                          }});
  });
}

aclError aclrtResetEvent(aclrtEvent handle, aclrtStream stream_handle) {
  return guarded("aclrtResetEvent", [&] {
    const std::shared_ptr<fake::Event> event = settled_event(handle);
    fake::launch(fake::stream_of(stream_handle), {fake::TaskKind::kReset, "aclrtResetEvent", [] { return 0; }});
    const std::lock_guard lock(process().events_mutex);
    event->reset = event->recorded;
  });
}

aclError aclrtQueryEventStatus(aclrtEvent handle, aclrtEventRecordedStatus* status) {
  return guarded("aclrtQueryEventStatus", [&] {
    need(status, "status");
    const std::shared_ptr<fake::Event> event = settled_event(handle);
    const std::lock_guard lock(process().events_mutex);
    const bool complete = event->recorded > event->reset && event->done >= event->recorded;
    *status = complete ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  });
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent handle, std::int32_t timeout) {
  return guarded("aclrtSynchronizeEventWithTimeout", [&] {
    if (timeout < -1) refuse(ACL_ERROR_RT_PARAM_INVALID, "The timeout must be -1 or more.");
    const std::shared_ptr<fake::Event> event = settled_event(handle);
    std::unique_lock lock(process().events_mutex);
    if (event->recorded == event->reset) refuse(ACL_ERROR_RT_PARAM_INVALID, "The event isn't recorded.");
    const std::uint64_t number = event->recorded;
    if (timeout == -1) {
      process().events_changed.wait(lock, [&] { return reached(*event, number); });
    } else if (!process().events_changed.wait_for(lock, std::chrono::milliseconds(timeout),
                                                  [&] { return reached(*event, number); })) {
      refuse(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "The event wasn't reached after " + std::to_string(timeout) + " ms.");
    }
    lock.unlock();
    if (const int code = fake::current_device().error) refuse(code, fake::take_device_failure());
  });
}

aclError aclrtSynchronizeEvent(aclrtEvent handle) { return aclrtSynchronizeEventWithTimeout(handle, -1); }

aclError aclrtEventElapsedTime(float* milliseconds, aclrtEvent start_handle, aclrtEvent end_handle) {
  return guarded("aclrtEventElapsedTime", [&] {
    need(milliseconds, "ms");
    const std::shared_ptr<fake::Event> start = settled_event(start_handle);
    const std::shared_ptr<fake::Event> end = settled_event(end_handle);
    const std::lock_guard lock(process().events_mutex);
    // rt: times are kept by events with TIME_LINE alone, once they are reached.
    for (const fake::Event* event : {start.get(), end.get()}) {
      if ((event->flags & ACL_EVENT_TIME_LINE) == 0 || event->done == 0 || event->done < event->recorded) {
        refuse(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "The event has no time: it isn't reached, or keeps none.");
      }
    }
    if (end->time < start->time) refuse(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "The end is before the start.");
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  });
}

aclError aclrtSubscribeReport(std::uint64_t thread, aclrtStream handle) {
  return guarded("aclrtSubscribeReport", [&] {
    fake::Stream& stream = fake::stream_of(handle);
    if (stream.callback_thread != 0) refuse(ACL_ERROR_RT_STREAM_SUBSCRIBE, "The stream has a thread already.");
    stream.callback_thread = thread;
  });
}

aclError aclrtUnSubscribeReport(std::uint64_t thread, aclrtStream handle) {
  return guarded("aclrtUnSubscribeReport", [&] {
    fake::Stream& stream = fake::stream_of(handle);
    if (stream.callback_thread != thread) refuse(ACL_ERROR_RT_THREAD_SUBSCRIBE, "The thread isn't the stream's.");
    stream.callback_thread = 0;
  });
}

aclError aclrtLaunchCallback(aclrtCallback function, void* data, aclrtCallbackBlockType, aclrtStream handle) {
  return guarded("aclrtLaunchCallback", [&] {
    if (function == nullptr) refuse(ACL_ERROR_INVALID_PARAM, "[Check][fn]param must not be null.");
    fake::Stream& stream = fake::stream_of(handle);
    if (stream.callback_thread == 0)
      refuse(ACL_ERROR_RT_STREAM_NO_CB_REG, "The stream has no thread (aclrtSubscribeReport).");
    fake::launch(stream, {fake::TaskKind::kCallback, "aclrtLaunchCallback", [=, thread = stream.callback_thread] {
                            auto done = std::make_shared<std::promise<void>>();
                            std::future<void> future = done->get_future();
                            {
                              const std::lock_guard lock(reports().mutex);
                              reports().waiting[thread].push_back([=] {
                                function(data);
                                done->set_value();
                              });
                            }
                            reports().changed.notify_all();
                            future.wait();
                            return 0;
                          }});
  });
}

aclError aclrtProcessReport(std::int32_t timeout) {
  return guarded("aclrtProcessReport", [&] {
    std::unique_lock lock(reports().mutex);
    auto& waiting = reports().waiting[static_cast<std::uint64_t>(pthread_self())];
    const auto some = [&] { return !waiting.empty(); };
    if (timeout < 0) {
      reports().changed.wait(lock, some);
    } else if (!reports().changed.wait_for(lock, std::chrono::milliseconds(timeout), some)) {
      refuse(ACL_ERROR_RT_REPORT_TIMEOUT, "No callback came in " + std::to_string(timeout) + " ms.");
    }
    const std::function<void()> call = std::move(waiting.front());
    waiting.pop_front();
    lock.unlock();
    call();
  });
}
}
