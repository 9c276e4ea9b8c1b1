// If these fail, a resumed run may pick other kernels than the first one and differ from it in its last bits.
#include "accel/choice_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

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

// A field that the key forgets gives one call the kernel of another.
TEST(OpDescKey, DiffersWithEveryField) {
  const tern_scheme scheme{TERN_PACK_F8_BLOCK, 8, 128, 128, TERN_F32, 0};
  OpDesc desc;
  desc.op = TERN_OP_MATMUL_Q;
  desc.args = {make_desc(TERN_F32, {4, 256}), make_quantised_desc(TERN_F32, scheme, 256, 256), absent_desc(),
               with_dynamic(make_desc(TERN_F32, {4, 256}), 0, 1)};
  desc.attrs = std::vector<std::byte>(8);
  desc.alias = {-1, -1, -1, -1};
  const std::vector<std::function<void(OpDesc&)>> changes = {
      [](OpDesc& d) { d.op = TERN_OP_MATMUL; },
      [](OpDesc& d) { d.needs = TERN_NEED_DETERMINISTIC; },
      [](OpDesc& d) { d.accumulate = 8; },
      [](OpDesc& d) { d.attrs[7] = std::byte{1}; },
      [](OpDesc& d) { d.alias[3] = 0; },
      [](OpDesc& d) { d.args[2] = make_desc(TERN_F32, {256}); },
      [](OpDesc& d) { d.args[0].dtype = TERN_BF16; },
      [](OpDesc& d) { d.args[0].shape[0] = 5; },
      [](OpDesc& d) { d.args[0].strides[0] = 512; },
      [](OpDesc& d) { d.args[1].layout = 1; },
      [](OpDesc& d) { d.args[1].dtype = TERN_BF16; },
      [](OpDesc& d) { d.args[1].scheme.packing = TERN_PACK_ROW_INT8; },
      [](OpDesc& d) { d.args[1].scheme.bits = 4; },
      [](OpDesc& d) { d.args[1].scheme.group_rows = 64; },
      [](OpDesc& d) { d.args[1].scheme.group_cols = 64; },
      [](OpDesc& d) { d.args[1].scheme.scale_dtype = TERN_F16; },
      [](OpDesc& d) { d.args[1].scheme.flags = TERN_SCHEME_DOUBLE_QUANT; },
      [](OpDesc& d) { d.args[3].dynamic_dim = 1; },
      [](OpDesc& d) { d.args[3].count_slot = 2; },
  };
  std::set<std::string> keys = {desc.key()};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    OpDesc changed = desc;
    changes[i](changed);
    EXPECT_TRUE(keys.insert(changed.key()).second) << "change " << i << ": " << changed.key();
  }
}

}  // namespace
}  // namespace tern::accel::test
