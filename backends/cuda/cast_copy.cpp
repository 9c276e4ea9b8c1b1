// Between floats of 32 and 16 bits by kernels of their own; between all others by one that is told the dtypes.
#include "backends/cuda/dense.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/text.h"
#include "tern/plugin/desc.h"

namespace tern::cuda {
namespace {

bool is_floating(tern_dtype dtype) {
  return is_small_float(dtype) || dtype == TERN_F64 || dtype == TERN_F8_E4M3 || dtype == TERN_F8_E5M2;
}

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .same_shape({TERN_CAST_COPY_X, TERN_CAST_COPY_Y})
      .that(!desc.accumulates(TERN_CAST_COPY_Y) || is_floating(desc.arg(TERN_CAST_COPY_Y).dtype),
            "only floating outputs accumulate")
      .ok();
}

enum class Way { floats, bits, any };

Way way_of(const PlanDesc& desc) {
  const tern_dtype x = desc.arg(TERN_CAST_COPY_X).dtype;
  const tern_dtype y = desc.arg(TERN_CAST_COPY_Y).dtype;
  if (x == y && !desc.accumulates(TERN_CAST_COPY_Y) && x != TERN_BOOL) return Way::bits;
  return is_small_float(x) && is_small_float(y) ? Way::floats : Way::any;
}

std::int64_t bytes_of(tern_dtype dtype) { return static_cast<std::int64_t>(tern_plugin_dtype_bytes(dtype)); }

enum : std::size_t { kPlain, kTransposed, kWide };

Functions functions(const PlanDesc& desc) {
  switch (way_of(desc)) {
    case Way::bits:
      return {"copy_bits", cat("transpose_", bytes_of(desc.arg(TERN_CAST_COPY_X).dtype)), "copy_wide"};
    case Way::floats:
      return {"cast_floats", "transpose_floats"};
    case Way::any:
      break;
  }
  return {"cast_any"};
}

// The struct Transposed of cu/cast_copy.cu.
struct Transposed {
  std::int64_t a = 0, b = 0;
  std::int64_t x_a = 0, y_b = 0;
  std::int64_t tiles_a = 0, tiles_b = 0;
  std::int64_t rank = 0;
  std::int64_t shape[4] = {}, x[4] = {}, y[4] = {};
  std::int64_t outer = 1;  // tensors of a and b
};

// Where y's neighbours lie along one dimension and x's along another, both long enough that tiles are worth it. `walk`
// is of y and x; `side` of a tile.
bool is_transposed(const Walk& walk, std::int64_t side, Transposed& t) {
  constexpr std::int64_t kLeast = 8;
  int a = -1, b = -1;
  const auto stride = [&](int tensor, int d) {
    return d < walk.rank ? walk.stride[tensor][d] : walk.inner_stride[tensor];
  };
  const auto size = [&](int d) { return d < walk.rank ? walk.shape[d] : walk.inner; };
  for (int d = 0; d <= walk.rank; ++d) {
    if (stride(0, d) == 1 && stride(1, d) != 1) a = d;
    if (stride(1, d) == 1 && stride(0, d) != 1) b = d;
  }
  if (a < 0 || b < 0 || size(a) < kLeast || size(b) < kLeast) return false;
  t.a = size(a);
  t.b = size(b);
  t.x_a = stride(1, a);
  t.y_b = stride(0, b);
  t.tiles_a = parts_of(t.a, side);
  t.tiles_b = parts_of(t.b, side);
  for (int d = 0; d <= walk.rank; ++d) {
    if (d == a || d == b) continue;
    t.shape[t.rank] = size(d);
    t.y[t.rank] = stride(0, d);
    t.x[t.rank++] = stride(1, d);
    t.outer *= size(d);
  }
  return true;
}

// The same walk in elements of 16 bytes; false: the tensors don't lie so.
bool widen(const TensorView& x, const TensorView& y, Walk& walk) {
  const std::int64_t bytes = bytes_of(x.dtype());
  bool wide = walk.dense != 0 && walk.inner * bytes % 16 == 0 && x.planes[0] % 16 == 0 && y.planes[0] % 16 == 0;
  for (int d = 0; d < walk.rank; ++d) {
    for (int t = 0; t < 2; ++t) {
      wide = wide && walk.stride[t][d] * bytes % 16 == 0;
      walk.stride[t][d] = walk.stride[t][d] * bytes / 16;
    }
  }
  walk.units = walk.chunks == 0 ? 0 : walk.units / walk.chunks * (walk.inner * bytes / 16);
  walk.inner = walk.inner * bytes / 16;
  walk.chunk = 1;
  walk.chunks = walk.inner;
  return wide;
}

void copy_bits(const Launch& launch, const TensorView& x, const TensorView& y) {
  const Walk walk = make_walk({&y, &x});
  const std::int64_t bytes = bytes_of(x.dtype());
  if (walk.units == 0) return;
  Walk wide = walk;
  Transposed t;
  if (widen(x, y, wide)) {
    Call call = launch.call(kWide);
    call.arg(x.planes[0]).arg(y.planes[0]).arg(wide).arg(wide.units / wide.inner).run(wide.units, kDenseThreads);
  } else if (is_transposed(walk, bytes <= 2 ? 64 : 32, t)) {
    Call call = launch.call(kTransposed);
    call.arg(x.planes[0]).arg(y.planes[0]).arg(t).run({t.tiles_a * t.tiles_b * t.outer, 1, 1}, {256, 1, 1});
  } else {
    Call call = launch.call(kPlain);
    call.arg(x.planes[0]).arg(y.planes[0]).arg(walk).arg(static_cast<std::int32_t>(bytes));
    call.run(walk.units, kPlainThreads);
  }
}

void cast_floats(const Launch& launch, const TensorView& x, const TensorView& y) {
  const Dense dense = make_dense({&y, &x});
  Transposed t;
  if (is_transposed(dense.walk, 32, t)) {
    Call call = launch.call(kTransposed);
    call.arg(x).arg(y).arg(t).run({t.tiles_a * t.tiles_b * t.outer, 1, 1}, {256, 1, 1});
  } else {
    launch.call(kPlain).arg(x).arg(y).arg(dense).run(dense.walk.units, kDenseThreads);
  }
}

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_CAST_COPY_X], &y = launch[TERN_CAST_COPY_Y];
  switch (way_of({launch.planned(), launch.device()})) {
    case Way::bits:
      return copy_bits(launch, x, y);
    case Way::floats:
      return cast_floats(launch, x, y);
    case Way::any:
      break;
  }
  const Walk walk = make_walk({&y, &x});
  launch.call(kPlain).arg(x).arg(y).arg(walk).run(walk.units, kPlainThreads);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_CAST_COPY, "cast_copy", supports, nullptr, functions, run}};

}  // namespace

KernelList cast_copy_kernels() { return kKernels; }

}  // namespace tern::cuda
