#include "backends/opencl/kernels.h"

namespace tern::opencl {
namespace {

constexpr std::int64_t kBlock = 256;  // elements that share a largest moment

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

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.set("GROUP", reducing_group(desc.device)).tensor("grad", desc, TERN_ADAMW_8BIT_GRAD);
  return {{"adamw_8bit", "adamw_8bit", defines.text()}};
}

void run(const Launch& launch) {
  const std::int64_t elements = launch[TERN_ADAMW_8BIT_PARAM].elements();
  const std::int64_t group = reducing_group(launch.device());
  Call call = launch.call(0);
  for (const int arg : {TERN_ADAMW_8BIT_PARAM, TERN_ADAMW_8BIT_M, TERN_ADAMW_8BIT_V, TERN_ADAMW_8BIT_M_MAX,
                        TERN_ADAMW_8BIT_V_MAX, TERN_ADAMW_8BIT_GRAD, TERN_ADAMW_8BIT_M_CODES, TERN_ADAMW_8BIT_V_CODES,
                        TERN_ADAMW_8BIT_HYPER}) {
    call.arg(launch[arg]);
  }
  call.arg(elements).run(parts_of(elements, kBlock) * group, group);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ADAMW_8BIT, "adamw_8bit", supports, nullptr, functions, run}};

}  // namespace

KernelList adamw_8bit_kernels() { return kKernels; }

}  // namespace tern::opencl
