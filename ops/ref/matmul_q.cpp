#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/ref/product.h"

namespace tern::ops::ref {
namespace {

constexpr std::int64_t kBlock = 32;
constexpr double kSmallest = 0x1p-100;

// Whole numbers up to `largest`, and what fp32 may be off by in x largest / most, and more.
struct Whole {
  double largest, near_tie;
};
constexpr Whole kX15 = {16256.0, 0x1p-7}, kInt8 = {127.0, 0x1p-14};

// A row of x in whole numbers, and how far each element may be off where its q is near a tie.
struct WholeRow {
  std::vector<double> values, doubts;
};

WholeRow rounded(const Whole& to, const double* x, std::int64_t k, const std::vector<std::int64_t>& order) {
  WholeRow row{std::vector<double>(static_cast<std::size_t>(k)), std::vector<double>(static_cast<std::size_t>(k))};
  std::vector<std::size_t> input(static_cast<std::size_t>(k));  // at each place of the weight's planes
  for (std::size_t i = 0; i < input.size(); ++i) input[order.empty() ? i : static_cast<std::size_t>(order[i])] = i;
  for (std::int64_t begin = 0; begin < k; begin += kBlock) {
    const auto block = std::span(input).subspan(static_cast<std::size_t>(begin), kBlock);
    double most = 0.0;
    bool finite = true;
    for (const std::size_t at : block) {
      finite = finite && std::isfinite(x[at]);
      most = std::max(most, std::fabs(x[at]));
    }
    const double step = most / to.largest;
    for (const std::size_t at : block) {
      if (!finite) {
        row.values[at] = std::numeric_limits<double>::quiet_NaN();
      } else if (most >= kSmallest) {
        const double exact = x[at] / step;
        row.values[at] = step * std::nearbyint(exact);
        if (std::fabs(exact - std::floor(exact) - 0.5) < to.near_tie) row.doubts[at] = step;
      }
    }
  }
  return row;
}

void multiply_whole(const Whole& by, const Tensor& x, const Tensor& w, const Tensor& bias, Output& y) {
  const std::int64_t m = x.size(0), k = x.size(1), n = w.size(0);
  for (std::int64_t i = 0; i < m; ++i) {
    const WholeRow row = rounded(by, x.real.data() + i * k, k, w.order);
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = bias.present() ? bias.real[static_cast<std::size_t>(j)] : 0.0;
      Error error{.roundings = std::fabs(sum), .terms = k + 1};
      for (std::int64_t l = 0; l < k; ++l) {
        const auto at = static_cast<std::size_t>(l), of = static_cast<std::size_t>(j * k + l);
        sum += row.values[at] * w.real[of];
        error.roundings += std::fabs(row.values[at]) * w.parts[of];
        error.narrowed += row.doubts[at] * std::fabs(w.real[of]);
      }
      y.add(i * n + j, sum, error);
    }
  }
}

}  // namespace

void matmul_q(Call& call) {
  const auto attrs = attrs_of<tern_matmul_q_attrs>(call);
  const Tensor& x = input(call, TERN_MATMUL_Q_X);
  const Tensor& w = input(call, TERN_MATMUL_Q_W);
  const Tensor& bias = input(call, TERN_MATMUL_Q_BIAS);
  Output y(call, TERN_MATMUL_Q_Y);
  if (attrs.compute == TERN_COMPUTE_X15) return multiply_whole(kX15, x, w, bias, y);
  if (attrs.compute == TERN_COMPUTE_INT8) return multiply_whole(kInt8, x, w, bias, y);
  Product product;
  product.m = x.size(0);
  product.k = x.size(1);
  product.n = w.size(attrs.transpose_w != 0 ? 0 : 1);
  product.transpose_b = attrs.transpose_w != 0;
  product.compute = attrs.compute;
  product.run(x.real.data(), w.real.data(), bias.present() ? bias.real.data() : nullptr, y, 0);
}

}  // namespace tern::ops::ref
