#include "backends/cuda/dropping.h"
#include "backends/cuda/kernels.h"

namespace tern::cuda {
namespace {

// The struct DropoutSizes of cu/dropout.cu.
struct Shape {
  std::int64_t rows, width, chunks;
  std::int64_t x[2], y[2];
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

Functions functions(const PlanDesc& /*desc*/) { return {"dropout"}; }

void run(const Launch& launch) {
  const auto& attrs = launch.attr<tern_dropout_attrs>();
  const TensorView &x = launch[TERN_DROPOUT_X], &y = launch[TERN_DROPOUT_Y];
  Shape shape{};
  shape.rows = x.dim(0);
  shape.width = x.dim(1);
  shape.chunks = parts_of(shape.width, 8);
  take_strides(x, shape.x);
  take_strides(y, shape.y);
  const Dropping drop(launch[TERN_DROPOUT_KEYS], launch[TERN_DROPOUT_MASK], attrs.site, attrs.rate);
  launch.call(0).arg(x).arg(y).arg(shape).arg(drop).run(shape.rows * shape.chunks, kPlainThreads);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_DROPOUT, "dropout", supports, nullptr, functions, run}};

}  // namespace

KernelList dropout_kernels() { return kKernels; }

}  // namespace tern::cuda
