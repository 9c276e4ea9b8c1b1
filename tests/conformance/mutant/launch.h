// What a mutant does around one launch.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "mutant/memory.h"
#include "mutant/mutant.h"
#include "ops/table.h"

namespace tern::mutant {

// Lengths and counts, copied out of host_args.
struct Lengths {
  std::vector<std::vector<std::int32_t>> arrays;
  std::array<std::int64_t, TERN_MAX_COUNTS> counts{};
  Lengths() = default;
  explicit Lengths(const tern_host_args& args);
  friend bool operator==(const Lengths&, const Lengths&) = default;
};

// The same as the C structs, alive as long as this is.
class LengthsView {
 public:
  explicit LengthsView(const Lengths& lengths);
  [[nodiscard]] const tern_host_args* get() const { return &args_; }

 private:
  std::vector<tern_host_array> arrays_;
  tern_host_args args_{};
};

// What one partition of a row's keys gives: its largest logit, the sum of exponentials, and that of values.
struct Partial {
  double max = 0.0;
  double sum = 0.0;
  std::vector<double> out;
};

// A bound kernel of the wrapped backend, with what its first launch saw.
struct Bound {
  tern_bound inner = nullptr;
  tern_bound other = nullptr;  // with another attribute
  tern_op_desc desc{};
  std::vector<tern_tensor> args;
  std::vector<std::int8_t> alias;
  std::optional<tern_plane> extra;  // the byte of the workspace that stale_workspace looks at
  int launches = 0;
  std::map<std::int64_t, std::vector<Partial>> partials;  // of the last launch, by row
  std::optional<Lengths> first_lengths;
  std::vector<Bytes> first_inputs;  // memory of each argument at the first launch
};

class Launch {
 public:
  using Run = std::function<tern_status(tern_bound bound, const Lengths& lengths)>;
  Launch(const Plan& plan, Bound& bound, const Memory& memory, Run run, int& made);
  tern_status go(const Lengths& lengths);
  void spoil_some(const Lengths& lengths);  // one element of some output, after a launch

 private:
  [[nodiscard]] const ops::OpSpec& spec() const { return ops::op_spec(bound_.desc.op); }
  [[nodiscard]] bool written(std::size_t arg) const { return spec().args[arg].role != ops::Role::input; }
  // A host of an earlier version has fewer arguments.
  [[nodiscard]] bool present(std::size_t arg) const {
    return arg < bound_.args.size() && bound_.args[arg].desc.rank > 0;
  }
  [[nodiscard]] bool shares() const;
  [[nodiscard]] std::int64_t size(std::size_t arg) const;  // elements of the valid part
  [[nodiscard]] Bytes whole(std::size_t arg) const;        // a plane's bytes
  [[nodiscard]] std::vector<Bytes> outputs() const;
  void restore(const std::vector<Bytes>& outputs) const;
  [[nodiscard]] std::int64_t largest(std::size_t arg) const;  // element of the largest finite size; -1: none
  // Elements before it are open by contract: a cache's block 0 after kv_write.
  [[nodiscard]] std::int64_t first_judged(std::size_t arg) const;
  void nudge(std::size_t arg, std::int64_t element, double factor);
  [[nodiscard]] std::size_t some_output() const;

  tern_status spoil_output(const Lengths& lengths);
  tern_status spoil_input(const Lengths& lengths);
  tern_status round_input(const Lengths& lengths);
  tern_status spoil_block(const Lengths& lengths);
  tern_status spoil_lengths(const Lengths& lengths);
  tern_status spoil_mask(const Lengths& lengths);
  tern_status use_other_attribute(const Lengths& lengths);
  // Runs as it should and then with `change` in place; keeps the second result. True where they differ.
  bool runs_differently(const Lengths& lengths, const Lengths& changed, const std::function<void()>& change,
                        const std::function<void()>& undo, tern_status& status);
  void after(const std::vector<Bytes>& before);
  void spoil_value();
  void spoil_against_before(const std::vector<Bytes>& before);
  void spoil_memory();
  // structure.cpp
  void rewrite(const std::vector<Bytes>& before,
               const std::function<double(const Element& at, double found, double held)>& value);
  void spoil_structure(const std::vector<Bytes>& before);
  void forget_key();
  void spoil_borders();                                         // borders.cpp
  [[nodiscard]] std::vector<ops::ref::Tensor> decoded() const;  // every argument's valid part
  void store_changed(const std::vector<ops::ref::Tensor>& right, const std::vector<ops::ref::Tensor>& wrong);
  // split.cpp, formula.cpp
  void spoil_split();
  void spoil_formula(const std::vector<Bytes>& before);
  tern_status lose_eps(const Lengths& lengths);
  void put_eps_outside();

  const Plan& plan_;
  Bound& bound_;
  const Memory& memory_;
  Run run_;
  int& made_;
  Lengths lengths_;
};

}  // namespace tern::mutant
