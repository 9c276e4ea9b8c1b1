// The instruction sets that kernels are compiled for, and the one that this process uses.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tern::cpu {

// In rising order on x86: each includes the ones before it. Arm has its own three.
enum class Target {
  baseline = 0,     // x86-64-v2 (SSE4.2), or whatever the compiler's base is elsewhere
  avx2 = 1,         // AVX2, FMA, F16C
  avx512 = 2,       // AVX-512 F, BW, CD, DQ, VL
  avx512_vnni = 3,  // and VNNI, VBMI, VBMI2, BITALG, VPOPCNTDQ (Ice Lake, Zen 4)
  avx512_bf16 = 4,  // and BF16 dot products (Cooper Lake, Zen 4)
  amx_bf16 = 5,     // and matrix products of BF16 tiles (Sapphire Rapids)
  neon = 8,
  sve = 9,
  sve2 = 10,
};

// The names of all that there are for this architecture; null-terminated.
[[nodiscard]] const char* const* target_names();
[[nodiscard]] std::string_view target_name(Target target);
[[nodiscard]] std::optional<Target> target_from_name(std::string_view name);

// Whether this CPU (and its operating system) runs the target. Asks Linux, once, to let this process use tiles.
[[nodiscard]] bool target_available(Target target);

// The best available target, or the one that the environment variable TERN_CPU_TARGET names. Where that is unknown or
// not available, none, and `reason` says so with the mend.
[[nodiscard]] std::optional<Target> choose_target(std::string& reason);

}  // namespace tern::cpu
