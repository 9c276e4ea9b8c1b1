#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "conformance/attention_cases.h"
#include "conformance/recipe.h"
#include "ops/rules.h"
#include "tern/accel_ops.h"

namespace tern::conformance {
namespace {

using Shape = CaseBuilder::Shape;

// Options: causal and grouped; a prefix of keys with a window; not causal with all there is; causal without lse; soft
// cap and sinks without a mask; a window and a mask; image spans; a tree over a history; chunks over a history; windows
// to both sides; a chunk that no sequence is longer than, with a window; a window to the right, chunks and a mask.
enum class Chunks { none, some, whole };  // whole: one holds all the keys that there may be
struct AttentionOption {
  bool causal;
  bool other_keys;
  bool window;
  bool softcap;
  bool sinks;
  bool lse;
  Mask mask = Mask::none;
  bool right = false;
  Chunks chunks = Chunks::none;
};
constexpr std::array<AttentionOption, 12> kOptions = {
    {{true, false, false, false, false, true},
     {true, true, true, false, false, true},
     {false, true, false, true, true, true, Mask::chance},
     {true, false, false, false, true, false},
     {false, true, false, true, true, true},
     {true, true, true, false, false, true, Mask::chance},
     {false, false, false, false, false, true, Mask::spans},
     {false, true, false, false, false, true, Mask::tree},
     {true, true, false, false, false, true, Mask::none, false, Chunks::some},
     {false, false, true, false, false, true, Mask::none, true},
     {true, true, true, false, true, true, Mask::none, false, Chunks::whole},
     {false, true, false, true, false, true, Mask::chance, true, Chunks::some}}};

// Whether what a row sees depends on where it stands: there are at least as many keys as rows then.
bool has_borders(const AttentionOption& option) {
  return option.causal || option.window || option.right || option.chunks != Chunks::none || option.mask == Mask::tree;
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
  attrs.window_right = option.right ? size.right : 0;
  if (option.chunks == Chunks::some || size.chunked) attrs.chunk = size.chunk;
  if (option.chunks == Chunks::whole) attrs.chunk = std::max(attrs.max_seqlen_k, 1);
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
  in.size = kAttentionSizes[static_cast<std::size_t>(b.variant().size)];
  in.option = kOptions[static_cast<std::size_t>(b.variant().option)];
  in.k_rows = in.option.other_keys ? in.size.rows + in.size.earlier : in.size.rows;
  in.rows = b.count_for(in.size.rows, 0);
  const bool covers = has_borders(in.option) || in.size.chunked;
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
  b.real(q + 1, b.key_dtype(), {in.k_rows, size.kv_heads, size.head_dim}, 0, k_slot);
  b.real(q + 2, b.key_dtype(), {in.k_rows, size.kv_heads, size.value_dim}, 0, k_slot);
  b.counted(lengths, in.cu_q, kBoundsSlot, in.cu_q.back());
  b.counted(lengths + 1, in.cu_k, kBoundsSlot, in.cu_k.back());
  if (in.option.sinks) b.real(lengths + 2, TERN_F32, {size.heads});
  fill_mask(b, lengths + 3, in.option.mask, {size.rows, in.rows, in.k_rows, in.cu_q, steps_of(in.cu_k)});
}

void make_attention(CaseBuilder& b) {
  if (b.variant().split != 0) return make_split_attention(b);
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

void make_attention_paged(CaseBuilder& b) {
  if (b.variant().split != 0) return make_split_attention_paged(b);
  const AttentionSize& size = kAttentionSizes[static_cast<std::size_t>(b.variant().size)];
  const AttentionOption& option = kOptions[static_cast<std::size_t>(b.variant().option)];
  const std::int64_t block = b.kv_block();
  const std::int64_t rows = b.count_for(size.rows);
  const std::int64_t longest = size.rows + size.history;
  const auto [cu_q, max_blocks, blocks, table, lens] = paged_case(b, {size.sequences, rows, size.history, longest});
  b.attrs(attention_attrs<tern_attention_paged_attrs>(size, option, longest));
  b.real(TERN_ATTENTION_PAGED_Q, b.variant().in, {size.rows, size.heads, size.head_dim}, 0);
  b.cached(TERN_ATTENTION_PAGED_K_CACHE, TERN_ATTENTION_PAGED_K_SCALE, b.key_dtype(),
           {blocks, block, size.kv_heads, size.head_dim});
  b.cached(TERN_ATTENTION_PAGED_V_CACHE, TERN_ATTENTION_PAGED_V_SCALE, b.key_dtype(),
           {blocks, block, size.kv_heads, size.value_dim});
  hide_block_0(b);
  b.counted(TERN_ATTENTION_PAGED_BLOCK_TABLE, table, kSequencesSlot, 0, max_blocks);
  b.counted(TERN_ATTENTION_PAGED_CU_SEQLENS_Q, cu_q, kBoundsSlot, cu_q.back());
  b.counted(TERN_ATTENTION_PAGED_KV_LENS, lens, kSequencesSlot, 0);
  if (option.sinks) b.real(TERN_ATTENTION_PAGED_SINKS, TERN_F32, {size.heads});
  fill_mask(b, TERN_ATTENTION_PAGED_MASK, option.mask, {size.rows, rows, longest, cu_q, lens});
  b.out(TERN_ATTENTION_PAGED_OUT, b.variant().out, {size.rows, size.heads, size.value_dim}, 0);
  if (option.lse) b.out(TERN_ATTENTION_PAGED_LSE, TERN_F32, {size.rows, size.heads}, 0);
}

constexpr std::uint32_t kUsual = kDtypes | kLayouts | kDynamic | kMixed;
constexpr std::uint32_t kForward = kSpecials | kReduces | kRows | kSplits | kNarrowKeys;
constexpr int kCount = static_cast<int>(kAttentionSizes.size());
constexpr int kOptionCount = static_cast<int>(kOptions.size());

constexpr Recipe kRecipes[] = {
    {TERN_OP_ATTENTION, kCount, kOptionCount, kUsual | kForward, make_attention},
    {TERN_OP_ATTENTION_BACKWARD, kCount, kOptionCount, kUsual | kAccumulates | kReduces, make_attention_backward},
    {TERN_OP_ATTENTION_PAGED, kCount, kOptionCount, kUsual | kForward | kCodes, make_attention_paged},
};

}  // namespace

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

void hide_block_0(CaseBuilder& b) {
  for (const int arg : {TERN_ATTENTION_PAGED_K_CACHE, TERN_ATTENTION_PAGED_V_CACHE}) b.make_unreadable(arg);
  if (!b.has_codes()) return;
  for (const int arg : {TERN_ATTENTION_PAGED_K_SCALE, TERN_ATTENTION_PAGED_V_SCALE}) b.make_unreadable(arg);
}

std::vector<std::int64_t> shuffled_blocks(CaseBuilder& b, std::int64_t count) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count - 1));
  std::iota(order.begin(), order.end(), 1);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<std::size_t>(b.random().below(static_cast<std::int64_t>(i)))]);
  }
  return order;
}

PagedCase paged_case(CaseBuilder& b, const PagedRows& rows) {
  const std::int64_t block = b.kv_block();
  PagedCase out;
  out.cu_q = cumulative(b, rows.sequences, rows.rows);
  out.max_blocks = (rows.longest + block - 1) / block;
  out.blocks = rows.sequences * out.max_blocks + 2;  // block 0, and one that no sequence holds
  const std::vector<std::int64_t> order = shuffled_blocks(b, out.blocks);
  for (std::int64_t s = 0; s < rows.sequences; ++s) {
    const auto at = static_cast<std::size_t>(s);
    const std::int64_t own = out.cu_q[at + 1] - out.cu_q[at];
    out.lens.push_back(own + (own > 0 ? b.random().below(rows.history + 1) : 0));
    for (std::int64_t i = 0; i < out.max_blocks; ++i) {
      const bool used = i * block < out.lens.back();
      // What is not used names whatever it did before.
      out.table.push_back(used ? order[static_cast<std::size_t>(s * out.max_blocks + i)]
                               : b.random().below(out.blocks));
    }
  }
  return out;
}

std::span<const Recipe> attention_recipes() { return kRecipes; }

}  // namespace tern::conformance
