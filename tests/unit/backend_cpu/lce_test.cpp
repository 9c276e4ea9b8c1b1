// linear_cross_entropy against the oracle, on every instruction set.
#include <gtest/gtest.h>

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
  for (const tern_packing packing : {TERN_PACK_GGUF_Q4_0, TERN_PACK_GGUF_Q4_1, TERN_PACK_GGUF_Q8_0}) {
    check_everywhere(lce_case({.compute = TERN_BF16, .packing = packing, .dw = false}), "quantised");
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

TEST(LinearCrossEntropy, TargetsOutOfRangeAreErrors) {
  OpCase c = lce_case({});
  std::vector<std::int32_t> targets_of(37, 0);
  targets_of[3] = 101;
  c.integers(TERN_LINEAR_CROSS_ENTROPY_TARGETS, targets_of);
  EXPECT_THROW((void)run_on(targets().back(), c), std::runtime_error);
}

}  // namespace
}  // namespace tern::test
