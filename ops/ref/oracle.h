// What the oracles share: writing outputs with what a kernel may be off by.
//
// Errors are counted in roundings of fp32, terms of a sum, and roundings to a narrower dtype that the contract allows:
// ops/tolerance.h has the bound that is made of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "ops/ref/tensor.h"
#include "tern/accel_ops.h"

namespace tern::ops::ref {

template <typename Attrs>
[[nodiscard]] Attrs attrs_of(const Call& call) {
  Attrs attrs{};
  std::memcpy(&attrs, call.attrs.data(), std::min(call.attrs.size(), sizeof attrs));
  return attrs;
}

// What one call of Output::add may be off by.
struct Error {
  double roundings = 0.0;  // of fp32: the sum of |terms|, each as often as it is rounded
  std::int64_t terms = 1;  // of the longest sum behind it
  double narrowed = 0.0;   // absolute: intermediates stored in a narrower dtype
};

// A floating output: zero on construction, or what it holds where it accumulates. Absent outputs ignore writes.
class Output {
 public:
  // `copies`: elements are values of inputs, rounded once to the output's dtype and never summed.
  enum class Kind { sums, copies };
  Output(Call& call, int arg, Kind kind = Kind::sums);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();  // writes the slack of each element

  [[nodiscard]] bool present() const { return tensor_.present(); }
  // Adds a term to element i. An element's sum is as long as the calls are many, or as the longest sum behind one.
  void add(std::int64_t i, double value, const Error& error);
  void add(std::int64_t i, double value) { add(i, value, {.roundings = std::fabs(value)}); }
  // Every element is `value` from here on, exactly, until something is added: -infinity stays where nothing is.
  void fill(double value);

 private:
  struct Sum {
    double roundings = 0.0;
    double narrowed = 0.0;
    std::int64_t calls = 0;
    std::int64_t terms = 0;
  };
  Tensor& tensor_;
  Kind kind_;
  bool accumulate_;
  std::vector<Sum> sums_;
};

// The largest error of storing `value` in `dtype` on the way, where the contract allows it; fp32 is no narrower dtype.
[[nodiscard]] inline double narrowing(tern_dtype dtype, double value) {
  if (dtype == TERN_F32) return 0.0;
  return std::max(unit_roundoff(dtype) * std::fabs(value), half_ulp(dtype, 0.0));
}

[[nodiscard]] inline const Tensor& input(const Call& call, int arg) { return call.args[static_cast<std::size_t>(arg)]; }

// An activation of tern_act and its derivative, with how many roundings each may be off by (absolute, in units of u32).
struct Activation {
  double value;
  double value_error;
  double slope;
  double slope_error;
};
[[nodiscard]] Activation activate(std::int32_t kind, double x);

// What act_mul makes of an element of gate and up before their product.
struct GatedUnit {
  double gate;       // within the limit
  double factor;     // up within the limit, and the offset
  bool gate_counts;  // a derivative by what was given isn't 0
  bool up_counts;
  double factor_size;  // |up| + |offset|
};
[[nodiscard]] GatedUnit gated_unit(double gate, double up, float limit, float up_offset);

// The oracle of every op, defined in the file of its name.
#define TERN_DECLARE_ORACLE(ID, name) void name(Call& call);
TERN_FOR_EACH_OP(TERN_DECLARE_ORACLE)
#undef TERN_DECLARE_ORACLE

}  // namespace tern::ops::ref
