// Streams, events, copies and captures. Work runs on the calling thread before the call returns, so an event is
// complete once it is recorded; only a capture defers anything.
#include <cstring>

#include "backends/cpu/interface.h"
#include "backends/cpu/runtime.h"
#include "base/dtype.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

tern_status give(tern_stream stream, Capture::Node node) {
  submit(*stream, std::move(node));
  return TERN_OK;
}

// Bytes that plane 0 of a tensor must have.
std::uint64_t needed_bytes(const tern_tensor_desc& desc, Target target, const std::string& what) {
  std::uint64_t bytes = 0;
  if (desc.layout != 0) {
    bytes = packed_bytes(desc, target);
    if (bytes == 0)
      throw Failure(data_error(what, "a private layout of this device", cat("layout ", desc.layout), kCallAsSpecified));
    return bytes;
  }
  const auto block = packing_block(desc.scheme.packing);
  if (desc.scheme.packing != TERN_PACK_NONE && block.elements > 0) {
    std::uint64_t elements = 1;
    for (int d = 0; d < desc.rank; ++d) elements *= static_cast<std::uint64_t>(desc.shape[d]);
    const auto inner = desc.rank > 0 ? desc.shape[desc.rank - 1] : 0;
    if (inner % block.elements != 0) {
      throw Failure(
          data_error(what, cat("a last dimension of whole blocks of ", block.elements), cat(inner), kCallAsSpecified));
    }
    return elements / static_cast<std::uint64_t>(block.elements) * static_cast<std::uint64_t>(block.bytes);
  }
  if (tern_plugin_extent(&desc, &bytes) == 0)
    throw Failure(data_error(what, "a size that fits 64 bits", "more", kCallAsSpecified));
  return bytes;
}

}  // namespace

std::byte* plane_data(const tern_plane& plane, std::uint64_t bytes, const char* what) {
  if (plane.buffer == nullptr) {
    if (bytes == 0) return nullptr;
    throw Failure(data_error(what, "a buffer", "none", kCallAsSpecified));
  }
  const Buffer& buffer = *plane.buffer;
  if (buffer.evicted) throw Failure(data_error(what, "a buffer with memory", "an evicted one", kCallAsSpecified));
  if (plane.offset > buffer.bytes || bytes > buffer.bytes - plane.offset) {
    throw Failure(data_error(what, cat("a range inside its buffer of ", buffer.bytes, " bytes"),
                             cat(bytes, " bytes at ", plane.offset), kCallAsSpecified));
  }
  return buffer.data + plane.offset;
}

TensorView view_tensor(const tern_tensor& tensor, Target target, const std::string& what) {
  TensorView view;
  view.desc = tensor.desc;
  if (!view.present()) return view;
  view.planes[0] = plane_data(tensor.planes[0], needed_bytes(tensor.desc, target, what), what.c_str());
  for (int p = 1; p < TERN_MAX_PLANES; ++p) {
    if (tensor.planes[p].buffer != nullptr) view.planes[p] = plane_data(tensor.planes[p], 0, what.c_str());
  }
  return view;
}

void run_node(const Capture::Node& node) {
  std::visit(Overloaded{
                 [](const Capture::Launch& n) { run_bound(*n.bound, n.host_args); },
                 [](const Capture::Copy& n) {
                   if (n.bytes > 0) std::memmove(n.dst, n.src, n.bytes);
                 },
                 [](const Capture::Fill& n) {
                   if (n.bytes > 0) std::memset(n.dst, n.byte, n.bytes);
                 },
                 [](const Capture::Record& n) {
                   n.event->time = std::chrono::steady_clock::now();
                   n.event->recorded = true;
                 },
                 [](const Capture::Pack& n) {
                   if (n.back) {
                     unpack(n.weight, n.packed, n.uses, n.device->target, *n.device->pool);
                   } else {
                     pack(n.packed, n.weight, n.uses, n.device->target, *n.device->pool);
                   }
                 },
             },
             node);
}

void submit(Stream& stream, Capture::Node node, std::uint64_t* node_id) {
  if (Capture* capture = stream.recording()) {
    if (node_id != nullptr) *node_id = capture->nodes.size();
    capture->nodes.push_back(std::move(node));
    return;
  }
  run_recorded(stream, node);
}

tern_status copy_to_device(tern_plane dst, const void* src, uint64_t bytes, tern_stream stream) {
  return guarded([&]() -> tern_status {
    if (stream == nullptr || (src == nullptr && bytes > 0))
      return fail(TERN_INVALID_ARGUMENT, "copy_to_device: a null argument");
    return give(stream, Capture::Copy{plane_data(dst, bytes, "copy_to_device"), src, bytes});
  });
}

tern_status copy_to_host(void* dst, tern_plane src, uint64_t bytes, tern_stream stream) {
  return guarded([&]() -> tern_status {
    if (stream == nullptr || (dst == nullptr && bytes > 0))
      return fail(TERN_INVALID_ARGUMENT, "copy_to_host: a null argument");
    return give(stream, Capture::Copy{dst, plane_data(src, bytes, "copy_to_host"), bytes});
  });
}

tern_status copy_on_device(tern_plane dst, tern_plane src, uint64_t bytes, tern_stream stream) {
  return guarded([&]() -> tern_status {
    if (stream == nullptr) return fail(TERN_INVALID_ARGUMENT, "copy_on_device: no stream");
    auto* to = plane_data(dst, bytes, "copy_on_device: destination");
    return give(stream, Capture::Copy{to, plane_data(src, bytes, "copy_on_device: source"), bytes});
  });
}

tern_status fill(tern_plane dst, uint8_t byte, uint64_t bytes, tern_stream stream) {
  return guarded([&]() -> tern_status {
    if (stream == nullptr) return fail(TERN_INVALID_ARGUMENT, "fill: no stream");
    return give(stream, Capture::Fill{plane_data(dst, bytes, "fill"), byte, bytes});
  });
}

tern_status stream_create(tern_device device, int32_t /*priority*/, tern_stream* stream) {
  return guarded([&]() -> tern_status {
    if (device == nullptr || stream == nullptr) return fail(TERN_INVALID_ARGUMENT, "stream_create: a null argument");
    require_present(device);
    auto made = std::make_unique<tern_stream_s>();
    made->device = device;
    *stream = made.release();
    return TERN_OK;
  });
}

tern_status stream_destroy(tern_stream stream) {
  const std::unique_ptr<tern_stream_s> owner(stream);
  return TERN_OK;
}

tern_status stream_synchronize(tern_stream stream) {
  if (stream == nullptr) return fail(TERN_INVALID_ARGUMENT, "stream_synchronize: no stream");
  if (stream->recording() != nullptr)
    return fail(TERN_INVALID_ARGUMENT, "stream_synchronize: the stream is being captured");
  return TERN_OK;
}

tern_status stream_wait_event(tern_stream stream, tern_event event) {
  if (stream == nullptr || event == nullptr) return fail(TERN_INVALID_ARGUMENT, "stream_wait_event: a null argument");
  const auto capture = event->capture.lock();
  if (!capture || capture->ended) return TERN_OK;  // recorded, so complete; or never recorded: nothing to wait for
  if (stream->recording() != nullptr && stream->capture != capture) {
    return fail(TERN_INVALID_ARGUMENT, "stream_wait_event: the event belongs to another stream's capture");
  }
  stream->capture = capture;
  return TERN_OK;
}

tern_status event_create(tern_device device, int32_t timing, tern_event* event) {
  return guarded([&]() -> tern_status {
    if (device == nullptr || event == nullptr) return fail(TERN_INVALID_ARGUMENT, "event_create: a null argument");
    require_present(device);
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
    if (event == nullptr || stream == nullptr) return fail(TERN_INVALID_ARGUMENT, "event_record: a null argument");
    event->capture.reset();
    if (stream->recording() != nullptr) event->capture = stream->capture;
    return give(stream, Capture::Record{event->state});
  });
}

tern_status event_query(tern_event event) {
  if (event == nullptr) return fail(TERN_INVALID_ARGUMENT, "event_query: no event");
  const auto capture = event->capture.lock();
  if (capture && !capture->ended) return fail(TERN_INVALID_ARGUMENT, "event_query: the event is part of a capture");
  return TERN_OK;
}

tern_status event_synchronize(tern_event event) { return event_query(event); }

tern_status event_elapsed(tern_event start, tern_event end, float* milliseconds) {
  if (start == nullptr || end == nullptr || milliseconds == nullptr) {
    return fail(TERN_INVALID_ARGUMENT, "event_elapsed: a null argument");
  }
  if (!start->timing || !end->timing) return fail(TERN_INVALID_ARGUMENT, "event_elapsed: an event without timing");
  if (!start->state->recorded || !end->state->recorded) {
    return fail(TERN_INVALID_ARGUMENT, "event_elapsed: an event that was never recorded");
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->state->time - start->state->time).count();
  return TERN_OK;
}

tern_status capture_begin(tern_stream stream) {
  return guarded([&]() -> tern_status {
    if (stream == nullptr) return fail(TERN_INVALID_ARGUMENT, "capture_begin: no stream");
    if (stream->recording() != nullptr)
      return fail(TERN_INVALID_ARGUMENT, "capture_begin: the stream is being captured");
    stream->capture = std::make_shared<Capture>();
    stream->origin = true;
    return TERN_OK;
  });
}

tern_status capture_end(tern_stream stream, tern_capture* capture) {
  return guarded([&]() -> tern_status {
    if (stream == nullptr || capture == nullptr) return fail(TERN_INVALID_ARGUMENT, "capture_end: a null argument");
    if (stream->recording() == nullptr || !stream->origin) {
      return fail(TERN_INVALID_ARGUMENT, "capture_end: capture_begin was not called on this stream");
    }
    auto made = std::make_unique<tern_capture_s>();
    made->capture = std::move(stream->capture);
    made->capture->ended = true;
    stream->capture.reset();
    stream->origin = false;
    *capture = made.release();
    return TERN_OK;
  });
}

tern_status capture_launch(tern_capture capture, tern_stream stream) {
  return guarded([&]() -> tern_status {
    if (capture == nullptr || stream == nullptr) return fail(TERN_INVALID_ARGUMENT, "capture_launch: a null argument");
    if (stream->recording() != nullptr) return fail(TERN_UNSUPPORTED, "capture_launch: captures do not nest");
    const std::lock_guard lock(capture->capture->mutex);
    for (const auto& node : capture->capture->nodes) run_recorded(*stream, node);
    return TERN_OK;
  });
}

tern_status capture_update(tern_capture capture, tern_stream stream, const tern_node_update* updates, uint32_t count) {
  return guarded([&]() -> tern_status {
    if (capture == nullptr || stream == nullptr || (updates == nullptr && count > 0)) {
      return fail(TERN_INVALID_ARGUMENT, "capture_update: a null argument");
    }
    const std::lock_guard lock(capture->capture->mutex);
    auto& nodes = capture->capture->nodes;
    const auto launch_at = [&](std::uint64_t node) {
      return node < nodes.size() ? std::get_if<Capture::Launch>(&nodes[node]) : nullptr;
    };
    for (std::uint32_t i = 0; i < count; ++i) {  // all before any is changed
      const auto* launch = launch_at(updates[i].node);
      if (launch == nullptr) {
        return fail(TERN_INVALID_ARGUMENT, cat("capture_update: node ", updates[i].node, " is no launch"));
      }
      if (updates[i].host_args != nullptr) {
        require(tern_plugin_check_host_args(&*launch->bound->plan->desc, updates[i].host_args));
      }
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      auto* launch = launch_at(updates[i].node);
      if (updates[i].host_args == nullptr) {
        launch->host_args = HostArgs();
      } else {
        launch->host_args.replace(*launch->bound->plan->desc, updates[i].host_args);
      }
    }
    return TERN_OK;
  });
}

tern_status capture_destroy(tern_capture capture) {
  const std::unique_ptr<tern_capture_s> owner(capture);
  return TERN_OK;
}

tern_status weight_packed_info(tern_device device, const tern_tensor_desc* weight, uint32_t uses,
                               tern_packed_info* info) {
  return guarded([&]() -> tern_status {
    if (device == nullptr || weight == nullptr || info == nullptr) {
      return fail(TERN_INVALID_ARGUMENT, "packed_info: a null argument");
    }
    require(tern_plugin_check_tensor(weight, 0));
    std::string why;
    tern_packed_info filled{};
    if (!packed_info(*weight, uses, device->target, filled, why)) return fail(TERN_UNSUPPORTED, why);
    return give_info(info, filled);
  });
}

namespace {

tern_status give_pack(const tern_tensor& packed, const tern_tensor& weight, uint32_t uses, tern_stream stream,
                      bool back) {
  return guarded([&]() -> tern_status {
    if (stream == nullptr) return fail(TERN_INVALID_ARGUMENT, "pack: no stream");
    const Device& device = *stream->device;
    std::string why;
    tern_packed_info info{};
    if (!packed_info(weight.desc, uses, device.target, info, why)) return fail(TERN_UNSUPPORTED, why);
    if (packed.desc.layout != info.layout) {
      return fail(TERN_INVALID_ARGUMENT, cat("pack: expected layout ", info.layout, ", found ", packed.desc.layout));
    }
    Capture::Pack node{{}, view_tensor(weight, device.target, "pack: weight"), uses, back, &device};
    node.packed.desc = packed.desc;
    node.packed.planes[0] = plane_data(packed.planes[0], info.bytes, "pack: packed weight");
    return give(stream, node);
  });
}

}  // namespace

tern_status weight_pack(tern_tensor packed, tern_tensor weight, uint32_t uses, tern_stream stream) {
  return give_pack(packed, weight, uses, stream, false);
}

tern_status weight_unpack(tern_tensor weight, tern_tensor packed, uint32_t uses, tern_stream stream) {
  return give_pack(packed, weight, uses, stream, true);
}

}  // namespace tern::cpu
