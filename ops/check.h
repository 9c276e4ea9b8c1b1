// Small helpers of the per-op checks.
#pragma once

#include <span>
#include <string>

#include "base/strings.h"
#include "ops/emit.h"
#include "ops/table.h"

namespace tern::ops {

using Args = std::span<const TensorDesc>;
using AttrBytes = std::span<const std::byte>;

// The first problem that is one.
template <typename... Problems>
[[nodiscard]] std::string first_problem(const Problems&... problems) {
  std::string out;
  ((out.empty() ? void(out = problems) : void()), ...);
  return out;
}

[[nodiscard]] inline std::string require(bool ok, std::string_view problem) {
  return ok ? std::string() : std::string(problem);
}

[[nodiscard]] inline std::string require_flag(std::string_view name, std::int32_t value) {
  return require(value == 0 || value == 1, cat(name, ": expected 0 or 1, found ", value));
}

// A dtype that products may round to.
[[nodiscard]] inline std::string require_compute(std::int32_t dtype) {
  return require(dtype == TERN_F32 || dtype == TERN_F16 || dtype == TERN_BF16,
                 cat("compute: expected f32, f16 or bf16, found ", dtype));
}

// Dimensions by the names in the table's shape texts, the same in every argument; private-layout tensors included.
[[nodiscard]] std::string check_shapes(const OpSpec& spec, Args args);

}  // namespace tern::ops
