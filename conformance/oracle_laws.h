// The oracles and rules checked against each other, on the host alone.
#pragma once

#include <string>

#include "conformance/case.h"

namespace tern::conformance {

// Central differences of the oracle against the op's backward rule, at a few elements of each input that has a
// gradient, and the law that a gradient added to one already there is their sum. "" if all agree or the op has no
// gradient for this case. `checked` counts the derivatives compared.
[[nodiscard]] std::string check_gradient(const Case& c, int& checked);

// The decomposition, run by the oracles of its parts, against the op's own oracle, within the op's tolerance.
// `decomposed` says whether there is one for this case.
[[nodiscard]] std::string check_decomposition(const Case& c, bool& decomposed);

}  // namespace tern::conformance
