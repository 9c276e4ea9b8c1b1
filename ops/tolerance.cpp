#include "ops/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/emit.h"
#include "ops/ref/tensor.h"
#include "tern/accel_ops.h"

namespace tern::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::int64_t dim(std::span<const TensorDesc> args, int arg, int d) {
  return args[static_cast<std::size_t>(arg)].shape[d];
}

std::int64_t attention_length(const tern_attention_attrs& attrs, std::int64_t head_dim, std::int64_t value_dim) {
  return std::max({head_dim, value_dim, static_cast<std::int64_t>(attrs.max_seqlen_k)});
}

// dk and dv sum over the query rows and heads that see a key.
std::int64_t attention_backward_length(int arg, std::span<const TensorDesc> args, const tern_attention_attrs& attrs) {
  const std::int64_t own =
      attention_length(attrs, dim(args, TERN_ATTENTION_BACKWARD_Q, 2), dim(args, TERN_ATTENTION_BACKWARD_V, 2));
  const std::int64_t heads = dim(args, TERN_ATTENTION_BACKWARD_Q, 1);
  const std::int64_t group = heads / std::max<std::int64_t>(1, dim(args, TERN_ATTENTION_BACKWARD_K, 1));
  if (arg == TERN_ATTENTION_BACKWARD_DSINKS) return std::max(own, dim(args, TERN_ATTENTION_BACKWARD_Q, 0));
  if (arg == TERN_ATTENTION_BACKWARD_DQ) return own;
  return std::max(own, group * attrs.max_seqlen_q);
}

}  // namespace

std::int64_t reduction_length(std::uint32_t op, int arg, std::span<const TensorDesc> args,
                              std::span<const std::byte> attrs) {
  switch (op) {
    case TERN_OP_SCATTER_ADD_ROWS:
      return dim(args, TERN_SCATTER_ADD_ROWS_X, 0);
    case TERN_OP_ROW_SUM:
      return dim(args, TERN_ROW_SUM_X, unpack_attrs<tern_row_sum_attrs>(attrs).axis);
    case TERN_OP_SUM_SQUARES:
      return num_elements(args[TERN_SUM_SQUARES_X]);
    case TERN_OP_MATMUL: {
      const TensorDesc& a = args[TERN_MATMUL_A];
      return a.shape[a.rank - 1 - unpack_attrs<tern_matmul_attrs>(attrs).transpose_a] + 1;
    }
    case TERN_OP_MATMUL_Q:
      return dim(args, TERN_MATMUL_Q_X, 1) + 1;
    case TERN_OP_RMS_NORM:
      return dim(args, TERN_RMS_NORM_X, 1);
    case TERN_OP_RMS_NORM_BACKWARD:
      return dim(args, TERN_RMS_NORM_BACKWARD_X, arg == TERN_RMS_NORM_BACKWARD_DWEIGHT ? 0 : 1);
    case TERN_OP_QK_NORM_ROPE:
      return dim(args, TERN_QK_NORM_ROPE_X, 2);
    case TERN_OP_QK_NORM_ROPE_BACKWARD:
      if (arg == TERN_QK_NORM_ROPE_BACKWARD_DX) return dim(args, TERN_QK_NORM_ROPE_BACKWARD_X, 2);
      return dim(args, TERN_QK_NORM_ROPE_BACKWARD_X, 0) * dim(args, TERN_QK_NORM_ROPE_BACKWARD_X, 1);
    case TERN_OP_ATTENTION:
      return attention_length(unpack_attrs<tern_attention_attrs>(attrs), dim(args, TERN_ATTENTION_Q, 2), 1);
    case TERN_OP_ATTENTION_BACKWARD:
      return attention_backward_length(arg, args, unpack_attrs<tern_attention_attrs>(attrs));
    case TERN_OP_ATTENTION_PAGED:
      return attention_length(unpack_attrs<tern_attention_attrs>(attrs), dim(args, TERN_ATTENTION_PAGED_Q, 2), 1);
    case TERN_OP_LINEAR_CROSS_ENTROPY: {
      const std::int64_t own =
          std::max(dim(args, TERN_LINEAR_CROSS_ENTROPY_H, 1), dim(args, TERN_LINEAR_CROSS_ENTROPY_W, 0));
      const bool over_rows = arg == TERN_LINEAR_CROSS_ENTROPY_LOSS || arg == TERN_LINEAR_CROSS_ENTROPY_DW;
      return over_rows ? std::max(own, dim(args, TERN_LINEAR_CROSS_ENTROPY_H, 0)) : own;
    }
    case TERN_OP_SAMPLE:
      return dim(args, TERN_SAMPLE_LOGITS, 1);
    default:
      return 1;
  }
}

bool is_exact(std::uint32_t op, int arg, std::uint32_t accumulate) {
  if ((accumulate >> arg & 1U) != 0) return op == TERN_OP_ALL_FINITE;
  switch (op) {
    case TERN_OP_CAST_COPY:
    case TERN_OP_GATHER_ROWS:
    case TERN_OP_ALL_FINITE:
    case TERN_OP_DEQUANTIZE:
    case TERN_OP_EMBEDDING:
    case TERN_OP_KV_WRITE:
      return true;
    case TERN_OP_RMS_NORM:
      return arg == TERN_RMS_NORM_SUM;
    case TERN_OP_SAMPLE:
      return arg == TERN_SAMPLE_IDS;
    default:
      return false;
  }
}

double rounding_growth(std::int64_t length) {
  const auto n = static_cast<double>(std::max<std::int64_t>(length, 1));
  return 2.0 + std::min(n, 4.0 * std::sqrt(n));
}

double slack_of(double magnitude, std::int64_t length) {
  return ref::unit_roundoff(TERN_F32) * rounding_growth(length) * magnitude + 0x1p-126;
}

double error_share(tern_dtype dtype, double exact, double slack, double got, bool strict) {
  const double rounded = ref::round_to(dtype, exact);
  if (got == rounded || (std::isnan(got) && std::isnan(rounded))) return 0.0;
  if (!std::isfinite(exact)) return strict || std::isfinite(got) ? kInfinity : 0.0;
  if (slack == kInfinity) return 0.0;  // the op's contract leaves this element open
  if (std::isnan(rounded) || std::isnan(slack)) return strict || std::isfinite(got) ? kInfinity : 0.0;
  if (std::isnan(got)) return std::isinf(rounded) && !strict ? 0.0 : kInfinity;
  const double bound = got > exact ? ref::round_to(dtype, exact + slack) : ref::round_to(dtype, exact - slack);
  if (std::isinf(got) || std::isinf(bound)) return got == bound || std::fabs(got) < std::fabs(bound) ? 1.0 : kInfinity;
  const double allowed = std::fabs(bound - exact);
  const double error = std::fabs(got - exact);
  const bool outside = got > exact ? got > bound : got < bound;
  if (!outside) return allowed > 0.0 ? std::min(1.0, error / allowed) : 1.0;
  return allowed > 0.0 ? std::max(error / allowed, std::nextafter(1.0, 2.0)) : kInfinity;
}

}  // namespace tern::ops
