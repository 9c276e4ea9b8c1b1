// CANN's own attention over packed sequences (layout TND), whose lengths it reads on the host.
#include <limits>

#include "backends/npu/attention_forward.h"
#include "backends/npu/attention_shape.h"
#include "backends/npu/cann/ops_transformer.h"

namespace tern::npu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kNoBorder = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostSequences = 2048;
constexpr std::int64_t kMostRows = std::int64_t{1} << 20;
constexpr std::int64_t kMostHeads = 256, kWidestHead = 768;
constexpr std::int64_t kLanes = 8;                                // of max and sum, all equal
constexpr std::int64_t kNoMask = 0, kBottomRight = 3, kBand = 4;  // sparse modes

// Who sees whom, in CANN's words.
struct Sight {
  std::int64_t mode = kNoMask;
  std::int64_t before = kNoBorder;
  std::int64_t after = kNoBorder;
  View mask;  // the triangle that modes 2 to 4 want
};

Sight sight_of(Composer& c, const tern_attention_attrs& attrs) {
  Sight out;
  const bool windows = attrs.window > 0 || attrs.window_right > 0;
  if (!windows && attrs.causal == 0) return out;
  out.mode = windows ? kBand : kBottomRight;
  if (attrs.window > 0) out.before = attrs.window - 1;
  if (attrs.window_right > 0) out.after = attrs.window_right - 1;
  if (attrs.causal != 0) out.after = 0;
  out.mask = triangle(c);
  return out;
}

struct Args {
  int q, k, v, sinks, mask, cu_seqlens_q, cu_seqlens_k;
};

struct Lengths {
  std::vector<std::int64_t> q_ends, k_ends;  // as CANN wants them: without the first 0
  [[nodiscard]] std::int64_t rows() const { return q_ends.empty() ? 0 : q_ends.back(); }
  [[nodiscard]] std::int64_t keys() const { return k_ends.empty() ? 0 : k_ends.back(); }
};

Lengths lengths_of(const Composer& c, const tern_attention_attrs& attrs, const Args& args) {
  Lengths out;
  const auto q = c.lengths(args.cu_seqlens_q), k = c.lengths(args.cu_seqlens_k);
  if (!q || !k) {
    // As many rows and keys as all sequences together can have, as one: where a row sees itself, no sequence has more
    // rows than keys.
    const std::int64_t rows = c.arg(args.q).dim(0), keys = c.arg(args.k).dim(0);
    const bool sees_itself = attrs.causal != 0 || attrs.window > 0 || attrs.window_right > 0;
    out.q_ends.push_back(sees_itself ? std::min(rows, keys) : rows);
    out.k_ends.push_back(keys);
    return out;
  }
  for (std::size_t s = 1; s < q->size(); ++s) {
    out.q_ends.push_back((*q)[s]);
    out.k_ends.push_back((*k)[s]);
  }
  return out;
}

// What the op's documentation refuses, and what it has no argument for.
void require_fit(const Composer& c, const tern_attention_attrs& attrs, const Args& args) {
  if (!c.chip().has_bf16()) c.refuse("this chip has no fused attention");
  if (c.present(args.sinks)) c.refuse("sinks are joined afterwards, by sink_scale");
  if (c.present(args.mask)) c.refuse("the fused attention takes no mask of packed sequences");
  if (attrs.softcap != 0.0F) c.refuse("the fused attention knows no cap");
  if (attrs.chunk != 0) c.refuse("the fused attention knows no chunks");
  const View q = c.arg(args.q), k = c.arg(args.k), v = c.arg(args.v);
  if (k.dtype != q.dtype || v.dtype != q.dtype) c.refuse("the fused attention takes one dtype");
  if (q.dim(1) > kMostHeads || q.dim(2) > kWidestHead || v.dim(2) > q.dim(2)) c.refuse("its heads don't fit");
  if (c.desc(args.cu_seqlens_q).shape[0] - 1 > kMostSequences) c.refuse("it takes 2,048 sequences at most");
  if (std::max(c.desc(args.q).shape[0], c.desc(args.k).shape[0]) > kMostRows) c.refuse("it takes 1M rows at most");
}

// What CANN writes: the output itself, or dense memory that is copied there.
View written(Composer& c, const View& out) { return out.contiguous() ? out : c.temp(out.dtype, out.shape); }

}  // namespace

View triangle(Composer& c) {
  constexpr std::int64_t kSide = 2048;
  return c.constant({"triangle of attention",
                     [] {
                       std::vector<std::byte> hidden(static_cast<std::size_t>(kSide * kSide));
                       for (std::int64_t row = 0; row < kSide; ++row) {
                         const auto begin = hidden.begin() + row * kSide;
                         std::fill(begin + row + 1, begin + kSide, std::byte{1});
                       }
                       return hidden;
                     }},
                    ACL_BOOL, {kSide, kSide});
}

void compose_fused_attention(Composer& c) {
  const auto& attrs = c.attrs<tern_attention_attrs>();
  constexpr Args kArgs{TERN_ATTENTION_Q,           TERN_ATTENTION_K,    TERN_ATTENTION_V,
                       TERN_ATTENTION_SINKS,       TERN_ATTENTION_MASK, TERN_ATTENTION_CU_SEQLENS_Q,
                       TERN_ATTENTION_CU_SEQLENS_K};
  require_fit(c, attrs, kArgs);
  const View q = c.arg(TERN_ATTENTION_Q), out = c.arg(TERN_ATTENTION_OUT), lse = c.arg(TERN_ATTENTION_LSE);
  if (out.dtype != q.dtype) c.refuse("the fused attention gives the dtype of its queries");
  const Sight sight = sight_of(c, attrs);
  const Lengths lengths = lengths_of(c, attrs, kArgs);
  c.zero(out);
  if (lse.present()) c.fill(lse, -kInfinity);
  if (lengths.rows() == 0 || lengths.keys() == 0) return;
  Algebra algebra(c);
  const std::int64_t rows = lengths.rows(), heads = q.dim(1);
  const View k = c.dense(c.arg(TERN_ATTENTION_K).slice(0, 0, lengths.keys()));
  const View v = c.dense(c.arg(TERN_ATTENTION_V).slice(0, 0, lengths.keys()));
  const View own = out.slice(0, 0, rows), to = written(c, own);
  const View top = c.temp(ACL_FLOAT, {rows, heads, kLanes}), total = c.temp(ACL_FLOAT, {rows, heads, kLanes});
  c.call(TERN_NPU_OP(FlashAttentionVarLenScore), c.dense(q.slice(0, 0, rows)), k, v, nullptr, nullptr, nullptr,
         sight.mask, nullptr, Ints(lengths.q_ends), Ints(lengths.k_ends), static_cast<double>(attrs.scale), 1.0,
         sight.before, sight.after, heads, "TND", 0, sight.mode, top, total, nullptr, to);
  if (!own.contiguous()) c.copy(own, to);
  const auto lane = [&](const View& lanes) { return lanes.slice(2, 0, 1).reshaped({rows, heads}); };
  if (lse.present()) algebra.add(algebra.log(lane(total)), lane(top), lse.slice(0, 0, rows));
  // Rows of a sequence without keys: CANN leaves them as they come.
  std::int64_t row = 0, key = 0;
  for (std::size_t s = 0; s < lengths.q_ends.size(); ++s) {
    const std::int64_t count = lengths.q_ends[s] - row;
    if (count > 0 && lengths.k_ends[s] == key) {
      c.zero(out.slice(0, row, count));
      if (lse.present()) c.fill(lse.slice(0, row, count), -kInfinity);
    }
    row = lengths.q_ends[s];
    key = lengths.k_ends[s];
  }
}

void compose_fused_attention_backward(Composer& c) {
  const auto& given = c.attrs<tern_attention_backward_attrs>();
  const tern_attention_attrs attrs{given.scale,        given.softcap,      given.causal,       given.window,
                                   given.max_seqlen_q, given.max_seqlen_k, given.window_right, given.chunk};
  constexpr Args kArgs{TERN_ATTENTION_BACKWARD_Q,           TERN_ATTENTION_BACKWARD_K,
                       TERN_ATTENTION_BACKWARD_V,           TERN_ATTENTION_BACKWARD_SINKS,
                       TERN_ATTENTION_BACKWARD_MASK,        TERN_ATTENTION_BACKWARD_CU_SEQLENS_Q,
                       TERN_ATTENTION_BACKWARD_CU_SEQLENS_K};
  require_fit(c, attrs, kArgs);
  const View q = c.arg(TERN_ATTENTION_BACKWARD_Q);
  const View dq = c.arg(TERN_ATTENTION_BACKWARD_DQ), dk = c.arg(TERN_ATTENTION_BACKWARD_DK);
  const View dv = c.arg(TERN_ATTENTION_BACKWARD_DV);
  for (const int arg : {TERN_ATTENTION_BACKWARD_DOUT, TERN_ATTENTION_BACKWARD_OUT, TERN_ATTENTION_BACKWARD_DQ,
                        TERN_ATTENTION_BACKWARD_DK, TERN_ATTENTION_BACKWARD_DV}) {
    if (c.arg(arg).dtype != q.dtype) c.refuse("the fused attention takes one dtype");
  }
  const Sight sight = sight_of(c, attrs);
  const Lengths lengths = lengths_of(c, attrs, kArgs);
  for (const View& gradient : {dq, dk, dv}) c.zero(gradient);
  if (lengths.rows() == 0 || lengths.keys() == 0) return;
  Algebra algebra(c);
  const std::int64_t rows = lengths.rows(), keys = lengths.keys(), heads = q.dim(1);
  const auto of_rows = [&](int arg) { return c.dense(c.arg(arg).slice(0, 0, rows)); };
  const auto of_keys = [&](int arg) { return c.dense(c.arg(arg).slice(0, 0, keys)); };
  // exp(s - lse) is all that max and sum are for: lse as the maximum, and a sum of 1.
  const View lse =
      algebra.at_least(c.arg(TERN_ATTENTION_BACKWARD_LSE).slice(0, 0, rows), -std::numeric_limits<float>::max());
  const View top = c.temp(ACL_FLOAT, {rows, heads, kLanes}), total = c.temp(ACL_FLOAT, {rows, heads, kLanes});
  c.copy(top, lse.unsqueezed(2).expanded(2, kLanes));
  c.fill(total, 1.0);
  const View own_dq = dq.slice(0, 0, rows), own_dk = dk.slice(0, 0, keys), own_dv = dv.slice(0, 0, keys);
  const View to_dq = written(c, own_dq), to_dk = written(c, own_dk), to_dv = written(c, own_dv);
  c.call(TERN_NPU_OP(FlashAttentionUnpaddingScoreGrad), of_rows(TERN_ATTENTION_BACKWARD_Q),
         of_keys(TERN_ATTENTION_BACKWARD_K), of_keys(TERN_ATTENTION_BACKWARD_V), of_rows(TERN_ATTENTION_BACKWARD_DOUT),
         nullptr, nullptr, nullptr, sight.mask, top, total, nullptr, of_rows(TERN_ATTENTION_BACKWARD_OUT), nullptr,
         Ints(lengths.q_ends), Ints(lengths.k_ends), static_cast<double>(attrs.scale), 1.0, sight.before, sight.after,
         heads, "TND", 0, sight.mode, to_dq, to_dk, to_dv, nullptr);
  if (!own_dq.contiguous()) c.copy(own_dq, to_dq);
  if (!own_dk.contiguous()) c.copy(own_dk, to_dk);
  if (!own_dv.contiguous()) c.copy(own_dv, to_dv);
}

}  // namespace tern::npu
