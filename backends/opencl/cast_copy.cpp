// Between floats of 32 and 16 bits by kernels of their own; between all others by one that is told the dtypes.
#include "backends/opencl/kernels.h"
#include "tern/plugin/desc.h"

namespace tern::opencl {
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

std::vector<Function> functions(const PlanDesc& desc) {
  switch (way_of(desc)) {
    case Way::bits:
      return {{"cast_copy", "copy_bits", ""}};
    case Way::any:
      return {{"cast_copy", "cast_any", ""}};
    case Way::floats:
      break;
  }
  Defines defines;
  defines.set("FLOATS", 1)
      .tensor("x", desc, TERN_CAST_COPY_X)
      .tensor("y", desc, TERN_CAST_COPY_Y)
      .adds("y", desc, TERN_CAST_COPY_Y);
  return {{"cast_copy", "cast_floats", defines.text()}};
}

void run(const Launch& launch) {
  const TensorView &x = launch[TERN_CAST_COPY_X], &y = launch[TERN_CAST_COPY_Y];
  const Walk walk = make_walk(launch.device(), {&y, &x});
  Call call = launch.call(0);
  call.arg(x).arg(y).arg(walk);
  switch (way_of({launch.planned(), launch.device()})) {
    case Way::bits:
      call.arg(static_cast<std::int32_t>(tern_plugin_dtype_bytes(x.dtype())));
      break;
    case Way::any:
      call.arg(x.dtype()).arg(y.dtype()).arg(std::int32_t{launch.accumulates(TERN_CAST_COPY_Y)});
      break;
    case Way::floats:
      break;
  }
  call.run(walk.units, plain_group(launch.device()));
}

constexpr KernelEntry kKernels[] = {{TERN_OP_CAST_COPY, "cast_copy", supports, nullptr, functions, run}};

}  // namespace

KernelList cast_copy_kernels() { return kKernels; }

}  // namespace tern::opencl
