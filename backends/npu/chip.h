// The chips that this backend knows, and what of them decides which calls CANN takes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tern::npu {

// Families of chips, each with rules of its own in CANN's documentation.
enum class Family {
  a910,   // Ascend910A and its kind: the first training chip; no bf16
  a310p,  // Ascend310P: inference; no bf16
  a2,     // Ascend910B1 to B4
  a3,     // Ascend910_93: two dies a card
  a950,   // Ascend950
};

struct Chip {
  const char* name;  // as aclrtGetSocName gives it; of the 950, the beginning
  Family family;
  std::int32_t cube_cores;
  std::uint64_t memory_bytes;  // of the usual card with it; the driver says what is there
  const char* link;

  [[nodiscard]] bool has_bf16() const { return family != Family::a910 && family != Family::a310p; }
  // Whether the matrix unit multiplies fp32 as fp32. Elsewhere it knows fp16 alone, and gives fp16.
  [[nodiscard]] bool has_fp32_products() const { return has_bf16(); }
  [[nodiscard]] bool is_trainable() const { return family != Family::a310p; }
  // Whether memory is attached as HBM; the 310P has DDR.
  [[nodiscard]] bool has_hbm() const { return family != Family::a310p; }
};

// Null: no chip of this name is known.
[[nodiscard]] const Chip* find_chip(std::string_view soc_name);
[[nodiscard]] std::span<const Chip> chips();
// Names for tern_backend.profiles, null-terminated.
[[nodiscard]] const char* const* chip_names();
[[nodiscard]] const char* family_name(Family family);

}  // namespace tern::npu
