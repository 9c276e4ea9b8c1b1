// Whether the indices of a call lie where its contract puts them: oracles and kernels trust them.
#pragma once

#include <string>

#include "conformance/case.h"

namespace tern::conformance {

// "" or the first number that breaks the contract: "positions[3]: expected 0 to 63, found 991".
[[nodiscard]] std::string index_problem(const Case& c);

}  // namespace tern::conformance
