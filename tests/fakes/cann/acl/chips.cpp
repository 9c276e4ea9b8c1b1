#include "tests/fakes/cann/acl/chips.h"

#include <array>

namespace fake {
namespace {

// "Ascend910B" without a number is the old chip.
constexpr std::array<Chip, 24> kChips = {{
    {"Ascend910A", Family::k910, 32, 0, 262144},        {"Ascend910B", Family::k910, 32, 0, 262144},
    {"Ascend910ProA", Family::k910, 32, 0, 262144},     {"Ascend910ProB", Family::k910, 30, 0, 262144},
    {"Ascend910PremiumA", Family::k910, 32, 0, 262144}, {"Ascend910B1", Family::kA2, 24, 48, 196608},
    {"Ascend910B2", Family::kA2, 24, 48, 196608},       {"Ascend910B2C", Family::kA2, 24, 48, 196608},
    {"Ascend910B3", Family::kA2, 20, 40, 196608},       {"Ascend910B4", Family::kA2, 20, 40, 196608},
    {"Ascend910B4-1", Family::kA2, 20, 40, 196608},     {"Ascend910_9391", Family::kA3, 24, 48, 196608},
    {"Ascend910_9392", Family::kA3, 24, 48, 196608},    {"Ascend910_9381", Family::kA3, 24, 48, 196608},
    {"Ascend910_9382", Family::kA3, 24, 48, 196608},    {"Ascend910_9372", Family::kA3, 20, 40, 196608},
    {"Ascend910_9362", Family::kA3, 20, 40, 196608},    {"Ascend910_9363", Family::kA3, 20, 40, 196608},
    {"Ascend310P1", Family::k310P, 10, 8, 262144},      {"Ascend310P3", Family::k310P, 8, 7, 262144},
    {"Ascend310P5", Family::k310P, 8, 7, 262144},       {"Ascend310P7", Family::k310P, 8, 7, 262144},
    {"Ascend950PR_9589", Family::kA5, 32, 64, 253952},  {"Ascend950DT_9582", Family::kA5, 32, 64, 253952},
}};

}  // namespace

const Chip* find_chip(std::string_view name) {
  constexpr std::string_view prefix = "Ascend";
  if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  for (const Chip& chip : kChips) {
    if (chip.name.substr(prefix.size()) == name) return &chip;
  }
  return nullptr;
}

}  // namespace fake
