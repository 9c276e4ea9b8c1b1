// What stands beyond the counts of a launch, on a device that computes whole capacities.
#pragma once

#include <span>
#include <string>

#include "backends/sim/kernel.h"
#include "ops/ref/tensor.h"

namespace tern::sim {

// The desc as the counts of this launch have it.
[[nodiscard]] TensorDesc cut(TensorDesc desc, const HostArgs& args);
// The desc with nothing cut.
[[nodiscard]] TensorDesc whole(TensorDesc desc);

// Whether the device computes more of this call than the counts say.
[[nodiscard]] bool computes_tails(const KernelCall& call);

// What the host owes beyond the counts and didn't give, or "" (docs/backend-spec.md, "Dynamic counts"). `args` are
// decoded at their whole capacity.
[[nodiscard]] std::string padding_problem(const KernelCall& call, std::span<const ops::ref::Tensor> args);

// What the device leaves beyond the count of an output: what it computed there, made finite. A zero would hide that
// somebody sums over it, so it becomes a large number.
void settle_tail(ops::ref::Tensor& output);

// What an output holds beyond its count where nothing was computed, on a device that computes no padding.
[[nodiscard]] ops::ref::Tensor untouched_tail(const TensorDesc& desc);

}  // namespace tern::sim
