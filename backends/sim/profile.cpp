// What ran on a device, and when.
#include "backends/sim/interface.h"
#include "backends/sim/world.h"
#include "base/strings.h"

namespace tern::sim {
namespace {

tern_plugin::Recording& recording_of(tern_device device) {
  Device& d = *world().present(device)->device;
  if (!d.can(TERN_CAP_PROFILE)) fail(TERN_UNSUPPORTED, cat(d.name(), " doesn't tell what ran when"));
  return d.recording;
}

}  // namespace

tern_status profile_start(tern_device device) {
  return guarded([&](auto&) { tern_plugin::require(recording_of(device).start()); });
}

tern_status profile_stop(tern_device device) {
  return guarded([&](auto&) { tern_plugin::require(recording_of(device).stop()); });
}

tern_status profile_collect(tern_device device, tern_profile_record* records, uint64_t capacity, uint64_t* count) {
  return guarded([&](auto&) { tern_plugin::require(recording_of(device).collect(records, capacity, count)); });
}

}  // namespace tern::sim
