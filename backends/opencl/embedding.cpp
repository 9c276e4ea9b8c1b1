#include "backends/opencl/kernels.h"
#include "tern/plugin/desc.h"

namespace tern::opencl {
namespace {

// The struct Shape of cl/embedding.cl.
struct Shape {
  std::int64_t rows, width, chunk, chunks, vocab;
  std::int64_t table[2], ids, y[2];
};

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .that(tern_plugin_is_strided(&desc.arg(TERN_EMBEDDING_TABLE)) != 0, "the table is quantised")
      .floats({TERN_EMBEDDING_TABLE, TERN_EMBEDDING_Y})
      .dtype(TERN_EMBEDDING_IDS, TERN_I32)
      .rank(TERN_EMBEDDING_TABLE, 2)
      .rank(TERN_EMBEDDING_Y, 2)
      .dim(TERN_EMBEDDING_Y, 1, desc.arg(TERN_EMBEDDING_TABLE).shape[1])
      .dim(TERN_EMBEDDING_IDS, 0, desc.arg(TERN_EMBEDDING_Y).shape[0])
      .ok();
}

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.tensor("table", desc, TERN_EMBEDDING_TABLE).tensor("y", desc, TERN_EMBEDDING_Y);
  return {{"embedding", "embedding", defines.text()}};
}

void run(const Launch& launch) {
  const TensorView &table = launch[TERN_EMBEDDING_TABLE], &ids = launch[TERN_EMBEDDING_IDS];
  const TensorView& y = launch[TERN_EMBEDDING_Y];
  const std::int64_t chunk = launch.device().cpu ? 4096 : 4;
  const Shape shape{y.dim(0),      y.dim(1),
                    chunk,         parts_of(y.dim(1), chunk),
                    table.dim(0),  {table.stride(0), table.stride(1)},
                    ids.stride(0), {y.stride(0), y.stride(1)}};
  launch.call(0).arg(table).arg(ids).arg(y).arg(shape).run(shape.rows * shape.chunks, plain_group(launch.device()));
}

constexpr KernelEntry kKernels[] = {{TERN_OP_EMBEDDING, "embedding", supports, nullptr, functions, run}};

}  // namespace

KernelList embedding_kernels() { return kKernels; }

}  // namespace tern::opencl
