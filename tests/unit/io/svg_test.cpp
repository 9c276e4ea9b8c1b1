// Pictures: what is drawn lies where its numbers say, and foreign text stays text.
#include "io/svg.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>
#include <sstream>

namespace tern::io {
namespace {

// The points of the n-th curve.
std::vector<std::array<double, 2>> curve_of(const std::string& svg, std::size_t n) {
  const std::regex line("<polyline[^>]* points=\"([^\"]*)\"");
  std::vector<std::array<double, 2>> out;
  std::sregex_iterator it(svg.begin(), svg.end(), line);
  for (std::size_t i = 0; i < n && it != std::sregex_iterator(); ++i) ++it;
  if (it == std::sregex_iterator()) return out;
  std::istringstream text((*it)[1]);
  for (std::string point; text >> point;) {
    out.push_back({std::stod(point), std::stod(point.substr(point.find(',') + 1))});
  }
  return out;
}

TEST(Svg, TicksAreRoundAndFew) {
  for (const double length : {1e-9, 0.3, 1.0, 4.9, 5.0, 5.1, 99.0, 12345.0}) {
    const double step = tick_step(length);
    EXPECT_LE(length / step, 5 * (1 + 1e-9)) << length;
    EXPECT_GE(length / step, 1) << length;
    const double lead = step / std::pow(10.0, std::floor(std::log10(step) + 1e-9));
    EXPECT_TRUE(std::abs(lead - 1) < 1e-6 || std::abs(lead - 2) < 1e-6 || std::abs(lead - 5) < 1e-6) << step;
  }
}

TEST(Svg, ForeignTextStaysText) {
  EXPECT_EQ(escape_markup("<a b=\"c\">&\x1b"), "&lt;a b=&quot;c&quot;&gt;&amp;\xE2\x90\x9B");
  const std::string svg = line_plot({"</svg>", "<step>", {{"<b>", "#000000", {1, 2}, {1, 2}}, {"&", "#111111", {1}, {3}}}});
  EXPECT_EQ(svg.find("</svg>"), svg.rfind("</svg>"));
  EXPECT_EQ(svg.find("<b>"), std::string::npos);
}

TEST(LinePlot, PointsLieWhereTheirNumbersSay) {
  const std::string svg = line_plot({"loss", "step", {{"", "#000000", {10, 20, 40}, {3.0, 2.0, 1.0}}}});
  const auto at = curve_of(svg, 0);
  ASSERT_EQ(at.size(), 3U);
  EXPECT_NEAR((at[2][0] - at[1][0]) / (at[1][0] - at[0][0]), 2, 0.02);
  EXPECT_NEAR(at[1][1] - at[0][1], at[2][1] - at[1][1], 0.2);
  EXPECT_LT(at[0][1], at[2][1]) << "more is higher";
}

TEST(LinePlot, AGapStandsWhereANumberIsNone) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const std::string svg = line_plot({"loss", "step", {{"", "#000000", {1, 2, 3, 4, 5}, {3, 2, none, 2, 1}}}});
  EXPECT_EQ(curve_of(svg, 0).size(), 2U);
  EXPECT_EQ(curve_of(svg, 1).size(), 2U);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

// One value has no line; a plot of none, or of one value many times, has axes all the same.
TEST(LinePlot, FewAndEqualValuesAreDrawnToo) {
  EXPECT_NE(line_plot({"a", "step", {{"", "#000000", {1}, {0.5}}}}).find("<circle"), std::string::npos);
  const std::string level = line_plot({"a", "step", {{"", "#000000", {1, 2}, {0.5, 0.5}}}});
  ASSERT_EQ(curve_of(level, 0).size(), 2U);
  EXPECT_EQ(curve_of(level, 0)[0][1], curve_of(level, 0)[1][1]);
  for (const std::string& svg : {level, line_plot({"a", "step", {}})}) {
    EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
    EXPECT_EQ(svg.find("inf"), std::string::npos) << svg;
  }
}

}  // namespace
}  // namespace tern::io
