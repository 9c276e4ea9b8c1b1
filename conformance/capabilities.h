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
  std::string skipped;  // why it could not be tried; "" where it was

  [[nodiscard]] std::string verdict() const {
    if (!problem.empty()) return problem;
    return skipped.empty() ? "ok" : "skipped: " + skipped;
  }
};

[[nodiscard]] std::vector<CapabilityResult> check_capabilities(Bench& bench);

}  // namespace tern::conformance
