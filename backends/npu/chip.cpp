#include "backends/npu/chip.h"

#include <array>

namespace tern::npu {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// Names and cores: CANN's platform_config. "Ascend910B" alone is the old chip, not the A2. The 950 has many names of
// one beginning.
constexpr auto kChips = std::to_array<Chip>({
    {"Ascend910A", Family::a910, 32, 32 * kGiB, "hccs"},        {"Ascend910B", Family::a910, 32, 32 * kGiB, "hccs"},
    {"Ascend910ProA", Family::a910, 32, 32 * kGiB, "hccs"},     {"Ascend910ProB", Family::a910, 30, 32 * kGiB, "hccs"},
    {"Ascend910PremiumA", Family::a910, 32, 32 * kGiB, "hccs"}, {"Ascend310P1", Family::a310p, 10, 24 * kGiB, "pcie"},
    {"Ascend310P3", Family::a310p, 8, 24 * kGiB, "pcie"},       {"Ascend310P5", Family::a310p, 8, 24 * kGiB, "pcie"},
    {"Ascend310P7", Family::a310p, 8, 24 * kGiB, "pcie"},       {"Ascend910B1", Family::a2, 24, 64 * kGiB, "hccs"},
    {"Ascend910B2", Family::a2, 24, 64 * kGiB, "hccs"},         {"Ascend910B2C", Family::a2, 24, 64 * kGiB, "hccs"},
    {"Ascend910B3", Family::a2, 20, 64 * kGiB, "hccs"},         {"Ascend910B4", Family::a2, 20, 32 * kGiB, "hccs"},
    {"Ascend910B4-1", Family::a2, 20, 64 * kGiB, "hccs"},       {"Ascend910_9391", Family::a3, 24, 64 * kGiB, "hccs"},
    {"Ascend910_9392", Family::a3, 24, 64 * kGiB, "hccs"},      {"Ascend910_9381", Family::a3, 24, 64 * kGiB, "hccs"},
    {"Ascend910_9382", Family::a3, 24, 64 * kGiB, "hccs"},      {"Ascend910_9372", Family::a3, 20, 64 * kGiB, "hccs"},
    {"Ascend910_9362", Family::a3, 20, 64 * kGiB, "hccs"},      {"Ascend910_9363", Family::a3, 20, 64 * kGiB, "hccs"},
    {"Ascend950", Family::a950, 32, 112 * kGiB, "hccs"},
});

constexpr auto make_names() {
  std::array<const char*, kChips.size() + 1> names{};
  for (std::size_t i = 0; i < kChips.size(); ++i) names[i] = kChips[i].name;
  return names;
}
constexpr auto kNames = make_names();

}  // namespace

const Chip* find_chip(std::string_view soc_name) {
  for (const Chip& chip : kChips) {
    if (soc_name == chip.name) return &chip;
    if (chip.family == Family::a950 && soc_name.starts_with(chip.name)) return &chip;
    // virtual parts of a 310P are named after it
    if (chip.family == Family::a310p && soc_name.starts_with(chip.name)) return &chip;
  }
  return nullptr;
}

std::span<const Chip> chips() { return kChips; }
const char* const* chip_names() { return kNames.data(); }

const char* family_name(Family family) {
  switch (family) {
    case Family::a910:
      return "Ascend 910";
    case Family::a310p:
      return "Ascend 310P";
    case Family::a2:
      return "Ascend A2";
    case Family::a3:
      return "Ascend A3";
    case Family::a950:
      return "Ascend 950";
  }
  return "Ascend";
}

}  // namespace tern::npu
