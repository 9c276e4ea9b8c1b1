#include "base/peak_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace tern {
namespace {

TEST(PeakMemory, IsThatSinceItWasForgotten) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const auto touch = [] {
    const auto memory = std::make_unique_for_overwrite<char[]>(kBytes);
    std::memset(memory.get(), 1, kBytes);
    return memory[kBytes / 2];
  };
  forget_peak_memory();
  const auto before = peak_memory();
  ASSERT_GT(before, 0U);
  EXPECT_EQ(touch(), 1);
  EXPECT_GE(peak_memory(), before + kBytes * 9 / 10);
  forget_peak_memory();
  EXPECT_LT(peak_memory(), before + kBytes / 2);
}

}  // namespace
}  // namespace tern
