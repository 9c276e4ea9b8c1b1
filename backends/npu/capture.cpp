// Captured graphs: aclmdlRI, and groups of tasks that are given other numbers.
#include "backends/npu/interface.h"
#include "backends/npu/runtime.h"

namespace tern::npu {

tern_status capture_begin(tern_stream stream) {
  return guarded([&]() -> tern_status {
    const Acl& api = use(stream, "capture_begin");
    if (!can_capture(*stream->shared->chip)) {
      return fail(TERN_UNSUPPORTED, std::string(stream->shared->chip->name) + " captures nothing");
    }
    if (stream->recording() != nullptr)
      return fail(TERN_INVALID_ARGUMENT, "capture_begin: the stream is being captured");
    // Relaxed: other threads go on allocating and waiting, and copies keep pageable addresses.
    check(api.aclmdlRICaptureBegin(stream->handle, ACL_MODEL_RI_CAPTURE_MODE_RELAXED), "aclmdlRICaptureBegin");
    stream->capture = std::make_shared<Recording>();
    stream->origin = true;
    return TERN_OK;
  });
}

tern_status capture_end(tern_stream stream, tern_capture* capture) {
  return guarded([&]() -> tern_status {
    const Acl& api = use(stream, "capture_end");
    if (capture == nullptr) return fail(TERN_INVALID_ARGUMENT, "capture_end: no place for the graph");
    if (stream->recording() == nullptr || !stream->origin) {
      return fail(TERN_INVALID_ARGUMENT, "capture_end: capture_begin was not called on this stream");
    }
    auto made = std::make_unique<tern_capture_s>();
    made->shared = stream->shared;
    made->recording = std::move(stream->capture);
    made->recording->ended = true;
    stream->capture.reset();
    stream->origin = false;
    check(api.aclmdlRICaptureEnd(stream->handle, &made->graph), "aclmdlRICaptureEnd");
    *capture = made.release();
    return TERN_OK;
  });
}

tern_status capture_launch(tern_capture capture, tern_stream stream) {
  return guarded([&]() -> tern_status {
    if (capture == nullptr) return fail(TERN_INVALID_ARGUMENT, "capture_launch: no graph");
    const Acl& api = use(stream, "capture_launch");
    if (stream->recording() != nullptr) return fail(TERN_UNSUPPORTED, "capture_launch: captures do not nest");
    if (capture->graph == nullptr) return TERN_OK;  // nothing was captured
    check_stream(*stream, api.aclmdlRIExecuteAsync(capture->graph, stream->handle), "launching a captured graph");
    return TERN_OK;
  });
}

tern_status capture_update(tern_capture capture, tern_stream stream, const tern_node_update* updates, uint32_t count) {
  return guarded([&]() -> tern_status {
    if (capture == nullptr || (updates == nullptr && count > 0))
      return fail(TERN_INVALID_ARGUMENT, "capture_update: a null argument");
    const Acl& api = use(stream, "capture_update");
    auto& nodes = capture->recording->nodes;
    std::vector<std::shared_ptr<Prepared>> prepared;  // all before any is changed
    for (std::uint32_t i = 0; i < count; ++i) {
      if (updates[i].node >= nodes.size()) {
        return fail(TERN_INVALID_ARGUMENT, "capture_update: node " + std::to_string(updates[i].node) + " is no launch");
      }
      const Recording::Node& node = nodes[updates[i].node];
      const HostArgs host_args(*node.bound->plan->desc, updates[i].host_args);
      prepared.push_back(node.bound->prepare(host_args));
      const bool same = prepared.back()->same_calls(*node.prepared);
      if (!same || (node.group == nullptr && prepared.back()->size() > 0) ||
          api.aclmdlRICaptureTaskUpdateBegin == nullptr) {
        return fail(TERN_UNSUPPORTED, "capture_update: at these numbers other calls run; capture them again");
      }
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      Recording::Node& node = nodes[updates[i].node];
      if (node.group == nullptr) continue;
      check(api.aclmdlRICaptureTaskUpdateBegin(stream->handle, node.group), "aclmdlRICaptureTaskUpdateBegin");
      prepared[i]->run(node.bound->workspace, stream->handle);
      const int code = api.aclmdlRICaptureTaskUpdateEnd(stream->handle);
      if (code != 0) {
        return fail(TERN_UNSUPPORTED, describe_failure("capture_update: capture these launches again", code));
      }
      node.prepared = prepared[i];
    }
    return TERN_OK;
  });
}

tern_status capture_destroy(tern_capture capture) {
  return guarded([&]() -> tern_status {
    const std::unique_ptr<tern_capture_s> owner(capture);
    if (capture == nullptr) return TERN_OK;
    capture->shared->use();
    if (capture->graph != nullptr) check(acl().aclmdlRIDestroy(capture->graph), "aclmdlRIDestroy");
    return TERN_OK;
  });
}

}  // namespace tern::npu
