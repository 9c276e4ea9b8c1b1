#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kBlock = 64;  // tiles whose squares one thread adds up

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .floats({TERN_SUM_SQUARES_X})
      .dtype(TERN_SUM_SQUARES_OUT, TERN_F32)
      .dim(TERN_SUM_SQUARES_OUT, 0, 1)
      .ok();
}

// A double for each block of tiles. Joined dimensions only make fewer tiles than these.
std::uint64_t workspace(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_SUM_SQUARES_X);
  std::int64_t units = (x.shape[x.rank - 1] + kTile - 1) / kTile;
  for (int d = 0; d + 1 < x.rank; ++d) units *= x.shape[d];
  return static_cast<std::uint64_t>((units + kBlock - 1) / kBlock) * sizeof(double);
}

void run(const KernelArgs& args) {
  const TensorView &x = args[TERN_SUM_SQUARES_X], &out = args[TERN_SUM_SQUARES_OUT];
  const auto walk = make_walk<1>({&x});
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  auto* partial = reinterpret_cast<double*>(args.workspace);
  const std::int64_t blocks = (walk.units() + kBlock - 1) / kBlock;
  args.pool->parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end, int) {
    alignas(64) TileBuffer buffer;
    for (std::int64_t block = begin; block < end; ++block) {
      double total = 0.0;
      walk.visit(block * kBlock, std::min(walk.units(), (block + 1) * kBlock),
                 [&](const std::int64_t* at, std::int64_t n) {
                   const float* px = io.load(x, at[0], walk.inner_stride[0], n, buffer.data());
                   total += static_cast<double>(math.dot(px, px, static_cast<std::size_t>(n)));
                 });
      partial[block] = total;
    }
  });
  double total = 0.0;
  for (std::int64_t block = 0; block < blocks; ++block) total += partial[block];
  auto value = static_cast<float>(total);
  io.store(out, 0, 1, 1, args.accumulates(TERN_SUM_SQUARES_OUT), &value);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SUM_SQUARES, "sum_squares", supports, workspace, nullptr, run}};

}  // namespace

KernelList sum_squares_kernels() { return kKernels; }

}  // namespace tern::cpu
