// A checkpoint's weights by the names, shapes and row orders of a model's parameters, whatever the file holds.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/logical_tensors.h"
#include "models/stored_tensors.h"

namespace tern::models {

class ParameterReader {
 public:
  // The source must outlive the reader. `prefix` is left out of names that begin so (Encoder::prefix). Throws Failure
  // (data) where planes of a quantised weight do not fit together.
  explicit ParameterReader(const checkpoint::CheckpointSource& source, std::string_view prefix = {});
  // Of a part: `name_of` gives the name that a tensor has in it, empty for those of other parts.
  ParameterReader(const checkpoint::CheckpointSource& source,
                  const std::function<std::string(const std::string& tensor)>& name_of);

  // The tensors that the parameter is stored in, of a stack all, in its order. Throws Failure (data) where one is
  // absent or of another shape.
  [[nodiscard]] std::vector<const checkpoint::LogicalTensor*> find(const ParameterSpec& spec) const;
  // What the checkpoint has beside the language model: "visual", say (text_part.h).
  [[nodiscard]] const std::set<std::string>& other_parts() const { return other_parts_; }
  // Throws Failure (data) where one of them isn't there, or where the checkpoint has a tensor that no parameter is
  // stored in, unless it is needless.
  void require_all(std::span<const ParameterSpec> specs, const ModelConfig& config) const;
  // Those of them whose tensors are there. Throws Failure (data) as require_all, but for those of which there is none.
  [[nodiscard]] std::vector<ParameterSpec> found_of(std::span<const ParameterSpec> specs,
                                                    const ModelConfig& config) const;
  // Bytes of the file that are the parameter's.
  [[nodiscard]] std::uint64_t stored_bytes(const ParameterSpec& spec) const;

  // Expanded to fp32 [shape], rows in the model's own order. Throws Failure (data).
  [[nodiscard]] std::vector<float> read(const ParameterSpec& spec);
  // Of rows [first, first + count) alone.
  [[nodiscard]] std::vector<float> read(const ParameterSpec& spec, std::int64_t first, std::int64_t count);
  // Rows that no checkpoint has are those of new tokens (new_tokens.h).
  // Rows [first, first + count) of the parameter seen as [rows of all matrices, columns], in the numbers that a file of
  // that kind has of them, to the bit where this file is of the same. Throws Failure (data). Safe to call from several
  // threads.
  void read_rows(const ParameterSpec& spec, std::int64_t first, std::int64_t count, const ParameterSource& as,
                 std::span<float> values);

  [[nodiscard]] const checkpoint::CheckpointSource& source() const { return source_; }
  [[nodiscard]] const ParameterSource& source_of(const ParameterSpec& spec) const;

 private:
  void require_known(std::span<const ParameterSpec> specs, const ModelConfig& config) const;
  void read_stored(const checkpoint::LogicalTensor& tensor, std::int64_t first, std::int64_t count,
                   std::span<float> values) const;
  void read_with_added(const ParameterSpec& spec, std::int64_t first, std::int64_t count, const ParameterSource& as,
                       std::span<float> values);
  void read_run(const ParameterSpec& spec, const RowRun& run, std::span<float> values);
  void read_woven(const ParameterSpec& spec, std::int64_t first, std::int64_t count, std::span<float> values) const;
  void read_transposed(const checkpoint::LogicalTensor& tensor, const MatrixSizes& sizes, const RowRun& run,
                       std::span<float> values);

  const checkpoint::CheckpointSource& source_;
  std::map<std::string, checkpoint::LogicalTensor> tensors_;  // of the language model, by its own names
  std::set<std::string> other_parts_;
  ThreadPool pool_;
  std::mutex mutex_;  // of what follows: what was read last of tensors that are not read row by row
  const checkpoint::LogicalTensor* tensor_ = nullptr;
  std::int64_t matrix_ = -1;
  std::vector<float> kept_;
  std::mutex added_mutex_;  // of what follows: rows of new tokens, by parameter
  std::map<std::string, std::vector<float>> added_;
};

// The values of the tensor `name` as bytes in f32, bf16 or f16, each rounded once, to nearest even. Throws Failure
// (data) where a number is beyond what f16 holds.
[[nodiscard]] std::vector<std::byte> rounded(std::string_view name, std::span<const float> values, tern_dtype dtype);

}  // namespace tern::models
