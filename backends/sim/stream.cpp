// Streams, events, captures.
#include <algorithm>
#include <utility>

#include "backends/sim/interface.h"
#include "backends/sim/world.h"
#include "base/strings.h"

namespace tern::sim {
namespace {

void require_not_recording(Stream& stream, const char* what) {
  if (stream.open_recording() != nullptr) {
    fail(TERN_INVALID_ARGUMENT, cat(what, ": the stream is being captured"));
  }
}

void require_outside(const Event& event, const char* what) {
  require(!event.gone, cat(what, ": the adopted event was destroyed by its maker"));
  const auto recording = event.recording.lock();
  if (recording && !recording->ended) fail(TERN_INVALID_ARGUMENT, cat(what, ": the event is part of a capture"));
}

void check_zones(const Device& device) {
  world().buffers.each([&](const Buffer& buffer) {
    if (buffer.device.get() == &device && !buffer.zones_intact()) {
      fail(TERN_ASYNC_ERROR, "memory before or after a buffer was written");
    }
  });
}

}  // namespace

tern_status stream_create(tern_device device, int32_t /*priority*/, tern_stream* stream) {
  return guarded([&](auto&) {
    require(stream != nullptr, "stream_create: no place for the stream");
    auto made = std::make_shared<Stream>();
    made->opened = world().present(device);
    made->device = made->opened->device;
    require_alive(*made->device);
    made->priority = world().random();
    world().queues.push_back(made);
    *stream = world().streams.add(made);
    made->own = *stream;
  });
}

tern_status stream_destroy(tern_stream stream) {
  return guarded([&](auto& lock) {
    if (stream == nullptr) return;
    const auto gone = world().streams.remove(stream);
    if (gone->own != stream) return;  // adopted: its maker's stays
    gone->gone = true;
    const bool was_sound = gone->status == TERN_OK;
    const auto forget = [&] {
      auto& queues = world().queues;
      queues.erase(std::remove(queues.begin(), queues.end(), gone), queues.end());
    };
    try {
      world().drive(lock, gone->device->config.timeout, [&] { return gone->queue.empty(); });
    } catch (const SimError&) {
      forget();
      throw;
    }
    forget();
    if (was_sound && gone->status != TERN_OK && !gone->device->lost && gone->device->hung.empty()) {
      log(TERN_LOG_WARN,
          cat(gone->device->name(), ": a stream went before its work, which then failed: ", gone->error));
    }
  });
}

tern_status stream_synchronize(tern_stream stream) {
  return guarded([&](auto& lock) {
    const auto s = world().streams.at(stream);
    require_not_recording(*s, "stream_synchronize");
    world().drive(lock, s->device->config.timeout, [&] { return s->queue.empty(); });
    require_alive(*s->device);
    if (s->status != TERN_OK) fail(s->status, s->error);
    check_zones(*s->device);
  });
}

tern_status stream_wait_event(tern_stream stream, tern_event event) {
  return guarded([&](auto&) {
    const auto s = world().streams.at(stream);
    const auto e = world().events.at(event);
    const auto recording = e->recording.lock();
    if (recording && !recording->ended) {
      if (s->open_recording() != nullptr && s->recording != recording) {
        fail(TERN_INVALID_ARGUMENT, "stream_wait_event: the event belongs to another stream's capture");
      }
      s->recording = recording;  // joins it
      Recording::Node node;
      node.work.what = "stream_wait_event";
      node.lane = recording->lane_of(*s);
      node.waits = e->node;
      recording->nodes.push_back(std::move(node));
      return;
    }
    require_not_recording(*s, "stream_wait_event: the event was recorded outside of the capture");
    if (!e->ticket) return;  // never recorded
    Work work;
    work.what = "stream_wait_event";
    work.ready = [ticket = e->ticket] { return ticket->done; };
    submit(*s, std::move(work));
  });
}

tern_status event_create(tern_device device, int32_t timing, tern_event* event) {
  return guarded([&](auto&) {
    require(event != nullptr, "event_create: no place for the event");
    auto made = std::make_shared<Event>();
    made->device = world().present(device)->device;
    made->timing = timing != 0;
    *event = world().events.add(made);
    made->own = *event;
  });
}

tern_status event_destroy(tern_event event) {
  return guarded([&](auto&) {
    if (event == nullptr) return;
    const auto removed = world().events.remove(event);
    if (removed->own == event) removed->gone = true;
  });
}

tern_status event_record(tern_event event, tern_stream stream) {
  return guarded([&](auto&) {
    const auto e = world().events.at(event);
    const auto s = world().streams.at(stream);
    if (s->open_recording() != nullptr) {
      e->recording = s->recording;
      e->node = s->recording->nodes.size();
      Recording::Node node;
      node.work.what = "event_record";
      node.lane = s->recording->lane_of(*s);
      node.is_event = true;
      s->recording->nodes.push_back(std::move(node));
      return;
    }
    Work work;
    work.what = "event_record";
    work.ticket = std::make_shared<Ticket>();
    auto ticket = work.ticket;
    submit(*s, std::move(work));
    e->recording.reset();
    e->ticket = std::move(ticket);
  });
}

tern_status event_query(tern_event event) {
  tern_status status = TERN_OK;
  const tern_status called = guarded([&](auto&) {
    const auto e = world().events.at(event);
    require_outside(*e, "event_query");
    if (!e->ticket) return;
    const auto timeout = e->device->config.timeout;
    // Asking again and again must end.
    if (!e->ticket->done && !world().step()) (void)world().expire_hanging(timeout, timeout);
    if (!e->ticket->done) {
      status = TERN_NOT_READY;
      return;
    }
    require_alive(*e->device);
    if (e->ticket->failed) fail(TERN_ASYNC_ERROR, "the work before the event failed");
  });
  return called == TERN_OK ? status : called;
}

tern_status event_synchronize(tern_event event) {
  return guarded([&](auto& lock) {
    const auto e = world().events.at(event);
    require_outside(*e, "event_synchronize");
    const auto ticket = e->ticket;
    if (!ticket) return;
    world().drive(lock, e->device->config.timeout, [&] { return ticket->done; });
    require_alive(*e->device);
    if (ticket->failed) fail(TERN_ASYNC_ERROR, "the work before the event failed");
  });
}

tern_status event_elapsed(tern_event start, tern_event end, float* milliseconds) {
  return guarded([&](auto&) {
    require(milliseconds != nullptr, "event_elapsed: no place for the time");
    const auto& from = *world().events.at(start);
    const auto& to = *world().events.at(end);
    require(from.timing && to.timing, "event_elapsed: an event without timing");
    require(from.ticket && from.ticket->done && to.ticket && to.ticket->done,
            "event_elapsed: an event that was never reached");
    *milliseconds = std::chrono::duration<float, std::milli>(to.ticket->time - from.ticket->time).count();
  });
}

tern_status capture_begin(tern_stream stream) {
  return guarded([&](auto&) {
    const auto s = world().streams.at(stream);
    if (!s->device->can(TERN_CAP_CAPTURE)) fail(TERN_UNSUPPORTED, cat(s->device->name(), " captures nothing"));
    require_alive(*s->device);
    require_not_recording(*s, "capture_begin");
    s->recording = std::make_shared<Recording>();
    (void)s->recording->lane_of(*s);
    s->origin = true;
  });
}

tern_status capture_end(tern_stream stream, tern_capture* capture) {
  return guarded([&](auto&) {
    require(capture != nullptr, "capture_end: no place for the graph");
    const auto s = world().streams.at(stream);
    require(s->open_recording() != nullptr && s->origin, "capture_end: capture_begin was not called on this stream");
    const auto recording = std::exchange(s->recording, nullptr);
    recording->ended = true;
    s->origin = false;
    if (!recording->spoiled.empty()) {
      fail(TERN_INVALID_ARGUMENT, cat("capture_end: a call in the capture failed: ", recording->spoiled));
    }
    if (recording->unjoined()) {
      fail(TERN_INVALID_ARGUMENT, "capture_end: the stream doesn't wait for another one that joined the capture");
    }
    for (std::size_t lane = 1; lane < recording->members.size(); ++lane) {
      auto made = std::make_shared<Stream>();
      made->opened = s->opened;
      made->device = s->device;
      made->own = s->own;
      made->priority = world().random();
      world().queues.push_back(made);
      recording->lanes.push_back(std::move(made));
    }
    *capture = world().captures.add(recording);
  });
}

tern_status capture_launch(tern_capture capture, tern_stream stream) {
  return guarded([&](auto&) {
    const auto recording = world().captures.at(capture);
    const auto s = world().streams.at(stream);
    if (s->open_recording() != nullptr) fail(TERN_UNSUPPORTED, "capture_launch: captures do not nest");
    const auto stream_of = [&](const Recording::Node& node) {
      return node.lane == 0 ? s : recording->lanes[node.lane - 1];
    };
    std::vector<std::shared_ptr<Ticket>> tickets(recording->nodes.size());
    for (std::size_t n = 0; n < tickets.size(); ++n) {
      const Recording::Node& node = recording->nodes[n];
      Work work = node.work;
      work.args.captured = true;
      if (node.is_event) work.ticket = tickets[n] = std::make_shared<Ticket>();
      if (node.waits) {
        const auto& ticket = tickets[*node.waits];
        work.ready = [ticket] { return ticket->done; };
        work.run = [ticket, from = stream_of(recording->nodes[*node.waits])](const HostArgs&) {
          if (ticket->failed) fail(TERN_ASYNC_ERROR, from->error);  // a launch fails as a whole
        };
      }
      submit(*stream_of(node), std::move(work));
    }
  });
}

// A launch of the graph takes its numbers along when it's queued: those queued before an update keep theirs.
tern_status capture_update(tern_capture capture, tern_stream stream, const tern_node_update* updates, uint32_t count) {
  return guarded([&](auto&) {
    require(updates != nullptr || count == 0, "capture_update: no updates");
    Opened& opened = *world().streams.at(stream)->opened;
    if (opened.struck(Fault::Kind::update, ++opened.counted.updates)) {
      fail(TERN_UNSUPPORTED, "capture_update: these launches are to be captured again");
    }
    auto& nodes = world().captures.at(capture)->nodes;
    std::vector<HostArgs> checked;  // all before any is changed
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint64_t node = updates[i].node;
      if (node >= nodes.size() || !nodes[node].work.check_args) {
        fail(TERN_INVALID_ARGUMENT, cat("capture_update: node ", node, " is no launch"));
      }
      checked.push_back(nodes[node].work.check_args(updates[i].host_args));
    }
    for (std::uint32_t i = 0; i < count; ++i) nodes[updates[i].node].work.args = std::move(checked[i]);
  });
}

tern_status capture_destroy(tern_capture capture) {
  return guarded([&](auto&) {
    if (capture == nullptr) return;
    const auto gone = world().captures.remove(capture);
    for (const auto& lane : gone->lanes) std::erase(world().queues, lane);
  });
}

}  // namespace tern::sim
