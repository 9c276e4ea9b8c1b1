#include "mutant/world.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>

namespace tern::mutant {

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
  } else if (spec.name == "window_right") {
    if (value == 0) return false;  // a causal call has none, and others may have fewer keys than rows
    value += 1;
  } else if (spec.name == "window" || spec.name == "chunk") {
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

bool is_transparent() {
  return world->plan.mistake == Mistake::capability_set || world->plan.mistake == Mistake::capability_clear;
}

void spoil_memory_of(BoundRecord& record) {
  const Mistake mistake = world->plan.mistake;
  if (!concerns(record.bound.desc.op)) return;
  if (mistake == Mistake::leak) {
    tern_buffer kept = nullptr;
    if (world->inner->buffer_create(record.plan->device, 256, 0, &kept) != TERN_OK) return;
    record.leaked.push_back(kept);
    ++world->made;
  }
  if (mistake == Mistake::late_desc && record.plan->given != nullptr) {
    world->made += record.plan->given->num_args > 0 ? 1 : 0;
  }
  if (mistake == Mistake::late_bind_args && record.given != nullptr) world->made += record.given->size > 0 ? 1 : 0;
}

void let_go(BoundRecord& record) {
  for (tern_buffer buffer : record.leaked) world->inner->buffer_destroy(buffer);
  if (record.other_workspace != nullptr) world->inner->buffer_destroy(record.other_workspace);
}

void spoil_plan(const tern_plan_options* options, tern_plan_info& info) {
  if (world->plan.mistake == Mistake::stale_workspace) info.workspace_bytes += 64;
  if (world->plan.mistake == Mistake::other_choice && options != nullptr && options->choice != nullptr) {
    std::snprintf(info.choice, sizeof(info.choice), "another");
    ++world->made;
  }
}

tern_status run(BoundRecord& record, const Lengths& lengths, tern_stream stream, const Launch::Run& inner) {
  if (!concerns(record.bound.desc.op) || late()) return inner(record.bound.inner, lengths);
  const Memory memory(world->inner, stream);
  memory.finish();
  try {
    return Launch(world->plan, record.bound, memory, inner, world->made).go(lengths);
  } catch (const std::exception&) {
    ++world->made;  // the device refused what the mistake made of its arguments, and its stream is no more
    return TERN_ASYNC_ERROR;
  }
}

tern_status launch_record(BoundRecord& of, const tern_host_args* host_args, tern_stream stream,
                          const Launch::Run& inner) {
  BoundRecord* record = &of;
  spoil_memory_of(of);
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

}  // namespace tern::mutant
