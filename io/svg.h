// Pictures as SVG text: one way of drawing for every plot of the program.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern::io {

// Text for XML and HTML. Control characters, which neither has a way to write, become their pictures (U+2400 and on).
[[nodiscard]] std::string escape_markup(std::string_view text);

// 1, 2 or 5 times a power of ten: the distance of the ticks on an axis of that length (> 0), at most five of them
// besides the first.
[[nodiscard]] double tick_step(double length);

// The colours of curves and points, one after the other: told apart by those who see red and green alike.
inline constexpr std::array<std::string_view, 6> kPlotColours = {"#2563eb", "#c2410c", "#15803d",
                                                                 "#7e22ce", "#a16207", "#0e7490"};
inline constexpr std::string_view kGridColour = "#d1d9e0";

class Svg {
 public:
  // `label`: what the picture shows, for those who don't see it.
  explicit Svg(std::string label) : label_(std::move(label)) {}

  void line(std::array<double, 4> ends, std::string_view colour, std::string_view width = {});  // x1 y1 x2 y2
  void text(double x, double y, std::string_view anchor, std::string_view text);                // start, middle, end
  void text_upwards(double x, double y, std::string_view text);                                 // its middle
  void rect(double x, double y, double width, double height, std::string_view colour);
  // One that a reader's pointer asks about.
  void bar(double x, double y, double width, double height, std::string_view tip);
  void circle(double x, double y, double radius, std::string_view colour, std::string_view kind);
  void curve(std::span<const std::array<double, 2>> points, std::string_view colour, std::string_view width);

  // The whole file; on a white ground, or on none for a page that has its own.
  [[nodiscard]] std::string finish(double width, double height, bool ground) const;

 private:
  std::string label_;
  std::string body_;
};

// One curve of a plot; `y` has a value for each `x`, and one that isn't finite leaves a gap.
struct Curve {
  std::string name;
  std::string_view colour;
  std::vector<double> x, y;
  bool points = false;  // a mark at each value too: of a few that lie far apart
};

struct LinePlot {
  std::string title;
  std::string x_name;
  std::vector<Curve> curves;  // named in a legend where there is more than one
};

// Both axes linear, as wide as the values.
[[nodiscard]] std::string line_plot(const LinePlot& plot);

}  // namespace tern::io
