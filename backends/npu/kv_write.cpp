#include "backends/npu/algebra.h"
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

// cache[slot] = rows[slot's row]. Which of the rows that share a slot of block 0 is kept doesn't matter.
void write(Composer& c, const View& rows, const View& cache, const View& slots) {
  if (!cache.contiguous()) c.refuse("its cache has gaps between its tokens");
  const std::int64_t width = cache.dim(2) * cache.dim(3);
  const View flat = cache.reshaped({cache.dim(0) * cache.dim(1), width});
  const View values = c.dense(c.cast(rows, cache.dtype)).reshaped({rows.dim(0), width});
  if (values.elements() == 0) return;
  Algebra(c).put_rows(flat, slots, values);
}

void compose(Composer& c) {
  const View slots = c.arg(TERN_KV_WRITE_SLOTS);
  write(c, c.arg(TERN_KV_WRITE_K), c.arg(TERN_KV_WRITE_K_CACHE), slots);
  if (c.present(TERN_KV_WRITE_V)) write(c, c.arg(TERN_KV_WRITE_V), c.arg(TERN_KV_WRITE_V_CACHE), slots);
}

constexpr KernelEntry kEntries[] = {{TERN_OP_KV_WRITE, "scatter", compose, true}};

}  // namespace

KernelList kv_write_kernels() { return kEntries; }

}  // namespace tern::npu
