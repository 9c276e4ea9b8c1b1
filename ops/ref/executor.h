// An emitter that runs the oracle of each call at once: for finite differences, for checking decompositions and
// gradients, and for tests of graphs.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "ops/emit.h"
#include "ops/ref/tensor.h"

namespace tern::ops::ref {

class Executor : public Emitter {
 public:
  // `rounding`: outputs are rounded to their dtype as a device stores them; else they stay fp64.
  explicit Executor(bool rounding = true) : rounding_(rounding) {}

  // Actual sizes of dynamic dimensions, by count_slot.
  void set_count(int slot, std::int64_t count) { counts_[static_cast<std::size_t>(slot)] = count; }

  // A value of the tensor's elements (in logical order, at full capacity).
  Value add(const Tensor& tensor);
  Value add(const TensorDesc& desc, std::vector<double> elements);
  Value add_integers(const TensorDesc& desc, std::vector<std::int64_t> elements);
  // Elements in logical order; dynamic dimensions cut to their counts.
  [[nodiscard]] Tensor read(Value value) const;

  // Emitter. Throws std::logic_error where a call breaks the op's contract. Nothing is overwritten: a state's or an
  // accumulating output's result has memory of its own.
  std::vector<Value> emit(const OpCall& call) override;
  [[nodiscard]] const TensorDesc& desc(Value value) const override;
  Value view(Value value, const TensorDesc& desc, std::int64_t offset) override;

  // The last call emitted, with its results.
  [[nodiscard]] const OpCall& last_call() const { return last_call_; }
  [[nodiscard]] const std::vector<Value>& last_results() const { return last_results_; }

 private:
  struct Memory {
    std::vector<double> real;
    std::vector<std::int64_t> integer;
  };
  struct Entry {
    TensorDesc desc;
    std::int64_t offset = 0;
    std::shared_ptr<Memory> memory;
  };
  [[nodiscard]] const Entry& entry(Value value) const { return entries_.at(static_cast<std::size_t>(value.id)); }
  [[nodiscard]] TensorDesc cut(TensorDesc desc) const;
  Value store(const TensorDesc& desc, const Tensor& tensor);

  bool rounding_;
  std::array<std::int64_t, TERN_MAX_COUNTS> counts_{};
  std::deque<Entry> entries_;  // descs stay where they are
  OpCall last_call_;
  std::vector<Value> last_results_;
};

}  // namespace tern::ops::ref
