#include "backends/npu/algebra.h"
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

// cache[slot] = rows[slot's row]. Which of the rows that share a slot of block 0 is kept doesn't matter.
void write_tokens(Composer& c, const View& rows, const View& cache, const View& slots) {
  const std::int64_t width = cache.dim(2) * cache.dim(3);
  const View flat = cache.reshaped({cache.dim(0) * cache.dim(1), width});
  const View values = c.dense(c.cast(rows, cache.dtype)).reshaped({rows.dim(0), width});
  if (values.elements() == 0) return;
  Algebra(c).put_rows(flat, slots, values);
}

// The same where a head's rows of a block lie together: each head's part of a row has a place of its own. Of slot s in
// blocks of n tokens, head h has row s + (s / n)(heads - 1) n + h n.
void write_heads(Composer& c, const View& rows, const View& by_heads, const View& slots) {
  const std::int64_t heads = by_heads.dim(1), block = by_heads.dim(2), dim = by_heads.dim(3);
  const View values = c.dense(c.cast(rows, by_heads.dtype)).reshaped({rows.dim(0) * heads, dim});
  if (values.elements() == 0) return;
  Algebra algebra(c);
  const View before = algebra.muls(algebra.floor_divide(slots, block), static_cast<double>((heads - 1) * block));
  const View first = algebra.add(slots, before).reshaped({rows.dim(0), 1});
  const View of_heads = algebra.muls(algebra.range(0, heads, slots.dtype), static_cast<double>(block));
  const View places = algebra.add(first, of_heads.reshaped({1, heads})).reshaped({rows.dim(0) * heads});
  algebra.put_rows(by_heads.reshaped({by_heads.dim(0) * heads * block, dim}), places, values);
}

void write(Composer& c, const View& rows, const View& cache, const View& slots) {
  if (cache.contiguous()) return write_tokens(c, rows, cache, slots);
  const View by_heads = permuted(cache, {0, 2, 1, 3});
  if (!by_heads.contiguous()) c.refuse("its cache has gaps between its tokens");
  write_heads(c, rows, by_heads, slots);
}

void compose(Composer& c) {
  if (c.present(TERN_KV_WRITE_K_SCALE)) c.refuse("a cache in 8 bits");
  const View slots = c.arg(TERN_KV_WRITE_SLOTS);
  write(c, c.arg(TERN_KV_WRITE_K), c.arg(TERN_KV_WRITE_K_CACHE), slots);
  if (c.present(TERN_KV_WRITE_V)) write(c, c.arg(TERN_KV_WRITE_V), c.arg(TERN_KV_WRITE_V_CACHE), slots);
}

constexpr KernelEntry kEntries[] = {{TERN_OP_KV_WRITE, "scatter", compose, true}};

}  // namespace

KernelList kv_write_kernels() { return kEntries; }

}  // namespace tern::npu
