#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "conformance/attention_masks.h"
#include "conformance/recipe.h"
#include "ops/rules.h"
#include "tern/accel_ops.h"

namespace tern::conformance {
namespace {

using Shape = CaseBuilder::Shape;

// Beside the slots of rows and keys: how many sequences there are, and how many bounds they have.
constexpr int kSequencesSlot = 2;
constexpr int kBoundsSlot = 3;

struct AttentionSize {
  std::int64_t rows;  // of queries, all sequences together
  std::int64_t sequences;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
  std::int64_t value_dim;
  std::int64_t earlier = 11;  // keys beyond the rows, where there are any
  std::int32_t window = 5;    // where there is one; 0: none after all
  std::int64_t history = 45;  // tokens that a paged cache holds from before, at most
};

// Middling, odd with a value size of its own, prime, one row, no row, one long sequence, many heads. Then sizes that
// real models have: groups of 8 with heads of 128; windows over a thousand keys, which are many blocks of a cache;
// heads of 256 that see all of them; single rows of decoding; more rows than 256.
constexpr std::array<AttentionSize, 12> kSizes = {{{24, 3, 4, 2, 32, 32},
                                                   {17, 4, 3, 1, 10, 14},
                                                   {37, 2, 6, 3, 64, 64},
                                                   {1, 1, 1, 1, 8, 8},
                                                   {0, 1, 2, 1, 16, 16},
                                                   {301, 1, 2, 1, 16, 16},
                                                   {61, 5, 9, 3, 64, 64},
                                                   {130, 2, 16, 2, 128, 128},
                                                   {33, 2, 8, 1, 96, 96, 1109, 512, 1109},
                                                   {9, 1, 2, 1, 256, 256, 1201, 0, 1201},
                                                   {3, 3, 4, 2, 64, 64, 700, 0, 1109},
                                                   {331, 3, 4, 2, 32, 32, 70, 0, 70}}};

// Options: causal and grouped; a prefix of keys with a window; not causal with all there is; causal without lse; soft
// cap and sinks without a mask; a window and a mask; image spans; a tree over a history.
struct AttentionOption {
  bool causal;
  bool other_keys;
  bool window;
  bool softcap;
  bool sinks;
  bool lse;
  Mask mask = Mask::none;
};
constexpr std::array<AttentionOption, 8> kOptions = {{{true, false, false, false, false, true},
                                                      {true, true, true, false, false, true},
                                                      {false, true, false, true, true, true, Mask::chance},
                                                      {true, false, false, false, true, false},
                                                      {false, true, false, true, true, true},
                                                      {true, true, true, false, false, true, Mask::chance},
                                                      {false, false, false, false, false, true, Mask::spans},
                                                      {false, true, false, false, false, true, Mask::tree}}};

// Rising sums of `parts` lengths that fill `total`, but for a tail that belongs to no sequence now and then.
std::vector<std::int64_t> cumulative(CaseBuilder& b, std::int64_t parts, std::int64_t total) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(parts + 1));
  if (parts == total) {  // a row each
    std::iota(out.begin(), out.end(), 0);
    return out;
  }
  for (std::size_t i = 1; i < out.size(); ++i) out[i] = b.random().below(total + 1);
  std::sort(out.begin(), out.end());
  if (b.random().below(3) != 0) out.back() = total;
  return out;
}

template <typename Attrs>
Attrs attention_attrs(const AttentionSize& size, const AttentionOption& option, std::int64_t k_rows) {
  Attrs attrs{};
  attrs.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(size.head_dim)));
  attrs.softcap = option.softcap ? 2.0F : 0.0F;
  attrs.causal = option.causal ? 1 : 0;
  attrs.window = option.window ? size.window : 0;
  const bool decodes = size.rows == size.sequences && size.rows > 0;  // a row each
  attrs.max_seqlen_q = static_cast<std::int32_t>(decodes ? 1 : size.rows);
  attrs.max_seqlen_k = static_cast<std::int32_t>(k_rows);
  return attrs;
}

std::vector<std::int64_t> steps_of(const std::vector<std::int64_t>& bounds) {
  std::vector<std::int64_t> steps;
  for (std::size_t i = 1; i < bounds.size(); ++i) steps.push_back(bounds[i] - bounds[i - 1]);
  return steps;
}

struct Inputs {
  AttentionSize size;
  AttentionOption option;
  std::int64_t k_rows;
  std::int64_t rows;  // valid
  std::int64_t keys;  // valid
  std::vector<std::int64_t> cu_q;
  std::vector<std::int64_t> cu_k;
};

Inputs attention_inputs(CaseBuilder& b) {
  Inputs in;
  in.size = kSizes[static_cast<std::size_t>(b.variant().size)];
  in.option = kOptions[static_cast<std::size_t>(b.variant().option)];
  in.k_rows = in.option.other_keys ? in.size.rows + in.size.earlier : in.size.rows;
  in.rows = b.count_for(in.size.rows, 0);
  const bool covers = in.option.causal || in.option.mask == Mask::tree;  // at least as many keys as rows
  in.keys = in.option.other_keys ? b.count_for(in.k_rows, 1, covers ? in.rows : 0) : b.count_for(0, 1) + in.rows;
  in.cu_q = cumulative(b, in.size.sequences, in.rows);
  in.cu_k = in.cu_q;
  if (!in.option.other_keys) return in;
  in.cu_k = cumulative(b, in.size.sequences, in.keys - (covers ? in.cu_q.back() : 0));
  for (std::size_t i = 0; covers && i < in.cu_k.size(); ++i) in.cu_k[i] += in.cu_q[i];
  return in;
}

// q, k, v, lengths, sinks and mask at the arguments from `q`, `lengths` on.
void fill_attention(CaseBuilder& b, const Inputs& in, int q, int lengths) {
  const AttentionSize& size = in.size;
  const int k_slot = in.option.other_keys ? 1 : 0;
  b.real(q, b.variant().in, {size.rows, size.heads, size.head_dim}, 0, 0);
  b.real(q + 1, b.variant().in, {in.k_rows, size.kv_heads, size.head_dim}, 0, k_slot);
  b.real(q + 2, b.variant().in, {in.k_rows, size.kv_heads, size.value_dim}, 0, k_slot);
  b.counted(lengths, in.cu_q, kBoundsSlot, in.cu_q.back());
  b.counted(lengths + 1, in.cu_k, kBoundsSlot, in.cu_k.back());
  if (in.option.sinks) b.real(lengths + 2, TERN_F32, {size.heads});
  fill_mask(b, lengths + 3, in.option.mask, {size.rows, in.rows, in.k_rows, in.cu_q, steps_of(in.cu_k)});
}

void make_attention(CaseBuilder& b) {
  const Inputs in = attention_inputs(b);
  b.attrs(attention_attrs<tern_attention_attrs>(in.size, in.option, in.k_rows));
  fill_attention(b, in, TERN_ATTENTION_Q, TERN_ATTENTION_CU_SEQLENS_Q);
  b.out(TERN_ATTENTION_OUT, b.variant().out, {in.size.rows, in.size.heads, in.size.value_dim}, 0);
  if (in.option.lse) b.out(TERN_ATTENTION_LSE, TERN_F32, {in.size.rows, in.size.heads}, 0);
}

void make_attention_backward(CaseBuilder& b) {
  const Inputs in = attention_inputs(b);
  const AttentionSize& size = in.size;
  fill_attention(b, in, TERN_ATTENTION_BACKWARD_Q, TERN_ATTENTION_BACKWARD_CU_SEQLENS_Q);
  b.real(TERN_ATTENTION_BACKWARD_DOUT, b.variant().in, {size.rows, size.heads, size.value_dim}, 0);

  // The forward's out and lse come from the oracle, rounded as a device would keep them.
  std::vector<ops::ref::Tensor> args(TERN_ATTENTION_NUM_ARGS);
  args[TERN_ATTENTION_Q] = b.decoded(TERN_ATTENTION_BACKWARD_Q);
  args[TERN_ATTENTION_K] = b.decoded(TERN_ATTENTION_BACKWARD_K);
  args[TERN_ATTENTION_V] = b.decoded(TERN_ATTENTION_BACKWARD_V);
  args[TERN_ATTENTION_CU_SEQLENS_Q] = b.decoded(TERN_ATTENTION_BACKWARD_CU_SEQLENS_Q);
  args[TERN_ATTENTION_CU_SEQLENS_K] = b.decoded(TERN_ATTENTION_BACKWARD_CU_SEQLENS_K);
  if (in.option.sinks) args[TERN_ATTENTION_SINKS] = b.decoded(TERN_ATTENTION_BACKWARD_SINKS);
  if (in.option.mask != Mask::none) args[TERN_ATTENTION_MASK] = b.decoded(TERN_ATTENTION_BACKWARD_MASK);
  args[TERN_ATTENTION_OUT].desc = make_desc(b.variant().in, {in.rows, size.heads, size.value_dim});
  args[TERN_ATTENTION_LSE].desc = make_desc(TERN_F32, {in.rows, size.heads});
  const auto attrs = attention_attrs<tern_attention_attrs>(size, in.option, in.k_rows);
  ops::ref::Call call{TERN_OP_ATTENTION, std::as_bytes(std::span(&attrs, 1)), 0, args};
  ops::op_rules(TERN_OP_ATTENTION).reference(call);

  b.attrs(attention_attrs<tern_attention_backward_attrs>(size, in.option, in.k_rows));
  b.values(TERN_ATTENTION_BACKWARD_OUT, b.variant().in, {size.rows, size.heads, size.value_dim},
           args[TERN_ATTENTION_OUT].real, 0);
  b.values(TERN_ATTENTION_BACKWARD_LSE, TERN_F32, {size.rows, size.heads}, args[TERN_ATTENTION_LSE].real, 0);
  const int k_slot = in.option.other_keys ? 1 : 0;
  b.out(TERN_ATTENTION_BACKWARD_DQ, b.variant().out, {size.rows, size.heads, size.head_dim}, 0, 0);
  b.out(TERN_ATTENTION_BACKWARD_DK, b.variant().out, {in.k_rows, size.kv_heads, size.head_dim}, 0, k_slot);
  b.out(TERN_ATTENTION_BACKWARD_DV, b.variant().out, {in.k_rows, size.kv_heads, size.value_dim}, 0, k_slot);
  if (in.option.sinks) b.out(TERN_ATTENTION_BACKWARD_DSINKS, TERN_F32, {size.heads});
}

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

void make_kv_write(CaseBuilder& b) {
  const AttentionSize& size = kSizes[static_cast<std::size_t>(b.variant().size)];
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
  if (values_first) b.real(TERN_KV_WRITE_V, b.variant().in, {size.rows, size.kv_heads, size.value_dim}, 0);
  b.real(TERN_KV_WRITE_K, b.variant().in, {size.rows, size.kv_heads, size.head_dim}, 0);
  if (!values_first && has_values) {
    b.real(TERN_KV_WRITE_V, b.variant().in, {size.rows, size.kv_heads, size.value_dim}, 0);
  }
  b.integers(TERN_KV_WRITE_SLOTS, TERN_I32, {size.rows}, slots, 0);
  b.real(TERN_KV_WRITE_K_CACHE, b.variant().out, {blocks, block, size.kv_heads, size.head_dim});
  if (has_values) b.real(TERN_KV_WRITE_V_CACHE, b.variant().out, {blocks, block, size.kv_heads, size.value_dim});
}

void make_attention_paged(CaseBuilder& b) {
  const AttentionSize& size = kSizes[static_cast<std::size_t>(b.variant().size)];
  const AttentionOption& option = kOptions[static_cast<std::size_t>(b.variant().option)];
  const std::int64_t block = b.kv_block();
  const std::int64_t rows = b.count_for(size.rows);
  const std::vector<std::int64_t> cu_q = cumulative(b, size.sequences, rows);
  const std::int64_t longest = size.rows + size.history;
  const std::int64_t max_blocks = (longest + block - 1) / block;
  const std::int64_t blocks = size.sequences * max_blocks + 2;  // block 0, and one that no sequence holds
  std::vector<std::int64_t> order(static_cast<std::size_t>(blocks - 1));
  std::iota(order.begin(), order.end(), 1);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<std::size_t>(b.random().below(static_cast<std::int64_t>(i)))]);
  }
  std::vector<std::int64_t> table;
  std::vector<std::int64_t> lens;
  for (std::int64_t s = 0; s < size.sequences; ++s) {
    const auto at = static_cast<std::size_t>(s);
    const std::int64_t own = cu_q[at + 1] - cu_q[at];
    lens.push_back(own + (own > 0 ? b.random().below(size.history + 1) : 0));
    for (std::int64_t i = 0; i < max_blocks; ++i) {
      const bool used = i * block < lens.back();
      // What is not used names whatever it did before.
      table.push_back(used ? order[static_cast<std::size_t>(s * max_blocks + i)] : b.random().below(blocks));
    }
  }
  b.attrs(attention_attrs<tern_attention_paged_attrs>(size, option, longest));
  b.real(TERN_ATTENTION_PAGED_Q, b.variant().in, {size.rows, size.heads, size.head_dim}, 0);
  b.real(TERN_ATTENTION_PAGED_K_CACHE, b.variant().in, {blocks, block, size.kv_heads, size.head_dim});
  b.real(TERN_ATTENTION_PAGED_V_CACHE, b.variant().in, {blocks, block, size.kv_heads, size.value_dim});
  b.make_unreadable(TERN_ATTENTION_PAGED_K_CACHE);  // block 0, which unused entries of the table name
  b.make_unreadable(TERN_ATTENTION_PAGED_V_CACHE);
  b.counted(TERN_ATTENTION_PAGED_BLOCK_TABLE, table, kSequencesSlot, 0, max_blocks);
  b.counted(TERN_ATTENTION_PAGED_CU_SEQLENS_Q, cu_q, kBoundsSlot, cu_q.back());
  b.counted(TERN_ATTENTION_PAGED_KV_LENS, lens, kSequencesSlot, 0);
  if (option.sinks) b.real(TERN_ATTENTION_PAGED_SINKS, TERN_F32, {size.heads});
  fill_mask(b, TERN_ATTENTION_PAGED_MASK, option.mask, {size.rows, rows, longest, cu_q, lens});
  b.out(TERN_ATTENTION_PAGED_OUT, b.variant().out, {size.rows, size.heads, size.value_dim}, 0);
  if (option.lse) b.out(TERN_ATTENTION_PAGED_LSE, TERN_F32, {size.rows, size.heads}, 0);
}

// lse of `size`'s rows: some see no key.
void fill_lse(CaseBuilder& b, int arg, const AttentionSize& size, std::int64_t rows) {
  std::vector<double> lse(static_cast<std::size_t>(rows * size.heads));
  for (double& x : lse)
    x = b.random().below(6) == 0 ? -std::numeric_limits<double>::infinity() : 2.0 * b.random().term();
  b.values(arg, TERN_F32, {size.rows, size.heads}, lse, 0, 0, -1.0);  // a large one would weigh nothing
}

void make_sink_scale(CaseBuilder& b) {
  const AttentionSize& size = kSizes[static_cast<std::size_t>(b.variant().size)];
  const std::int64_t rows = b.count_for(size.rows);
  b.real(TERN_SINK_SCALE_X, b.variant().in, {size.rows, size.heads, size.value_dim}, 0);
  fill_lse(b, TERN_SINK_SCALE_LSE, size, rows);
  b.real(TERN_SINK_SCALE_SINKS, TERN_F32, {size.heads});
  b.out(TERN_SINK_SCALE_OUT, b.variant().out, {size.rows, size.heads, size.value_dim}, 0);
  if (b.variant().option == 0) b.out(TERN_SINK_SCALE_LSE_OUT, TERN_F32, {size.rows, size.heads}, 0);
}

void make_sink_scale_backward(CaseBuilder& b) {
  const AttentionSize& size = kSizes[static_cast<std::size_t>(b.variant().size)];
  const std::int64_t rows = b.count_for(size.rows);
  b.real(TERN_SINK_SCALE_BACKWARD_DOUT, b.variant().in, {size.rows, size.heads, size.value_dim}, 0);
  b.real(TERN_SINK_SCALE_BACKWARD_OUT, b.variant().in, {size.rows, size.heads, size.value_dim}, 0);
  fill_lse(b, TERN_SINK_SCALE_BACKWARD_LSE, size, rows);
  b.real(TERN_SINK_SCALE_BACKWARD_SINKS, TERN_F32, {size.heads});
  b.out(TERN_SINK_SCALE_BACKWARD_DSINKS, TERN_F32, {size.heads});
}

constexpr std::uint32_t kUsual = kDtypes | kLayouts | kDynamic | kMixed;
constexpr int kCount = static_cast<int>(kSizes.size());
constexpr int kOptionCount = static_cast<int>(kOptions.size());

constexpr Recipe kRecipes[] = {
    {TERN_OP_ATTENTION, kCount, kOptionCount, kUsual | kSpecials | kReduces | kRows, make_attention},
    {TERN_OP_ATTENTION_BACKWARD, kCount, kOptionCount, kUsual | kAccumulates | kReduces, make_attention_backward},
    {TERN_OP_KV_WRITE, kCount, 5, kUsual | kSpecials, make_kv_write},
    {TERN_OP_ATTENTION_PAGED, kCount, kOptionCount, kUsual | kSpecials | kReduces | kRows, make_attention_paged},
    {TERN_OP_SINK_SCALE, kCount, 2, kUsual | kSpecials | kRows, make_sink_scale},
    {TERN_OP_SINK_SCALE_BACKWARD, kCount, 1, kDtypes | kLayouts | kDynamic | kAccumulates | kReduces,
     make_sink_scale_backward},
};

}  // namespace

std::span<const Recipe> attention_recipes() { return kRecipes; }

}  // namespace tern::conformance
