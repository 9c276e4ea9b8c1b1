// From a checkpoint to tensors on a device, by the names that the model uses. What a quantiser split comes together
// again: AWQ, GPTQ, FP8, nf4, MXFP4 and int8 checkpoints load like any other.
#pragma once

#include <functional>
#include <memory>

#include "accel/device.h"
#include "checkpoint/checkpoint_source.h"
#include "graph/tensor_store.h"
#include "models/registry.h"

namespace tern::models {

struct LoadOptions {
  // Weights become fp32 masters: for training all of them. Else they stay as stored, mapped without a copy where the
  // device can; a quantised weight that the device has no product for is expanded to bf16.
  bool fp32_masters = false;
  std::int64_t max_positions = 0;  // rows of the rope tables; 0: as the config says
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;  // bytes
};

struct LoadedModel {
  ModelConfig config;
  const Architecture* architecture = nullptr;
  std::shared_ptr<checkpoint::CheckpointSource> source;  // keeps mapped weights alive
  std::shared_ptr<graph::TensorStore> store;
  std::vector<std::string> notes;  // what was decided about storage, to be printed
};

// Errors (data): an absent or misshapen tensor, one that the model has no use for; (device): no memory.
[[nodiscard]] Result<LoadedModel> load_model(std::shared_ptr<checkpoint::CheckpointSource> source,
                                             accel::DevicePtr device, const LoadOptions& options);

// The dtype in which the device multiplies fastest, no wider than needed: what `--torch_dtype` absent means.
[[nodiscard]] tern_dtype fastest_compute_dtype(const accel::Device& device);

}  // namespace tern::models
