// matmul, matmul_q and the private layouts of weights against the oracle, on every instruction set.
#include <gtest/gtest.h>

#include "base/dtype.h"
#include "ops/ref/tensor.h"
#include "tests/unit/backend_cpu/op_harness.h"

namespace tern::test {
namespace {

struct Shape {
  std::int64_t m, n, k;
};

OpCase matmul_case(Shape s, tern_dtype a, tern_dtype b, tern_dtype out, tern_dtype compute, bool ta, bool tb) {
  OpCase c(TERN_OP_MATMUL);
  c.set_attrs(tern_matmul_attrs{ta ? 1 : 0, tb ? 1 : 0, compute, 1.0F});
  c.random(TERN_MATMUL_A, make_desc(a, {ta ? s.k : s.m, ta ? s.m : s.k}), 1);
  c.random(TERN_MATMUL_B, make_desc(b, {tb ? s.n : s.k, tb ? s.k : s.n}), 2);
  c.output(TERN_MATMUL_OUT, make_desc(out, {s.m, s.n}));
  return c;
}

constexpr tern_dtype kFloats[] = {TERN_F32, TERN_BF16, TERN_F16};

TEST(Matmul, EveryDtypeAndTransposeAtOddSizes) {
  for (const Shape s : {Shape{37, 53, 71}, Shape{1, 131, 67}, Shape{5, 7, 3}}) {
    for (const tern_dtype storage : kFloats) {
      for (const tern_dtype compute : kFloats) {
        for (int t = 0; t < 4; ++t) {
          const auto out = storage == TERN_F16 ? TERN_F32 : storage;
          check_everywhere(matmul_case(s, storage, storage, out, compute, (t & 1) != 0, (t & 2) != 0),
                           "storage " + std::to_string(storage) + " compute " + std::to_string(compute));
        }
      }
    }
  }
}

TEST(Matmul, MixedStorages) {
  for (const tern_dtype a : kFloats) {
    for (const tern_dtype b : kFloats) {
      check_everywhere(matmul_case({17, 33, 40}, a, b, a, TERN_F32, false, true), "mixed");
    }
  }
}

// More than one block of rows, of columns, of k, and of k that is packed at once.
TEST(Matmul, CrossesEveryBlockBorder) {
  for (const tern_dtype compute : {TERN_F32, TERN_BF16}) {
    check_everywhere(matmul_case({787, 65, 523}, TERN_F32, TERN_F32, TERN_F32, compute, false, true), "rows");
    check_everywhere(matmul_case({701, 37, 1601}, TERN_BF16, TERN_F32, TERN_BF16, compute, true, false), "long k");
    check_everywhere(matmul_case({3, 385, 2049}, TERN_F32, TERN_BF16, TERN_F16, compute, false, true), "few rows");
  }
}

TEST(Matmul, NothingToDo) {
  for (const Shape s : {Shape{0, 5, 7}, Shape{5, 0, 7}, Shape{5, 7, 0}}) {
    OpCase c = matmul_case(s, TERN_F32, TERN_F32, TERN_BF16, TERN_F32, false, true);
    c.random(TERN_MATMUL_BIAS, make_desc(TERN_F32, {s.n}), 3);
    check_everywhere(c, "empty");
  }
}

TEST(Matmul, BiasAccumulateAndStrides) {
  for (const tern_dtype out : kFloats) {
    for (const std::int64_t m : {1, 29}) {
      OpCase c = matmul_case({m, 45, 64}, TERN_F32, TERN_F32, out, TERN_F32, false, true);
      c.random(TERN_MATMUL_A, padded(make_desc(TERN_F32, {m, 64}), 5), 1);
      c.random(TERN_MATMUL_B, padded(make_desc(TERN_BF16, {45, 64}), 3), 2);
      c.random(TERN_MATMUL_BIAS, make_desc(TERN_BF16, {45}), 3);
      c.random(TERN_MATMUL_OUT, padded(make_desc(out, {m, 45}), 7), 4);
      c.accumulate = 1U << TERN_MATMUL_OUT;
      check_everywhere(c, "accumulate");
      c.accumulate = 0;
      check_everywhere(c, "replace");
      TensorDesc turned = make_desc(out, {m, 45});  // columns of a larger matrix
      turned.strides[0] = 2;
      turned.strides[1] = 2 * m + 1;
      c.random(TERN_MATMUL_OUT, turned, 4);
      check_everywhere(c, "turned");
    }
  }
}

TEST(Matmul, Batches) {
  OpCase c(TERN_OP_MATMUL);
  c.set_attrs(tern_matmul_attrs{0, 1, TERN_COMPUTE_F32, 1.0F});
  c.random(TERN_MATMUL_A, make_desc(TERN_F32, {3, 11, 20}), 1);
  TensorDesc shared = make_desc(TERN_BF16, {3, 9, 20});
  shared.strides[0] = 0;
  c.random(TERN_MATMUL_B, shared, 2);
  c.output(TERN_MATMUL_OUT, make_desc(TERN_BF16, {3, 11, 9}));
  check_everywhere(c, "batched");
}

// If a row's bits depended on the rows beside it, decoding one by one would differ from the prefill of all.
TEST(Matmul, RowsAreIndependent) {
  for (const tern_dtype compute : {TERN_F32, TERN_BF16}) {
    for (const std::string& target : targets()) {
      const OpCase all = matmul_case({40, 203, 700}, TERN_F32, TERN_BF16, TERN_F32, compute, false, true);
      const Outcome together = run_on(target, all);
      for (const std::int64_t m : {1, 3, 5, 9, 17}) {
        OpCase few = matmul_case({m, 203, 700}, TERN_F32, TERN_BF16, TERN_F32, compute, false, true);
        few.args[TERN_MATMUL_A].bytes = {all.args[TERN_MATMUL_A].bytes.begin(),
                                         all.args[TERN_MATMUL_A].bytes.begin() + m * 700 * 4};
        const Outcome alone = run_on(target, few);
        EXPECT_EQ(std::memcmp(alone.bytes[TERN_MATMUL_OUT].data(), together.bytes[TERN_MATMUL_OUT].data(),
                              static_cast<std::size_t>(m * 203 * 4)),
                  0)
            << target << ", " << m << " rows";
      }
    }
  }
}

// Few rows read a weight where it lies and many pack it first: a sum must not show which it was, or a sequence that is
// decoded beside others would go another way than alone.
TEST(Matmul, FewRowsByAWeightAsItIsStored) {
  for (const tern_dtype dtype : {TERN_F32, TERN_BF16}) {
    for (const Shape s : {Shape{40, 203, 700}, Shape{40, 64, 31}, Shape{40, 5, 96}, Shape{40, 131, 1}}) {
      for (const std::string& target : targets()) {
        const auto padded_case = [&](std::int64_t m) {
          OpCase c = matmul_case({m, s.n, s.k}, TERN_F32, dtype, TERN_F32, dtype, false, true);
          c.random(TERN_MATMUL_B, padded(make_desc(dtype, {s.n, s.k}), 2 + s.k % 2), 2);
          return c;
        };
        const OpCase all = padded_case(s.m);
        const Outcome together = run_on(target, all);
        for (std::int64_t m = 1; m < 8; ++m) {
          OpCase few = padded_case(m);
          few.args[TERN_MATMUL_A].bytes = {all.args[TERN_MATMUL_A].bytes.begin(),
                                           all.args[TERN_MATMUL_A].bytes.begin() + m * s.k * 4};
          const Outcome alone = run_on(target, few);
          expect_oracle(few, alone, "as stored on " + target);
          EXPECT_EQ(std::memcmp(alone.bytes[TERN_MATMUL_OUT].data(), together.bytes[TERN_MATMUL_OUT].data(),
                                static_cast<std::size_t>(m * s.n * 4)),
                    0)
              << target << ", " << m << " rows";
        }
      }
    }
  }
}

// What an instruction takes for 0 is 0 for few rows, too.
TEST(Matmul, SubnormalWeightsCountAlikeForFewRows) {
  constexpr std::int64_t kRows = 20, kColumns = 40, kWidth = 70;
  for (const std::string& target : targets()) {
    const auto of_rows = [&](std::int64_t m) {
      OpCase c = matmul_case({m, kColumns, kWidth}, TERN_F32, TERN_BF16, TERN_F32, TERN_BF16, false, true);
      std::vector<float> large(static_cast<std::size_t>(m * kWidth), 1e30F);
      std::memcpy(c.args[TERN_MATMUL_A].bytes.data(), large.data(), large.size() * sizeof(float));
      auto& weight = c.args[TERN_MATMUL_B].bytes;  // every second row's elements are the least above 0
      for (std::int64_t row = 0; row < kColumns; row += 2) {
        const std::vector<std::uint16_t> least(kWidth, 1);
        std::memcpy(weight.data() + row * kWidth * 2, least.data(), least.size() * 2);
      }
      return run_on(target, c).bytes[TERN_MATMUL_OUT];
    };
    const auto together = of_rows(kRows), alone = of_rows(1);
    EXPECT_EQ(std::memcmp(alone.data(), together.data(), kColumns * sizeof(float)), 0) << target;
  }
}

TEST(Matmul, PrivateLayouts) {
  for (const tern_dtype weight : kFloats) {
    for (const tern_dtype compute : kFloats) {
      for (const std::int64_t m : {1, 30}) {
        for (const auto& [forward, k] : {std::pair{true, 601}, std::pair{true, 128}, std::pair{false, 601}}) {
          const OpCase c = matmul_case({m, 75, k}, TERN_F32, weight, TERN_F32, compute, false, forward);
          for (const std::string& target : targets()) {
            const Outcome packed =
                run_packed(target, c, TERN_MATMUL_B, forward ? TERN_USE_FORWARD : TERN_USE_INPUT_GRAD);
            expect_oracle(c, packed, "packed on " + target);
            EXPECT_EQ(packed.bytes[TERN_MATMUL_OUT], run_on(target, c).bytes[TERN_MATMUL_OUT])
                << "packing changed the bits on " << target;
          }
        }
      }
    }
  }
}

TEST(MatmulQ, EveryPackingBothWays) {
  std::vector<tern_packing> packings(std::begin(kBlockPackings), std::end(kBlockPackings));
  packings.push_back(TERN_PACK_NONE);
  for (const tern_packing packing : packings) {
    for (const tern_dtype compute : kFloats) {
      for (const std::int64_t m : {1, 4, 23}) {
        for (const bool forward : {true, false}) {
          const std::int64_t out = 77, in = packing_block(packing).elements == 256 ? 768 : 352;
          OpCase c(TERN_OP_MATMUL_Q);
          c.set_attrs(tern_matmul_q_attrs{forward ? 1 : 0, compute});
          c.random(TERN_MATMUL_Q_X, make_desc(TERN_F32, {m, forward ? in : out}), 1);
          c.random(TERN_MATMUL_Q_W,
                   packing == TERN_PACK_NONE ? make_desc(TERN_BF16, {out, in})
                                             : make_quantised_desc(TERN_F32, gguf_scheme(packing), out, in),
                   2);
          if (forward) c.random(TERN_MATMUL_Q_BIAS, make_desc(TERN_F32, {out}), 3);
          c.output(TERN_MATMUL_Q_Y, make_desc(TERN_BF16, {m, forward ? out : in}));
          check_everywhere(c, "packing " + std::to_string(packing) + (forward ? " forward" : " backward"));
        }
      }
    }
  }
}

// The sum of nothing is 0, and the bias stays.
TEST(MatmulQ, WithoutInputs) {
  for (const tern_compute compute : {TERN_COMPUTE_F32, TERN_COMPUTE_BF16, TERN_COMPUTE_X15, TERN_COMPUTE_INT8}) {
    OpCase c(TERN_OP_MATMUL_Q);
    c.set_attrs(tern_matmul_q_attrs{1, compute});
    c.random(TERN_MATMUL_Q_X, make_desc(TERN_F32, {3, 0}), 1);
    c.random(TERN_MATMUL_Q_W, make_quantised_desc(TERN_F32, gguf_scheme(TERN_PACK_GGUF_Q4_0), 8, 0), 2);
    c.random(TERN_MATMUL_Q_BIAS, make_desc(TERN_F32, {8}), 3);
    c.output(TERN_MATMUL_Q_Y, make_desc(TERN_F32, {3, 8}));
    for (const std::string& target : targets()) {
      if (compute == TERN_COMPUTE_INT8 && !target.starts_with("a")) continue;  // from avx2 on
      check_on(target, c, "no inputs, compute " + std::to_string(compute));
    }
  }
}

// However few rows there are: each of them goes its own way through a target's kernels.
TEST(MatmulQ, RowsAreIndependent) {
  constexpr std::int64_t kOut = 77, kIn = 1312;  // more than one part of k, and a part of one
  for (const tern_packing packing :
       {TERN_PACK_GGUF_Q4_0, TERN_PACK_GGUF_Q4_1, TERN_PACK_GGUF_Q5_0, TERN_PACK_GGUF_Q8_0, TERN_PACK_NONE}) {
    for (const std::string& target : targets()) {
      const auto with_rows = [&](std::int64_t m, const OpCase* all) {
        OpCase c(TERN_OP_MATMUL_Q);
        c.set_attrs(tern_matmul_q_attrs{1, TERN_BF16});
        c.random(TERN_MATMUL_Q_X, make_desc(TERN_F32, {m, kIn}), 1);
        c.random(TERN_MATMUL_Q_W,
                 packing == TERN_PACK_NONE ? make_desc(TERN_BF16, {kOut, kIn})
                                           : make_quantised_desc(TERN_F32, gguf_scheme(packing), kOut, kIn),
                 2);
        c.output(TERN_MATMUL_Q_Y, make_desc(TERN_F32, {m, kOut}));
        if (all != nullptr) {
          const auto& bytes = all->args[TERN_MATMUL_Q_X].bytes;
          c.args[TERN_MATMUL_Q_X].bytes = {bytes.begin(), bytes.begin() + m * kIn * 4};
        }
        return c;
      };
      const OpCase all = with_rows(40, nullptr);
      const Outcome together = run_on(target, all);
      for (const std::int64_t m : {1, 6, 7, 16, 17, 31, 32, 33}) {
        EXPECT_EQ(std::memcmp(run_on(target, with_rows(m, &all)).bytes[TERN_MATMUL_Q_Y].data(),
                              together.bytes[TERN_MATMUL_Q_Y].data(), static_cast<std::size_t>(m * kOut * 4)),
                  0)
            << target << ", packing " << packing << ", " << m << " rows";
      }
    }
  }
}

}  // namespace
}  // namespace tern::test
