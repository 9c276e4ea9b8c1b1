#include <cstring>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/walk.h"
#include "base/dtype.h"

namespace tern::cpu {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &x = desc.arg(TERN_GATHER_ROWS_X), &y = desc.arg(TERN_GATHER_ROWS_Y);
  Check check(desc, reason);
  check.dtype(TERN_GATHER_ROWS_INDEX, TERN_I32).rank(TERN_GATHER_ROWS_INDEX, 1);
  check.dtype(TERN_GATHER_ROWS_Y, x.dtype).rank(TERN_GATHER_ROWS_Y, x.rank);
  check.dim(TERN_GATHER_ROWS_INDEX, 0, y.shape[0]);
  for (int d = 1; d < x.rank; ++d) check.dim(TERN_GATHER_ROWS_Y, d, x.shape[d]);
  return check.ok();
}

// One row: the view without its first dimension.
TensorView row_of(const TensorView& view) {
  TensorView row = view;
  row.desc.rank = view.desc.rank > 1 ? view.desc.rank - 1 : 1;
  for (int d = 0; d < row.desc.rank; ++d) {
    row.desc.shape[d] = view.desc.rank > 1 ? view.dim(d + 1) : 1;
    row.desc.strides[d] = view.desc.rank > 1 ? view.stride(d + 1) : 1;
  }
  return row;
}

void run(const KernelArgs& args) {
  const TensorView &x = args[TERN_GATHER_ROWS_X], &index = args[TERN_GATHER_ROWS_INDEX], &y = args[TERN_GATHER_ROWS_Y];
  const TensorView from = row_of(x), to = row_of(y);
  const auto walk = make_walk<2>({&to, &from});
  const auto size = static_cast<std::int64_t>(dtype_bytes(x.dtype()));
  const bool runs = walk.inner_stride[0] == 1 && walk.inner_stride[1] == 1;
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelFrom / std::max<std::int64_t>(1, to.elements()));
  args.pool->parallel_for(y.dim(0), grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t source = index.data<const std::int32_t>()[r * index.stride(0)];
      if (source >= 0) require_index(source, x.dim(0), "gather_rows: index");
      walk.visit(0, walk.units(), [&](const std::int64_t* at, std::int64_t n) {
        auto* dst = y.data<std::byte>() + (r * y.stride(0) + at[0]) * size;
        const std::int64_t first = source >= 0 ? source * x.stride(0) + at[1] : 0;
        const auto* src = x.data<const std::byte>() + first * size;
        const std::int64_t run = runs ? n : 1;
        for (std::int64_t i = 0; i < n; i += run) {
          auto* d = dst + i * walk.inner_stride[0] * size;
          const auto bytes = static_cast<std::size_t>(run * size);
          if (source >= 0) {
            std::memmove(d, src + i * walk.inner_stride[1] * size, bytes);
          } else {
            std::memset(d, 0, bytes);
          }
        }
      });
    }
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_GATHER_ROWS, "gather_rows", supports, nullptr, nullptr, run}};

}  // namespace

KernelList gather_rows_kernels() { return kKernels; }

}  // namespace tern::cpu
