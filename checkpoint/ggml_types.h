// The tensor types of GGUF files: one table. Layouts: the ggml project's `ggml-common.h` and the `gguf` package, which
// the golden tests compare with.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tern/accel.h"

namespace tern::checkpoint {

enum class GgmlType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q8_1 = 9,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  q8_k = 15,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
  q1_0 = 41,
};

struct GgmlTypeInfo {
  GgmlType type;
  std::string_view name;  // "Q4_1", as tools print it
  int block_elements;     // consecutive elements of a row that share one block
  int block_bytes;
  int file_type;  // general.file_type of a file made mostly of it; -1 where there is none
};

[[nodiscard]] std::span<const GgmlTypeInfo> ggml_types();
// nullptr where a file names a number that no type has (some were removed from the format).
[[nodiscard]] const GgmlTypeInfo* find_ggml_type(std::uint32_t number);
[[nodiscard]] const GgmlTypeInfo& ggml_type_info(GgmlType type);
[[nodiscard]] std::optional<GgmlType> ggml_type_from_name(std::string_view name);  // any case: "q4_1", "Q4_1"

// The plain dtype with the same bits, or none for block types.
[[nodiscard]] std::optional<tern_dtype> ggml_plain_dtype(GgmlType type);
[[nodiscard]] std::optional<GgmlType> ggml_type_of(tern_dtype dtype);
// The packing that ops know, or none where only `dequantize` serves.
[[nodiscard]] std::optional<tern_packing> ggml_packing(GgmlType type);

// Elements of a shape, or bytes of a tensor of it (rows are the last dimension); none on overflow of 63 bits or where
// a row is no multiple of the block.
[[nodiscard]] std::optional<std::uint64_t> element_count(std::span<const std::int64_t> shape);
[[nodiscard]] std::optional<std::uint64_t> ggml_tensor_bytes(GgmlType type, std::span<const std::int64_t> shape);

[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);  // "[2, 32]", for messages

}  // namespace tern::checkpoint
