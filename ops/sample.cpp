#include "ops/sample.h"

#include <algorithm>

#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

std::string check(Args args, AttrBytes) {
  const std::int64_t vocab = args[TERN_SAMPLE_LOGITS].shape[1];
  const TensorDesc& mask = args[TERN_SAMPLE_MASK];
  const bool penalised = is_present(args[TERN_SAMPLE_HISTORY]);
  bool together = true;
  for (const int arg : {TERN_SAMPLE_REPETITION, TERN_SAMPLE_PRESENCE, TERN_SAMPLE_FREQUENCY, TERN_SAMPLE_HISTORY_LEN,
                        TERN_SAMPLE_OUTPUT_BEGIN, TERN_SAMPLE_HISTORY_TABLE}) {
    together = together && is_present(args[static_cast<std::size_t>(arg)]) == penalised;
  }
  const TensorDesc& tops = args[TERN_SAMPLE_TOP_IDS];
  const auto has = [&](int arg) { return is_present(args[static_cast<std::size_t>(arg)]); };
  return first_problem(
      require(together, "history: expected it beside all penalties, or none of them"),
      require(!penalised || args[TERN_SAMPLE_HISTORY].shape[1] >= 1, "history: expected a block_size of at least 1"),
      require(has(TERN_SAMPLE_BIAS_IDS) == has(TERN_SAMPLE_BIAS), "bias: expected it beside bias_ids"),
      require(has(TERN_SAMPLE_TOP_IDS) == has(TERN_SAMPLE_TOP_LOGPROBS), "top_ids: expected it beside top_logprobs"),
      require(!is_present(tops) || tops.shape[1] <= vocab,
              cat("top_ids: expected at most ", vocab, " tokens, found ", tops.shape[1])),
      require(vocab >= 1, "logits: expected a vocab of at least 1"),
      require(!is_present(mask) || mask.shape[1] == (vocab + 31) / 32,
              cat("mask: expected ", (vocab + 31) / 32, " words, found ", mask.shape[1])));
}

// Of the history, the rows' tokens at most: how many there are only the device knows.
double bytes(const CallDesc& call, int arg, HostArrays lengths) {
  if (arg != TERN_SAMPLE_HISTORY || !call.has(arg)) return each_argument_once(call, arg, lengths);
  const TensorDesc& table = call[TERN_SAMPLE_HISTORY_TABLE];
  const auto tokens = static_cast<double>(table.shape[0] * table.shape[1] * call[arg].shape[1]);
  return std::min(tokens * sizeof(std::int32_t), whole_bytes(call, arg));
}

Indices indices(const CallDesc& call) {
  if (!call.has(TERN_SAMPLE_HISTORY)) return {};
  const std::int64_t most = call[TERN_SAMPLE_HISTORY_TABLE].shape[1] * call[TERN_SAMPLE_HISTORY].shape[1];
  return {.paged = Indices::Paged{TERN_SAMPLE_HISTORY_LEN, TERN_SAMPLE_HISTORY_TABLE, TERN_SAMPLE_HISTORY, most}};
}

}  // namespace

SampleOut sample(Emitter& emitter, const SampleInputs& inputs, std::uint32_t needs) {
  const TensorDesc logits = emitter.desc(inputs.logits);
  CallBuilder builder(TERN_OP_SAMPLE, needs);
  if (inputs.tops > 0) {
    const std::int64_t rows = logits.shape[0];
    builder.out(TERN_SAMPLE_TOP_IDS, rows_like(make_desc(TERN_I32, {rows, inputs.tops}), logits))
        .out(TERN_SAMPLE_TOP_LOGPROBS, rows_like(make_desc(TERN_F32, {rows, inputs.tops}), logits));
  }
  const std::vector<Value> out =
      builder.in(TERN_SAMPLE_LOGITS, inputs.logits)
          .in(TERN_SAMPLE_TEMPERATURE, inputs.temperature)
          .in(TERN_SAMPLE_TOP_K, inputs.top_k)
          .in(TERN_SAMPLE_TOP_P, inputs.top_p)
          .in(TERN_SAMPLE_MIN_P, inputs.min_p)
          .in(TERN_SAMPLE_REPETITION, inputs.repetition)
          .in(TERN_SAMPLE_PRESENCE, inputs.presence)
          .in(TERN_SAMPLE_FREQUENCY, inputs.frequency)
          .in(TERN_SAMPLE_HISTORY, inputs.history)
          .in(TERN_SAMPLE_HISTORY_TABLE, inputs.history_table)
          .in(TERN_SAMPLE_HISTORY_LEN, inputs.history_len)
          .in(TERN_SAMPLE_OUTPUT_BEGIN, inputs.output_begin)
          .in(TERN_SAMPLE_BIAS_IDS, inputs.bias_ids)
          .in(TERN_SAMPLE_BIAS, inputs.bias)
          .in(TERN_SAMPLE_MASK, inputs.mask)
          .in(TERN_SAMPLE_UNIFORM, inputs.uniform)
          .out(TERN_SAMPLE_IDS, rows_like(make_desc(TERN_I32, {logits.shape[0]}), logits))
          .out(TERN_SAMPLE_LOGPROB, rows_like(make_desc(TERN_F32, {logits.shape[0]}), logits))
          .emit(emitter);
  return {out[TERN_SAMPLE_IDS], out[TERN_SAMPLE_LOGPROB], out[TERN_SAMPLE_TOP_IDS], out[TERN_SAMPLE_TOP_LOGPROBS]};
}

const OpRules sample_rules = {
    .check = check,
    .backward = nullptr,
    .decompose = nullptr,
    .reference = ref::sample,
    .work = {no_products, bytes},
    .uses = no_weights,
    .row_dim = named_rows,
    .split = no_split,
    .indices = indices,
    .needed_by = kInfer | kServe,
};

}  // namespace tern::ops
