// If these fail, runs take more device memory than planned, or die of memory that they could have had.
#include "accel/allocator.h"

#include <gtest/gtest.h>

#include "fake_backend.h"

namespace tern::accel::test {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class Allocator : public testing::Test {
 protected:
  void SetUp() override { fake_state() = FakeState{}; }
};

TEST_F(Allocator, KeepsWhatIsGivenBackForTheNextRequest) {
  auto allocator = CachingAllocator::create(open_fake());
  { const auto block = allocator->allocate(4 * kMiB, "a"); }
  const auto again = allocator->allocate(4 * kMiB, "b");
  EXPECT_EQ(fake_state().creates, 1);
  EXPECT_EQ(allocator->statistics().hits, 1U);
  EXPECT_EQ(allocator->statistics().misses, 1U);
}

TEST_F(Allocator, ABlockIsReusedForWhatItWasMadeForAlone) {
  auto allocator = CachingAllocator::create(open_fake());
  { const auto plain = allocator->allocate(4 * kMiB, "a"); }
  EXPECT_EQ(fake_state().flags, 0U);
  { const auto shared = allocator->allocate(4 * kMiB, "b", TERN_BUFFER_COLLECTIVES); }
  EXPECT_EQ(fake_state().flags, static_cast<std::uint32_t>(TERN_BUFFER_COLLECTIVES));
  EXPECT_EQ(fake_state().creates, 2);
  const auto again = allocator->allocate(4 * kMiB, "c", TERN_BUFFER_COLLECTIVES);
  EXPECT_EQ(fake_state().creates, 2);
  allocator->empty_cache();
  EXPECT_EQ(fake_state().allocated, 4 * kMiB);
}

TEST_F(Allocator, CountsInUseReservedAndPeaks) {
  auto allocator = CachingAllocator::create(open_fake());
  auto a = allocator->allocate(4 * kMiB, "a");
  auto b = allocator->allocate(6 * kMiB, "b");
  EXPECT_EQ(allocator->statistics().in_use, 10 * kMiB);
  b = {};
  EXPECT_EQ(allocator->statistics().in_use, 4 * kMiB);
  EXPECT_EQ(allocator->statistics().reserved, 10 * kMiB);
  EXPECT_EQ(allocator->statistics().peak_in_use, 10 * kMiB);
  allocator->reset_peaks();
  EXPECT_EQ(allocator->statistics().peak_in_use, 4 * kMiB);
  allocator->empty_cache();
  EXPECT_EQ(allocator->statistics().reserved, 4 * kMiB);
  EXPECT_EQ(fake_state().allocated, 4 * kMiB);
}

// A model is thousands of blocks of a few sizes: what rounding adds to each, it adds to the whole model.
TEST_F(Allocator, TakesLittleMoreThanAskedFor) {
  auto allocator = CachingAllocator::create(open_fake());
  for (const std::uint64_t bytes : {513ULL, 100'000ULL, 576ULL * 576 * 2, 1536ULL * 576 * 2, 1536ULL * 576 * 4}) {
    const auto block = allocator->allocate(bytes, "a weight");
    EXPECT_GE(block.bytes(), bytes);
    EXPECT_LE(block.bytes(), bytes + std::max<std::uint64_t>(511, bytes / 16)) << bytes;
  }
}

TEST_F(Allocator, EmptiesTheCacheAndAsksOnceMoreWhenTheDeviceIsFull) {
  auto allocator = CachingAllocator::create(open_fake());
  { const auto block = allocator->allocate(40 * kMiB, "a"); }
  const auto other = allocator->allocate(50 * kMiB, "b");  // 64 MiB in all: only without the cached 40
  EXPECT_EQ(allocator->statistics().retries, 1U);
  EXPECT_EQ(fake_state().destroys, 1);
}

TEST_F(Allocator, SaysWhatWasAskedForWhenMemoryDoesNotSuffice) {
  auto allocator = CachingAllocator::create(open_fake());
  try {
    (void)allocator->allocate(100 * kMiB, "the key-value cache");
    FAIL() << "100 MiB of 64 were given";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().kind, ErrorKind::device);
    EXPECT_EQ(failure.error().problem,
              "fake:0 cannot allocate 100.0 MiB for the key-value cache: this run uses 0 B, and 64.0 MiB are free");
  }
}

TEST_F(Allocator, ADeviceThatIsFullIsADeviceErrorInItsOwnWords) {
  try {
    (void)open_fake()->allocate(100 * kMiB, "weights");
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().kind, ErrorKind::device);
    EXPECT_NE(failure.error().problem.find("the fake device is full"), std::string::npos);
  }
}

}  // namespace
}  // namespace tern::accel::test
