#include <algorithm>

#include "backends/cpu/int8.h"
#include "backends/cpu/interface.h"
#include "backends/cpu/runtime.h"
#include "backends/cpu/system.h"
#include "base/strings.h"
#ifdef TERN_CPU_ONEDNN
#include "backends/cpu/onednn.h"
#endif

namespace tern::cpu {
namespace {

// One pool a process, however many handles are open: two would fight for the same cores.
std::shared_ptr<ThreadPool> shared_pool() {
  static std::mutex mutex;
  static std::weak_ptr<ThreadPool> alive;
  const std::lock_guard lock(mutex);
  auto pool = alive.lock();
  if (!pool) {
    pool = std::make_shared<ThreadPool>(host().num_threads);
    alive = pool;
  }
  return pool;
}

// Keys the remembered choices, so it names the libraries whose kernels they may name.
std::string driver_version() {
#ifdef TERN_CPU_ONEDNN
  return cat("0.1.0, oneDNN ", onednn_version());
#else
  return "0.1.0";
#endif
}

bool has_bf16_products(Target target) { return target == Target::avx512_bf16 || target == Target::amx_bf16; }

void fill_info(tern_device_info& info, Target target) {
  info.capabilities = TERN_CAP_CAPTURE | TERN_CAP_IMPORT_HOST | TERN_CAP_DYNAMIC_SHAPES | TERN_CAP_HOST_POINTER |
                      TERN_CAP_PHILOX | TERN_CAP_EAGER | TERN_CAP_EVICT | TERN_CAP_NATIVE_MEMORY | TERN_CAP_PROFILE;
  put_text({info.name, sizeof info.name}, processor_name());
  put_text({info.arch, sizeof info.arch}, target_name(target));
  put_text({info.driver_version, sizeof info.driver_version}, driver_version());
  const auto memory = system_memory();
  info.memory_bytes = memory.total;
  info.largest_allocation_bytes = memory.total;
  info.alignment = 64;
  info.import_alignment = 1;  // kernels load unaligned; a file's tensors are where they are
  info.storage_dtypes = (1U << TERN_DTYPE_COUNT) - 1;
  info.matrix_units = TERN_MATRIX_UNITS_VECTOR;
  info.matmul_rate[TERN_COMPUTE_F32] = 1.0F;
  info.matmul_rate[TERN_COMPUTE_BF16] =
      has_bf16_products(target) ? 2.0F : 0.9F;  // without dot products: widened, then fp32
  info.matmul_rate[TERN_COMPUTE_F16] = 0.9F;
  // Of many rows: those of bf16 by tiles are faster.
  if (int8_kernels(target) != nullptr)
    info.matmul_rate[TERN_COMPUTE_INT8] = target == Target::avx512_vnni || target == Target::avx512_bf16 ? 3.0F : 1.5F;
  info.preferred_kv_block = 16;
  info.compute_units = host().num_threads > 0 ? host().num_threads : usable_threads();
  info.numa_node = -1;
  put_text({info.link, sizeof info.link}, "host");
  info.activation_dtype = TERN_F32;
  info.x15_rows = 16;  // with more, expanding panels for fp32 products is as fast
}

// The instruction set that a profile is named after, on a machine like this one; throws where it names none.
Target profile_target(const char* profile) {
  std::uint32_t place = 0;
  require(tern_plugin_find_profile(target_names(), profile, &place));
  return *target_from_name(profile);
}

}  // namespace

Host& host() {
  static Host instance;
  return instance;
}

const char* const kDeviceOptions[] = {"memory_limit: bytes that the buffers of this handle may take", nullptr};

void require_present(const Device* device) {
  if (device == nullptr) throw tern_plugin::Error(TERN_INVALID_ARGUMENT, "no device was given");
  if (!device->described) return;
  throw tern_plugin::Error(TERN_UNSUPPORTED, cat("cpu:", target_name(device->target),
                                                 " is a description alone: there is no device to run on"));
}

tern_status device_count(int32_t* count, tern_text reason) {
  return guarded([&]() -> tern_status {
    if (count == nullptr) return fail(TERN_INVALID_ARGUMENT, "device_count: no place for the count");
    std::string why;
    *count = choose_target(why) ? 1 : 0;
    put_text(reason, why);
    return TERN_OK;
  });
}

tern_status device_info(int32_t ordinal, tern_device_info* info) {
  return guarded([&]() -> tern_status {
    std::string why;
    const auto target = choose_target(why);
    if (ordinal != 0 || info == nullptr)
      return fail(TERN_INVALID_ARGUMENT, cat("cpu:", ordinal, ": the one device is cpu:0"));
    if (!target) return fail(TERN_UNSUPPORTED, why);
    tern_device_info filled{};
    fill_info(filled, *target);
    return give_info(info, filled);
  });
}

tern_status device_describe(const char* profile, tern_device_info* info) {
  return guarded([&]() -> tern_status {
    tern_device_info filled{};
    fill_info(filled, profile_target(profile));
    filled.described = 1;
    return give_info(info, filled);
  });
}

tern_status device_open(const tern_open_args* args, tern_device* device) {
  return guarded([&]() -> tern_status {
    tern_open_args own;
    require(tern_plugin_take_open_args(args, kDeviceOptions, &own));
    if (own.ordinal > 0 || device == nullptr)
      return fail(TERN_INVALID_ARGUMENT, cat("cpu:", own.ordinal, ": the one device is cpu:0"));
    auto opened = std::make_unique<tern_device_s>();
    opened->described = own.profile != nullptr;
    if (opened->described) {
      opened->target = profile_target(own.profile);
    } else {
      std::string why;
      const auto target = choose_target(why);
      if (!target) return fail(TERN_UNSUPPORTED, why);
      opened->target = *target;
    }
    opened->budget = std::make_shared<tern_plugin_memory>(tern_plugin_memory{UINT64_MAX, 0, 0});
    require(tern_plugin_option_number(&own, "memory_limit", 0, UINT64_MAX, &opened->budget->total));
    opened->pool = shared_pool();
    *device = opened.release();
    return TERN_OK;
  });
}

tern_status device_close(tern_device device) {
  const std::unique_ptr<tern_device_s> owner(device);
  return TERN_OK;
}

tern_status device_health(tern_device device, int32_t* health, tern_text reason) {
  if (device == nullptr || health == nullptr) return fail(TERN_INVALID_ARGUMENT, "device_health: a null argument");
  *health = TERN_HEALTH_OK;
  put_text(reason, "");
  return TERN_OK;
}

tern_status doctor(uint32_t check, int32_t* level, tern_text line) {
  return guarded([&]() -> tern_status {
    if (level == nullptr) return fail(TERN_INVALID_ARGUMENT, "doctor: no place for the level");
    *level = TERN_LOG_INFO;
    switch (check) {
      case 0: {
        std::string why;
        const auto target = choose_target(why);
        if (!target) *level = TERN_LOG_ERROR;
        if (target == Target::baseline) *level = TERN_LOG_WARN;
        put_text(line, target
                           ? cat("instruction set: ", target_name(*target),
                                 *target == Target::baseline ? "; without AVX2 products are several times slower" : "")
                           : why);
        return TERN_OK;
      }
      case 1: {
        const int usable = usable_threads();
        const int used = host().num_threads > 0 ? host().num_threads : usable;
        if (used > usable) *level = TERN_LOG_WARN;
        put_text(line, cat("threads: ", used, " of ", usable, " usable",
                           used > usable ? "; more threads than cores slow every loop down: lower --threads" : ""));
        return TERN_OK;
      }
      case 2: {
        const auto memory = system_memory();
        if (memory.free < memory.total / 10) *level = TERN_LOG_WARN;
        put_text(line, cat("memory: ", human_bytes(memory.free), " of ", human_bytes(memory.total), " available"));
        return TERN_OK;
      }
      default:
        return TERN_UNSUPPORTED;
    }
  });
}

tern_status memory_info(tern_device device, tern_memory_info* info) {
  return guarded([&]() -> tern_status {
    if (device == nullptr || info == nullptr) return fail(TERN_INVALID_ARGUMENT, "memory_info: a null argument");
    const auto system = system_memory();
    const tern_plugin_memory& budget = *device->budget;
    auto& held = memory();
    const std::lock_guard lock(held.mutex);
    tern_memory_info filled{};
    filled.total = std::min(system.total, budget.total);
    filled.free = std::min(system.free, budget.total - budget.in_use);
    if (device->described) {
      filled.free = filled.total;
      return give_info(info, filled);
    }
    filled.in_use_by_process = held.in_use;
    filled.peak_by_process = held.peak;
    return give_info(info, filled);
  });
}

}  // namespace tern::cpu
