// What every op brings beside its row in the table: check, backward, decomposition, oracle, and the facts of
// ops/facts.h.
#pragma once

#include <string>
#include <vector>

#include "ops/emit.h"
#include "ops/facts.h"
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

// Something that every op must say: it has no default, so rules that leave it out do not compile.
template <typename T>
class Stated {
 public:
  constexpr Stated(T value) : value_(value) {}
  constexpr operator T() const { return value_; }

 private:
  T value_;
};

struct WorkRules {
  Stated<double (*)(const CallDesc& call, HostArrays lengths)> flops;
  Stated<double (*)(const CallDesc& call, int arg, HostArrays lengths)> bytes;  // of one argument
};

struct OpRules {
  // Why the descs and attributes break the contract, or "" where they do not. `args` in the table's order.
  Stated<std::string (*)(std::span<const TensorDesc> args, std::span<const std::byte> attrs)> check;
  // Gradient per argument (absent where not wanted); inputs may share one value, or an out_grad itself, so that adding
  // to it in place needs a look at who else holds it. Null: the op has no gradient.
  Stated<std::vector<Value> (*)(BackwardCall& call)> backward;
  // Emits the same in other ops and gives the values per argument; an empty vector: not for this call. Null: none.
  Stated<std::vector<Value> (*)(Emitter& emitter, const OpCall& call)> decompose;
  // The fp64 oracle: reads inputs, writes outputs (adding where `accumulate` says).
  Stated<void (*)(ref::Call& call)> reference;
  // What a call costs at least: FLOPs, and bytes of each argument.
  WorkRules work;
  // TERN_USE_* of a packable argument in this call; 0 for every other argument.
  Stated<std::uint32_t (*)(const CallDesc& call, int arg)> uses;
  // The dimension of an argument that counts rows whose outputs depend on no other row, or -1.
  Stated<int (*)(const CallDesc& call, int arg)> row_dim;
  // How a call is cut along a dimension of one of its arguments.
  Stated<std::optional<Split> (*)(const CallDesc& call, int arg, int dim)> split;
  // Where the numbers of its index and length arguments must lie.
  Stated<Indices (*)(const CallDesc& call)> indices;
  // The commands that emit it, forward or backward.
  Stated<NeededBy> needed_by;
};

// What a call computes and moves at least: its descs have their dynamic dimensions cut.
[[nodiscard]] Work work_of(const CallDesc& call, HostArrays lengths);

[[nodiscard]] const OpRules& op_rules(std::uint32_t op);

// Checks the call against the table (presence, dtypes, attribute size) and the op's own contract; "" if sound.
[[nodiscard]] std::string check_call(std::uint32_t op, std::span<const TensorDesc> args,
                                     std::span<const std::byte> attrs, std::uint32_t accumulate);

}  // namespace tern::ops
