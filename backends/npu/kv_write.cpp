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
  if (c.chip().family != Family::a910 && c.chip().family != Family::a310p) {
    c.call(TERN_NPU_OP(InplaceIndexCopy), flat, 0, slots, values);
    return;
  }
  // These chips have no copy by rows: each element says where it goes.
  const View places = c.cast(slots, ACL_INT64).reshaped({slots.dim(0), 1}).expanded(1, width);
  c.call(TERN_NPU_OP(InplaceScatter), flat, 0, places, values, 0);
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
