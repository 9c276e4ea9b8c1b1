// What Q-GaLore does with GaLore's projections (Zhang et al., "Q-GaLore: Quantized GaLore with INT4 Projection and
// Layer-Adaptive Low-Rank Gradients", 2024), as q-galore-torch has it: they are kept in few bits, and found the less
// often the less they turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "ops/tensor_desc.h"
#include "train/optimizers/options.h"

namespace tern::train {

// How a projection [rows, columns] is kept: fp32; or quantised, a scale and a zero point for each group of its numbers
// in row-major order, a group in a row (GPTQ's packing, with rows of zeros up to a multiple of 32). Throws Failure
// (usage) where groups don't go into its numbers.
[[nodiscard]] TensorDesc projection_desc(const std::string& parameter, std::int64_t rows, std::int64_t columns,
                                         const GaloreOptions& options);
// The bytes of `values` [rows, columns] in it.
[[nodiscard]] std::vector<std::byte> projection_bytes(std::span<const float> values, const TensorDesc& desc);
// The projection [rows, columns] in fp32, of what is kept.
[[nodiscard]] ops::Value projection_value(graph::Graph& graph, ops::Value kept, std::int64_t rows,
                                          std::int64_t columns);

// After how many steps a matrix's projection is found anew: the gap, times gamma whenever the last few leading vectors
// have turned little, by the mean cosine between each and the one before.
class AdaptiveGap {
 public:
  // `size`: of a leading vector.
  AdaptiveGap(const GaloreOptions& options, std::int64_t size);
  [[nodiscard]] std::int64_t gap() const { return gap_; }
  void observe(std::span<const float> leading);

  // As a checkpoint keeps it: gap, number of cosines (-1: there was no vector yet), [queue_size] cosines, [size] the
  // last vector.
  [[nodiscard]] static std::int64_t state_size(const GaloreOptions& options, std::int64_t size);
  [[nodiscard]] std::vector<float> state() const;
  void restore(std::span<const float> state);  // of zeros: as it began

 private:
  QGaloreOptions options_;
  std::int64_t size_;
  std::int64_t gap_;
  std::vector<float> cosines_;
  std::vector<float> last_;  // empty: none yet
};

}  // namespace tern::train
