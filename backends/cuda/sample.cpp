// Tokens from logits: one block a row.
#include <algorithm>
#include <array>

#include "backends/cuda/kernels.h"

namespace tern::cuda {
namespace {

constexpr std::int64_t kLeastThreads = 128, kMostThreads = 1024;  // of a row; as the kernel is bounded
constexpr std::int64_t kTokensEach = 16;      // of a thread, at least, where there are more than the least threads
constexpr std::int64_t kMostVocab = 1 << 24;  // ids have 24 bits of a rank

// As in cu/sample.cu.
struct Shape {
  std::int64_t vocab, row_floats, logits[2], per_row[8];
  std::int64_t history[2], block_size, blocks, table[2], max_blocks, history_len, output_begin;
  std::int64_t bias_ids[2], bias[2], biases, mask[2];
  std::int64_t ids, logprob, top_ids[2], top_logprobs[2], tops;
};
// All arguments of the op, in its order, and the workspace.
using Arguments = std::array<Place, TERN_SAMPLE_NUM_ARGS + 1>;

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
  check.that(logits.shape[1] < kMostVocab, "ids have more than 24 bits");
  return check.ok();
}

std::int64_t row_floats(std::int64_t vocab) { return round_up(vocab, 4); }

// Of each row: its logits as they are changed, and how often its tokens were there.
std::uint64_t workspace(const PlanDesc& desc) {
  const auto& logits = desc.arg(TERN_SAMPLE_LOGITS);
  const std::int64_t each = desc.present(TERN_SAMPLE_HISTORY) ? 2 : 1;
  return static_cast<std::uint64_t>(logits.shape[0] * row_floats(logits.shape[1]) * each) * sizeof(float);
}

Functions functions(const PlanDesc& /*desc*/) { return {"sample"}; }

Shape shape_of(const Launch& launch) {
  constexpr int kPerRow[] = {TERN_SAMPLE_TEMPERATURE, TERN_SAMPLE_TOP_K,    TERN_SAMPLE_TOP_P,     TERN_SAMPLE_MIN_P,
                             TERN_SAMPLE_REPETITION,  TERN_SAMPLE_PRESENCE, TERN_SAMPLE_FREQUENCY, TERN_SAMPLE_UNIFORM};
  Shape shape{};
  shape.vocab = launch[TERN_SAMPLE_LOGITS].dim(1);
  shape.row_floats = row_floats(shape.vocab);
  take_strides(launch[TERN_SAMPLE_LOGITS], shape.logits);
  for (std::size_t i = 0; i < std::size(kPerRow); ++i) shape.per_row[i] = stride_of(launch[kPerRow[i]]);
  take_strides(launch[TERN_SAMPLE_HISTORY], shape.history);
  take_strides(launch[TERN_SAMPLE_HISTORY_TABLE], shape.table);
  shape.history_len = stride_of(launch[TERN_SAMPLE_HISTORY_LEN]);
  shape.output_begin = stride_of(launch[TERN_SAMPLE_OUTPUT_BEGIN]);
  take_strides(launch[TERN_SAMPLE_BIAS_IDS], shape.bias_ids);
  take_strides(launch[TERN_SAMPLE_BIAS], shape.bias);
  take_strides(launch[TERN_SAMPLE_MASK], shape.mask);
  shape.ids = stride_of(launch[TERN_SAMPLE_IDS]);
  shape.logprob = stride_of(launch[TERN_SAMPLE_LOGPROB]);
  take_strides(launch[TERN_SAMPLE_TOP_IDS], shape.top_ids);
  take_strides(launch[TERN_SAMPLE_TOP_LOGPROBS], shape.top_logprobs);
  shape.blocks = launch[TERN_SAMPLE_HISTORY].dim(0);
  shape.block_size = launch[TERN_SAMPLE_HISTORY].dim(1);
  shape.max_blocks = launch[TERN_SAMPLE_HISTORY_TABLE].dim(1);
  shape.biases = launch[TERN_SAMPLE_BIAS].dim(1);
  shape.tops = launch[TERN_SAMPLE_TOP_IDS].dim(1);
  return shape;
}

void run(const Launch& launch) {
  Arguments arguments{};
  for (int i = 0; i < TERN_SAMPLE_NUM_ARGS; ++i) {
    if (launch[i].present()) arguments[static_cast<std::size_t>(i)] = launch[i].planes[0];
  }
  arguments.back() = launch.workspace();
  const TensorView& logits = launch[TERN_SAMPLE_LOGITS];
  const std::int64_t threads = std::clamp(logits.dim(1) / kTokensEach / 32 * 32, kLeastThreads, kMostThreads);
  launch.call(0).arg(arguments).arg(shape_of(launch)).overlapped().run({logits.dim(0), 1, 1}, {threads, 1, 1});
}

constexpr KernelEntry kKernels[] = {{TERN_OP_SAMPLE, "sample", supports, workspace, functions, run}};

}  // namespace

KernelList sample_kernels() { return kKernels; }

}  // namespace tern::cuda
