// From a checkpoint to tensors on a device, by the names that the model uses. What a quantiser split comes together
// again: AWQ, GPTQ, FP8, nf4, MXFP4 and int8 checkpoints load like any other.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accel/device.h"
#include "checkpoint/checkpoint_source.h"
#include "graph/tensor_store.h"
#include "models/quantise.h"
#include "models/registry.h"

namespace tern::models {

class ParameterReader;

struct LoadOptions {
  // Of the model: f32, bf16 or f16. Unquantised weights are held in it: mapped without a copy where they are stored so
  // and the device can, else rounded once. Quantised weights stay as stored; where the device has no product for them,
  // they are expanded to it.
  tern_dtype dtype = TERN_F32;
  // Of a weight that is trained: it becomes an fp32 master, whatever the dtype. Unset: none is.
  std::function<bool(const std::string& name)> is_master;
  // What unquantised weights of linear layers become, once rounded to dtype; the head, embeddings, norms and routers do
  // not. A weight that is quantised already, or trained, is an error (usage).
  std::optional<QuantiseOptions> quantise;
  bool vision = false;             // the tower's weights, too, where the model has one
  bool vision_later = false;       // they are read by load_vision where an image comes: nothing is left out
  std::int64_t max_positions = 0;  // rows of the rope tables; 0: as the config says
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;  // bytes
  // None: the store only counts what it would hold, and no weight is read (graph/tensor_store.h).
  accel::Backing backing = accel::Backing::device;
};

// The tensors of a Hugging Face directory of that model whose weights are not here, stored in `dtype`: for
// CheckpointSource::describe.
[[nodiscard]] std::vector<checkpoint::SourceTensor> described_tensors(const ModelConfig& config, tern_dtype dtype);

struct LoadedModel {
  ModelConfig config;
  tern_dtype dtype = TERN_F32;  // as LoadOptions had it
  const Architecture* architecture = nullptr;
  std::shared_ptr<checkpoint::CheckpointSource> source;  // keeps mapped weights alive
  std::shared_ptr<graph::TensorStore> store;
  std::vector<std::string> notes;          // what was decided about storage, to be printed
  std::filesystem::path saved_modules_of;  // the adapter whose modules stand in the place of its own (saved_modules.h)
};

// Puts the parameters of a list into the store, under their own names; gives what is to be printed. Errors as
// load_model.
// `reader` reads `source`, which keeps mapped weights alive.
[[nodiscard]] Result<std::vector<std::string>> load_parameters(std::span<const ParameterSpec> specs,
                                                               ParameterReader& reader,
                                                               std::shared_ptr<checkpoint::CheckpointSource> source,
                                                               graph::TensorStore& store, const LoadOptions& options);

// `config` is what read_config made of the source. Errors (data): an absent or misshapen tensor, one that the model has
// no use for; (device): no memory.
[[nodiscard]] Result<LoadedModel> load_model(ModelConfig config, std::shared_ptr<checkpoint::CheckpointSource> source,
                                             accel::DevicePtr device, const LoadOptions& options);

}  // namespace tern::models
