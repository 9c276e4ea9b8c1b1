// What the layers of a VeRA adapter share: two random matrices that nobody trains, of which each layer takes as many
// columns of one and rows of the other as it has inputs and outputs (Kopiczko et al., "VeRA: Vector-based Random Matrix
// Adaptation", 2024).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "graph/tensor_scope.h"
#include "models/adapter_config.h"

namespace tern::models {

struct LinearModule;

struct Projections {
  std::int64_t in = 0;   // the most inputs of a layer
  std::int64_t out = 0;  // the most outputs
  std::vector<float> a;  // [rank, in]
  std::vector<float> b;  // [out, rank]

  // What a layer takes of them: [rank, inputs], [outputs, rank].
  [[nodiscard]] std::vector<float> a_of(std::int64_t inputs) const;
  [[nodiscard]] std::vector<float> b_of(std::int64_t outputs) const;
};

inline constexpr const char* kVeraA = "base_model.vera_A";  // in PEFT's file
inline constexpr const char* kVeraB = "base_model.vera_B";

// As PEFT draws them with PyTorch's generator, to the last bit but one.
[[nodiscard]] Projections drawn_projections(const AdapterConfig& config, std::int64_t in, std::int64_t out);
// Those of a file, else drawn for layers of at most so many inputs and outputs. Throws Failure (data) where those of
// the file are smaller.
[[nodiscard]] Projections projections_of(const AdapterConfig& config, const checkpoint::Safetensors& file,
                                         std::int64_t in, std::int64_t out);

// Stored names of what layers with so many inputs, or outputs, share.
[[nodiscard]] std::string stored_vera_a(const std::string& adapter, std::int64_t inputs);
[[nodiscard]] std::string stored_vera_b(const std::string& adapter, std::int64_t outputs);
// Creates them for these layers; fills them.
void create_projections(graph::TensorScope& tensors, const std::string& adapter, const AdapterConfig& config,
                        const std::vector<LinearModule>& modules);
void fill_projections(graph::TensorStore& store, const std::string& adapter, const Projections& projections,
                      const std::vector<LinearModule>& modules);
// The most inputs and outputs of a layer.
struct LargestLayer {
  std::int64_t in = 0;
  std::int64_t out = 0;
};
[[nodiscard]] LargestLayer largest_of(const std::vector<LinearModule>& modules);

}  // namespace tern::models
