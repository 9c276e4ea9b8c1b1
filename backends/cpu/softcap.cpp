#include <cmath>

#include "backends/cpu/attention_kernels.h"
#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  const float cap = desc.attrs<tern_softcap_attrs>().cap;
  return Check(desc, reason)
      .that(cap > 0.0F && std::isfinite(cap), "cap is not a finite number above 0")
      .floats({TERN_SOFTCAP_X, TERN_SOFTCAP_Y})
      .same_shape({TERN_SOFTCAP_X, TERN_SOFTCAP_Y})
      .ok();
}

void run(const KernelArgs& args) {
  const float cap = args.attr<tern_softcap_attrs>().cap;
  const TensorView &x = args[TERN_SOFTCAP_X], &y = args[TERN_SOFTCAP_Y];
  const auto walk = make_walk<2>({&y, &x});
  const TileIo io(args);
  const RowKernels& rows = row_kernels(args.target);
  for_tiles(*args.pool, walk, [&](const std::int64_t* at, std::int64_t n) {
    alignas(64) TileBuffer bx, by;
    const float* px = io.load(x, at[1], walk.inner_stride[1], n, bx.data());
    float* py = TileIo::place(y, at[0], walk.inner_stride[0], false, by.data());
    rows.softcap(px, n, cap, py);
    io.store(y, at[0], walk.inner_stride[0], n, false, py);
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SOFTCAP, "softcap", supports, nullptr, nullptr, run}};

}  // namespace

KernelList softcap_kernels() { return kKernels; }

}  // namespace tern::cpu
