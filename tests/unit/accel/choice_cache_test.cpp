// If these fail, a resumed run may pick other kernels than the first one and differ from it in its last bits.
#include "accel/choice_cache.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "fake_backend.h"
#include "tern/accel_ops.h"
#include "tests/support/temp_dir.h"

namespace tern::accel::test {
namespace {

OpDesc scale_of(std::int64_t rows) {
  OpDesc desc;
  desc.op = TERN_OP_SCALE;
  desc.args = {make_desc(TERN_F32, {rows, 8}), make_desc(TERN_F32, {1}), make_desc(TERN_F32, {rows, 8})};
  return desc;
}

class Choices : public testing::Test {
 protected:
  void SetUp() override { fake_state() = FakeState{}; }
  ::tern::test::TempDir scratch_;
  const std::filesystem::path dir_ = scratch_ / "choices";
};

TEST_F(Choices, AreMeasuredOnceAndThenRead) {
  const auto device = open_fake();
  {
    ChoiceCache cache(*device, dir_);
    (void)cache.plan(device, scale_of(4));
    cache.save();
  }
  ChoiceCache cache(*device, dir_);
  (void)cache.plan(device, scale_of(4));
  EXPECT_EQ(fake_state().plans_measured, 1);
  (void)cache.plan(device, scale_of(5));
  EXPECT_EQ(fake_state().plans_measured, 2) << "another shape is another choice";
}

TEST_F(Choices, OfACheckpointWinOverNewOnes) {
  const auto device = open_fake();
  ChoiceCache cache;
  cache.replay({{scale_of(4).key(), "recorded"}});
  EXPECT_STREQ(cache.plan(device, scale_of(4)).info().choice, "recorded");
  EXPECT_EQ(cache.used().at(scale_of(4).key()), "recorded");
  EXPECT_EQ(fake_state().plans_measured, 0);
}

TEST_F(Choices, ThatTheDeviceNoLongerHasAreMadeAnew) {
  const auto device = open_fake();
  fake_state().forgotten_choices = {"gone"};
  ChoiceCache cache;
  cache.replay({{scale_of(4).key(), "gone"}});
  EXPECT_STREQ(cache.plan(device, scale_of(4)).info().choice, "fast");
  EXPECT_EQ(cache.used().at(scale_of(4).key()), "fast");
  (void)cache.plan(device, scale_of(4));
  EXPECT_EQ(fake_state().plans_measured, 1) << "the new choice is remembered";
}

}  // namespace
}  // namespace tern::accel::test
