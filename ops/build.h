// Assembling an OpCall: what every builder, backward rule and decomposition uses.
#pragma once

#include "ops/emit.h"
#include "ops/rules.h"

namespace tern::ops {

class CallBuilder {
 public:
  explicit CallBuilder(std::uint32_t op, std::uint32_t needs = 0);

  template <typename Attrs>
  CallBuilder& attrs(const Attrs& attrs) {
    call_.attrs = pack_attrs(attrs);
    return *this;
  }
  CallBuilder& in(int arg, Value value);  // an absent value: the optional argument is left out
  CallBuilder& out(int arg, const TensorDesc& desc);
  // Adds to `into` where it is present, else makes a fresh output of `desc`.
  CallBuilder& out(const Emitter& emitter, int arg, const TensorDesc& desc, Value into);
  // Writes upon `at`, of which nothing is read, where it is present, else makes a fresh output of `desc`.
  CallBuilder& place(const Emitter& emitter, int arg, const TensorDesc& desc, Value at);
  // A state that is read and written: the version that it consumes.
  CallBuilder& state(const Emitter& emitter, int arg, Value value);
  [[nodiscard]] std::vector<Value> emit(Emitter& emitter) const { return emitter.emit(call_); }
  [[nodiscard]] Value emit(Emitter& emitter, int arg) const { return emit(emitter)[static_cast<std::size_t>(arg)]; }

 private:
  OpCall call_;
};

// Contiguous, of x's shape and dynamic dimension.
[[nodiscard]] TensorDesc like(const TensorDesc& x, tern_dtype dtype);
// `desc` whose first dimension is dynamic as x's first is.
[[nodiscard]] TensorDesc rows_like(TensorDesc desc, const TensorDesc& x);
[[nodiscard]] inline bool is_dynamic(const TensorDesc& desc) { return desc.dynamic_dim >= 0; }

// The value itself where it is contiguous, else a copy.
[[nodiscard]] Value contiguous(Emitter& emitter, Value value, std::uint32_t needs);
// A contiguous value seen as [rows, the rest]; the value itself if it has rank 2.
[[nodiscard]] Value as_matrix(Emitter& emitter, Value value);
// Columns [first, first + width) of x [rows, columns].
[[nodiscard]] Value columns(Emitter& emitter, Value x, std::int64_t first, std::int64_t width);
// [width] seen as [rows, width] by a stride of 0, with the rows of `like`.
[[nodiscard]] Value broadcast_rows(Emitter& emitter, Value vector, const TensorDesc& like);
// Sum of all elements -> [1] f32, or added to `into`.
[[nodiscard]] Value reduce_all(Emitter& emitter, Value value, std::uint32_t needs, Value into);

// A call whose outputs accumulate -> the same call into fresh fp32 tensors, then axpby; empty where nothing accumulates
// or an output that does is no float.
[[nodiscard]] std::vector<Value> decompose_accumulate(Emitter& emitter, const OpCall& call);

// Arguments of a call in a rule.
[[nodiscard]] inline Value arg(const OpCall& call, int index) { return call.inputs[static_cast<std::size_t>(index)]; }
[[nodiscard]] inline bool accumulates(const OpCall& call, int index) { return (call.accumulate >> index & 1U) != 0; }

// Reading a BackwardCall by argument.
class Gradients {
 public:
  explicit Gradients(BackwardCall& call) : call_(call), grads_(call.call.inputs.size()) {}
  [[nodiscard]] bool wanted(int arg) const { return call_.wanted[at(arg)]; }
  [[nodiscard]] Value input(int arg) const { return call_.call.inputs[at(arg)]; }
  [[nodiscard]] Value result(int arg) const { return call_.results[at(arg)]; }
  // Of an output: absent where no path leads from it to the loss. The constant 1 of a loss is made a tensor.
  [[nodiscard]] Value of_output(int arg) const;
  // Whether it is that constant, for rules that can do without the tensor.
  [[nodiscard]] bool of_output_is_one(int arg) const { return call_.out_grads[at(arg)] == kUnitGradient; }
  [[nodiscard]] const TensorDesc& desc(int arg) const { return call_.emitter.desc(input(arg)); }
  [[nodiscard]] Value into(int arg) const { return call_.into[at(arg)]; }
  // Takes what `into` holds: the gradient then given for `arg` contains it.
  Value absorb(int arg) {
    if (into(arg).present()) call_.absorbed[at(arg)] = true;
    return into(arg);
  }
  void give(int arg, Value grad) { grads_[at(arg)] = grad; }
  [[nodiscard]] std::vector<Value> take() { return std::move(grads_); }
  [[nodiscard]] Emitter& emitter() const { return call_.emitter; }
  [[nodiscard]] const OpCall& call() const { return call_.call; }
  [[nodiscard]] std::uint32_t needs() const { return call_.call.needs; }

 private:
  static std::size_t at(int arg) { return static_cast<std::size_t>(arg); }
  BackwardCall& call_;
  std::vector<Value> grads_;
};

}  // namespace tern::ops
