#include <algorithm>
#include <map>

#include "backends/opencl/interface.h"
#include "backends/opencl/runtime.h"
#include "backends/opencl/text.h"

namespace tern::opencl {
namespace {

// The open state of an ordinal, or a new one.
std::shared_ptr<DeviceState> state_of(std::int32_t ordinal) {
  static std::mutex mutex;
  static std::map<std::int32_t, std::weak_ptr<DeviceState>> open;
  const Present& present = present_device(ordinal);
  const std::lock_guard lock(mutex);
  auto& place = open[ordinal];
  auto state = place.lock();
  if (!state) {
    state = std::make_shared<DeviceState>(present, ordinal);
    place = state;
  }
  return state;
}

OwnedContext make_context(const Present& present) {
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              reinterpret_cast<cl_context_properties>(present.platform), 0};
  cl_int code = CL_SUCCESS;
  OwnedContext context(cl().CreateContext(properties, 1, &present.device, nullptr, nullptr, &code));
  check(code, cat("opening ", present.facts.name));
  return context;
}

}  // namespace

Host& host() {
  static Host instance;
  return instance;
}

const char* const kDeviceOptions[] = {"memory_limit: bytes that the buffers of this handle may take", nullptr};

OwnedQueue make_queue(const DeviceState& state) {
  cl_int code = CL_SUCCESS;
  OwnedQueue queue(cl().CreateCommandQueue(state.context.get(), state.id, CL_QUEUE_PROFILING_ENABLE, &code));
  check(code, "making a stream");
  return queue;
}

DeviceState::DeviceState(const Present& present, std::int32_t number)
    : ordinal(number),
      facts(present.facts),
      id(present.device),
      context(make_context(present)),
      own_queue(make_queue(*this)),
      programs(context.get(), id, facts, host().cache_folder) {
  memory.total = facts.memory_bytes;
}

DeviceState& require_present(const Device* device) {
  if (device == nullptr) throw Error(TERN_INVALID_ARGUMENT, "no device was given");
  if (device->state) return *device->state;
  throw Error(TERN_UNSUPPORTED, cat(device->facts->name, " is a description alone: there is no device to run on"));
}

tern_status device_count(int32_t* count, tern_text reason) {
  return guarded([&]() -> tern_status {
    if (count == nullptr) return fail(TERN_INVALID_ARGUMENT, "device_count: no place for the count");
    const Found& found = found_devices();
    *count = static_cast<int32_t>(std::min<std::size_t>(found.devices.size(), 64));
    put_text(reason, found.devices.empty() ? found.reason : "");
    return TERN_OK;
  });
}

tern_status device_info(int32_t ordinal, tern_device_info* info) {
  return guarded([&]() -> tern_status {
    tern_device_info filled{};
    fill_info(present_device(ordinal).facts, filled);
    return give_info(info, filled);
  });
}

tern_status device_describe(const char* profile, tern_device_info* info) {
  return guarded([&]() -> tern_status {
    tern_device_info filled{};
    fill_info(described_facts(profile), filled);
    filled.described = 1;
    return give_info(info, filled);
  });
}

tern_status device_open(const tern_open_args* args, tern_device* device) {
  return guarded([&]() -> tern_status {
    tern_open_args own;
    require(tern_plugin_take_open_args(args, kDeviceOptions, &own));
    if (device == nullptr) return fail(TERN_INVALID_ARGUMENT, "device_open: no place for the device");
    auto opened = std::make_unique<tern_device_s>();
    opened->budget = std::make_shared<tern_plugin_memory>(tern_plugin_memory{UINT64_MAX, 0, 0});
    require(tern_plugin_option_number(&own, "memory_limit", 0, UINT64_MAX, &opened->budget->total));
    if (own.profile != nullptr) {
      opened->facts = &described_facts(own.profile);
    } else {
      opened->state = state_of(own.ordinal);
      opened->facts = &opened->state->facts;
    }
    *device = opened.release();
    return TERN_OK;
  });
}

tern_status device_close(tern_device device) {
  const std::unique_ptr<tern_device_s> owner(device);
  return TERN_OK;
}

tern_status device_health(tern_device device, int32_t* health, tern_text reason) {
  return guarded([&]() -> tern_status {
    if (device == nullptr || health == nullptr) return fail(TERN_INVALID_ARGUMENT, "device_health: a null argument");
    cl_bool available = CL_TRUE;
    if (device->state) {
      const cl_int code =
          cl().GetDeviceInfo(device->state->id, CL_DEVICE_AVAILABLE, sizeof available, &available, nullptr);
      if (code != CL_SUCCESS) available = CL_FALSE;
    }
    *health = available == CL_TRUE ? TERN_HEALTH_OK : TERN_HEALTH_LOST;
    put_text(reason, available == CL_TRUE ? "" : "its driver says that the device isn't available any more");
    return TERN_OK;
  });
}

tern_status memory_info(tern_device device, tern_memory_info* info) {
  return guarded([&]() -> tern_status {
    if (device == nullptr || info == nullptr) return fail(TERN_INVALID_ARGUMENT, "memory_info: a null argument");
    const tern_plugin_memory& budget = *device->budget;
    tern_memory_info filled{};
    filled.total = std::min(device->facts->memory_bytes, budget.total);
    filled.free = filled.total;
    if (!device->state) return give_info(info, filled);
    const tern_plugin_memory& held = device->state->memory;
    const std::uint64_t in_use = __atomic_load_n(&held.in_use, __ATOMIC_RELAXED);
    const std::uint64_t in_budget = __atomic_load_n(&budget.in_use, __ATOMIC_RELAXED);
    filled.free = std::min(held.total - std::min(held.total, in_use), budget.total - std::min(budget.total, in_budget));
    filled.in_use_by_process = in_use;
    filled.peak_by_process = __atomic_load_n(&held.peak, __ATOMIC_RELAXED);
    return give_info(info, filled);
  });
}

}  // namespace tern::opencl
