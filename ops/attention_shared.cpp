#include "ops/attention_shared.h"

#include <algorithm>

#include "ops/build.h"
#include "ops/sink_scale.h"

namespace tern::ops {
namespace {

using Lengths = std::span<const std::int32_t>;

Lengths lengths_at(HostArrays arrays, std::size_t index) {
  if (index >= arrays.size()) return {};
  return {arrays[index].data, static_cast<std::size_t>(arrays[index].count)};
}

// Whether the keys that a row sees depend on where it stands.
bool has_borders(const tern_attention_attrs& attrs) {
  return attrs.causal != 0 || attrs.window > 0 || attrs.window_right > 0 || attrs.chunk > 0;
}

// Of one sequence: its rows end where its keys end.
double visible_pairs(const tern_attention_attrs& attrs, std::int64_t rows, std::int64_t keys) {
  if (!has_borders(attrs)) return static_cast<double>(rows) * static_cast<double>(keys);
  double seen = 0;
  for (std::int64_t p = std::max<std::int64_t>(0, keys - rows); p < keys; ++p) {
    std::int64_t begin = 0;
    std::int64_t end = attrs.causal != 0 ? p + 1 : keys;
    if (attrs.window > 0) begin = std::max(begin, p + 1 - attrs.window);
    if (attrs.window_right > 0) end = std::min(end, p + attrs.window_right);
    if (attrs.chunk > 0) {
      begin = std::max(begin, p / attrs.chunk * attrs.chunk);
      end = std::min(end, (p / attrs.chunk + 1) * attrs.chunk);
    }
    seen += static_cast<double>(end - begin);
  }
  return seen;
}

}  // namespace

std::string check_attention(const tern_attention_attrs& attrs, std::int64_t heads, std::int64_t kv_heads,
                            const TensorDesc& mask) {
  return first_problem(
      require_flag("causal", attrs.causal), require(attrs.softcap >= 0.0F, "softcap: expected no negative number"),
      require(attrs.window >= 0 && attrs.window_right >= 0 && attrs.chunk >= 0 && attrs.max_seqlen_q >= 0 &&
                  attrs.max_seqlen_k >= 0,
              "window, window_right, chunk, max_seqlen_q, max_seqlen_k: expected no negative number"),
      require(
          attrs.causal == 0 || attrs.window_right == 0,
          cat("window_right: expected 0 where causal, as no row sees keys after its own, found ", attrs.window_right)),
      require(!is_present(mask) || mask.shape[1] >= attrs.max_seqlen_k,
              cat("mask: expected at least max_seqlen_k = ", attrs.max_seqlen_k, " keys, found ",
                  is_present(mask) ? mask.shape[1] : 0)),
      require(kv_heads >= 1 && heads % kv_heads == 0,
              cat("heads: expected a multiple of ", kv_heads, ", found ", heads)));
}

double attended_pairs(const CallDesc& call, HostArrays lengths, Keys keys) {
  const auto attrs = unpack_attrs<tern_attention_attrs>(call.attrs);
  const Lengths q = lengths_at(lengths, 0);
  const Lengths k = lengths_at(lengths, 1);
  const std::size_t ends_later = keys == Keys::paged ? 0 : 1;
  double sum = 0;
  for (std::size_t s = 0; s + 1 < q.size() && s + ends_later < k.size(); ++s) {
    sum += visible_pairs(attrs, q[s + 1] - q[s], keys == Keys::paged ? k[s] : k[s + 1] - k[s]);
  }
  return sum;
}

int query_rows(const CallDesc& call, int arg) {
  return op_spec(call.op).args[static_cast<std::size_t>(arg)].shape.find("q_rows");
}

std::vector<Value> decompose_sinks(Emitter& emitter, const OpCall& call, const SinkArgs& args) {
  const auto at = [](int arg) { return static_cast<std::size_t>(arg); };
  if (!arg(call, args.sinks).present()) return {};
  const TensorDesc& out = call.outputs[at(args.out)];
  OpCall plain = call;
  plain.inputs[at(args.sinks)] = {};
  plain.outputs[at(args.out)] = like(out, TERN_F32);  // rounded once, by sink_scale
  plain.outputs[at(args.lse)] = rows_like(make_desc(TERN_F32, {out.shape[0], out.shape[1]}), out);
  std::vector<Value> results = emitter.emit(plain);
  const SinkScaleOut joined =
      sink_scale(emitter, results[at(args.out)], results[at(args.lse)], arg(call, args.sinks),
                 {.keep_lse = is_present(call.outputs[at(args.lse)]), .out = out.dtype, .needs = call.needs});
  results[at(args.out)] = joined.out;
  results[at(args.lse)] = joined.lse;
  return results;
}

Indices sequence_indices(const CallDesc& call, const SequenceArgs& args) {
  const auto attrs = unpack_attrs<tern_attention_attrs>(call.attrs);
  Indices out;
  out.sequences = {{args.cu_seqlens_q, args.q, attrs.max_seqlen_q},
                   {args.cu_seqlens_k, args.k, attrs.max_seqlen_k, has_borders(attrs)}};
  return out;
}

}  // namespace tern::ops
