// The picture of a roofline: points lie where their numbers say, and below the roof.
#include "engine/roofline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>

namespace tern::engine {
namespace {

std::vector<std::array<double, 2>> circles(const std::string& svg) {
  std::vector<std::array<double, 2>> out;
  const std::regex circle("<circle class=\"phase\"[^>]* cx=\"([0-9.]+)\" cy=\"([0-9.]+)\"");
  for (std::sregex_iterator it(svg.begin(), svg.end(), circle), end; it != end; ++it)
    out.push_back({std::stod((*it)[1]), std::stod((*it)[2])});
  return out;
}

PhaseRate phase(const char* name, double gflops, double gbps) {
  PhaseRate rate{name, 4, 100};
  rate.prompt_length = 64;
  rate.seconds = 2;
  rate.gflops = gflops;
  rate.gbps = gbps;
  return rate;
}

TEST(Roofline, PointsLieWhereTheirRatesSay) {
  // 1, 10 and 100 FLOP a byte at 10, 100 and 1,000 GFLOP/s: on a line, equally far apart.
  const Roofline roof = {
      "", 2, {1000, 40}, {phase("decode", 10, 10), phase("decode", 100, 10), phase("prefill", 1000, 10)}};
  const std::string svg = roofline_svg({roof});
  const auto at = circles(svg);
  ASSERT_EQ(at.size(), 3U);
  EXPECT_NEAR(at[1][0] - at[0][0], at[2][0] - at[1][0], 0.2);
  EXPECT_NEAR(at[0][1] - at[1][1], at[1][1] - at[2][1], 0.2);
  EXPECT_GT(at[1][0], at[0][0]);
  EXPECT_LT(at[1][1], at[0][1]) << "more is higher";
  for (const char* part : {"threads 2: 1000 GFLOP/s, 40.0 GB/s", "3: prefill, prompt 64, batch 4: 50.0 tokens/s"})
    EXPECT_NE(svg.find(part), std::string::npos) << svg;
  // The level part of the roof passes through the third point, which reaches what the machine computes.
  const std::regex level("<line stroke=\"#2563eb\"[^>]* y1=\"([0-9.]+)\" x2=\"[0-9.]+\" y2=\"\\1\"");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(svg, found, level)) << svg;
  EXPECT_NEAR(std::stod(found[1]), at[2][1], 0.2);
}

TEST(Roofline, EveryNumberOfThreadsHasItsRoof) {
  const Roofline one = {"", 1, {500, 30}, {phase("decode", 20, 10)}};
  const Roofline two = {"", 2, {1000, 40}, {phase("decode", 20, 10)}};
  const std::string svg = roofline_svg({one, two});
  EXPECT_NE(svg.find("#2563eb"), std::string::npos);
  EXPECT_NE(svg.find("#c2410c"), std::string::npos);
  EXPECT_EQ(circles(svg)[0], circles(svg)[1]);
  // Numbers of points in one place don't lie on each other.
  const std::regex number("<text x=\"([0-9.]+)\" y=\"([0-9.]+)\" text-anchor=\"start\">([12])</text>");
  std::vector<double> heights;
  for (std::sregex_iterator it(svg.begin(), svg.end(), number), end; it != end; ++it)
    heights.push_back(std::stod((*it)[2]));
  ASSERT_EQ(heights.size(), 2U) << svg;
  EXPECT_GE(std::abs(heights[0] - heights[1]), 12);
}

}  // namespace
}  // namespace tern::engine
