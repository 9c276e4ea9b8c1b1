// embedding: rows of a table, rounded. A quantised one is decomposed: dequantize, then this.
#include "backends/npu/rows.h"

namespace tern::npu {
namespace {

void embed(Composer& c) {
  const View table = c.arg(TERN_EMBEDDING_TABLE);
  const View ids = c.arg(TERN_EMBEDDING_IDS);
  const View y = c.arg(TERN_EMBEDDING_Y);
  if (y.elements() == 0) return;
  if (table.dtype == y.dtype) {
    gather_or_zero(c, table, ids, y);
    return;
  }
  const View rows = c.temp(table.dtype, y.shape);
  gather_or_zero(c, table, ids, rows);
  c.copy(y, rows.is16() && y.is16() ? c.f32(rows) : rows);
}

constexpr KernelEntry kEmbedding[] = {{TERN_OP_EMBEDDING, "gather", embed, true}};

}  // namespace

KernelList embedding_kernels() { return kEmbedding; }

}  // namespace tern::npu
