#include "backends/cuda/few_rows.h"

#include <algorithm>

#include "backends/cuda/check.h"
#include "backends/cuda/text.h"
#include "backends/cuda/weight.h"
#include "tern/plugin/desc.h"

namespace tern::cuda {
namespace {

constexpr std::int64_t kThreads = 256;
constexpr std::int64_t kOutputs = 16;        // of a block
constexpr std::int64_t kOutputsAcross = 32;  // of one of cu/few_across.cu
constexpr std::int64_t kMatrixRows = 8;
constexpr std::int64_t kMostBlocks = 65535;
constexpr std::int64_t kVector = 16;  // bytes

// As in cu/few_rows.cuh.
struct FewRows {
  std::int64_t x_row = 0, x_sub = 0, x_col = 0;
  std::int64_t y_row = 0, y_sub = 0, y_col = 0;
  std::int64_t bias_step = 0, bias_expert = 0;
  Place tiles = 0;
  std::int32_t m = 0, n = 0, k = 0;
  std::int32_t parts = 1;
  std::int32_t x_is_plain = 0;
  std::int32_t reserved = 0;
};

// Whether rows are of the dtype that is computed in and lie so that they're read by 16 bytes.
bool is_plain(const TensorView& x, tern_compute compute) {
  const int last = x.desc.rank - 1;
  const auto bytes = static_cast<std::int64_t>(tern_plugin_dtype_bytes(x.dtype()));
  bool plain = x.dtype() == compute && x.stride(last) == 1 && x.planes[0] % kVector == 0;
  for (int d = 0; d < last; ++d) plain = plain && x.stride(d) * bytes % kVector == 0;
  return plain;
}

// Bytes of shared memory that a row of x takes where it's laid out for lanes.
std::uint64_t row_bytes(tern_compute compute, std::int64_t k) {
  const auto units = static_cast<std::uint64_t>(parts_of(k, 32));
  return units * (compute == TERN_COMPUTE_X15 ? 2 * 32 + 4 + 2 * 4 : 32 * 4);
}

}  // namespace

FewPlan plan_few_rows(tern_compute compute, std::int64_t rows, std::int64_t n, std::int64_t k, const Facts& facts) {
  FewPlan plan{compute, 0, 0};
  if (n > kMostBlocks * kOutputs) return plan;
  if (compute == TERN_COMPUTE_BF16 || compute == TERN_COMPUTE_F16) {
    plan.rows = kMatrixRows;
    return plan;
  }
  // Two blocks of a multiprocessor, if they have room, else one.
  const std::uint64_t each = row_bytes(compute, k);
  for (std::int64_t together = rows > 2 ? 4 : std::max<std::int64_t>(rows, 1); together > 0; together /= 2) {
    const std::uint64_t most = together > 1 ? facts.shared_memory / 2 : facts.shared_memory;
    plan.shared = each * static_cast<std::uint64_t>(together);
    if (plan.shared > most) continue;
    plan.rows = together;
    break;
  }
  return plan;
}

std::string few_rows_function(const FewPlan& plan, tern_packing packing) {
  if (plan.compute == TERN_COMPUTE_BF16) return kernel_of_packing("few_bf16", packing);
  if (plan.compute == TERN_COMPUTE_F16) return kernel_of_packing("few_f16", packing);
  const char* form = plan.compute == TERN_COMPUTE_X15 ? "few_x15_" : "few_f32_";
  return kernel_of_packing(cat(form, plan.rows).c_str(), packing);
}

void run_few_rows(Call call, const FewPlan& plan, const FewCall& product) {
  const TensorView &x = *product.x, &y = *product.y, &bias = *product.bias;
  const bool grouped = x.desc.rank == 3;
  const int last = x.desc.rank - 1;
  FewRows p;
  p.x_row = x.stride(0);
  p.x_col = x.stride(last);
  p.y_row = y.stride(0);
  p.y_col = y.stride(last);
  if (grouped) {
    p.x_sub = x.stride(1);
    p.y_sub = y.stride(1);
    p.parts = static_cast<std::int32_t>(x.dim(1));
  }
  if (bias.present()) {
    p.bias_step = bias.stride(bias.desc.rank - 1);
    if (grouped) p.bias_expert = bias.stride(0);
  }
  p.tiles = product.tiles;
  p.m = static_cast<std::int32_t>(x.dim(0) * p.parts);
  p.n = static_cast<std::int32_t>(product.n);
  p.k = static_cast<std::int32_t>(x.dim(last));
  p.x_is_plain = is_plain(x, plan.compute) ? 1 : 0;
  const tern_packing packing = product.w->desc.scheme.packing;
  const bool across = packing == TERN_PACK_AWQ_INT4 || packing == TERN_PACK_GPTQ_INT4;
  const std::int64_t outputs = across && plan.compute == TERN_COMPUTE_F32 ? kOutputsAcross : kOutputs;
  const std::int64_t tiles = product.tiles != 0 ? product.num_tiles : parts_of(p.m, plan.rows);
  call.arg(packed_weight(*product.w)).arg(x).arg(bias).arg(y).arg(p);
  call.shared(plan.shared).run({tiles, parts_of(p.n, outputs), 1}, {kThreads, 1, 1});
}

}  // namespace tern::cuda
