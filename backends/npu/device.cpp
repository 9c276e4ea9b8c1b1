// Devices: how many, what each is, opening, memory in use.
#include <algorithm>
#include <array>

#include "backends/npu/hccl.h"
#include "backends/npu/interface.h"
#include "backends/npu/monitor.h"
#include "backends/npu/runtime.h"

namespace tern::npu {
namespace {

constexpr int kRepeatedInit = 100002;                              // somebody else in the process called aclInit
constexpr std::uint64_t kContextBytes = std::uint64_t{512} << 20;  // about: the runtime's own pools on a card

// The runtime, started once. Null: why not.
const Acl* started(std::string& why) {
  static const struct Start {
    Start() {
      functions = acl(why);
      if (functions == nullptr) return;
      const int code = functions->aclInit(nullptr);
      if (code == 0 || code == kRepeatedInit) return;
      why = describe_failure("aclInit", code);
      functions = nullptr;
    }
    const Acl* functions = nullptr;
    std::string why;
  } start;
  why = start.why;
  return start.functions;
}

// How many there are; 0: why.
std::int32_t count_devices(std::string& why) {
  const Acl* functions = started(why);
  if (functions == nullptr) return 0;
  std::uint32_t count = 0;
  if (const int code = functions->aclrtGetDeviceCount(&count); code != 0) {
    why = describe_failure("counting the devices", code);
    return 0;
  }
  if (count == 0) why = "CANN finds no NPU; look at `npu-smi info`, at /dev/davinci0 and at ASCEND_RT_VISIBLE_DEVICES";
  return static_cast<std::int32_t>(std::min<std::uint32_t>(count, 64));
}

// The chip of this machine: one name for all of its devices. Throws where it is none that we know.
const Chip& chip_of_machine() {
  const char* name = acl().aclrtGetSocName();
  if (name == nullptr) throw Error(TERN_UNSUPPORTED, describe_failure("asking for the chip's name", 107001));
  const Chip* chip = find_chip(name);
  if (chip == nullptr) {
    throw Error(TERN_UNSUPPORTED, std::string("the chip ") + name +
                                      " is none that tern knows; it knows Ascend910, 910B (A2), 910_93 (A3), 310P and "
                                      "950");
  }
  return *chip;
}

void require_ordinal(std::int32_t ordinal) {
  std::string why;
  const std::int32_t count = count_devices(why);
  if (ordinal >= 0 && ordinal < count) return;
  throw Error(TERN_INVALID_ARGUMENT, "npu:" + std::to_string(ordinal) + ": there are " + std::to_string(count) +
                                         " devices" + (why.empty() ? "" : ": " + why));
}

std::shared_ptr<Shared> open_shared(std::int32_t ordinal) {
  static std::mutex mutex;
  static std::map<std::int32_t, std::shared_ptr<Shared>> opened;
  const std::lock_guard lock(mutex);
  auto& place = opened[ordinal];
  if (place) return place;
  auto made = std::make_shared<Shared>();
  made->ordinal = ordinal;
  made->chip = &chip_of_machine();
  made->use();
  std::size_t free = 0;
  std::size_t total = 0;
  const aclrtMemAttr kind = made->chip->has_hbm() ? ACL_HBM_MEM : ACL_DDR_MEM;
  check(acl().aclrtGetMemInfo(kind, &free, &total), "asking for the device's memory");
  made->memory.total = total;
  if (const auto set = acl().aclrtCtxSetSysParamOpt; set != nullptr) {
    made->has_invariant_kernels = set(ACL_OPT_DETERMINISTIC, 3) == 0;
    check(set(ACL_OPT_DETERMINISTIC, 0), "aclrtCtxSetSysParamOpt");
  }
  place = made;
  return made;
}

const Chip& profile_chip(const char* profile) {
  std::uint32_t place = 0;
  require(tern_plugin_find_profile(chip_names(), profile, &place));
  return chips()[place];
}

}  // namespace

Host& host() {
  static Host instance;
  return instance;
}

bool can_capture(const Chip& chip) {
  std::string why;
  const Acl* functions = acl(why);
  if (functions == nullptr) return chip.family != Family::a910 && chip.family != Family::a310p;
  // The 910 never captures. The 310P does from CANN 9.1 on by its documentation, and nothing says here which CANN it
  // is.
  if (chip.family == Family::a910 || chip.family == Family::a310p) return false;
  return functions->aclmdlRICaptureBegin != nullptr && functions->aclmdlRICaptureEnd != nullptr &&
         functions->aclmdlRIExecuteAsync != nullptr && functions->aclmdlRIDestroy != nullptr;
}

void describe_chip(tern_device_info& info, const Chip& chip, bool captures, const std::string& driver) {
  info.capabilities = TERN_CAP_EAGER | TERN_CAP_DYNAMIC_SHAPES | TERN_CAP_HOST_LENGTHS | TERN_CAP_NATIVE_MEMORY |
                      TERN_CAP_NATIVE_STREAMS | (captures ? std::uint32_t{TERN_CAP_CAPTURE} : 0U) |
                      (can_evict(chip) ? std::uint32_t{TERN_CAP_EVICT} : 0U);
  if (std::string why; hccl(why) != nullptr || acl(why) == nullptr) {  // a description has them
    info.capabilities |= TERN_CAP_COLLECTIVES;
    info.comm_bytes = comm_bytes();
  }
  put_text({info.name, sizeof info.name}, std::string(family_name(chip.family)) + " (" + chip.name + ")");
  put_text({info.arch, sizeof info.arch}, chip.name);
  put_text({info.driver_version, sizeof info.driver_version}, driver);
  info.memory_bytes = chip.memory_bytes;
  info.largest_allocation_bytes = chip.memory_bytes;
  info.alignment = kAlignment;
  info.import_alignment = kAlignment;
  for (const tern_dtype dtype :
       {TERN_F32, TERN_F16, TERN_I8, TERN_U8, TERN_I16, TERN_I32, TERN_U32, TERN_I64, TERN_BOOL}) {
    info.storage_dtypes |= 1U << dtype;
  }
  if (chip.has_bf16()) info.storage_dtypes |= 1U << TERN_BF16;
  info.matrix_units = TERN_MATRIX_UNITS_TENSOR;
  info.matmul_rate[TERN_COMPUTE_F32] = 1.0F;
  info.matmul_rate[TERN_COMPUTE_F16] = chip.has_fp32_products() ? 4.0F : 64.0F;  // else fp32 runs on vector units
  info.matmul_rate[TERN_COMPUTE_BF16] = chip.has_bf16() ? 4.0F : 0.0F;
  info.preferred_kv_block = 128;
  info.compute_units = chip.cube_cores;
  info.numa_node = -1;
  put_text({info.link, sizeof info.link}, chip.link);
  info.activation_dtype = chip.has_bf16() ? TERN_BF16 : TERN_F16;
  info.context_bytes = kContextBytes;
}

Shared& present(const Device* device) {
  if (device == nullptr) throw Error(TERN_INVALID_ARGUMENT, "no device was given");
  if (device->described()) {
    throw Error(TERN_UNSUPPORTED,
                std::string(device->chip->name) + " is a description alone: there is no device to run on");
  }
  device->shared->use();
  return *device->shared;
}

tern_status device_count(int32_t* count, tern_text reason) {
  return guarded([&]() -> tern_status {
    if (count == nullptr) return fail(TERN_INVALID_ARGUMENT, "device_count: no place for the count");
    std::string why;
    *count = count_devices(why);
    if (*count > 0) {
      try {
        (void)chip_of_machine();
      } catch (const Error& error) {
        *count = 0;
        why = error.what();
      }
    }
    put_text(reason, why);
    return TERN_OK;
  });
}

tern_status device_info(int32_t ordinal, tern_device_info* info) {
  return guarded([&]() -> tern_status {
    if (info == nullptr) return fail(TERN_INVALID_ARGUMENT, "device_info: no place for the answer");
    require_ordinal(ordinal);
    const Chip& chip = chip_of_machine();
    tern_device_info filled{};
    describe_chip(filled, chip, can_capture(chip), "AscendCL " + cann_version());
    put_text({filled.arch, sizeof filled.arch}, acl().aclrtGetSocName());
    fill_by_driver(ordinal, filled);
    filled.peer_mask = peers_of(ordinal);
    if (filled.peer_mask != 0) filled.capabilities |= TERN_CAP_PEER_COPY;
    return give_info(info, filled);
  });
}

tern_status device_describe(const char* profile, tern_device_info* info) {
  return guarded([&]() -> tern_status {
    const Chip& chip = profile_chip(profile);
    tern_device_info filled{};
    const bool captures = chip.family != Family::a910 && chip.family != Family::a310p;
    describe_chip(filled, chip, captures, "described");
    filled.described = 1;
    return give_info(info, filled);
  });
}

tern_status device_open(const tern_open_args* args, tern_device* device) {
  return guarded([&]() -> tern_status {
    tern_open_args own;
    require(tern_plugin_take_open_args(args, nullptr, &own));
    if (device == nullptr) return fail(TERN_INVALID_ARGUMENT, "device_open: no place for the device");
    auto opened = std::make_unique<tern_device_s>();
    if (own.profile != nullptr) {
      opened->chip = &profile_chip(own.profile);
    } else {
      require_ordinal(own.ordinal);
      opened->shared = open_shared(own.ordinal);
      opened->chip = opened->shared->chip;
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
    *health = TERN_HEALTH_OK;
    put_text(reason, "");
    if (!device->described()) *health = health_of(device->shared->ordinal, reason);
    return TERN_OK;
  });
}

tern_status memory_info(tern_device device, tern_memory_info* info) {
  return guarded([&]() -> tern_status {
    if (device == nullptr || info == nullptr) return fail(TERN_INVALID_ARGUMENT, "memory_info: a null argument");
    tern_memory_info filled{};
    if (device->described()) {
      filled.total = filled.free = device->chip->memory_bytes;
      return give_info(info, filled);
    }
    Shared& shared = present(device);
    std::size_t free = 0;
    std::size_t total = 0;
    const aclrtMemAttr kind = shared.chip->has_hbm() ? ACL_HBM_MEM : ACL_DDR_MEM;
    check(acl().aclrtGetMemInfo(kind, &free, &total), "asking for the device's memory");
    filled.total = total;
    filled.free = free;
    filled.in_use_by_process = __atomic_load_n(&shared.memory.in_use, __ATOMIC_RELAXED);
    filled.comm_bytes = shared.comm_bytes;
    filled.peak_by_process = __atomic_load_n(&shared.memory.peak, __ATOMIC_RELAXED);
    return give_info(info, filled);
  });
}

tern_status finalize() {
  return guarded([&]() -> tern_status {
    std::string why;
    const Acl* functions = started(why);
    if (functions != nullptr) check(functions->aclFinalize(), "aclFinalize");
    return TERN_OK;
  });
}

}  // namespace tern::npu
