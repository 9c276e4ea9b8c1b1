#include "mutant/mutant.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

#include "mutant/launch.h"

namespace tern::mutant {
namespace {

struct Planned {
  tern_plan inner = nullptr;
  tern_plan other = nullptr;  // with another attribute
  tern_plan_info other_info{};
  std::vector<tern_tensor_desc> args;
  Bytes attrs;
  std::vector<std::int8_t> alias;
  tern_op_desc desc{};
  std::uint64_t workspace = 0;  // of the inner plan
  tern_device device = nullptr;
};

struct BoundRecord {
  Bound bound;
  Planned* plan = nullptr;
  tern_buffer other_workspace = nullptr;
};

struct Captured {
  BoundRecord* bound = nullptr;
  Lengths lengths;
};

// A plugin's functions have no closure: what they share.
struct World {
  std::shared_ptr<const accel::Backend> backend;
  const tern_backend* inner = nullptr;
  tern_backend table{};
  Plan plan;
  int made = 0;
  std::deque<std::function<tern_status()>> queue;  // of a device whose streams are late
  std::map<tern_stream, Captured> capturing;
  std::map<tern_capture, Captured> captured;
  std::map<tern_stream, const BoundRecord*> in_flight;  // whose launch nobody has waited for
  std::recursive_mutex mutex;
};
World* world = nullptr;

bool late() { return world->plan.mistake == Mistake::ignored_stream || world->plan.mistake == Mistake::late_host_args; }

tern_status flush() {
  tern_status status = TERN_OK;
  while (!world->queue.empty()) {
    const auto work = std::move(world->queue.front());
    world->queue.pop_front();
    status = std::max(status, work());
  }
  return status;
}

tern_status enqueue(std::function<tern_status()> work) {
  const std::scoped_lock lock(world->mutex);  // streams of two threads
  if (!late()) return work();
  world->queue.push_back(std::move(work));
  return TERN_OK;
}

// Another value of attribute `index`, or false where there is none.
bool change_attribute(std::uint32_t op, int index, Bytes& attrs) {
  const ops::AttrSpec& spec = ops::op_spec(op).attrs[static_cast<std::size_t>(index)];
  if (spec.name.substr(0, 10) == "max_seqlen") return false;  // a bound, without meaning of its own
  std::byte* at = attrs.data() + 4 * index;
  if (spec.type == ops::AttrType::f32) {
    float value = 0.0F;
    std::memcpy(&value, at, 4);
    value = value == 0.0F ? 1.0F : value * (std::abs(value) < 1e-3F ? 4.0F : 1.25F);
    std::memcpy(at, &value, 4);
    return true;
  }
  std::int32_t value = 0;
  std::memcpy(&value, at, 4);
  if (spec.name == "compute") {
    value = value == TERN_BF16 ? TERN_F32 : TERN_BF16;
  } else if (spec.name == "kind") {
    value = (value + 1) % 4;
  } else if (spec.name == "window") {
    value = value == 0 ? 3 : value + 1;
  } else if (spec.name == "site") {
    value += 1;
  } else {
    value = 1 - value;
  }
  std::memcpy(at, &value, 4);
  return true;
}

bool concerns(std::uint32_t op) { return world->plan.op == op; }

tern_status plan(tern_device device, const tern_op_desc* desc, const char* choice, tern_plan* out,
                 tern_plan_info* info) {
  auto made = std::make_unique<Planned>();
  const tern_status status = world->inner->plan(device, desc, choice, &made->inner, info);
  if (status != TERN_OK) return status;
  made->device = device;
  made->args.assign(desc->args, desc->args + desc->num_args);
  const auto* attrs = static_cast<const std::byte*>(desc->attrs);
  if (attrs != nullptr) made->attrs.assign(attrs, attrs + desc->attrs_size);
  if (desc->alias != nullptr) made->alias.assign(desc->alias, desc->alias + desc->num_args);
  made->desc = *desc;
  made->desc.args = made->args.data();
  made->desc.attrs = made->attrs.data();
  made->desc.alias = made->alias.empty() ? nullptr : made->alias.data();
  made->workspace = info->workspace_bytes;
  if (concerns(desc->op)) {
    if (world->plan.mistake == Mistake::stale_workspace) info->workspace_bytes += 64;
    if (world->plan.mistake == Mistake::other_choice && choice != nullptr) {
      std::snprintf(info->choice, sizeof(info->choice), "another");
      ++world->made;
    }
    if (world->plan.mistake == Mistake::wrong_attribute) {
      Bytes changed = made->attrs;
      tern_op_desc other = made->desc;
      made->other_info.size = sizeof(made->other_info);
      if (change_attribute(desc->op, world->plan.arg, changed)) {
        other.attrs = changed.data();
        if (world->inner->plan(device, &other, nullptr, &made->other, &made->other_info) != TERN_OK)
          made->other = nullptr;
      }
    }
  }
  *out = reinterpret_cast<tern_plan>(made.release());
  return TERN_OK;
}

tern_status plan_destroy(tern_plan raw) {
  const std::unique_ptr<Planned> planned(reinterpret_cast<Planned*>(raw));
  if (planned->other != nullptr) world->inner->plan_destroy(planned->other);
  return world->inner->plan_destroy(planned->inner);
}

tern_status bind(tern_plan raw, const tern_tensor* args, tern_plane workspace, void* host_scratch, tern_bound* out) {
  auto* planned = reinterpret_cast<Planned*>(raw);
  auto made = std::make_unique<BoundRecord>();
  made->plan = planned;
  made->bound.desc = planned->desc;
  made->bound.args.assign(args, args + planned->desc.num_args);
  made->bound.alias = planned->alias;
  if (concerns(planned->desc.op) && world->plan.mistake == Mistake::stale_workspace) {
    made->bound.extra = tern_plane{workspace.buffer, workspace.offset + planned->workspace + 63};
  }
  const tern_status status = world->inner->bind(planned->inner, args, workspace, host_scratch, &made->bound.inner);
  if (status != TERN_OK) return status;
  if (planned->other != nullptr) {
    tern_plane own{};
    if (planned->other_info.workspace_bytes > 0 &&
        world->inner->buffer_create(planned->device, planned->other_info.workspace_bytes, &made->other_workspace) ==
            TERN_OK) {
      own.buffer = made->other_workspace;
    }
    // a kernel that wants host scratch of its own is left alone
    const bool possible = planned->other_info.host_scratch_bytes == 0;
    if (!possible || world->inner->bind(planned->other, args, own, nullptr, &made->bound.other) != TERN_OK) {
      made->bound.other = nullptr;
    }
  }
  *out = reinterpret_cast<tern_bound>(made.release());
  return TERN_OK;
}

tern_status unbind(tern_bound raw) {
  flush();
  const std::unique_ptr<BoundRecord> record(reinterpret_cast<BoundRecord*>(raw));
  if (record->bound.other != nullptr) world->inner->unbind(record->bound.other);
  const tern_status status = world->inner->unbind(record->bound.inner);
  if (record->other_workspace != nullptr) world->inner->buffer_destroy(record->other_workspace);
  return status;
}

tern_status run(BoundRecord& record, const Lengths& lengths, tern_stream stream, const Launch::Run& inner) {
  if (!concerns(record.bound.desc.op) || late()) return inner(record.bound.inner, lengths);
  const Memory memory(world->inner, stream);
  memory.finish();
  return Launch(world->plan, record.bound, memory, inner, world->made).go(lengths);
}

tern_status launch(tern_bound raw, const tern_host_args* host_args, tern_stream stream, std::uint64_t* node) {
  auto* record = reinterpret_cast<BoundRecord*>(raw);
  if (const auto at = world->capturing.find(stream); at != world->capturing.end()) {
    at->second = {record, Lengths(*host_args)};
    return world->inner->launch(record->bound.inner, host_args, stream, node);
  }
  const auto inner = [stream](tern_bound bound, const Lengths& lengths) {
    const LengthsView view(lengths);
    std::uint64_t ignored = 0;
    const tern_status status = world->inner->launch(bound, view.get(), stream, &ignored);
    return status != TERN_OK ? status : world->inner->stream_synchronize(stream);
  };
  if (world->plan.mistake == Mistake::late_host_args && concerns(record->bound.desc.op)) {
    ++world->made;
    return enqueue([record, host_args, inner] { return inner(record->bound.inner, Lengths(*host_args)); });
  }
  const Lengths lengths(*host_args);
  if (late() && concerns(record->bound.desc.op)) {
    if (!world->queue.empty()) ++world->made;
    return inner(record->bound.inner, lengths);
  }
  return enqueue([record, lengths, stream, inner] {
    const bool overtakes = std::any_of(world->in_flight.begin(), world->in_flight.end(), [&](const auto& other) {
      return other.first != stream && other.second != record;
    });
    const tern_status status = run(*record, lengths, stream, inner);
    if (world->plan.mistake != Mistake::shared_workspace || !concerns(record->bound.desc.op)) return status;
    // what this launch wrote there, the other one reads: any of its numbers may come of it
    if (overtakes && status == TERN_OK) {
      const Memory memory(world->inner, stream);
      Launch(world->plan, record->bound, memory, inner, world->made).spoil_some(lengths);
    }
    world->in_flight[stream] = record;
    return status;
  });
}

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
    if (captured.bound == nullptr) return world->inner->capture_launch(capture, stream);
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

tern_status capture_update(tern_capture capture, std::uint64_t node, const tern_host_args* host_args) {
  flush();
  Captured& captured = world->captured[capture];
  Lengths next(*host_args);
  const bool is_stale = world->plan.mistake == Mistake::stale_replay && captured.bound != nullptr &&
                        concerns(captured.bound->bound.desc.op) && next.counts != captured.lengths.counts;
  if (is_stale) {
    ++world->made;
    next.counts = captured.lengths.counts;
  }
  captured.lengths = next;
  const LengthsView view(captured.lengths);
  return world->inner->capture_update(capture, node, is_stale ? view.get() : host_args);
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
                                           "key_past_block",
                                           "lost_gradient",
                                           "shared_workspace",
                                           "stale_replay",
                                           "other_choice",
                                           "late_host_args",
                                           "capability_set",
                                           "capability_clear"};
  return kNames[static_cast<std::size_t>(mistake)];
}

const std::vector<Mistake>& kernel_mistakes() {
  static const std::vector<Mistake> mistakes = [] {
    std::vector<Mistake> out;
    for (int i = static_cast<int>(Mistake::missed_tail); i <= static_cast<int>(Mistake::other_choice); ++i) {
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
  table.plan = plan;
  table.plan_destroy = plan_destroy;
  table.bind = bind;
  table.unbind = unbind;
  table.launch = launch;
  table.device_info = device_info;
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
