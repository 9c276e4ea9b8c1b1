// The planes of quantised weights in a checkpoint: found, checked against each other, and crossed off.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint_source.h"
#include "checkpoint/logical_tensors.h"
#include "io/json_field.h"

namespace tern::checkpoint {

// The mend of planes that don't fit each other.
inline constexpr const char* kRefetch = "fetch the checkpoint again, or use the unquantised one";
inline constexpr const char* kRestore = "restore the model's config.json";

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline bool is_block(std::int64_t size) { return size > 0 && size <= (std::int64_t{1} << 30); }
inline std::string base_of(const std::string& name, std::string_view tail) {
  return name.substr(0, name.size() - tail.size());
}

// "quantization_config" of config.json (compressed-tensors once called it "compression_config"); nothing where it has
// none. The source must outlive it.
[[nodiscard]] std::optional<io::JsonField> quantization_config(const CheckpointSource& source);

class PlaneFinder {
 public:
  explicit PlaneFinder(const CheckpointSource& source);

  [[nodiscard]] const CheckpointSource& source() const { return source_; }
  [[nodiscard]] const std::optional<io::JsonField>& quantization() const { return quantization_; }
  [[nodiscard]] const std::string& method() const { return method_; }  // "gptq"; empty: none
  [[nodiscard]] std::int64_t setting(const char* key, std::int64_t otherwise) const;
  [[nodiscard]] std::string setting(const char* key, std::string_view otherwise) const;

  [[nodiscard]] bool has(const std::string& name) const { return source_.find(name) != nullptr; }
  [[nodiscard]] bool is_taken(const std::string& name) const { return taken_.contains(name); }
  void take(const std::string& name) { taken_.insert(name); }  // it's no tensor of its own

  // Below, what isn't as expected throws Failure (data).
  // A plane with one of the dtypes, which is taken.
  const SourceTensor& plane(const std::string& name, std::initializer_list<tern_dtype> dtypes);
  void expect_shape(const SourceTensor& tensor, const std::vector<std::int64_t>& shape) const;
  void expect_rank(const SourceTensor& tensor, std::size_t rank) const;
  // `groups` scales of k inputs.
  void expect_groups(const SourceTensor& scale, std::int64_t k, std::int64_t groups) const;
  [[nodiscard]] std::string where(const std::string& name) const;
  // That a tensor was to be as `expected`.
  [[nodiscard]] Failure misfit(const std::string& name, const std::string& expected, const std::string& found) const;

 private:
  const CheckpointSource& source_;
  std::optional<io::JsonField> quantization_;
  std::string method_;
  std::set<std::string> taken_;
};

}  // namespace tern::checkpoint
