// matmul: cuBLASLt where it is there, the tile that is likely the fastest, and each other that takes the shapes, of
// which plan measures all.
#include <algorithm>
#include <array>
#include <utility>

#include "backends/cuda/cublaslt.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/product.h"

namespace tern::cuda {
namespace {

// Of an op's desc at its largest, or of what a launch has.
struct Sizes {
  std::int64_t batch, m, n, k;
};

template <typename Get>
Sizes sizes_of(const Get& arg, const tern_matmul_attrs& attrs) {
  const tern_tensor_desc& a = arg(TERN_MATMUL_A);
  const tern_tensor_desc& out = arg(TERN_MATMUL_OUT);
  return {out.rank == 3 ? out.shape[0] : 1, out.shape[out.rank - 2], out.shape[out.rank - 1],
          a.shape[a.rank - (attrs.transpose_a != 0 ? 2 : 1)]};
}

// A matrix whose last dimension is the rows of the side if `crosswise`.
Side side_of(const tern_tensor_desc& desc, bool crosswise) {
  const std::int64_t last = desc.strides[desc.rank - 1];
  const std::int64_t other = desc.strides[desc.rank - 2];
  return {desc.dtype, crosswise ? last : other, crosswise ? other : last, desc.rank == 3 ? desc.strides[0] : 0};
}

ProductSpec spec_of(const tern_op_desc& op) {
  const auto& attrs = *static_cast<const tern_matmul_attrs*>(op.attrs);
  const Sizes sizes = sizes_of(
      [&](int i) -> const auto& { return op.args[i]; }, attrs);
  const tern_tensor_desc& out = op.args[TERN_MATMUL_OUT];
  ProductSpec spec;
  spec.a = side_of(op.args[TERN_MATMUL_A], attrs.transpose_a != 0);
  spec.b = side_of(op.args[TERN_MATMUL_B], attrs.transpose_b == 0);
  spec.m = sizes.m;
  spec.n = sizes.n;
  spec.k = sizes.k;
  spec.batch = sizes.batch;
  spec.compute = attrs.compute;
  spec.any_rows = out.dynamic_dim == out.rank - 2;
  spec.few_alike = (op.needs & TERN_NEED_ROW_INVARIANT) != 0;
  return spec;
}

bool shapes_fit(const PlanDesc& desc, std::string& reason) {
  const auto& attrs = desc.attrs<tern_matmul_attrs>();
  const auto &a = desc.arg(TERN_MATMUL_A), &b = desc.arg(TERN_MATMUL_B), &out = desc.arg(TERN_MATMUL_OUT);
  Check check(desc, reason);
  check.floats({TERN_MATMUL_A, TERN_MATMUL_B, TERN_MATMUL_BIAS, TERN_MATMUL_OUT})
      .that(is_small_float(attrs.compute), "products are computed in f32, bf16 or f16")
      .that(out.rank == 2 || out.rank == 3, "out has a rank other than 2 and 3");
  if (!check.ok()) return false;
  check.that((a.rank == 2 || a.rank == out.rank) && (b.rank == 2 || b.rank == out.rank), "a, b and out differ in rank");
  if (!check.ok()) return false;
  const Sizes s = sizes_of(
      [&](int i) -> const auto& { return desc.arg(i); }, attrs);
  const bool ta = attrs.transpose_a != 0, tb = attrs.transpose_b != 0;
  const bool fits = a.shape[a.rank - (ta ? 1 : 2)] == s.m && b.shape[b.rank - (tb ? 2 : 1)] == s.n &&
                    b.shape[b.rank - (tb ? 1 : 2)] == s.k;
  check.that(fits, "the shapes of a, b and out do not fit each other")
      .that((a.rank == 2 || a.shape[0] == s.batch) && (b.rank == 2 || b.shape[0] == s.batch),
            "a, b and out differ in batch")
      .that(std::max({s.m, s.n, s.k, s.batch}) < INT32_MAX, "a size is over 31 bits")
      .rank(TERN_MATMUL_BIAS, 1)
      .dim(TERN_MATMUL_BIAS, 0, s.n);
  return check.ok();
}

constexpr int kLikely = -1;                // the variant that plan_product chooses
constexpr int kLibrary = -2;               // cuBLASLt
constexpr int kRounded = -3;               // sides of other dtypes rounded first, then by either
constexpr std::int64_t kLibraryRows = 16;  // up to so many b is read by kernels of our own

ProductPlan plan_of(const ProductSpec& spec, const Facts& facts, int variant) {
  if (variant < 0) return plan_product(spec, facts);
  return plan_product(product_tiles()[static_cast<std::size_t>(variant)], spec, facts);
}

std::uint64_t bytes_of(std::int64_t count, std::int64_t each) {
  return static_cast<std::uint64_t>(round_up(count * each, 256));
}

// ---------------------------------------------------------------- by cuBLASLt
// Whether its sums go to the workspace first: it adds a bias, and what is there, to what it has rounded already.
bool keeps_sums(const tern_op_desc& op) {
  const bool adds = (op.accumulate >> TERN_MATMUL_OUT & 1U) != 0;
  return op.args[TERN_MATMUL_BIAS].rank != 0 || (adds && op.args[TERN_MATMUL_OUT].dtype != TERN_F32);
}

bool takes_library(const PlanDesc& desc, const ProductSpec& spec) {
  constexpr std::int64_t kMostSums = std::int64_t{512} << 20;
  const tern_tensor_desc& out = desc.arg(TERN_MATMUL_OUT);
  const bool kept = keeps_sums(desc.op);
  LtCall call;
  call.out_dtype = kept ? tern_dtype{TERN_F32} : out.dtype;
  call.out_row = kept ? spec.n : out.strides[out.rank - 2];
  call.out_col = kept ? 1 : out.strides[out.rank - 1];
  return !desc.device.described && spec.m > kLibraryRows && (!kept || spec.m * spec.n * spec.batch * 4 <= kMostSums) &&
         takes_cublaslt(spec, call);
}

std::uint64_t library_bytes(const PlanDesc& desc, const ProductSpec& spec) {
  const std::uint64_t sums = keeps_sums(desc.op) ? bytes_of(spec.m * spec.n * spec.batch, 4) : 0;
  return cublaslt_workspace(spec) + sums;
}

// False: it has no algorithm for it, and nothing was queued.
bool run_library(const Launch& launch, std::size_t first, Place workspace, const ProductSpec& spec,
                 const ProductCall& call) {
  if (call.m == 0 || call.n == 0 || call.k == 0 || call.batch == 0) return false;
  if (!keeps_sums(launch.planned())) return run_cublaslt(launch, workspace, spec, call);
  ProductCall sums = call;
  sums.bias = 0;
  sums.adds = false;
  sums.alpha = 1.0F;
  sums.out = workspace + cublaslt_workspace(spec);
  sums.out_dtype = TERN_F32;
  sums.out_row = call.n;
  sums.out_col = 1;
  sums.out_batch = call.m * call.n;
  if (!run_cublaslt(launch, workspace, spec, sums)) return false;
  finish_product(launch, first, sums.out, spec, call);
  return true;
}

// ---------------------------------------------------------------- of sides that are rounded first
bool needs_rounding(const Side& side, const ProductSpec& spec) { return side.dtype != spec.compute; }

// A copy of a side of `rows`, in the dtype of the product: lines of neighbours as they lay, of whole vectors.
struct Rounded {
  Side side;
  std::int64_t lines, width, pitch;
  bool along;  // lines are rows
};
Rounded rounded(const Side& side, std::int64_t rows, const ProductSpec& spec) {
  constexpr std::int64_t kVector = 8;
  Rounded copy{};
  copy.along = side.row != 1 || side.col == 1;
  copy.lines = copy.along ? rows : spec.k;
  copy.width = copy.along ? spec.k : rows;
  copy.pitch = round_up(copy.width, kVector);
  copy.side.dtype = spec.compute;
  copy.side.row = copy.along ? copy.pitch : 1;
  copy.side.col = copy.along ? 1 : copy.pitch;
  return copy;
}

ProductSpec rounded_spec(const ProductSpec& spec) {
  ProductSpec out = spec;
  if (needs_rounding(spec.a, spec)) out.a = rounded(spec.a, spec.m, spec).side;
  if (needs_rounding(spec.b, spec)) out.b = rounded(spec.b, spec.n, spec).side;
  return out;
}

std::uint64_t rounded_bytes(const ProductSpec& spec) {
  std::uint64_t bytes = 0;
  for (const auto& [side, rows] : {std::pair{spec.a, spec.m}, std::pair{spec.b, spec.n}}) {
    if (!needs_rounding(side, spec)) continue;
    const Rounded copy = rounded(side, rows, spec);
    bytes += bytes_of(copy.lines * copy.pitch, 2);
  }
  return bytes;
}

bool takes_rounded(const ProductSpec& spec) {
  constexpr double kLeast = 1 << 24;  // products: less isn't worth the copies
  return (spec.compute == TERN_BF16 || spec.compute == TERN_F16) && !spec.few_alike && spec.batch == 1 &&
         (needs_rounding(spec.a, spec) || needs_rounding(spec.b, spec)) &&
         static_cast<double>(spec.m) * static_cast<double>(spec.n) * static_cast<double>(spec.k) >= kLeast;
}

// Lays the copies into the workspace, at the distances of the largest shapes, and has `call` read them; returns where
// they end.
Place round_sides(const Launch& launch, const ProductSpec& spec, ProductCall& call) {
  struct Sizes {  // RoundSizes of cu/product_round.cu
    std::int64_t lines, width, line, step, pitch;
  };
  Place end = launch.workspace();
  const auto lay = [&](const Side& side, std::int64_t most_rows, std::int64_t rows, Place& at) {
    if (!needs_rounding(side, spec)) return;
    const Rounded copy = rounded(side, most_rows, spec);
    const std::int64_t lines = copy.along ? rows : call.k, width = copy.along ? call.k : rows;
    const Sizes sizes{lines, width, copy.along ? side.row : side.col, copy.along ? side.col : side.row, copy.pitch};
    launch.call(kProductFunctions)
        .arg(DeviceTensor{at, side.dtype, 0})
        .arg(DeviceTensor{end, spec.compute, 0})
        .arg(sizes)
        .overlapped()
        .run(lines * (copy.pitch / 8), kPlainThreads);
    at = end;
    end += bytes_of(copy.lines * copy.pitch, 2);
  };
  lay(spec.a, spec.m, call.m, call.a);
  lay(spec.b, spec.n, call.n, call.b);
  return end;
}

// ---------------------------------------------------------------- the entries
bool supports(const PlanDesc& desc, std::string& reason) {
  if (!shapes_fit(desc, reason)) return false;
  if (desc.variant == kLikely) return true;
  const ProductSpec spec = spec_of(desc.op);
  Check check(desc, reason);
  if (desc.variant == kLibrary) {
    return check.that(takes_library(desc, spec), "cuBLASLt isn't there, or doesn't take these").ok();
  }
  if (desc.variant == kRounded) return check.that(takes_rounded(spec), "no side has to be rounded first").ok();
  const Tile& tile = product_tiles()[static_cast<std::size_t>(desc.variant)];
  return check.that(takes_product(tile, spec), "another kernel has these strides and sizes")
      .that(plan_product(spec, desc.device).tile != &tile, "it is the likely one")
      .ok();
}

// What multiplies: the spec itself, or of the copies.
ProductSpec multiplied(const ProductSpec& spec, int variant) { return variant == kRounded ? rounded_spec(spec) : spec; }

std::uint64_t workspace(const PlanDesc& desc) {
  const ProductSpec given = spec_of(desc.op), spec = multiplied(given, desc.variant);
  std::uint64_t bytes = product_bytes(plan_of(spec, desc.device, desc.variant), spec);
  const bool library = desc.variant == kLibrary || (desc.variant == kRounded && takes_library(desc, spec));
  if (library) bytes = std::max(bytes, library_bytes(desc, spec));
  return bytes + (desc.variant == kRounded ? rounded_bytes(given) : 0);
}

Functions functions(const PlanDesc& desc) {
  const ProductSpec spec = multiplied(spec_of(desc.op), desc.variant);
  Functions list = product_functions(plan_of(spec, desc.device, desc.variant), spec);
  list.emplace_back("product_round");
  return list;
}

void run(const Launch& launch) {
  const auto& attrs = launch.attr<tern_matmul_attrs>();
  const TensorView& out = launch[TERN_MATMUL_OUT];
  const Sizes sizes = sizes_of(
      [&](int i) -> const auto& { return launch[i].desc; }, attrs);
  const ProductSpec given = spec_of(launch.planned());
  const int last = out.desc.rank - 1, variant = launch.variant();
  ProductCall call;
  call.m = sizes.m;
  call.n = sizes.n;
  call.k = sizes.k;
  call.batch = sizes.batch;
  call.a = launch[TERN_MATMUL_A].planes[0];
  call.b = launch[TERN_MATMUL_B].planes[0];
  call.take_bias(launch[TERN_MATMUL_BIAS]);
  call.out = out.planes[0];
  call.out_dtype = out.dtype();
  call.out_row = out.stride(last - 1);
  call.out_col = out.stride(last);
  call.out_batch = last == 2 ? out.stride(0) : 0;
  call.adds = launch.accumulates(TERN_MATMUL_OUT);
  call.alpha = attrs.alpha;
  const ProductSpec spec = multiplied(given, variant);
  const Place begin = variant == kRounded ? round_sides(launch, given, call) : launch.workspace();
  const PlanDesc planned{launch.planned(), launch.device(), variant};
  const bool library = variant == kLibrary || (variant == kRounded && takes_library(planned, spec));
  // Where the library has no algorithm for it, it is the likely kernel's.
  if (library && run_library(launch, 0, begin, spec, call)) return;
  run_product(launch, 0, begin, plan_of(spec, launch.device(), variant), spec, call);
}

}  // namespace

KernelList matmul_kernels() {
  static const std::vector<KernelEntry> kernels = [] {
    std::vector<KernelEntry> list = {{TERN_OP_MATMUL, "rounded", supports, workspace, functions, run, kRounded},
                                     {TERN_OP_MATMUL, "cublaslt", supports, workspace, functions, run, kLibrary},
                                     {TERN_OP_MATMUL, "likely", supports, workspace, functions, run, kLikely}};
    int variant = 0;
    for (const Tile& tile : product_tiles()) {
      list.push_back({TERN_OP_MATMUL, tile.name, supports, workspace, functions, run, variant++});
    }
    return list;
  }();
  return kernels;
}

}  // namespace tern::cuda
