// Curves over linear axes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/strings.h"
#include "io/svg.h"

namespace tern::io {
namespace {

constexpr double kWidth = 720, kHeight = 420, kLeft = 72, kRight = 20, kTop = 36, kBottom = 48;

// The values that an axis spans: of steps as they are, else widened to whole ticks.
struct Axis {
  double from = std::numeric_limits<double>::infinity();
  double to = -std::numeric_limits<double>::infinity();
  double step = 1;

  void take(double value) {
    from = std::min(from, value);
    to = std::max(to, value);
  }
  void settle(bool whole) {
    if (from > to) from = to = 0;
    if (from == to) {  // one value stands in the middle
      const double room = from == 0 ? 1 : std::abs(from) * 0.1;
      from -= whole ? 1 : room;
      to += whole ? 1 : room;
    }
    step = tick_step(to - from);
    if (whole) step = std::max(step, 1.0);
    if (whole) return;
    from = std::floor(from / step + 1e-9) * step;
    to = std::ceil(to / step - 1e-9) * step;
  }
  // 0 at `from`, 1 at `to`.
  [[nodiscard]] double share(double value) const { return (value - from) / (to - from); }
  [[nodiscard]] std::vector<double> ticks() const {
    std::vector<double> out;
    const auto first = std::lround(std::ceil(from / step - 1e-9));
    const auto last = std::lround(std::floor(to / step + 1e-9));
    for (auto i = first; i <= last; ++i) out.push_back(step * static_cast<double>(i));
    return out;
  }
  // As many digits as the distance of ticks has; tiny and huge numbers as powers of ten.
  [[nodiscard]] std::string name(double tick) const {
    if (std::abs(tick) < step * 1e-6) return "0";
    if (step < 1e-4 || std::abs(tick) >= 1e7) {
      const int power = static_cast<int>(std::floor(std::log10(std::abs(tick)) + 1e-9));
      const double digits = std::round(tick / std::pow(10.0, power) * 1000) / 1000;
      return cat(digits, "e", power);
    }
    return fixed(tick, std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9))));
  }
};

struct Axes {
  Axis x, y;
  [[nodiscard]] std::array<double, 2> at(double x_value, double y_value) const {
    return {kLeft + x.share(x_value) * (kWidth - kLeft - kRight),
            kHeight - kBottom - y.share(y_value) * (kHeight - kTop - kBottom)};
  }
};

void draw_axes(Svg& svg, const Axes& axes, const LinePlot& plot) {
  const double bottom = kHeight - kBottom;
  for (const double tick : axes.y.ticks()) {
    const double y = axes.at(axes.x.from, tick)[1];
    svg.line({kLeft, y, kWidth - kRight, y}, kGridColour);
    svg.text(kLeft - 8, y + 4, "end", axes.y.name(tick));
  }
  for (const double tick : axes.x.ticks()) {
    const double x = axes.at(tick, axes.y.from)[0];
    svg.line({x, bottom, x, bottom + 4}, kGridColour);
    svg.text(x, bottom + 18, "middle", axes.x.name(tick));
  }
  svg.text((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", plot.x_name);
  svg.text(kLeft, kTop - 16, "start", plot.title);
}

void draw_curve(Svg& svg, const Axes& axes, const Curve& curve) {
  std::vector<std::array<double, 2>> points;
  const auto end_piece = [&] {
    if (points.size() > 1) svg.curve(points, curve.colour, "2");
    if (curve.points || points.size() == 1) {
      for (const auto& [x, y] : points) svg.circle(x, y, 3.5, curve.colour, "value");
    }
    points.clear();
  };
  for (std::size_t i = 0; i < curve.x.size(); ++i) {
    if (std::isfinite(curve.y[i])) {
      points.push_back(axes.at(curve.x[i], curve.y[i]));
    } else {
      end_piece();
    }
  }
  end_piece();
}

}  // namespace

std::string line_plot(const LinePlot& plot) {
  Axes axes;
  for (const Curve& curve : plot.curves) {
    for (std::size_t i = 0; i < curve.x.size(); ++i) {
      if (!std::isfinite(curve.y[i])) continue;
      axes.x.take(curve.x[i]);
      axes.y.take(curve.y[i]);
    }
  }
  axes.x.settle(true);
  axes.y.settle(false);
  Svg svg(cat(plot.title, " by ", plot.x_name));
  draw_axes(svg, axes, plot);
  for (const Curve& curve : plot.curves) draw_curve(svg, axes, curve);
  if (plot.curves.size() > 1) {
    double x = kWidth - kRight;
    for (auto curve = plot.curves.rbegin(); curve != plot.curves.rend(); ++curve) {
      x -= 7.0 * static_cast<double>(curve->name.size());
      svg.text(x, kTop - 16, "start", curve->name);
      svg.rect(x - 16, kTop - 25, 10, 10, curve->colour);
      x -= 32;
    }
  }
  return svg.finish(kWidth, kHeight, true);
}

}  // namespace tern::io
