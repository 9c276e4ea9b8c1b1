// What every op brings beside its row in the table: check, backward, decomposition, oracle and tolerance.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/emit.h"
#include "ops/ref/tensor.h"

namespace tern::ops {

// Differentiating one call. Vectors are indexed by argument.
struct BackwardCall {
  Emitter& emitter;
  const OpCall& call;
  const std::vector<Value>& results;    // what emit gave
  const std::vector<Value>& out_grads;  // of each output; absent: no path to the loss; the loss: kUnitGradient
  const std::vector<bool>& wanted;      // inputs whose gradient is asked for
  // Per input: a gradient already there that the rule may add to (by `accumulate`, consuming this version); absent:
  // none. A rule that does so sets `absorbed`; else the differentiator adds the two.
  const std::vector<Value>& into;
  std::vector<bool>& absorbed;
};

struct OpRules {
  // Why the descs and attributes break the contract, or "" where they do not. `args` in the table's order.
  std::string (*check)(std::span<const TensorDesc> args, std::span<const std::byte> attrs);
  // Gradient per argument (absent where not wanted); inputs may share one value, or an out_grad itself, so that adding
  // to it in place needs a look at who else holds it. Null: the op has no gradient.
  std::vector<Value> (*backward)(BackwardCall& call);
  // Emits the same in other ops and gives the values per argument; an empty vector: not for this call. Null: none.
  std::vector<Value> (*decompose)(Emitter& emitter, const OpCall& call);
  // The fp64 oracle: reads inputs, writes outputs (adding where `accumulate` says).
  void (*reference)(ref::Call& call);
};

[[nodiscard]] const OpRules& op_rules(std::uint32_t op);

// Checks the call against the table (presence, dtypes, attribute size) and the op's own contract; "" if sound.
[[nodiscard]] std::string check_call(std::uint32_t op, std::span<const TensorDesc> args,
                                     std::span<const std::byte> attrs, std::uint32_t accumulate);

}  // namespace tern::ops
