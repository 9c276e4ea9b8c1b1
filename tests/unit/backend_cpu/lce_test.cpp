// linear_cross_entropy against the oracle, on every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "ops/ref/tensor.h"
#include "tests/unit/backend_cpu/op_harness.h"

namespace tern::test {
namespace {

struct Problem {
  std::int64_t rows = 37, width = 64, vocab = 101;
  tern_dtype storage = TERN_F32, compute = TERN_F32;
  tern_packing packing = TERN_PACK_NONE;
  float softcap = 0;
  bool stats = true, dh = true, dw = true, accumulate = false;
};

OpCase lce_case(const Problem& s) {
  OpCase c(TERN_OP_LINEAR_CROSS_ENTROPY);
  c.set_attrs(tern_linear_cross_entropy_attrs{s.compute, s.softcap});
  c.random(TERN_LINEAR_CROSS_ENTROPY_H, padded(make_desc(s.storage, {s.rows, s.width}), 3), 1);
  c.random(TERN_LINEAR_CROSS_ENTROPY_W,
           s.packing == TERN_PACK_NONE ? make_desc(s.storage, {s.vocab, s.width})
                                       : make_quantised_desc(TERN_F32, gguf_scheme(s.packing), s.vocab, s.width),
           2);
  std::vector<std::int32_t> targets;
  std::vector<float> weights;
  for (std::int64_t r = 0; r < s.rows; ++r) {
    targets.push_back(r % 11 == 4 ? -1 : static_cast<std::int32_t>((r * 31) % s.vocab));
    weights.push_back(r % 5 == 2 ? 0.0F : 0.25F + 0.01F * static_cast<float>(r));
  }
  c.integers(TERN_LINEAR_CROSS_ENTROPY_TARGETS, targets);
  c.floats(TERN_LINEAR_CROSS_ENTROPY_WEIGHTS, weights);
  c.random(TERN_LINEAR_CROSS_ENTROPY_LOSS, make_desc(TERN_F32, {1}), 3);
  if (s.stats) {
    for (const int i :
         {TERN_LINEAR_CROSS_ENTROPY_ROW_MAX, TERN_LINEAR_CROSS_ENTROPY_ROW_SUM, TERN_LINEAR_CROSS_ENTROPY_ROW_TARGET}) {
      c.output(i, make_desc(TERN_F32, {s.rows}));
    }
  }
  if (s.dh) c.output(TERN_LINEAR_CROSS_ENTROPY_DH, make_desc(s.storage, {s.rows, s.width}));
  if (s.dw) c.random(TERN_LINEAR_CROSS_ENTROPY_DW, make_desc(TERN_F32, {s.vocab, s.width}), 4);
  if (s.accumulate) {
    c.accumulate = 1U << TERN_LINEAR_CROSS_ENTROPY_LOSS | (s.dw ? 1U << TERN_LINEAR_CROSS_ENTROPY_DW : 0U);
  }
  return c;
}

TEST(LinearCrossEntropy, LossAndGradients) {
  for (const tern_dtype compute : {TERN_F32, TERN_BF16, TERN_F16}) {
    for (const tern_dtype storage : {TERN_F32, TERN_BF16}) {
      for (const bool accumulate : {false, true}) {
        Problem s{.storage = storage, .compute = compute, .accumulate = accumulate};
        check_everywhere(lce_case(s), "all outputs");
        s.softcap = 2.0F;
        check_everywhere(lce_case(s), "soft cap");
        s.dh = s.dw = false;
        check_everywhere(lce_case(s), "loss only");
      }
    }
  }
}

TEST(LinearCrossEntropy, QuantisedWeights) {
  for (const tern_packing packing : kBlockPackings) {
    check_everywhere(lce_case({.width = 256, .compute = TERN_BF16, .packing = packing, .dw = false}), "quantised");
  }
}

// More than one block of rows, and more than one chunk of the vocabulary.
TEST(LinearCrossEntropy, CrossesEveryBlockBorder) {
  check_everywhere(lce_case({.rows = 331, .width = 16, .vocab = 97}), "rows");
  check_everywhere(lce_case({.rows = 9, .width = 12, .vocab = 8301}), "vocabulary");
  check_everywhere(lce_case({.rows = 9, .width = 12, .vocab = 8301, .dh = false, .dw = false}),
                   "vocabulary, loss only");
}

TEST(LinearCrossEntropy, NoRows) {
  for (const bool accumulate : {false, true})
    check_everywhere(lce_case({.rows = 0, .accumulate = accumulate}), "empty");
}

// A row of weight 0 is left out whatever it holds.
TEST(LinearCrossEntropy, WeightlessRowsMayHoldAnything) {
  OpCase c = lce_case({});
  const auto& h = c.args[TERN_LINEAR_CROSS_ENTROPY_H].desc;
  std::memset(c.args[TERN_LINEAR_CROSS_ENTROPY_H].bytes.data() + 2 * h.strides[0] * 4, 0xff, 64 * 4);
  for (const std::string& target : targets()) {
    const Outcome clean = run_on(target, lce_case({})), dirty = run_on(target, c);
    for (const int i : {TERN_LINEAR_CROSS_ENTROPY_LOSS, TERN_LINEAR_CROSS_ENTROPY_DH, TERN_LINEAR_CROSS_ENTROPY_DW}) {
      EXPECT_EQ(clean.bytes[static_cast<std::size_t>(i)], dirty.bytes[static_cast<std::size_t>(i)]) << target;
    }
  }
}

TEST(LinearCrossEntropy, ForwardLayoutServesTheLoss) {
  for (const tern_dtype storage : {TERN_F32, TERN_BF16}) {
    const OpCase c =
        lce_case({.rows = 19, .vocab = 8301, .storage = storage, .compute = TERN_BF16, .dh = false, .dw = false});
    for (const std::string& target : targets()) {
      expect_oracle(c, run_packed(target, c, TERN_LINEAR_CROSS_ENTROPY_W, TERN_USE_FORWARD), "packed on " + target);
    }
  }
}

std::vector<float> floats_of(const Outcome& outcome, int arg) {
  const auto& bytes = outcome.bytes[static_cast<std::size_t>(arg)];
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

// The rows [first, first + vocab) of the whole problem's weight.
OpCase shard_of(const OpCase& whole, std::int64_t first, std::int64_t vocab) {
  OpCase c = whole;
  Argument& w = c.args[TERN_LINEAR_CROSS_ENTROPY_W];
  const std::int64_t row = w.desc.strides[0] * 4;
  w.bytes.assign(w.bytes.begin() + first * row, w.bytes.begin() + (first + vocab) * row);
  w.desc.shape[0] = vocab;
  Argument& targets = c.args[TERN_LINEAR_CROSS_ENTROPY_TARGETS];
  auto* ids = reinterpret_cast<std::int32_t*>(targets.bytes.data());
  for (std::int64_t r = 0; r < targets.desc.shape[0]; ++r) {
    ids[r] = ids[r] >= first && ids[r] < first + vocab ? ids[r] - static_cast<std::int32_t>(first) : -1;
  }
  c.output(TERN_LINEAR_CROSS_ENTROPY_DW, w.desc);
  return c;
}

// Law: two shards of a vocabulary, merged by their statistics, give the loss and the gradients of the whole.
TEST(LinearCrossEntropy, ShardsMergeIntoTheWhole) {
  constexpr std::int64_t kFirst = 37;
  const Problem s{.softcap = 3.0F};
  OpCase whole = lce_case(s);
  std::vector<std::int32_t> ids;  // each in one of the shards: without -1
  for (std::int64_t r = 0; r < s.rows; ++r) ids.push_back(static_cast<std::int32_t>((r * 31) % s.vocab));
  whole.integers(TERN_LINEAR_CROSS_ENTROPY_TARGETS, ids);
  const OpCase shards[] = {shard_of(whole, 0, kFirst), shard_of(whole, kFirst, s.vocab - kFirst)};
  for (const std::string& target : targets()) {
    const Outcome expected = run_on(target, whole);
    const Outcome first[] = {run_on(target, shards[0]), run_on(target, shards[1])};
    std::vector<float> lse(static_cast<std::size_t>(s.rows));
    for (std::size_t r = 0; r < lse.size(); ++r) {
      double sum = 0;
      for (const Outcome& part : first) {
        sum += floats_of(part, TERN_LINEAR_CROSS_ENTROPY_ROW_SUM)[r] *
               std::exp(floats_of(part, TERN_LINEAR_CROSS_ENTROPY_ROW_MAX)[r]);
      }
      lse[r] = static_cast<float>(std::log(sum));
    }
    double loss = 0;
    std::vector<float> dh(floats_of(expected, TERN_LINEAR_CROSS_ENTROPY_DH).size());
    std::vector<float> dw;
    for (OpCase shard : shards) {
      shard.floats(TERN_LINEAR_CROSS_ENTROPY_LSE, lse);
      const Outcome part = run_on(target, shard);
      loss += floats_of(part, TERN_LINEAR_CROSS_ENTROPY_LOSS)[0];
      const std::vector<float> more = floats_of(part, TERN_LINEAR_CROSS_ENTROPY_DH);
      for (std::size_t i = 0; i < dh.size(); ++i) dh[i] += more[i];
      const std::vector<float> rows = floats_of(part, TERN_LINEAR_CROSS_ENTROPY_DW);
      dw.insert(dw.end(), rows.begin(), rows.end());
    }
    EXPECT_NEAR(loss, floats_of(expected, TERN_LINEAR_CROSS_ENTROPY_LOSS)[0], 1e-4) << target;
    const std::vector<float> whole_dh = floats_of(expected, TERN_LINEAR_CROSS_ENTROPY_DH);
    const std::vector<float> whole_dw = floats_of(expected, TERN_LINEAR_CROSS_ENTROPY_DW);
    ASSERT_EQ(dw.size(), whole_dw.size());
    for (std::size_t i = 0; i < dh.size(); ++i) ASSERT_NEAR(dh[i], whole_dh[i], 1e-5) << target << " dh " << i;
    for (std::size_t i = 0; i < dw.size(); ++i) ASSERT_NEAR(dw[i], whole_dw[i], 1e-5) << target << " dw " << i;
  }
}

TEST(LinearCrossEntropy, TargetsOutOfRangeAreErrors) {
  OpCase c = lce_case({});
  std::vector<std::int32_t> targets_of(37, 0);
  targets_of[3] = 101;
  c.integers(TERN_LINEAR_CROSS_ENTROPY_TARGETS, targets_of);
  EXPECT_THROW((void)run_on(targets().back(), c), std::runtime_error);
}

}  // namespace
}  // namespace tern::test
