#include <algorithm>

#include "backends/cuda/kernels.h"

namespace tern::cuda {
namespace {

constexpr std::int64_t kBlock = 256;          // elements that share a largest moment: a warp has them
constexpr std::int64_t kBlocksOfLaunch = 8;   // at a time, of a block of threads
constexpr std::int64_t kMostLaunched = 4096;  // blocks of threads, which go on from there

// As in cu/adamw_8bit.cu.
struct Arguments {
  DeviceTensor param;
  Place m, v, m_max, v_max;
  DeviceTensor grad;
  Place m_codes, v_codes, hyper;
  std::int64_t elements, aligned;
};

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .dtype(TERN_ADAMW_8BIT_PARAM, TERN_F32)
      .dtype(TERN_ADAMW_8BIT_M, TERN_U8)
      .dtype(TERN_ADAMW_8BIT_V, TERN_U8)
      .floats({TERN_ADAMW_8BIT_GRAD})
      .dim(TERN_ADAMW_8BIT_M_CODES, 0, 256)
      .dim(TERN_ADAMW_8BIT_V_CODES, 0, 256)
      .dim(TERN_ADAMW_8BIT_HYPER, 0, 10)
      .same_shape({TERN_ADAMW_8BIT_PARAM, TERN_ADAMW_8BIT_M, TERN_ADAMW_8BIT_V, TERN_ADAMW_8BIT_GRAD})
      .contiguous()
      .ok();
}

Functions functions(const PlanDesc& /*desc*/) { return {"adamw_8bit"}; }

void run(const Launch& launch) {
  const auto place = [&](int arg) { return launch[arg].planes[0]; };
  const std::int64_t elements = launch[TERN_ADAMW_8BIT_PARAM].elements();
  bool aligned = true;
  for (const int arg : {TERN_ADAMW_8BIT_PARAM, TERN_ADAMW_8BIT_M, TERN_ADAMW_8BIT_V, TERN_ADAMW_8BIT_GRAD}) {
    aligned = aligned && place(arg) % 16 == 0;
  }
  const Arguments arguments{launch[TERN_ADAMW_8BIT_PARAM].plane(0),
                            place(TERN_ADAMW_8BIT_M),
                            place(TERN_ADAMW_8BIT_V),
                            place(TERN_ADAMW_8BIT_M_MAX),
                            place(TERN_ADAMW_8BIT_V_MAX),
                            launch[TERN_ADAMW_8BIT_GRAD].plane(0),
                            place(TERN_ADAMW_8BIT_M_CODES),
                            place(TERN_ADAMW_8BIT_V_CODES),
                            place(TERN_ADAMW_8BIT_HYPER),
                            elements,
                            aligned ? 1 : 0};
  const std::int64_t blocks = std::min(kMostLaunched, parts_of(elements, kBlock * kBlocksOfLaunch));
  launch.call(0).arg(arguments).run({blocks, 1, 1}, {32 * kBlocksOfLaunch, 1, 1});
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ADAMW_8BIT, "adamw_8bit", supports, nullptr, functions, run}};

}  // namespace

KernelList adamw_8bit_kernels() { return kKernels; }

}  // namespace tern::cuda
