#include <algorithm>
#include <limits>

#include "ops/ref/oracle.h"

namespace tern::ops::ref {
namespace {

struct Logits {
  std::vector<double> value;
  std::vector<double> slope;  // of the soft cap
  std::vector<double> error;  // in roundings
  double largest = -std::numeric_limits<double>::infinity();
  double largest_error = 0.0;
  double sum = 0.0;  // of exp(value - largest)
  double sum_error = 0.0;
};

Logits logits_of(const double* h, const std::vector<double>& w, std::int64_t vocab, std::int64_t width, double cap) {
  Logits out;
  for (std::int64_t j = 0; j < vocab; ++j) {
    double z = 0.0;
    double error = 0.0;
    double slope = 1.0;
    for (std::int64_t c = 0; c < width; ++c) {
      const double term = h[c] * w[static_cast<std::size_t>(j * width + c)];
      z += term;
      error += std::fabs(term);
    }
    if (cap > 0.0) {
      const double t = std::tanh(z / cap);
      slope = 1.0 - t * t;
      error = (slope > 0.0 ? error * slope : 0.0) + 8.0 * std::fabs(cap * t);
      z = cap * t;
    }
    out.value.push_back(z);
    out.slope.push_back(slope);
    out.error.push_back(error);
    out.largest_error = std::max(out.largest_error, error);
    out.largest = std::max(out.largest, z);
    if (std::isnan(z)) out.largest = z;
  }
  for (std::int64_t j = 0; j < vocab; ++j) {
    const auto i = static_cast<std::size_t>(j);
    const double term = std::exp(out.value[i] - out.largest);
    out.sum += term;
    out.sum_error += term * (8.0 + out.error[i] + out.largest_error + std::fabs(out.value[i] - out.largest));
  }
  return out;
}

std::vector<double> rounded(const Tensor& from, tern_dtype compute) {
  std::vector<double> out(from.real.size());
  std::transform(from.real.begin(), from.real.end(), out.begin(), [&](double x) { return round_to(compute, x); });
  return out;
}

}  // namespace

void linear_cross_entropy(Call& call) {
  const auto attrs = attrs_of<tern_linear_cross_entropy_attrs>(call);
  const std::vector<double> h = rounded(input(call, TERN_LINEAR_CROSS_ENTROPY_H), attrs.compute);
  const std::vector<double> w = rounded(input(call, TERN_LINEAR_CROSS_ENTROPY_W), attrs.compute);
  const Tensor& targets = input(call, TERN_LINEAR_CROSS_ENTROPY_TARGETS);
  const Tensor& weights = input(call, TERN_LINEAR_CROSS_ENTROPY_WEIGHTS);
  const Tensor& merged = input(call, TERN_LINEAR_CROSS_ENTROPY_LSE);
  Output loss(call, TERN_LINEAR_CROSS_ENTROPY_LOSS);
  Output row_max(call, TERN_LINEAR_CROSS_ENTROPY_ROW_MAX);
  Output row_sum(call, TERN_LINEAR_CROSS_ENTROPY_ROW_SUM);
  Output row_target(call, TERN_LINEAR_CROSS_ENTROPY_ROW_TARGET);
  Output dh(call, TERN_LINEAR_CROSS_ENTROPY_DH);
  Output dw(call, TERN_LINEAR_CROSS_ENTROPY_DW);
  const std::int64_t width = input(call, TERN_LINEAR_CROSS_ENTROPY_H).size(1);
  const std::int64_t vocab = input(call, TERN_LINEAR_CROSS_ENTROPY_W).size(0);
  for (std::int64_t r = 0; r < targets.size(0); ++r) {
    const double weight = weights.real[static_cast<std::size_t>(r)];
    const std::int64_t target = targets.integer[static_cast<std::size_t>(r)];
    if (weight == 0.0) continue;
    const double* row = h.data() + r * width;
    const Logits z = logits_of(row, w, vocab, width, attrs.softcap);
    // What comes merged from all shards is exact here.
    const bool sharded = merged.present();
    const double lse = sharded ? merged.real[static_cast<std::size_t>(r)] : z.largest + std::log(z.sum);
    const double lse_error = sharded ? 0.0 : z.sum_error / z.sum + z.largest_error;
    const double hit = target >= 0 ? z.value.at(static_cast<std::size_t>(target)) : 0.0;
    const double hit_error = target >= 0 ? z.error.at(static_cast<std::size_t>(target)) : 0.0;
    const std::int64_t terms = std::max(vocab, width);
    row_max.add(r, z.largest, {.roundings = z.largest_error, .terms = width});
    row_sum.add(r, z.sum, {.roundings = z.sum_error, .terms = terms});
    row_target.add(r, hit, {.roundings = hit_error, .terms = width});
    const double loss_roundings = 4.0 + lse_error + std::fabs(lse) + hit_error + std::fabs(hit);
    const bool counts = !sharded || target >= 0;
    if (counts) loss.add(0, weight * (lse - hit), {.roundings = std::fabs(weight) * loss_roundings, .terms = terms});
    for (std::int64_t j = 0; (dh.present() || dw.present()) && j < vocab; ++j) {
      const auto at = static_cast<std::size_t>(j);
      const double p = std::exp(z.value[at] - lse);
      const double dz = weight * z.slope[at] * (p - (j == target ? 1.0 : 0.0));
      const double p_error = 8.0 + z.error[at] + lse_error + std::fabs(z.value[at] - lse);
      const double roundings = std::fabs(weight) * (p * p_error + 2.0 * (j == target ? 1.0 : 0.0));
      const double narrowed = narrowing(attrs.compute, dz);
      const auto error = [&](double factor) {
        return Error{std::fabs(factor) * roundings, terms, std::fabs(factor) * narrowed};
      };
      for (std::int64_t c = 0; c < width; ++c) {
        const double x = w[static_cast<std::size_t>(j * width + c)];
        dh.add(r * width + c, dz * x, error(x));
        dw.add(j * width + c, dz * row[c], error(row[c]));
      }
    }
  }
}

}  // namespace tern::ops::ref
