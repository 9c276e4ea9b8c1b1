// The norms of the rows of W + scaling B A, by which DoRA divides (Liu et al., "DoRA: Weight-Decomposed Low-Rank
// Adaptation", 2024, section 4.3: no gradient flows through them). They change only where the adapter does, so they are
// stored beside it, and no step of decoding pays for them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/program.h"
#include "models/loader.h"
#include "nn/context.h"

namespace tern::models {

using Layers = std::map<std::string, nn::LoraLayer>;  // by module
using BuildProgram = std::function<std::unique_ptr<graph::Program>(const graph::Graph&)>;

class RowNorms {
 public:
  // Of the layers that have a magnitude; `store` has their weights and pairs. Measures the rows of the weights, once, if
  // the store doesn't only count.
  // Only the device's own ops are used, and nothing as large as a weight is kept:
  //   |w + s b A|^2 = |w|^2 + b . (2 s A w + s^2 (A A^T) b)
  RowNorms(std::shared_ptr<graph::TensorStore> store, const Layers& layers, const BuildProgram& build);

  // As the pairs are now: [out] by module.
  [[nodiscard]] std::map<std::string, std::vector<double>> measure();
  // Puts one over each into the layer's inverse_norm.
  void refresh();

 private:
  std::shared_ptr<graph::TensorStore> store_;
  Layers layers_;
  std::map<std::string, std::vector<float>> squares_;  // of the weights' rows, by module
  std::unique_ptr<graph::Program> changes_;            // what the pairs add to them
};

[[nodiscard]] bool has_magnitudes(const Layers& layers);
// For those who only read the adapter: refreshes once, where it has magnitudes.
void refresh_norms(const LoadedModel& model, const Layers& layers);

// For new pairs: magnitudes are the norms as they are, so that the model begins as it was.
void begin_magnitudes(const LoadedModel& model, const Layers& layers);

}  // namespace tern::models
