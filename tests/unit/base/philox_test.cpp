// Philox against the known answers that its authors publish: if one of these is wrong, every draw and every dropped
// element of a training run is another one than the contract says.
#include "base/philox.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

// Random123 1.14, tests/kat_vectors, the lines of philox4x32 with 10 rounds: counter, key, answer.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(0xffffffffffffffff, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformsAreBelowOne) {
  EXPECT_EQ(uniform24(0), 0.0F);
  EXPECT_EQ(uniform24(0xff), 0.0F);  // the low byte takes no part
  EXPECT_EQ(uniform24(0xffffffff), 1.0F - 0x1p-24F);
}

}  // namespace
}  // namespace tern
