// A checkpoint's weights by the names, shapes and row orders of a model's parameters, whatever the file holds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/logical_tensors.h"
#include "models/parameters.h"

namespace tern::models {

class ParameterReader {
 public:
  // The source must outlive the reader. Throws Failure (data) where planes of a quantised weight do not fit together.
  explicit ParameterReader(const checkpoint::CheckpointSource& source);

  // The stored weight. Throws Failure (data) where it is absent or of another shape.
  [[nodiscard]] const checkpoint::LogicalTensor& find(const ParameterSpec& spec) const;
  // Every weight of the checkpoint, by the name that the file gives it.
  [[nodiscard]] const std::map<std::string, checkpoint::LogicalTensor>& all() const { return tensors_; }
  // Expanded to fp32 [shape], rows in the model's own order. Throws Failure (data).
  [[nodiscard]] std::vector<float> read(const ParameterSpec& spec);
  // Where the model's rows are, in the order of `spec`; empty: the file has the same order.
  [[nodiscard]] std::vector<std::int64_t> rows(const ParameterSpec& spec) const;

  [[nodiscard]] const checkpoint::CheckpointSource& source() const { return source_; }

 private:
  const checkpoint::CheckpointSource& source_;
  std::map<std::string, checkpoint::LogicalTensor> tensors_;
  ThreadPool pool_;
};

// The values as bytes in f32, bf16 or f16, each rounded once, to nearest even.
[[nodiscard]] std::vector<std::byte> rounded(const std::vector<float>& values, tern_dtype dtype);

}  // namespace tern::models
