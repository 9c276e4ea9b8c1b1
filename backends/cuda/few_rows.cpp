#include "backends/cuda/few_rows.h"

#include "backends/cuda/check.h"
#include "backends/cuda/weight.h"
#include "tern/plugin/desc.h"

namespace tern::cuda {
namespace {

constexpr std::int64_t kWarps = 8;
constexpr std::int64_t kOutputs = 16;  // of a block that uses the matrix units
constexpr std::int64_t kMostBlocks = 65535;
constexpr std::int64_t kVector = 16;  // bytes

// As in cu/few_rows.cu.
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
bool is_plain(const TensorView& x, tern_dtype compute) {
  const int last = x.desc.rank - 1;
  const auto bytes = static_cast<std::int64_t>(tern_plugin_dtype_bytes(x.dtype()));
  bool plain = x.dtype() == compute && x.stride(last) == 1 && x.planes[0] % kVector == 0;
  for (int d = 0; d < last; ++d) plain = plain && x.stride(d) * bytes % kVector == 0;
  return plain;
}

}  // namespace

bool takes_few_rows(std::int64_t n) { return n <= kMostBlocks * kWarps; }

std::string few_rows_function(tern_packing packing, tern_dtype compute) {
  const char* stem = compute == TERN_BF16 ? "few_bf16" : compute == TERN_F16 ? "few_f16" : "few_f32";
  return kernel_of_packing(stem, packing);
}

void run_few_rows(Call call, const FewCall& product) {
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
  p.x_is_plain = is_plain(x, product.compute) ? 1 : 0;
  const std::int64_t outputs = product.compute == TERN_F32 ? kWarps : kOutputs;
  const std::int64_t tiles = product.tiles != 0 ? product.num_tiles : parts_of(p.m, kFewRows);
  call.arg(packed_weight(*product.w)).arg(x).arg(bias).arg(y).arg(p);
  call.run({tiles, parts_of(p.n, outputs), 1}, {kWarps * 32, 1, 1});
}

}  // namespace tern::cuda
