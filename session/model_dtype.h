// One dtype a run: what `--torch_dtype` means, in every command.
//
// Unquantised weights are held in it; what is stored in another dtype is rounded once, when it's loaded. That holds for
// a GGUF's fp32 norms beside its quantised weights too, as transformers casts what it expands from a GGUF to
// torch_dtype. Quantised weights stay as stored and are expanded in a product. Products use at most its precision. What
// is trained has fp32 masters in any case.
#pragma once

#include <optional>

#include "base/status.h"
#include "checkpoint/checkpoint_source.h"
#include "models/config.h"
#include "tern/accel.h"

namespace tern::session {

// The dtype of a model, f32, bf16 or f16: `asked`, else what config.json names (dtype or torch_dtype), else that of the
// stored weights where they share one. What is left is bf16: a GGUF, which names none, and a mixture.
[[nodiscard]] tern_dtype model_dtype(const models::ModelConfig& config, const checkpoint::CheckpointSource& source,
                                     std::optional<tern_dtype> asked = std::nullopt);

// What products of a model of that dtype round their inputs to: the dtype where the device multiplies it faster than
// f32, else f32. It's never another 16-bit dtype: that would lose range or digits which the model has.
[[nodiscard]] tern_compute compute_dtype(const tern_device_info& device, tern_dtype dtype);

// What intermediates are kept in: `asked`, else what the device says. Errors (usage): the device can't store it.
[[nodiscard]] Result<tern_dtype> activation_dtype(const tern_device_info& device, std::optional<tern_dtype> asked);

// The dtype where the device can store it; else f16 where it has that alone of the 16-bit dtypes and products in it, as
// older accelerators do; else f32.
[[nodiscard]] tern_dtype storable_dtype(const tern_device_info& device, tern_dtype dtype);

// What a model of the dtype `own` runs in: `asked`, else its own where the device can store it. Errors (usage): the
// device can't store what was asked for.
[[nodiscard]] Result<tern_dtype> run_dtype(const tern_device_info& device, tern_dtype own,
                                           std::optional<tern_dtype> asked);

}  // namespace tern::session
