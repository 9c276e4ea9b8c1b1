// The chips that the fake can be, from the runtime's own table (platform_config) and torch_npu's names.
#pragma once

#include <cstdint>
#include <string_view>

namespace fake {

enum class Family { k910, kA2, kA3, k310P, kA5 };  // 910A; 910B1-4; 910_93; 310P; 950

struct Chip {
  std::string_view name;  // as aclrtGetSocName says it
  Family family = Family::kA2;
  std::int32_t cube_cores = 0;
  std::int32_t vector_cores = 0;
  std::int64_t unified_buffer = 0;  // bytes
  [[nodiscard]] constexpr bool has_bf16() const { return family != Family::k910 && family != Family::k310P; }
};

// By full name, with or without "Ascend" before it; null: no such chip.
[[nodiscard]] const Chip* find_chip(std::string_view name);

}  // namespace fake
