// What the emulation of kernels does, against plain arithmetic, and that it finds misuse.
#include <bit>
#include <cmath>

#include "tests/fakes/cuda/emulator/half.h"
#include "tests/unit/fake_cuda/support.h"

namespace tern::cuda::fake_test {
namespace {

using Kernels = FakeCuda;

TEST_F(Kernels, EveryThreadOfAGridRunsOnce) {
  const emulated::Grid grid{{5, 3, 2}, {4, 3, 2}, 0};
  const std::size_t threads = 30 * 24;
  const CUdeviceptr out = device(std::vector<int>(threads, 0));
  ASSERT_EQ(launch("where_am_i", grid, out), CUDA_SUCCESS);
  EXPECT_EQ(host<int>(out, threads), std::vector<int>(threads, 1));
}

TEST_F(Kernels, LargeGridsRunOverTwoThreadsOfTheHost) {
  const std::size_t threads = 300 * 1024;
  const CUdeviceptr out = device(std::vector<int>(threads, 0));
  ASSERT_EQ(launch("where_am_i", grid(300, 1024), out), CUDA_SUCCESS);
  EXPECT_EQ(host<int>(out, threads), std::vector<int>(threads, 1));
}

class Products : public FakeCuda {
 protected:
  // Small whole numbers: every product and sum is exact.
  static int a(int i, int k) { return (i * 7 + k * 3) % 11 - 5; }
  static int b(int k, int j) { return (k * 5 + j * 2) % 9 - 4; }
  template <typename Make>
  void fill(Make&& make) {
    for (int i = 0; i < 16; ++i) {
      for (int k = 0; k < 16; ++k) a_.push_back(make(static_cast<float>(a(i, k))));
    }
    for (int k = 0; k < 16; ++k) {
      for (int j = 0; j < 8; ++j) b_.push_back(make(static_cast<float>(b(k, j))));
    }
  }
  static std::vector<float> expected(float begin) {
    std::vector<float> d;
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 8; ++j) {
        int sum = 0;
        for (int k = 0; k < 16; ++k) sum += a(i, k) * b(k, j);
        d.push_back(begin + static_cast<float>(sum));
      }
    }
    return d;
  }
  std::vector<std::uint16_t> a_, b_;
};

TEST_F(Products, FragmentsOfTheMatrixUnitsAreThoseOfPtx) {
  fill([](float value) { return bf16(value); });
  const CUdeviceptr d = device(std::vector<float>(128, 2.0F));
  ASSERT_EQ(launch("product_bf16", grid(1, 32), device(a_), device(b_), d), CUDA_SUCCESS);
  EXPECT_EQ(host<float>(d, 128), expected(2.0F));
}

TEST_F(Products, F16) {
  fill([](float value) { return emulated::float_to_half(value); });
  const CUdeviceptr d = device(std::vector<float>(128, 2.0F));
  ASSERT_EQ(launch("product_f16", grid(1, 32), device(a_), device(b_), d), CUDA_SUCCESS);
  EXPECT_EQ(host<float>(d, 128), expected(2.0F));
}

TEST_F(Products, TilesByCopiesAndMatrixLoads) {
  fill([](float value) { return bf16(value); });
  const CUdeviceptr d = device(std::vector<float>(128, 2.0F));
  ASSERT_EQ(launch("product_by_tiles", grid(1, 32), device(a_), device(b_), d), CUDA_SUCCESS);
  EXPECT_EQ(host<float>(d, 128), expected(0.0F));
}

TEST_F(Kernels, MatrixLoads) {
  std::vector<std::uint16_t> in(256);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint16_t>(i);
  for (const bool transposed : {false, true}) {
    const CUdeviceptr out = device(std::vector<std::uint32_t>(128, 0));
    ASSERT_EQ(launch("matrices", grid(1, 32), device(in), out, transposed ? 1 : 0), CUDA_SUCCESS);
    const auto r = host<std::uint32_t>(out, 128);
    for (unsigned i = 0; i < 4; ++i) {
      for (unsigned lane = 0; lane < 32; ++lane) {
        const unsigned y = lane / 4, x = lane % 4 * 2;
        const unsigned low = transposed ? 8 * x + y : 8 * y + x, high = transposed ? 8 * (x + 1) + y : 8 * y + x + 1;
        EXPECT_EQ(r[32 * i + lane], (64 * i + low) | (64 * i + high) << 16);
      }
    }
  }
}

TEST_F(Kernels, ShufflesAndVotes) {
  const CUdeviceptr out = device(std::vector<int>(64 * 8, -1));
  ASSERT_EQ(launch("shuffles", grid(1, 64), out), CUDA_SUCCESS);
  const auto got = host<int>(out, 64 * 8);
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < 32; lane += 3) ballot |= 1U << lane;
  for (int thread = 0; thread < 64; ++thread) {
    const int lane = thread % 32;
    const int* const at = got.data() + static_cast<std::ptrdiff_t>(thread) * 8;
    EXPECT_EQ(at[0], 5);
    EXPECT_EQ(at[1], lane ^ 3);
    EXPECT_EQ(at[2], lane < 2 ? lane : lane - 2);
    EXPECT_EQ(at[3], lane % 8 < 6 ? lane + 2 : lane);
    EXPECT_EQ(static_cast<unsigned>(at[4]), ballot);
    EXPECT_EQ(at[5], 1);
    EXPECT_EQ(at[6], lane ^ 1);
    EXPECT_EQ(at[7], lane < 16 ? (lane + 1) % 16 : -1);
  }
}

TEST_F(Kernels, SumsOfBlocks) {
  const int blocks = 40, n = 1000;
  std::vector<float> in(static_cast<std::size_t>(blocks) * n), sums(static_cast<std::size_t>(blocks));
  for (std::size_t i = 0; i < in.size(); ++i) {
    in[i] = static_cast<float>(i % 13);
    sums[i / n] += in[i];
  }
  for (const unsigned threads : {32U, 96U, 1024U}) {
    const CUdeviceptr out = device(std::vector<float>(static_cast<std::size_t>(blocks)));
    ASSERT_EQ(launch("sums", grid(blocks, threads), device(in), out, n), CUDA_SUCCESS);
    EXPECT_EQ(host<float>(out, sums.size()), sums);
  }
}

TEST_F(Kernels, CopiesComeAsLateAsTheyMay) {
  const CUdeviceptr out = device(std::vector<std::uint32_t>(9, 0));
  ASSERT_EQ(launch("late_copy", grid(1, 32), device(std::vector<std::uint32_t>(4, 9)), out), CUDA_SUCCESS);
  EXPECT_EQ(host<std::uint32_t>(out, 9), (std::vector<std::uint32_t>{9, 7, 7, 9, 9, 7, 9, 9, 0}));
}

TEST_F(Kernels, SharedMemoryBeginsAsNaN) {
  const CUdeviceptr out = device(std::vector<std::uint32_t>(3, 0));
  ASSERT_EQ(launch("poison", grid(3, 1, 64), out), CUDA_SUCCESS);
  EXPECT_EQ(host<std::uint32_t>(out, 3), std::vector<std::uint32_t>(3, 0xffffffffU));
}

TEST_F(Kernels, ThreadsThatReturnedCountAsArrived) {
  const CUdeviceptr out = device(std::vector<int>{0});
  ASSERT_EQ(launch("early_return", grid(1, 96), out), CUDA_SUCCESS);
  EXPECT_EQ(host<int>(out, 1)[0], 64);
}

TEST_F(Kernels, MissingLane) {
  expect_misuse("missing_lane", "reads lane 3", grid(1, 32), device(std::vector<int>(32)));
}
TEST_F(Kernels, BlockTooSmallForItsShuffles) {
  expect_misuse("sums", "which doesn't take part", grid(1, 40), device(std::vector<float>(100)),
                device(std::vector<float>(1)), 100);
}
TEST_F(Kernels, BarrierThatAWarpMisses) {
  expect_misuse("barrier_in_a_lane", "deadlock", grid(1, 64), device(std::vector<int>(64)));
}
TEST_F(Kernels, MixedMeetings) {
  expect_misuse("mixed_meetings", ", while other lanes of the warp are in __", grid(1, 32),
                device(std::vector<int>(32)));
}
TEST_F(Kernels, ProductOfHalfAWarp) {
  expect_misuse("half_a_product", "needs all 32 lanes", grid(1, 32), device(std::vector<float>(32)));
}
TEST_F(Kernels, Trap) { expect_misuse("trap", "thread (1, 0, 0): __trap", grid(1, 32), device(std::vector<int>(32))); }
TEST_F(Kernels, MisalignedCopy) {
  expect_misuse("misaligned_copy", "not aligned", grid(1, 1), device(std::vector<std::uint16_t>(32)));
}
#if defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(Kernels, MisalignedRead) {
  expect_misuse("misaligned", "isn't aligned to 16 bytes", grid(1, 1), device(std::vector<float>(8)),
                device(std::vector<float>(1)));
}
TEST_F(Kernels, BeyondAnArray) {
  expect_misuse("beyond_array", "the index 8 is beyond", grid(1, 1), device(std::vector<int>(1)), 8);
}
#endif

TEST_F(Kernels, LaunchesThatCantBe) {
  const CUdeviceptr out = device(std::vector<int>(4, 0));
  EXPECT_EQ(launch("nothing", grid(0, 32)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch("nothing", grid(1, 0)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch("nothing", grid(1, 1025)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch("nothing", {{1, 65536, 1}, {1, 1, 1}, 0}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch("nothing", {{1, 1, 1}, {32, 33, 1}, 0}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch("at_most_64", grid(1, 96), out), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch("at_most_64", grid(1, 64), out), CUDA_SUCCESS);
  EXPECT_EQ(launch("poison", grid(1, 1, 49153), out), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(fake::FuncSetAttribute(function("poison"), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 << 10),
            CUDA_SUCCESS);
  EXPECT_EQ(launch("poison", grid(1, 1, 227 << 10), out), CUDA_SUCCESS);
  EXPECT_EQ(
      fake::FuncSetAttribute(function("poison"), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (227 << 10) + 1),
      CUDA_ERROR_INVALID_VALUE);
  CUfunction none = nullptr;
  EXPECT_EQ(fake::ModuleGetFunction(&none, module_, "no_such"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(sync(), CUDA_SUCCESS);
}

TEST(Half, RoundsToTheNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = emulated::half_to_float_plain(half);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(emulated::half_to_float(half)));
    if (std::isnan(value)) continue;
    EXPECT_EQ(emulated::float_to_half_plain(value), half);
  }
  for (std::uint64_t bits = 0; bits < 0x100000000; bits += 4099) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    EXPECT_EQ(emulated::float_to_half_plain(value), emulated::float_to_half(value)) << value;
  }
}

}  // namespace
}  // namespace tern::cuda::fake_test
