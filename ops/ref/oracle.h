// What the oracles share: writing outputs with their magnitudes, and the list of them.
//
// A magnitude is counted in roundings of fp32: a kernel that computes in fp32 as the contract says errs by at most
// u32 * growth(length) * magnitude before it rounds to the output's dtype (ops/tolerance.h). Where a contract allows an
// intermediate in a narrower dtype, the oracle adds narrowing() of that term.
#pragma once

#include <cmath>
#include <cstring>

#include "ops/ref/tensor.h"
#include "tern/accel_ops.h"

namespace tern::ops::ref {

template <typename Attrs>
[[nodiscard]] Attrs attrs_of(const Call& call) {
  Attrs attrs{};
  std::memcpy(&attrs, call.attrs.data(), std::min(call.attrs.size(), sizeof attrs));
  return attrs;
}

// A floating output: sized on construction, zero where it does not accumulate. Absent outputs ignore writes.
class Output {
 public:
  Output(Call& call, int arg)
      : tensor_(call.args[static_cast<std::size_t>(arg)]), accumulate_((call.accumulate >> arg & 1U) != 0) {
    if (!tensor_.present()) return;
    const auto count = static_cast<std::size_t>(num_elements(tensor_.desc));
    if (!accumulate_) tensor_.real.assign(count, 0.0);
    tensor_.real.resize(count);
    tensor_.magnitude.assign(count, 0.0);
    for (std::size_t i = 0; accumulate_ && i < count; ++i) tensor_.magnitude[i] = std::fabs(tensor_.real[i]);
  }
  [[nodiscard]] bool present() const { return tensor_.present(); }
  // Adds to element i: zero before the first call, or what an accumulating output holds.
  void add(std::int64_t i, double value, double magnitude) {
    if (!present()) return;
    tensor_.real[static_cast<std::size_t>(i)] += value;
    tensor_.magnitude[static_cast<std::size_t>(i)] += magnitude;
  }
  void add(std::int64_t i, double value) { add(i, value, std::fabs(value)); }

 private:
  Tensor& tensor_;
  bool accumulate_;
};

// How many fp32 roundings of 1 the rounding of `value` to `dtype` weighs: subnormals of fp16 weigh more than their
// size.
[[nodiscard]] inline double narrowing(tern_dtype dtype, double value) {
  return half_ulp(dtype, value) / unit_roundoff(TERN_F32);
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

void cast_copy(Call& call);
void gather_rows(Call& call);
void scatter_add_rows(Call& call);
void axpby(Call& call);
void mul(Call& call);
void row_sum(Call& call);
void scale(Call& call);
void dropout(Call& call);
void sum_squares(Call& call);
void all_finite(Call& call);
void matmul(Call& call);
void matmul_q(Call& call);
void dequantize(Call& call);
void embedding(Call& call);
void rms_norm(Call& call);
void rms_norm_backward(Call& call);
void rope(Call& call);
void qk_norm_rope(Call& call);
void qk_norm_rope_backward(Call& call);
void act_mul(Call& call);
void act_mul_backward(Call& call);
void attention(Call& call);
void attention_backward(Call& call);
void kv_write(Call& call);
void attention_paged(Call& call);
void linear_cross_entropy(Call& call);
void adamw(Call& call);
void sample(Call& call);
void softcap(Call& call);

}  // namespace tern::ops::ref
