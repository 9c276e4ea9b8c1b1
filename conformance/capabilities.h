// The runtime's promises and each capability flag, both ways: set means that it works, clear that the call says so.
#pragma once

#include <string>
#include <vector>

#include "conformance/laws.h"

namespace tern::conformance {

struct CapabilityResult {
  std::string name;
  bool set = false;
  std::string problem;  // "" where the flag tells the truth
};

[[nodiscard]] std::vector<CapabilityResult> check_capabilities(Bench& bench);

}  // namespace tern::conformance
