#include "tests/fakes/cann/acl/process.h"

#include "tests/fakes/cann/acl/graph.h"

namespace fake {
namespace {

thread_local int the_device = -1;

}  // namespace

Process& process() {
  // Never destroyed: threads of streams may outlive whoever ends the program.
  static Process* const one = [] {
    auto* made = new Process;
    made->settings = read_settings();
    made->random_state = made->settings.seed + 1;
    return made;
  }();
  return *one;
}

bool has_device() { return the_device >= 0 && static_cast<std::size_t>(the_device) < process().devices.size(); }
void set_current_device(int number) { the_device = number; }
int current_device_number() { return has_device() ? the_device : -1; }

Device& current_device() {
  if (!has_device()) refuse(ACL_ERROR_RT_CONTEXT_NULL, "ctx is NULL! No device is set in this thread.");
  return *process().devices[static_cast<std::size_t>(the_device)];
}

Stream& stream_of(aclrtStream handle) {
  Device& device = current_device();
  if (handle == nullptr) {
    const std::lock_guard lock(process().mutex);
    if (any_capture(device)) {
      invalidate_captures(device);
      refuse(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "The default stream can't be used while a stream is captured.");
    }
    if (!device.default_stream) device.default_stream = std::make_unique<Stream>(device, 0);
    return *device.default_stream;
  }
  const std::lock_guard lock(process().mutex);
  const auto found = process().streams.find(handle);
  if (found == process().streams.end()) refuse(ACL_ERROR_RT_INVALID_HANDLE, "The handle is no stream.");
  if (&found->second->device != &device) refuse(ACL_ERROR_RT_STREAM_CONTEXT, "Stream is not in current ctx.");
  return *found->second;
}

std::shared_ptr<Event> event_of(aclrtEvent handle) {
  if (handle == nullptr) refuse(ACL_ERROR_INVALID_PARAM, "[Check][event]param must not be null.");
  const std::lock_guard lock(process().mutex);
  const auto found = process().events.find(handle);
  if (found == process().events.end()) refuse(ACL_ERROR_RT_INVALID_HANDLE, "The handle is no event.");
  return found->second;
}

Device* device_holding(const void* address) {
  for (const auto& device : process().devices) {
    if (device->memory.holds(address)) return device.get();
  }
  return nullptr;
}

std::byte* device_view(const void* address, std::size_t bytes) {
  Device* device = device_holding(address);
  std::byte* view = device != nullptr ? device->memory.view(address, bytes) : nullptr;
  if (view != nullptr) return view;
  const std::lock_guard lock(process().mutex);
  const auto* at = static_cast<const std::byte*>(address);
  auto mapped = process().mapped.upper_bound(const_cast<std::byte*>(at));
  if (mapped != process().mapped.begin()) {
    --mapped;
    const auto offset = static_cast<std::size_t>(at - mapped->first);
    if (offset + bytes <= mapped->second.second) return mapped->second.first + offset;
  }
  refuse(ACL_ERROR_RT_AICORE_EXCEPTION, "The address isn't in the device's memory, or was freed, for " +
                                            std::to_string(bytes) + " bytes: MTE accesses an invalid address.");
}

bool is_pinned(const void* address, std::size_t bytes) {
  const std::lock_guard lock(process().mutex);
  const auto* at = static_cast<const std::byte*>(address);
  auto block = process().pinned.upper_bound(const_cast<std::byte*>(at));
  if (block == process().pinned.begin()) return false;
  --block;
  return at + bytes <= block->first + block->second;
}

std::uint64_t chance(std::uint64_t below) {
  // xorshift64*, one state for all threads: what they get depends on who comes first, as on a device.
  std::uint64_t state = process().random_state.load();
  std::uint64_t next = 0;
  do {
    next = state;
    next ^= next >> 12;
    next ^= next << 25;
    next ^= next >> 27;
  } while (!process().random_state.compare_exchange_weak(state, next));
  return (next * 0x2545F4914F6CDD1DULL >> 32) % below;
}

std::int64_t option(int which) {
  if (has_device()) {
    const auto found = current_device().options.find(which);
    if (found != current_device().options.end()) return found->second;
  }
  const auto found = process().options.find(which);
  return found != process().options.end() ? found->second : 0;
}

bool deterministic() { return option(ACL_OPT_DETERMINISTIC) != 0; }

const Chip& chip() {
  if (process().settings.chip == nullptr) refuse(ACL_ERROR_RT_NO_DEVICE, "There is no such chip.");
  return *process().settings.chip;
}

bool at_least(int major, int minor) {
  const Settings& settings = process().settings;
  return settings.major > major || (settings.major == major && settings.minor >= minor);
}

}  // namespace fake
