#include <algorithm>
#include <map>

#include "backends/cuda/interface.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
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

}  // namespace

Host& host() {
  static Host instance;
  return instance;
}

const char* const kDeviceOptions[] = {"memory_limit: bytes that the buffers of this handle may take", nullptr};

PrimaryContext::PrimaryContext(CUdevice device, const std::string& name) : device_(device) {
  check(driver().DevicePrimaryCtxRetain(&context_, device), cat("opening ", name));
  use();
}

PrimaryContext::~PrimaryContext() { (void)driver().DevicePrimaryCtxRelease(device_); }

void PrimaryContext::use() const { check(driver().CtxSetCurrent(context_), "taking up the device"); }

OwnedStream make_stream(std::int32_t priority) {
  const Driver& api = driver();
  int least = 0;
  int greatest = 0;  // lower numbers are more urgent, as ours are
  check(api.CtxGetStreamPriorityRange(&least, &greatest), "asking for priorities of streams");
  CUstream stream = nullptr;
  const int clamped = std::clamp(static_cast<int>(priority), std::min(least, greatest), std::max(least, greatest));
  check(api.StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, clamped), "making a stream");
  return OwnedStream(stream);
}

OwnedEvent make_event(unsigned flags) {
  CUevent event = nullptr;
  check(driver().EventCreate(&event, flags), "making an event");
  return OwnedEvent(event);
}

DeviceState::DeviceState(const Present& present, std::int32_t number)
    : ordinal(number), facts(present.facts), id(present.device), context(id, facts.name), own_stream(make_stream(0)) {
  memory.total = facts.memory_bytes;
}

// Its parts go with their context current; what fails is nobody's any more.
DeviceState::~DeviceState() { (void)driver().CtxSetCurrent(context.get()); }

DeviceState& require_present(const Device* device) {
  if (device == nullptr) throw Error(TERN_INVALID_ARGUMENT, "no device was given");
  if (!device->state) {
    throw Error(TERN_UNSUPPORTED, cat(device->facts->name, " is a description alone: there is no device to run on"));
  }
  device->state->use();
  return *device->state;
}

tern_status device_count(int32_t* count, tern_text reason) {
  return guarded([&]() -> tern_status {
    if (count == nullptr) return fail(TERN_INVALID_ARGUMENT, "device_count: no place for the count");
    const Found& found = found_devices();
    *count = static_cast<int32_t>(found.devices.size());
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

// What made a context useless is said by every later call; asking an idle stream costs next to nothing.
tern_status device_health(tern_device device, int32_t* health, tern_text reason) {
  return guarded([&]() -> tern_status {
    if (device == nullptr || health == nullptr) return fail(TERN_INVALID_ARGUMENT, "device_health: a null argument");
    *health = TERN_HEALTH_OK;
    put_text(reason, "");
    if (!device->state) return TERN_OK;
    CUresult code = driver().CtxSetCurrent(device->state->context.get());
    if (code == CUDA_SUCCESS) code = driver().StreamQuery(device->state->own_stream.get());
    if (code == CUDA_SUCCESS || code == CUDA_ERROR_NOT_READY) return TERN_OK;
    *health = TERN_HEALTH_LOST;
    put_text(reason, describe(device->facts->name, code));
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
    const tern_plugin_memory& held = require_present(device).memory;
    std::size_t free = 0;
    std::size_t total = 0;
    check(driver().MemGetInfo(&free, &total), "asking for the device's memory");
    const std::uint64_t in_budget = __atomic_load_n(&budget.in_use, __ATOMIC_RELAXED);
    filled.free = std::min<std::uint64_t>(free, budget.total - std::min(budget.total, in_budget));
    filled.in_use_by_process = __atomic_load_n(&held.in_use, __ATOMIC_RELAXED);
    filled.comm_bytes = device->state->comm_bytes;
    filled.peak_by_process = __atomic_load_n(&held.peak, __ATOMIC_RELAXED);
    return give_info(info, filled);
  });
}

}  // namespace tern::cuda
