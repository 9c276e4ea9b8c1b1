// If these fail, patches of an image stand elsewhere than where the tower learned them.
#include "models/vision_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>

#include "checkpoint/safetensors.h"

namespace tern::models {
namespace {

// transformers' own numbers of several grids (script/golden.d/images_models.py).
class VisionGrid : public testing::TestWithParam<int> {
 protected:
  VisionGrid()
      : file_(checkpoint::Safetensors::open(std::filesystem::path(TERN_TEST_DATA) / "golden/vision-grid.safetensors")
                  .value()) {
    const auto said = numbers<std::int32_t>("grid");
    grid_ = {1, said[0], said[1]};
    merge_ = said[2];
    window_ = said[3];
    side_ = said[4];
  }
  template <typename T>
  [[nodiscard]] std::vector<T> numbers(const char* name) const {
    const auto* tensor = file_.tensor(std::to_string(GetParam()) + "/" + name);
    EXPECT_NE(tensor, nullptr) << name;
    std::vector<T> out(tensor->bytes.size() / sizeof(T));
    std::memcpy(out.data(), tensor->bytes.data(), tensor->bytes.size());
    return out;
  }

  checkpoint::Safetensors file_;
  nn::PatchGrid grid_;
  std::int64_t merge_ = 0, window_ = 0, side_ = 0;
};

TEST_P(VisionGrid, PlacesPatchesAsTransformers) {
  const auto want = numbers<std::int32_t>("places");
  std::vector<std::int32_t> got;
  for (const PatchPlace& place : patch_places(grid_, merge_)) {
    got.push_back(place.row);
    got.push_back(place.column);
  }
  EXPECT_EQ(got, want);
}

TEST_P(VisionGrid, CutsWindowsAsTransformers) {
  const WindowOrder windows = window_order(grid_, merge_, window_);
  EXPECT_EQ(windows.order, numbers<std::int32_t>("order"));
  EXPECT_EQ(windows.bounds, numbers<std::int32_t>("bounds"));
  const auto inverse = inverse_of(windows.order);
  for (std::size_t i = 0; i < inverse.size(); ++i)
    EXPECT_EQ(windows.order[static_cast<std::size_t>(inverse[i])], static_cast<std::int32_t>(i));
}

// The four taps of a patch are the same sum, whatever weightless row a tap on the edge names.
TEST_P(VisionGrid, SpreadsLearnedPositionsAsTransformers) {
  const auto rows = numbers<std::int32_t>("rows");
  const auto weights = numbers<float>("weights");
  const Interpolation got = interpolate(grid_, patch_places(grid_, merge_), side_);
  const std::size_t patches = rows.size() / 4;
  ASSERT_EQ(got.rows[0].size(), patches);
  for (std::size_t patch = 0; patch < patches; ++patch) {
    std::vector<float> want(static_cast<std::size_t>(side_ * side_)), have(want.size());
    for (std::size_t tap = 0; tap < 4; ++tap) {
      want[static_cast<std::size_t>(rows[patch * 4 + tap])] += weights[patch * 4 + tap];
      have[static_cast<std::size_t>(got.rows[tap][patch])] += got.weights[tap][patch];
    }
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(have[i], want[i], 1e-6) << "patch " << patch;
  }
}

INSTANTIATE_TEST_SUITE_P(Grids, VisionGrid, testing::Range(0, 6));

TEST(VisionRope, TurnsAQuarterByRowsAndAQuarterByColumns) {
  const AxialRope rope = axial_rope({{3, 5}}, 8, 10000.0);
  const std::vector<double> phases = {3.0, 3.0 / 100.0, 5.0, 5.0 / 100.0};  // 10000^(-2 / 4)
  ASSERT_EQ(rope.cos.size(), phases.size());
  for (std::size_t i = 0; i < phases.size(); ++i) {
    EXPECT_NEAR(rope.cos[i], std::cos(phases[i]), 1e-6);
    EXPECT_NEAR(rope.sin[i], std::sin(phases[i]), 1e-6);
  }
}

TEST(Mrope, CountsRowsAndColumnsOfMergedPatches) {
  const nn::PatchGrid grid{1, 4, 6};
  const MropePosition last = mrope_position(grid, 2, 10, 5);  // of 2 x 3 features
  EXPECT_EQ(std::vector<std::int64_t>(std::begin(last.axis), std::end(last.axis)),
            (std::vector<std::int64_t>{10, 11, 12}));
  EXPECT_EQ(mrope_extent(grid, 2), 3);
}

TEST(Mrope, SectionsFollowOneAnotherOrTakeTurns) {
  const std::vector<std::int64_t> section = {3, 2, 3};
  std::vector<int> apart, in_turn;
  for (std::int64_t pair = 0; pair < 8; ++pair) {
    apart.push_back(mrope_axis(section, false, pair));
    in_turn.push_back(mrope_axis(section, true, pair));
  }
  EXPECT_EQ(apart, (std::vector<int>{0, 0, 0, 1, 1, 2, 2, 2}));
  EXPECT_EQ(in_turn, (std::vector<int>{0, 1, 2, 0, 1, 2, 0, 0}));
}

}  // namespace
}  // namespace tern::models
