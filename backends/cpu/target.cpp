#include "backends/cpu/target.h"

#include <hwy/highway.h>
#include <hwy/targets.h>
#include <array>
#include <cstdlib>
#include <iterator>

#include "base/strings.h"

#if HWY_ARCH_X86
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tern::cpu {
namespace {

struct Entry {
  Target target;
  const char* name;
};

// Best last.
constexpr Entry kTargets[] = {
    {Target::baseline, "baseline"},
#if HWY_ARCH_X86
    {Target::avx2, "avx2"},
    {Target::avx512, "avx512"},
    {Target::avx512_vnni, "avx512_vnni"},
    {Target::avx512_bf16, "avx512_bf16"},
    {Target::amx_bf16, "amx_bf16"},
#elif HWY_ARCH_ARM_A64
    {Target::neon, "neon"},
    {Target::sve, "sve"},
    {Target::sve2, "sve2"},
#endif
};

// Highway's targets that serve one of ours; 0: its static baseline.
std::int64_t highway_targets(Target target) {
  switch (target) {
    case Target::avx2:
      return HWY_AVX2;
    case Target::avx512:
      return HWY_AVX3;
    case Target::avx512_vnni:
    case Target::avx512_bf16:
    case Target::amx_bf16:
      return HWY_AVX3_DL;
    case Target::sve:
      return HWY_SVE;
    case Target::sve2:
      return HWY_SVE2;
    case Target::neon:
      return HWY_NEON;
    case Target::baseline:
      break;
  }
  return HWY_STATIC_TARGET;
}

#if HWY_ARCH_X86
// Tiles and their products of bf16, and the system's leave to use them: their state is large, so Linux saves it only
// for who asked (Documentation/arch/x86/xstate.rst).
bool has_tiles() {
  static const bool has = [] {
    constexpr unsigned kBf16 = 1U << 22, kTiles = 1U << 24, kSaved = 1U << 27;
    constexpr int kRequestPermission = 0x1023, kTileData = 18;
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kSaved) == 0) return false;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kBf16) == 0 || (d & kTiles) == 0) return false;
    return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return has;
}
#endif

}  // namespace

const char* const* target_names() {
  static const auto names = [] {
    std::array<const char*, std::size(kTargets) + 1> all{};
    for (std::size_t i = 0; i < std::size(kTargets); ++i) all[i] = kTargets[i].name;
    return all;
  }();
  return names.data();
}

std::string_view target_name(Target target) {
  for (const auto& entry : kTargets) {
    if (entry.target == target) return entry.name;
  }
  return "unknown";
}

std::optional<Target> target_from_name(std::string_view name) {
  for (const auto& entry : kTargets) {
    if (name == entry.name) return entry.target;
  }
  return std::nullopt;
}

bool target_available(Target target) {
  if (target == Target::baseline) return true;
  if ((hwy::SupportedTargets() & highway_targets(target)) == 0) return false;
#if HWY_ARCH_X86
  if (target >= Target::avx512_bf16 && __builtin_cpu_supports("avx512bf16") == 0) return false;
  if (target == Target::amx_bf16) return has_tiles();
#endif
  return true;
}

std::optional<Target> choose_target(std::string& reason) {
  const char* forced = std::getenv("TERN_CPU_TARGET");
  if (forced == nullptr || *forced == '\0') {
    Target best = Target::baseline;
    for (const auto& entry : kTargets) {
      if (target_available(entry.target)) best = entry.target;
    }
    return best;
  }
  std::string available;
  for (const auto& entry : kTargets) {
    if (target_available(entry.target)) available += cat(available.empty() ? "" : ", ", entry.name);
  }
  const auto target = target_from_name(forced);
  if (target && target_available(*target)) return target;
  reason = cat("TERN_CPU_TARGET: expected one that this CPU runs (", available, "), found \"", forced,
               "\"; unset it to use the best");
  return std::nullopt;
}

}  // namespace tern::cpu
