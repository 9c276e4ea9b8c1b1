// CANN's own attention over a paged cache (FusedInferAttentionScoreV3, layout TND): prefill and decoding in one batch.
#include <limits>

#include "backends/npu/attention_forward.h"
#include "backends/npu/attention_shape.h"
#include "backends/npu/cann/ops_transformer.h"

namespace tern::npu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kNoBorder = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostHeads = 256, kWidestHead = 256, kWidestToken = 65535, kLargestBlock = 512;
constexpr std::int64_t kNoMask = 0, kBottomRight = 3;  // sparse modes

struct Lengths {
  std::vector<std::int64_t> q_ends;  // cumulative, without the first 0
  std::vector<std::int64_t> keys;    // of each sequence
};

Lengths lengths_of(const Composer& c, const tern_attention_paged_attrs& attrs) {
  Lengths out;
  const auto q = c.lengths(TERN_ATTENTION_PAGED_CU_SEQLENS_Q), k = c.lengths(TERN_ATTENTION_PAGED_KV_LENS);
  const View table = c.arg(TERN_ATTENTION_PAGED_BLOCK_TABLE);
  if (q && k) {
    for (std::size_t s = 0; s + 1 < q->size(); ++s) {
      out.q_ends.push_back((*q)[s + 1]);
      out.keys.push_back((*k)[s]);
    }
    return out;
  }
  // The most that there may be: each sequence as long as it can be while there are rows.
  const std::int64_t rows = c.arg(TERN_ATTENTION_PAGED_Q).dim(0);
  const std::int64_t capacity = table.dim(1) * c.arg(TERN_ATTENTION_PAGED_K_CACHE).dim(1);
  const std::int64_t keys = std::min<std::int64_t>(attrs.max_seqlen_k, capacity);
  std::int64_t end = 0;
  for (std::int64_t s = 0; s < table.dim(0); ++s) {
    end += std::min({rows - end, std::int64_t{attrs.max_seqlen_q}, keys});
    out.q_ends.push_back(end);
    out.keys.push_back(keys);
  }
  return out;
}

// [blocks, heads, block, D].
View by_head(const View& cache) { return permuted(cache, {0, 2, 1, 3}); }

bool keeps_heads_together(const View& k, const View& v) { return by_head(k).contiguous() && by_head(v).contiguous(); }

// What the op's documentation refuses, and what it has no argument for.
void require_fit(const Composer& c, const tern_attention_paged_attrs& attrs) {
  const Family family = c.chip().family;
  if (family != Family::a2 && family != Family::a3) c.refuse("this chip has no fused attention over blocks");
  if (c.present(TERN_ATTENTION_PAGED_SINKS)) c.refuse("sinks are joined afterwards, by sink_scale");
  if (c.present(TERN_ATTENTION_PAGED_MASK)) c.refuse("the fused attention takes no mask of packed sequences");
  if (attrs.softcap != 0.0F || attrs.chunk != 0) c.refuse("the fused attention knows no caps and no chunks");
  // A launch may find one row a sequence, and then CANN forgets every border but the last key.
  if (attrs.window != 0 || attrs.window_right != 0) c.refuse("the fused attention has no windows in decoding");
  const View q = c.arg(TERN_ATTENTION_PAGED_Q), k = c.arg(TERN_ATTENTION_PAGED_K_CACHE);
  const View v = c.arg(TERN_ATTENTION_PAGED_V_CACHE);
  if (!q.is16() || k.dtype != q.dtype || v.dtype != q.dtype || c.arg(TERN_ATTENTION_PAGED_OUT).dtype != q.dtype) {
    c.refuse("the fused attention over blocks takes one 16-bit dtype");
  }
  const std::int64_t block = k.dim(1), width = q.dim(2);
  if (v.dim(3) != width || width % 16 != 0 || width > kWidestHead || q.dim(1) > kMostHeads) {
    c.refuse("its heads don't fit the fused attention");
  }
  if (block % 128 != 0 || block > kLargestBlock) c.refuse("blocks should be 128, 256 or 512 tokens long");
  if (keeps_heads_together(k, v)) return;
  if (!k.contiguous() || !v.contiguous()) c.refuse("its cache has gaps between its tokens");
  if (k.dim(2) * width > kWidestToken) c.refuse("a token's heads are wider than the fused attention takes");
}

// A cache that keeps a head's rows together goes as it is, another as (blocks, block, heads times D).
Views paged(const View& cache, bool by_heads) {
  if (by_heads) return {{by_head(cache)}};
  return {{cache.reshaped({cache.dim(0), cache.dim(1), cache.dim(2) * cache.dim(3)})}};
}

}  // namespace

void compose_fused_paged_attention(Composer& c) {
  const auto& attrs = c.attrs<tern_attention_paged_attrs>();
  require_fit(c, attrs);
  const View q = c.arg(TERN_ATTENTION_PAGED_Q), out = c.arg(TERN_ATTENTION_PAGED_OUT);
  const View k = c.arg(TERN_ATTENTION_PAGED_K_CACHE), v = c.arg(TERN_ATTENTION_PAGED_V_CACHE);
  const View lse = c.arg(TERN_ATTENTION_PAGED_LSE), table = c.arg(TERN_ATTENTION_PAGED_BLOCK_TABLE);
  const Lengths lengths = lengths_of(c, attrs);
  const std::int64_t rows = lengths.q_ends.empty() ? 0 : lengths.q_ends.back(), heads = q.dim(1);
  c.zero(out);
  if (lse.present()) c.fill(lse, -kInfinity);
  if (rows == 0 || table.elements() == 0) return;
  const auto written = [&](const View& view) { return view.contiguous() ? view : c.temp(view.dtype, view.shape); };
  const View own = out.slice(0, 0, rows), to = written(own);
  View own_lse, to_lse;
  if (lse.present()) {
    own_lse = lse.slice(0, 0, rows).unsqueezed(2);
    to_lse = written(own_lse);
  }
  const bool by_heads = keeps_heads_together(k, v);
  View mask;
  if (attrs.causal != 0) mask = triangle(c);
  c.call(TERN_NPU_OP(FusedInferAttentionScoreV3), c.dense(q.slice(0, 0, rows)), paged(k, by_heads), paged(v, by_heads),
         nullptr, mask, Ints(lengths.q_ends), Ints(lengths.keys), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
         nullptr, table, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
         nullptr, nullptr, heads, static_cast<double>(attrs.scale), kNoBorder, attrs.causal != 0 ? 0 : kNoBorder, "TND",
         k.dim(2), attrs.causal != 0 ? kBottomRight : kNoMask, 0, k.dim(1), 0, lse.present(), 0, 0, to, to_lse);
  if (!own.contiguous()) c.copy(own, to);
  if (lse.present() && !own_lse.contiguous()) c.copy(own_lse, to_lse);
  // Rows of a sequence without keys: CANN gives them an infinite lse.
  std::int64_t row = 0;
  for (std::size_t s = 0; s < lengths.q_ends.size(); ++s) {
    const std::int64_t count = lengths.q_ends[s] - row;
    if (count > 0 && lengths.keys[s] == 0) {
      c.zero(out.slice(0, row, count));
      if (lse.present()) c.fill(lse.slice(0, row, count), -kInfinity);
    }
    row = lengths.q_ends[s];
  }
}

}  // namespace tern::npu
