// What is written into a cache, and what follows attention where its kernel takes no sinks.
#include <algorithm>
#include <limits>
#include <numeric>

#include "conformance/attention_cases.h"
#include "conformance/recipe.h"
#include "tern/accel_ops.h"

namespace tern::conformance {
namespace {

// Numbers that no rounding keeps: ids and entries of tables, one a row or many, over the whole of their dtype.
void fill_numbers(CaseBuilder& b, const AttentionSize& size, const std::vector<std::int64_t>& slots,
                  std::int64_t blocks) {
  const bool lone = b.variant().option == 4;  // as the engine keeps them: one number a slot
  const tern_dtype dtype = b.variant().in == TERN_F16 ? TERN_I64 : TERN_I32;
  const std::int64_t block = b.kv_block();
  const std::int64_t heads = lone ? 1 : size.kv_heads;
  const auto fill = [&](int rows, int cache, std::int64_t width) {
    const auto numbers = [&](std::int64_t count) {
      std::vector<std::int64_t> out(static_cast<std::size_t>(count));
      for (std::int64_t& x : out) {
        const auto bits = static_cast<std::int64_t>(b.random().bits());
        x = dtype == TERN_I64 ? bits : static_cast<std::int32_t>(bits);
      }
      return out;
    };
    const auto count = static_cast<std::int64_t>(slots.size());
    b.integers(rows, dtype, {size.rows, heads, width}, numbers(count * heads * width), 0);
    b.integers(cache, dtype, {blocks, block, heads, width}, numbers(blocks * block * heads * width));
  };
  fill(TERN_KV_WRITE_K, TERN_KV_WRITE_K_CACHE, lone ? 1 : size.head_dim);
  if (!lone) fill(TERN_KV_WRITE_V, TERN_KV_WRITE_V_CACHE, size.value_dim);
  b.integers(TERN_KV_WRITE_SLOTS, TERN_I32, {size.rows}, slots, 0);
}

// Keys or values of this step.
void fill_rows(CaseBuilder& b, int arg, const CaseBuilder::Shape& shape) {
  if (!b.has_codes() || b.variant().special != 0) return b.real(arg, b.variant().in, shape, 0);
  CaseBuilder::Shape valid = shape;
  valid[0] = b.count_of(0, shape[0]);
  b.values(arg, b.variant().in, shape, b.wide_terms(valid), 0);
}

void make_kv_write(CaseBuilder& b) {
  const AttentionSize& size = kAttentionSizes[static_cast<std::size_t>(b.variant().size)];
  const std::int64_t rows = b.count_for(size.rows);
  const std::int64_t block = b.kv_block();
  const std::int64_t blocks = size.rows / block + 3;
  std::vector<std::int64_t> slots(static_cast<std::size_t>((blocks - 1) * block));
  std::iota(slots.begin(), slots.end(), block);
  for (std::size_t i = slots.size(); i > 1; --i) {
    std::swap(slots[i - 1], slots[static_cast<std::size_t>(b.random().below(static_cast<std::int64_t>(i)))]);
  }
  slots.resize(static_cast<std::size_t>(rows));
  // Rows of padding share two slots of block 0.
  for (std::int64_t& slot : slots)
    slot = b.random().below(6) == 0 ? b.random().below(std::min<std::int64_t>(block, 2)) : slot;
  if (b.variant().option >= 3) return fill_numbers(b, size, slots, blocks);
  // options: keys and values; the same, of which what comes first gets the NaN; keys alone; numbers that are copied
  const bool values_first = b.variant().option == 1;
  const bool has_values = b.variant().option != 2;
  if (values_first) fill_rows(b, TERN_KV_WRITE_V, {size.rows, size.kv_heads, size.value_dim});
  fill_rows(b, TERN_KV_WRITE_K, {size.rows, size.kv_heads, size.head_dim});
  if (!values_first && has_values) fill_rows(b, TERN_KV_WRITE_V, {size.rows, size.kv_heads, size.value_dim});
  b.integers(TERN_KV_WRITE_SLOTS, TERN_I32, {size.rows}, slots, 0);
  b.cached(TERN_KV_WRITE_K_CACHE, TERN_KV_WRITE_K_SCALE, b.variant().out,
           {blocks, block, size.kv_heads, size.head_dim});
  if (!has_values) return;
  b.cached(TERN_KV_WRITE_V_CACHE, TERN_KV_WRITE_V_SCALE, b.variant().out,
           {blocks, block, size.kv_heads, size.value_dim});
}

// lse of `size`'s rows: some see no key.
void fill_lse(CaseBuilder& b, int arg, const AttentionSize& size, std::int64_t rows) {
  std::vector<double> lse(static_cast<std::size_t>(rows * size.heads));
  for (double& x : lse)
    x = b.random().below(6) == 0 ? -std::numeric_limits<double>::infinity() : 2.0 * b.random().term();
  b.values(arg, TERN_F32, {size.rows, size.heads}, lse, 0, 0, -1.0);  // a large one would weigh nothing
}

void make_sink_scale(CaseBuilder& b) {
  const AttentionSize& size = kAttentionSizes[static_cast<std::size_t>(b.variant().size)];
  const std::int64_t rows = b.count_for(size.rows);
  b.real(TERN_SINK_SCALE_X, b.variant().in, {size.rows, size.heads, size.value_dim}, 0);
  fill_lse(b, TERN_SINK_SCALE_LSE, size, rows);
  b.real(TERN_SINK_SCALE_SINKS, TERN_F32, {size.heads});
  b.out(TERN_SINK_SCALE_OUT, b.variant().out, {size.rows, size.heads, size.value_dim}, 0);
  if (b.variant().option == 0) b.out(TERN_SINK_SCALE_LSE_OUT, TERN_F32, {size.rows, size.heads}, 0);
}

void make_sink_scale_backward(CaseBuilder& b) {
  const AttentionSize& size = kAttentionSizes[static_cast<std::size_t>(b.variant().size)];
  const std::int64_t rows = b.count_for(size.rows);
  b.real(TERN_SINK_SCALE_BACKWARD_DOUT, b.variant().in, {size.rows, size.heads, size.value_dim}, 0);
  b.real(TERN_SINK_SCALE_BACKWARD_OUT, b.variant().in, {size.rows, size.heads, size.value_dim}, 0);
  fill_lse(b, TERN_SINK_SCALE_BACKWARD_LSE, size, rows);
  b.real(TERN_SINK_SCALE_BACKWARD_SINKS, TERN_F32, {size.heads});
  b.out(TERN_SINK_SCALE_BACKWARD_DSINKS, TERN_F32, {size.heads});
}

constexpr std::uint32_t kUsual = kDtypes | kLayouts | kDynamic | kSpecials;
constexpr int kCount = static_cast<int>(kAttentionSizes.size());

constexpr Recipe kRecipes[] = {
    // The last size differs from the one before in its chunks alone, of which a cache knows nothing.
    {TERN_OP_KV_WRITE, kCount - 1, 5, kUsual | kMixed | kCodes, make_kv_write},
    {TERN_OP_SINK_SCALE, kCount, 2, kUsual | kMixed | kRows, make_sink_scale},
    {TERN_OP_SINK_SCALE_BACKWARD, kCount, 1, kDtypes | kLayouts | kDynamic | kAccumulates | kReduces,
     make_sink_scale_backward},
};

}  // namespace

std::span<const Recipe> cache_recipes() { return kRecipes; }

}  // namespace tern::conformance
