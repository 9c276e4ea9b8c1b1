// The abstract emitter over which ops are built, differentiated and decomposed. A graph implements it by appending
// nodes; a checker may implement it by running oracles at once.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "ops/table.h"
#include "ops/tensor_desc.h"
#include "tern/accel_ops.h"

namespace tern::ops {

// A tensor in SSA form, known to the emitter that made it.
struct Value {
  std::int32_t id = -1;
  [[nodiscard]] bool present() const { return id >= 0; }
  friend bool operator==(Value, Value) = default;
};

// As a gradient: the constant 1 of the loss itself, which no tensor holds.
inline constexpr Value kUnitGradient{-2};

// One use of an op. Vectors are indexed by argument, in the table's order.
struct OpCall {
  std::uint32_t op = 0;  // TERN_OP_*
  std::vector<std::byte> attrs;
  std::uint32_t needs = 0;
  std::uint32_t accumulate = 0;  // bit per argument
  // Inputs; for states and accumulating outputs, the version that they write upon; for other outputs, where to write:
  // nothing is read of it, and the output has its desc.
  std::vector<Value> inputs;
  std::vector<TensorDesc> outputs;  // descs of outputs and states; rank 0 elsewhere and where an optional one is absent
};

template <typename Attrs>
[[nodiscard]] std::vector<std::byte> pack_attrs(const Attrs& attrs) {
  std::vector<std::byte> bytes(sizeof(Attrs));
  std::memcpy(bytes.data(), &attrs, sizeof(Attrs));
  return bytes;
}

template <typename Attrs>
[[nodiscard]] Attrs unpack_attrs(std::span<const std::byte> bytes) {
  Attrs attrs{};
  std::memcpy(&attrs, bytes.data(), bytes.size() < sizeof(Attrs) ? bytes.size() : sizeof(Attrs));
  return attrs;
}

class Emitter {
 public:
  virtual ~Emitter() = default;
  // Appends the call; gives a value per argument: new ones for outputs and states, absent ones for inputs.
  virtual std::vector<Value> emit(const OpCall& call) = 0;
  // Stays where it is as long as the emitter.
  [[nodiscard]] virtual const TensorDesc& desc(Value value) const = 0;
  // A view of the same memory: another shape and strides from `offset` elements on. Differentiable.
  virtual Value view(Value value, const TensorDesc& desc, std::int64_t offset) = 0;
};

}  // namespace tern::ops
