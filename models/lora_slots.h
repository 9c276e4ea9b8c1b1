// Adapters that requests choose, on the device: each sits in a slot of the largest rank beside every layer that may
// have one (Sheng et al., "S-LoRA", 2023; Chen et al., "Punica", 2023).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/tensor_scope.h"
#include "models/adapter_pairs.h"
#include "models/loader.h"
#include "nn/context.h"

namespace tern::models {

class LoraSlots {
 public:
  // Makes empty slots in the model's store, which go with this: for each module a [slots, rank, in] and
  // b [slots, out, rank], fp32. Throws Failure (device) where memory does not suffice.
  LoraSlots(const LoadedModel& model, const std::vector<LinearModule>& modules, std::int64_t slots, std::int64_t rank);

  [[nodiscard]] const std::map<std::string, nn::LoraSlotsLayer>& layers() const { return layers_; }
  [[nodiscard]] std::int64_t num_slots() const { return slots_; }
  [[nodiscard]] std::int64_t rank() const { return rank_; }
  [[nodiscard]] std::uint64_t bytes() const { return tensors_.bytes(); }

  // Puts an adapter, of no larger rank and on no other modules, into a slot, in the place of what is there, and waits
  // for the copies. No program that reads the slot may run. Throws Failure (device).
  void fill(std::int64_t slot, const AdapterPairs& adapter);

 private:
  struct Module {
    std::int64_t in = 0;
    std::int64_t out = 0;
    std::vector<bool> used;  // by slot: what lies there is not zeros
  };
  std::shared_ptr<graph::TensorStore> store_;
  graph::TensorScope tensors_;
  std::int64_t slots_;
  std::int64_t rank_;
  std::map<std::string, nn::LoraSlotsLayer> layers_;
  std::map<std::string, Module> modules_;
  std::vector<float> staged_;
};

}  // namespace tern::models
