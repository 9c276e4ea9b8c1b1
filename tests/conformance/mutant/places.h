// Where each mistake can be made, and which cases can show it.
#pragma once

#include <string>
#include <vector>

#include "accel/device.h"
#include "conformance/recipe.h"
#include "mutant/mutant.h"

namespace tern::mutant {

// Arguments of the right kind, attributes, or the op as a whole (-1).
[[nodiscard]] std::vector<int> places(const ops::OpSpec& spec, Mistake mistake);
[[nodiscard]] std::string place_name(const ops::OpSpec& spec, Mistake mistake, int place);
// Whether the device has what can go wrong so: captures, weights packed for both uses.
[[nodiscard]] bool is_possible(Mistake mistake, const accel::Device& device);
// Only cases on which the mistake can show are run; `v` is one of these.
[[nodiscard]] bool shows(std::uint32_t op, Mistake mistake, const conformance::Variant& v);
// Whether values alone do not tell.
[[nodiscard]] bool needs_laws(Mistake mistake);
// A device may store one dtype alone: the suite must find the mistake by the cases of each.
[[nodiscard]] std::vector<tern_dtype> dtypes_of(std::uint32_t op);

}  // namespace tern::mutant
