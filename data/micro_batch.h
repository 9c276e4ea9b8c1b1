// A micro-batch: the tokens of its samples end to end, and named columns over its tokens, samples and groups.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/batch.h"
#include "data/column.h"

namespace tern::data {

inline constexpr std::int32_t kNoLabel = -100;

// The columns that every micro-batch has.
inline constexpr const char* kIds = "ids";              // per token, i32
inline constexpr const char* kPositions = "positions";  // per token, i32 [axes]: from 0 in each sample, of one axis
inline constexpr const char* kLabels = "labels";        // per token, i32: the sample's next token, else kNoLabel
inline constexpr const char* kLossWeights = "loss_weights";  // per token, f32: of `labels`
inline constexpr const char* kSampleIds = "sample_ids";      // per sample, u32: ids in the dataset

// Samples lie end to end, those of a group side by side; nothing attends across `cu_seqlens`.
struct MicroBatch {
  std::vector<std::int32_t> cu_seqlens;  // [samples + 1] in tokens
  std::vector<std::uint32_t> cu_groups;  // [groups + 1] in samples
  std::uint32_t longest = 0;             // tokens of the longest sample
  std::vector<BatchColumn> columns;

  [[nodiscard]] std::size_t tokens() const { return static_cast<std::size_t>(cu_seqlens.back()); }
  [[nodiscard]] std::size_t samples() const { return cu_seqlens.size() - 1; }
  [[nodiscard]] std::size_t groups() const { return cu_groups.size() - 1; }
  [[nodiscard]] std::size_t entries(Per per) const;

  [[nodiscard]] const BatchColumn* find(std::string_view name) const;
  // Throws std::logic_error where there is none.
  [[nodiscard]] const BatchColumn& column(std::string_view name) const;
  [[nodiscard]] BatchColumn& column(std::string_view name);
  // The values of a column: [entries, width]. Throws std::logic_error where there is none, or of another dtype.
  template <typename T>
  [[nodiscard]] std::span<const T> values(std::string_view name) const {
    return column(name).values<T>();
  }
  // Throws std::logic_error where the name is taken, or the values aren't one entry for each token, sample or group.
  template <typename T>
  void add(ColumnSpec spec, const std::vector<T>& values) {
    spec.dtype = dtype_of<T>();
    add(BatchColumn{std::move(spec), column_bytes(values), {}});
  }
  void add(BatchColumn column);
};

// The tokens of a plan's micro-batch with every column of the dataset, and those above: a dataset's own column of such
// a name stands in its place (positions of three axes).
[[nodiscard]] MicroBatch gather(const EncodedDataset& dataset, const MicroBatchPlan& plan);

}  // namespace tern::data
