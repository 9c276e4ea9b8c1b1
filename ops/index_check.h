// Whether the indices and lengths of a call lie where its contract puts them: oracles and kernels trust them.
#pragma once

#include <span>
#include <string>

#include "ops/facts.h"
#include "ops/ref/tensor.h"

namespace tern::ops {

// "" or the first number that breaks the contract: "positions[3]: expected 0 to 63, found 991". `call` has the planned
// descs, `args` the same tensors with dynamic dimensions cut, of which integers must be decoded.
[[nodiscard]] std::string index_problem(const CallDesc& call, std::span<const ref::Tensor> args);

}  // namespace tern::ops
