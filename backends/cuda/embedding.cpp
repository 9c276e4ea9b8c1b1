#include "backends/cuda/kernels.h"
#include "backends/cuda/weight.h"

namespace tern::cuda {
namespace {

// The struct EmbeddingSizes of cu/embedding.cu.
struct Shape {
  std::int64_t rows, width, chunks, vocab;
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

Functions functions(const PlanDesc& desc) {
  return {kernel_of_packing("embedding", desc.arg(TERN_EMBEDDING_TABLE).scheme.packing)};
}

void run(const Launch& launch) {
  const TensorView &table = launch[TERN_EMBEDDING_TABLE], &ids = launch[TERN_EMBEDDING_IDS];
  const TensorView& y = launch[TERN_EMBEDDING_Y];
  const bool packed = is_packed(table.desc);
  Shape shape{};
  shape.rows = y.dim(0);
  shape.width = y.dim(1);
  shape.chunks = parts_of(shape.width, packed ? 16 : 8);
  shape.vocab = table.dim(0);
  take_strides(table, shape.table);
  shape.ids = ids.stride(0);
  take_strides(y, shape.y);
  Call call = launch.call(0);
  if (packed) {
    call.arg(packed_weight(table));
  } else {
    call.arg(table);
  }
  call.arg(ids.planes[0]).arg(y).arg(shape).run(shape.rows * shape.chunks, kPlainThreads);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_EMBEDDING, "embedding", supports, nullptr, functions, run}};

}  // namespace

KernelList embedding_kernels() { return kKernels; }

}  // namespace tern::cuda
