// What ran on the device, and when. Work runs in the call that gives it, so its times are those around it.
#include "backends/cpu/interface.h"
#include "backends/cpu/runtime.h"

namespace tern::cpu {
namespace {

// What a profile tells of the work; false: nothing of it.
bool describe(const Stream& stream, const Capture::Node& node, tern_profile_record& record) {
  const auto id = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&stream));
  if (const auto* launch = std::get_if<Capture::Launch>(&node)) {
    const Plan& plan = *launch->bound->plan;
    const std::string name = choice_of(*plan.kernel, plan.device->target);
    record = tern_plugin::make_record(TERN_PROFILE_KERNEL, name, 0, id);
  } else if (const auto* copy = std::get_if<Capture::Copy>(&node)) {
    record = tern_plugin::make_record(TERN_PROFILE_COPY, "copy", copy->bytes, id);
  } else if (const auto* fill = std::get_if<Capture::Fill>(&node)) {
    record = tern_plugin::make_record(TERN_PROFILE_FILL, "fill", fill->bytes, id);
  } else if (const auto* pack = std::get_if<Capture::Pack>(&node)) {
    record = tern_plugin::make_record(TERN_PROFILE_KERNEL, pack->back ? "unpack" : "pack", 0, id);
  } else {
    return false;
  }
  return true;
}

}  // namespace

tern_plugin::Recording& recording() {
  static tern_plugin::Recording instance;
  return instance;
}

void run_recorded(const Stream& stream, const Capture::Node& node) {
  tern_profile_record record;
  if (!recording().is_on() || !describe(stream, node, record)) {
    run_node(node);
    return;
  }
  record.begin_ns = tern_plugin::monotonic_now();
  run_node(node);
  record.end_ns = tern_plugin::monotonic_now();
  recording().add(record);
}

tern_status profile_start(tern_device device) {
  return guarded([&]() -> tern_status {
    require_present(device);
    return recording().start();
  });
}

tern_status profile_stop(tern_device device) {
  return guarded([&]() -> tern_status {
    require_present(device);
    return recording().stop();
  });
}

tern_status profile_collect(tern_device device, tern_profile_record* records, uint64_t capacity, uint64_t* count) {
  return guarded([&]() -> tern_status {
    require_present(device);
    return recording().collect(records, capacity, count);
  });
}

}  // namespace tern::cpu
