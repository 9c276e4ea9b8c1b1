// The data types of tern/accel.h with their names and sizes: one table.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tern/accel.h"

namespace tern {

struct DtypeInfo {
  tern_dtype dtype;
  std::string_view name;         // "bf16": in messages and flags
  std::string_view safetensors;  // "BF16": in safetensors headers
  std::string_view torch;        // "bfloat16": in config.json
  int bytes;
  bool floating;
};

[[nodiscard]] const DtypeInfo& dtype_info(tern_dtype dtype);
[[nodiscard]] inline std::string_view dtype_name(tern_dtype dtype) { return dtype_info(dtype).name; }
[[nodiscard]] inline int dtype_bytes(tern_dtype dtype) { return dtype_info(dtype).bytes; }

// Finds by any of the three names; none where no dtype has it.
[[nodiscard]] std::optional<tern_dtype> dtype_from_name(std::string_view name);

// One-plane packings (GGUF blocks): elements and bytes of a block; {0, 0} for the others.
struct BlockSize {
  int elements;
  int bytes;
};
[[nodiscard]] BlockSize packing_block(tern_packing packing);
[[nodiscard]] std::string_view packing_name(tern_packing packing);

}  // namespace tern
