#include "backends/opencl/kernels.h"
#include "backends/opencl/weight.h"

namespace tern::opencl {
namespace {

// The struct Shape of cl/embedding.cl.
struct Shape {
  std::int64_t rows, width, chunk, chunks, vocab;
  std::int64_t table[2], ids, y[2];
};

bool is_packed(const tern_tensor_desc& table) { return table.scheme.packing != TERN_PACK_NONE; }

bool supports(const PlanDesc& desc, std::string& reason) {
  const tern_tensor_desc& table = desc.arg(TERN_EMBEDDING_TABLE);
  if (is_packed(table) && !expands_weight(table, reason)) return false;
  Check check(desc, reason);
  if (!is_packed(table)) check.floats({TERN_EMBEDDING_TABLE});
  return check.floats({TERN_EMBEDDING_Y})
      .dtype(TERN_EMBEDDING_IDS, TERN_I32)
      .rank(TERN_EMBEDDING_TABLE, 2)
      .rank(TERN_EMBEDDING_Y, 2)
      .dim(TERN_EMBEDDING_Y, 1, table.shape[1])
      .dim(TERN_EMBEDDING_IDS, 0, desc.arg(TERN_EMBEDDING_Y).shape[0])
      .ok();
}

std::vector<Function> functions(const PlanDesc& desc) {
  const tern_tensor_desc& table = desc.arg(TERN_EMBEDDING_TABLE);
  Defines defines;
  defines.tensor("y", desc, TERN_EMBEDDING_Y);
  if (is_packed(table)) {
    return {{"embedding", "embedding", defines.set("PACKING", table.scheme.packing).text()}};
  }
  return {{"embedding", "embedding", defines.tensor("table", desc, TERN_EMBEDDING_TABLE).text()}};
}

void run(const Launch& launch) {
  const TensorView &table = launch[TERN_EMBEDDING_TABLE], &ids = launch[TERN_EMBEDDING_IDS];
  const TensorView& y = launch[TERN_EMBEDDING_Y];
  const std::int64_t chunk = launch.device().cpu ? 4096 : 16;
  const Shape shape{y.dim(0),      y.dim(1),
                    chunk,         parts_of(y.dim(1), chunk),
                    table.dim(0),  {table.stride(0), table.stride(1)},
                    ids.stride(0), {y.stride(0), y.stride(1)}};
  Call call = launch.call(0);
  if (is_packed(table.desc)) {
    weight_args(call, table);
  } else {
    call.arg(table);
  }
  call.arg(ids).arg(y).arg(shape).run(shape.rows * shape.chunks, plain_group(launch.device()));
}

constexpr KernelEntry kKernels[] = {{TERN_OP_EMBEDDING, "embedding", supports, nullptr, functions, run}};

}  // namespace

KernelList embedding_kernels() { return kKernels; }

}  // namespace tern::opencl
