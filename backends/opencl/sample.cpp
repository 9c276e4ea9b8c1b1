// Tokens from logits: one group a row.
#include "backends/opencl/kernels.h"

namespace tern::opencl {
namespace {

// The struct Shape of cl/sample.cl.
struct Shape {
  std::int64_t vocab, logits[2], per_row[8];
  std::int64_t history[2], block_size, blocks, table[2], max_blocks, history_len, output_begin;
  std::int64_t bias_ids[2], bias[2], biases, mask[2];
  std::int64_t ids, logprob, top_ids[2], top_logprobs[2], tops;
};

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& logits = desc.arg(TERN_SAMPLE_LOGITS);
  Check check(desc, reason);
  check.rank(TERN_SAMPLE_LOGITS, 2).rank(TERN_SAMPLE_HISTORY, 2).rank(TERN_SAMPLE_HISTORY_TABLE, 2);
  check.rank(TERN_SAMPLE_MASK, 2);
  check.same_shape({TERN_SAMPLE_BIAS_IDS, TERN_SAMPLE_BIAS})
      .same_shape({TERN_SAMPLE_TOP_IDS, TERN_SAMPLE_TOP_LOGPROBS});
  check.rank(TERN_SAMPLE_BIAS, 2).rank(TERN_SAMPLE_TOP_IDS, 2).dtype(TERN_SAMPLE_MASK, TERN_U32);
  for (const int arg : {TERN_SAMPLE_LOGITS, TERN_SAMPLE_TEMPERATURE, TERN_SAMPLE_TOP_P, TERN_SAMPLE_MIN_P,
                        TERN_SAMPLE_REPETITION, TERN_SAMPLE_PRESENCE, TERN_SAMPLE_FREQUENCY, TERN_SAMPLE_BIAS,
                        TERN_SAMPLE_UNIFORM, TERN_SAMPLE_LOGPROB, TERN_SAMPLE_TOP_LOGPROBS}) {
    check.dtype(arg, TERN_F32);
  }
  for (const int arg : {TERN_SAMPLE_TOP_K, TERN_SAMPLE_HISTORY, TERN_SAMPLE_HISTORY_LEN, TERN_SAMPLE_OUTPUT_BEGIN,
                        TERN_SAMPLE_HISTORY_TABLE, TERN_SAMPLE_BIAS_IDS, TERN_SAMPLE_IDS, TERN_SAMPLE_TOP_IDS}) {
    check.dtype(arg, TERN_I32);
  }
  for (int arg = 1; arg < TERN_SAMPLE_NUM_ARGS; ++arg) {
    if (arg != TERN_SAMPLE_HISTORY) check.dim(arg, 0, logits.shape[0]);
  }
  check.dim(TERN_SAMPLE_MASK, 1, (logits.shape[1] + 31) / 32);
  check.that(logits.shape[1] < (1 << 24), "ids beyond 24 bits don't fit a float");
  return check.ok();
}

// Of each row: its logits as they are changed, and what they weigh.
std::uint64_t workspace(const PlanDesc& desc) {
  const auto& logits = desc.arg(TERN_SAMPLE_LOGITS);
  return static_cast<std::uint64_t>(logits.shape[0] * logits.shape[1]) * 2 * sizeof(float);
}

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.set("GROUP", reducing_group(desc.device))
      .tensor("history", desc, TERN_SAMPLE_HISTORY)
      .tensor("bias", desc, TERN_SAMPLE_BIAS)
      .tensor("mask", desc, TERN_SAMPLE_MASK)
      .tensor("top_ids", desc, TERN_SAMPLE_TOP_IDS);
  return {{"sample", "sample", defines.text()}};
}

void put_strides(const TensorView& view, std::int64_t* strides) {
  for (int d = 0; d < view.desc.rank; ++d) strides[d] = view.stride(d);
}

Shape shape_of(const Launch& launch) {
  constexpr int kPerRow[] = {TERN_SAMPLE_TEMPERATURE, TERN_SAMPLE_TOP_K,    TERN_SAMPLE_TOP_P,     TERN_SAMPLE_MIN_P,
                             TERN_SAMPLE_REPETITION,  TERN_SAMPLE_PRESENCE, TERN_SAMPLE_FREQUENCY, TERN_SAMPLE_UNIFORM};
  Shape shape{};
  shape.vocab = launch[TERN_SAMPLE_LOGITS].dim(1);
  put_strides(launch[TERN_SAMPLE_LOGITS], shape.logits);
  for (int i = 0; i < 8; ++i) put_strides(launch[kPerRow[i]], &shape.per_row[i]);
  put_strides(launch[TERN_SAMPLE_HISTORY], shape.history);
  put_strides(launch[TERN_SAMPLE_HISTORY_TABLE], shape.table);
  put_strides(launch[TERN_SAMPLE_HISTORY_LEN], &shape.history_len);
  put_strides(launch[TERN_SAMPLE_OUTPUT_BEGIN], &shape.output_begin);
  put_strides(launch[TERN_SAMPLE_BIAS_IDS], shape.bias_ids);
  put_strides(launch[TERN_SAMPLE_BIAS], shape.bias);
  put_strides(launch[TERN_SAMPLE_MASK], shape.mask);
  put_strides(launch[TERN_SAMPLE_IDS], &shape.ids);
  put_strides(launch[TERN_SAMPLE_LOGPROB], &shape.logprob);
  put_strides(launch[TERN_SAMPLE_TOP_IDS], shape.top_ids);
  put_strides(launch[TERN_SAMPLE_TOP_LOGPROBS], shape.top_logprobs);
  shape.blocks = launch[TERN_SAMPLE_HISTORY].dim(0);
  shape.block_size = launch[TERN_SAMPLE_HISTORY].dim(1);
  shape.max_blocks = launch[TERN_SAMPLE_HISTORY_TABLE].dim(1);
  shape.biases = launch[TERN_SAMPLE_BIAS].dim(1);
  shape.tops = launch[TERN_SAMPLE_TOP_IDS].dim(1);
  return shape;
}

void run(const Launch& launch) {
  Call call = launch.call(0);
  for (int i = 0; i < TERN_SAMPLE_NUM_ARGS; ++i) call.arg(launch[i]);
  call.arg(launch.workspace()).arg(shape_of(launch));
  const std::int64_t group = reducing_group(launch.device());
  call.run(launch[TERN_SAMPLE_LOGITS].dim(0) * group, group);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SAMPLE, "sample", supports, workspace, functions, run}};

}  // namespace

KernelList sample_kernels() { return kKernels; }

}  // namespace tern::opencl
