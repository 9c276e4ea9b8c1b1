#include "mutant/mutant.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "mutant/world.h"

namespace tern::mutant {
namespace {

tern_status capture_begin(tern_stream stream) {
  const tern_status status = std::max(flush(), world->inner->capture_begin(stream));
  if (status == TERN_OK) world->capturing[stream] = {};
  return status;
}

tern_status capture_end(tern_stream stream, tern_capture* capture) {
  const tern_status status = world->inner->capture_end(stream, capture);
  if (status == TERN_OK) world->captured[*capture] = world->capturing[stream];
  world->capturing.erase(stream);
  return status;
}

tern_status capture_launch(tern_capture capture, tern_stream stream) {
  return enqueue([capture, stream] {
    Captured& captured = world->captured[capture];
    if (captured.launches != 1) return world->inner->capture_launch(capture, stream);
    return run(*captured.bound, captured.lengths, stream, [&](tern_bound bound, const Lengths& lengths) {
      const LengthsView view(lengths);
      std::uint64_t node = 0;
      const tern_status status = bound == captured.bound->bound.inner && lengths == captured.lengths
                                     ? world->inner->capture_launch(capture, stream)
                                     : world->inner->launch(bound, view.get(), stream, &node);
      return status != TERN_OK ? status : world->inner->stream_synchronize(stream);
    });
  });
}

tern_status capture_update(tern_capture capture, tern_stream stream, const tern_node_update* updates,
                           std::uint32_t count) {
  flush();
  Captured& captured = world->captured[capture];
  if (captured.bound == nullptr) return world->inner->capture_update(capture, stream, updates, count);
  if (captured.launches != 1) {
    const bool is_partial =
        world->plan.mistake == Mistake::partial_update && count > 1 && concerns(captured.bound->bound.desc.op);
    if (is_partial) ++world->made;
    return world->inner->capture_update(capture, stream, updates, is_partial ? 1 : count);
  }
  Lengths next(*updates->host_args);
  const bool is_stale = world->plan.mistake == Mistake::stale_replay && concerns(captured.bound->bound.desc.op) &&
                        next.counts != captured.lengths.counts;
  if (is_stale) {
    ++world->made;
    next.counts = captured.lengths.counts;
  }
  captured.lengths = next;
  const LengthsView view(captured.lengths);
  const tern_node_update update{updates->node, is_stale ? view.get() : updates->host_args};
  return world->inner->capture_update(capture, stream, &update, 1);
}

tern_status capture_destroy(tern_capture capture) {
  flush();
  world->captured.erase(capture);
  return world->inner->capture_destroy(capture);
}

tern_status device_info(std::int32_t ordinal, tern_device_info* info) {
  const tern_status status = world->inner->device_info(ordinal, info);
  const std::uint32_t bit = world->plan.capability;
  if (status == TERN_OK && world->plan.mistake == Mistake::capability_set && (info->capabilities & bit) == 0) {
    info->capabilities |= bit;
    ++world->made;
  }
  if (status == TERN_OK && world->plan.mistake == Mistake::capability_clear && (info->capabilities & bit) != 0) {
    info->capabilities &= ~bit;
    ++world->made;
  }
  return status;
}

tern_status copy_to_device(tern_plane dst, const void* src, std::uint64_t bytes, tern_stream stream) {
  const auto* from = static_cast<const std::byte*>(src);
  return enqueue([dst, data = late() ? Bytes(from, from + bytes) : Bytes(), src, bytes, stream] {
    return world->inner->copy_to_device(dst, late() ? data.data() : src, bytes, stream);
  });
}

tern_status copy_to_host(void* dst, tern_plane src, std::uint64_t bytes, tern_stream stream) {
  return enqueue([dst, src, bytes, stream] { return world->inner->copy_to_host(dst, src, bytes, stream); });
}

tern_status copy_on_device(tern_plane dst, tern_plane src, std::uint64_t bytes, tern_stream stream) {
  return enqueue([dst, src, bytes, stream] { return world->inner->copy_on_device(dst, src, bytes, stream); });
}

tern_status fill(tern_plane dst, std::uint8_t byte, std::uint64_t bytes, tern_stream stream) {
  return enqueue([dst, byte, bytes, stream] { return world->inner->fill(dst, byte, bytes, stream); });
}

tern_status pack(tern_tensor packed, tern_tensor weight, std::uint32_t uses, tern_stream stream) {
  if (uses == (TERN_USE_FORWARD | TERN_USE_INPUT_GRAD)) world->layouts_of_both.insert(packed.desc.layout);
  return enqueue([packed, weight, uses, stream] { return world->inner->pack(packed, weight, uses, stream); });
}

tern_status event_record(tern_event event, tern_stream stream) {
  return enqueue([event, stream] { return world->inner->event_record(event, stream); });
}

tern_status stream_wait_event(tern_stream stream, tern_event event) {
  world->in_flight.clear();
  return enqueue([stream, event] { return world->inner->stream_wait_event(stream, event); });
}

tern_status stream_synchronize(tern_stream stream) {
  world->in_flight.erase(stream);
  return std::max(flush(), world->inner->stream_synchronize(stream));
}
tern_status event_synchronize(tern_event event) { return std::max(flush(), world->inner->event_synchronize(event)); }
tern_status event_query(tern_event event) { return std::max(flush(), world->inner->event_query(event)); }
tern_status event_destroy(tern_event event) { return std::max(flush(), world->inner->event_destroy(event)); }
tern_status stream_destroy(tern_stream stream) { return std::max(flush(), world->inner->stream_destroy(stream)); }
tern_status buffer_destroy(tern_buffer buffer) { return std::max(flush(), world->inner->buffer_destroy(buffer)); }

}  // namespace

const char* name_of(Mistake mistake) {
  static constexpr const char* kNames[] = {"none",
                                           "missed_tail",
                                           "wrong_element",
                                           "wrong_rounding",
                                           "wrong_stride",
                                           "lost_term",
                                           "no_accumulate",
                                           "always_accumulate",
                                           "write_past_end",
                                           "read_past_end",
                                           "write_input",
                                           "stale_workspace",
                                           "stale_lengths",
                                           "stale_input",
                                           "short_count",
                                           "long_count",
                                           "wrong_index",
                                           "wrong_length",
                                           "wrong_attribute",
                                           "lost_special",
                                           "not_deterministic",
                                           "row_variant",
                                           "ignored_stream",
                                           "scaled_output",
                                           "wrong_tile",
                                           "rows_past_256",
                                           "columns_past_1024",
                                           "features_past_64",
                                           "count_tail",
                                           "forgotten_key",
                                           "ignored_mask",
                                           "wrong_mask_row",
                                           "wrong_mask_stride",
                                           "key_past_block",
                                           "chunk_of_rows",
                                           "late_chunk",
                                           "window_from_end",
                                           "lost_gradient",
                                           "split_unscaled",
                                           "split_empty",
                                           "split_tail",
                                           "split_planned",
                                           "split_stale",
                                           "split_sinks",
                                           "split_window",
                                           "split_border",
                                           "no_max",
                                           "tanh_overflow",
                                           "eps_outside_root",
                                           "lost_eps",
                                           "one_accumulates",
                                           "batch_transpose",
                                           "bias_before_alpha",
                                           "large_accumulate",
                                           "large_stride",
                                           "rows_past_65535",
                                           "forward_pack",
                                           "shared_workspace",
                                           "tf32",
                                           "narrow_query",
                                           "stale_replay",
                                           "partial_update",
                                           "first_slot",
                                           "leak",
                                           "other_choice",
                                           "ignored_surplus",
                                           "late_host_args",
                                           "late_desc",
                                           "late_bind_args",
                                           "waiting_launch",
                                           "capability_set",
                                           "capability_clear"};
  return kNames[static_cast<std::size_t>(mistake)];
}

const std::vector<Mistake>& kernel_mistakes() {
  static const std::vector<Mistake> mistakes = [] {
    std::vector<Mistake> out;
    for (int i = static_cast<int>(Mistake::missed_tail); i <= static_cast<int>(Mistake::ignored_surplus); ++i) {
      out.push_back(static_cast<Mistake>(i));
    }
    return out;
  }();
  return mistakes;
}

std::shared_ptr<const accel::Backend> mutate(std::shared_ptr<const accel::Backend> inner, const Plan& plan_of) {
  static World one;  // made anew in its place: it holds a mutex
  std::destroy_at(&one);
  std::construct_at(&one);
  world = &one;
  one.backend = std::move(inner);
  one.inner = &one.backend->api();
  one.plan = plan_of;
  std::memcpy(&one.table, one.inner, std::min<std::size_t>(sizeof(one.table), one.inner->size));
  tern_backend& table = one.table;
  table.name = "mutant";
  table.supports = supports;
  table.plan = plan;
  table.plan_destroy = plan_destroy;
  table.bind = bind;
  table.unbind = unbind;
  table.launch = launch;
  table.device_info = device_info;
  table.compile = one.inner->compile == nullptr ? nullptr : compile;
  table.launch_recipe = launch_recipe;
  table.recipe_destroy = recipe_destroy;
  table.recipe_save = one.inner->recipe_save == nullptr ? nullptr : recipe_save;
  table.recipe_load = one.inner->recipe_load == nullptr ? nullptr : recipe_load;
  table.capture_begin = capture_begin;
  table.capture_end = capture_end;
  table.capture_launch = capture_launch;
  table.capture_update = capture_update;
  table.capture_destroy = capture_destroy;
  table.copy_to_device = copy_to_device;
  table.copy_to_host = copy_to_host;
  table.copy_on_device = copy_on_device;
  table.fill = fill;
  table.pack = pack;
  table.event_record = event_record;
  table.stream_wait_event = stream_wait_event;
  table.stream_synchronize = stream_synchronize;
  table.event_synchronize = event_synchronize;
  table.event_query = event_query;
  table.event_destroy = event_destroy;
  table.stream_destroy = stream_destroy;
  table.buffer_destroy = buffer_destroy;
  return accel::Backend::wrap(&table);
}

int times_made() { return world == nullptr ? 0 : world->made; }

}  // namespace tern::mutant
