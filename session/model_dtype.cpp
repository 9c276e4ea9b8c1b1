#include "session/model_dtype.h"

#include <set>

#include "base/dtype.h"
#include "base/strings.h"
#include "models/registry.h"

namespace tern::session {
namespace {

bool is_model_dtype(std::optional<tern_dtype> dtype) {
  return dtype == TERN_F32 || dtype == TERN_BF16 || dtype == TERN_F16;
}

// Of the model's own tensors alone: a table of phases that an exporter left in the file is no weight.
std::optional<tern_dtype> shared_dtype(const models::ModelConfig& config, const checkpoint::CheckpointSource& source) {
  std::set<tern_dtype> dtypes;
  for (const auto& spec : models::find_architecture(config.architecture)->parameters(config)) {
    if (spec.is_buffer) continue;
    for (const std::string& name : models::source_in(spec, models::form_of(source)).tensors) {
      const auto* tensor = source.find(name);
      if (tensor == nullptr) tensor = source.find(cat(models::encoder_prefix(config), name));
      if (tensor != nullptr && is_model_dtype(tensor->storage.dtype)) dtypes.insert(*tensor->storage.dtype);
    }
  }
  return dtypes.size() == 1 ? std::optional(*dtypes.begin()) : std::nullopt;
}

}  // namespace

tern_dtype model_dtype(const models::ModelConfig& config, const checkpoint::CheckpointSource& source,
                       std::optional<tern_dtype> asked) {
  if (asked) return *asked;
  if (source.gguf() != nullptr) return TERN_BF16;
  const auto named = dtype_from_name(config.torch_dtype);
  return is_model_dtype(named) ? *named : shared_dtype(config, source).value_or(TERN_BF16);
}

tern_compute compute_dtype(const tern_device_info& device, tern_dtype dtype) {
  // a float dtype has the number of the products that round to it
  static_assert(int{TERN_COMPUTE_F32} == int{TERN_F32} && int{TERN_COMPUTE_F16} == int{TERN_F16} &&
                int{TERN_COMPUTE_BF16} == int{TERN_BF16});
  return device.matmul_rate[dtype] > device.matmul_rate[TERN_COMPUTE_F32] ? dtype : TERN_COMPUTE_F32;
}

Result<tern_dtype> activation_dtype(const tern_device_info& device, std::optional<tern_dtype> asked) {
  if (!asked) return storable_dtype(device, device.activation_dtype);
  if (storable_dtype(device, *asked) == *asked) return *asked;
  return usage_error(cat("--activation_dtype is ", dtype_info(*asked).torch, ", and ", device.name, " can't store it"),
                     "drop the flag");
}

tern_dtype storable_dtype(const tern_device_info& device, tern_dtype dtype) {
  const auto stores = [&](tern_dtype it) { return (device.storage_dtypes & (1U << it)) != 0; };
  if (stores(dtype)) return dtype;
  return dtype == TERN_BF16 && stores(TERN_F16) && device.matmul_rate[TERN_COMPUTE_F16] > 0 ? TERN_F16 : TERN_F32;
}

Result<tern_dtype> run_dtype(const tern_device_info& device, tern_dtype own, std::optional<tern_dtype> asked) {
  const tern_dtype dtype = storable_dtype(device, asked.value_or(own));
  if (!asked || dtype == *asked) return dtype;
  return usage_error(cat("--torch_dtype is ", dtype_info(*asked).torch, ", and ", device.name, " can't store it"),
                     cat("drop the flag, or give ", dtype_info(dtype).torch));
}

}  // namespace tern::session
