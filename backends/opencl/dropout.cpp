#include <algorithm>

#include "backends/opencl/kernels.h"

namespace tern::opencl {
namespace {

// The struct Shape of cl/dropout.cl.
struct Shape {
  std::int64_t rows, width, chunk, chunks;
  std::int64_t x[2], mask[2], y[2], key;
};

bool supports(const PlanDesc& desc, std::string& reason) {
  const float rate = desc.attrs<tern_dropout_attrs>().rate;
  return Check(desc, reason)
      .floats({TERN_DROPOUT_X, TERN_DROPOUT_Y})
      .dtype(TERN_DROPOUT_KEYS, TERN_I64)
      .dtype(TERN_DROPOUT_MASK, TERN_U8)
      .rank(TERN_DROPOUT_X, 2)
      .same_shape({TERN_DROPOUT_X, TERN_DROPOUT_MASK, TERN_DROPOUT_Y})
      .dim(TERN_DROPOUT_KEYS, 0, desc.arg(TERN_DROPOUT_X).shape[0])
      .that(rate >= 0.0F && rate < 1.0F, "the rate must lie in [0, 1)")
      .ok();
}

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.tensor("x", desc, TERN_DROPOUT_X)
      .tensor("mask", desc, TERN_DROPOUT_MASK)
      .tensor("y", desc, TERN_DROPOUT_Y)
      .adds("y", desc, TERN_DROPOUT_Y);
  return {{"dropout", "dropout", defines.text()}};
}

void run(const Launch& launch) {
  const auto& attrs = launch.attr<tern_dropout_attrs>();
  const TensorView &x = launch[TERN_DROPOUT_X], &keys = launch[TERN_DROPOUT_KEYS], &mask = launch[TERN_DROPOUT_MASK];
  const TensorView& y = launch[TERN_DROPOUT_Y];
  const std::int64_t chunk = launch.device().cpu ? 1024 : 4;
  const Shape shape{x.dim(0),
                    x.dim(1),
                    chunk,
                    parts_of(x.dim(1), chunk),
                    {x.stride(0), x.stride(1)},
                    {mask.stride(0), mask.stride(1)},
                    {y.stride(0), y.stride(1)},
                    keys.stride(0)};
  const auto factor = static_cast<float>(1.0 / (1.0 - static_cast<double>(attrs.rate)));
  Call call = launch.call(0);
  call.arg(x).arg(keys).arg(mask).arg(y).arg(shape).arg(static_cast<std::uint32_t>(attrs.site)).arg(attrs.rate);
  call.arg(factor).run(shape.rows * shape.chunks, plain_group(launch.device()));
}

constexpr KernelEntry kKernels[] = {{TERN_OP_DROPOUT, "dropout", supports, nullptr, functions, run}};

}  // namespace

KernelList dropout_kernels() { return kKernels; }

}  // namespace tern::opencl
