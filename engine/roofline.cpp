#include "engine/roofline.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/strings.h"
#include "io/svg.h"

namespace tern::engine {
namespace {

constexpr double kLeft = 64, kTop = 20, kPlotWidth = 520, kPlotHeight = 360, kListLeft = 610, kLine = 18, kBelow = 48;

double intensity(double gflops, double gbps) { return gflops / gbps; }

// Both axes in decades, wide enough for roofs and points.
struct Axes {
  double x0 = 1e30, x1 = 0, y0 = 1e30, y1 = 0;

  void take(double x, double y) {
    x0 = std::min(x0, x);
    x1 = std::max(x1, x);
    y0 = std::min(y0, y);
    y1 = std::max(y1, y);
  }
  void round_outwards() {
    const auto down = [](double value) { return std::pow(10.0, std::floor(std::log10(value * 0.9))); };
    const auto up = [](double value) { return std::pow(10.0, std::ceil(std::log10(value * 1.1))); };
    x0 = down(x0);
    x1 = up(x1);
    y0 = down(y0);
    y1 = up(y1);
  }
  [[nodiscard]] double x(double value) const { return kLeft + std::log(value / x0) / std::log(x1 / x0) * kPlotWidth; }
  [[nodiscard]] double y(double value) const {
    return kTop + (1 - std::log(value / y0) / std::log(y1 / y0)) * kPlotHeight;
  }
};

Axes axes_of(const std::vector<Roofline>& rooflines) {
  Axes axes;
  for (const Roofline& roof : rooflines) {
    const double ridge = intensity(roof.machine.gflops, roof.machine.gbps);
    axes.take(ridge, roof.machine.gflops);
    axes.take(ridge * 4, roof.machine.gflops);
    for (const PhaseRate& phase : roof.phases) axes.take(intensity(phase.gflops, phase.gbps), phase.gflops);
  }
  axes.round_outwards();
  return axes;
}

void draw_axes(io::Svg& svg, const Axes& axes) {
  const double right = kLeft + kPlotWidth;
  const double bottom = kTop + kPlotHeight;
  const auto ticks = [](double from, double to) {
    std::vector<double> values;
    for (double tick = from; tick <= to * 1.001; tick *= 10) values.push_back(tick);
    return values;
  };
  for (const double tick : ticks(axes.x0, axes.x1)) {
    svg.line({axes.x(tick), kTop, axes.x(tick), bottom}, io::kGridColour, "1");
    svg.text(axes.x(tick), bottom + 16, "middle", cat(tick));
  }
  for (const double tick : ticks(axes.y0, axes.y1)) {
    svg.line({kLeft, axes.y(tick), right, axes.y(tick)}, io::kGridColour, "1");
    svg.text(kLeft - 6, axes.y(tick) + 4, "end", cat(tick));
  }
  svg.text(kLeft + kPlotWidth / 2, bottom + 38, "middle", "FLOP a byte");
  svg.text_upwards(14, kTop + kPlotHeight / 2, "GFLOP/s");
}

// From the left edge, or the bottom where that is reached first, up to the ridge and then level.
void draw_roof(io::Svg& svg, const Axes& axes, const session::MachineRates& machine, std::string_view colour) {
  const double ridge = intensity(machine.gflops, machine.gbps);
  const double begin = std::max(axes.x0, axes.y0 / machine.gbps);
  svg.line({axes.x(begin), axes.y(begin * machine.gbps), axes.x(ridge), axes.y(machine.gflops)}, colour, "2");
  svg.line({axes.x(ridge), axes.y(machine.gflops), axes.x(axes.x1), axes.y(machine.gflops)}, colour, "2");
}

// Points with their numbers, of which none lies over another.
class Points {
 public:
  Points(const Axes& axes, io::Svg& svg) : axes_(axes), svg_(svg) {}

  void append(const PhaseRate& phase, std::size_t number, std::string_view colour) {
    const double x = axes_.x(intensity(phase.gflops, phase.gbps));
    const double y = axes_.y(phase.gflops);
    svg_.circle(x, y, 4, colour, "phase");
    std::array<double, 2> label = {x + 7, y + 4};
    const auto covers = [&](const auto& other) {
      return std::abs(other[0] - label[0]) < 16 && std::abs(other[1] - label[1]) < 12;
    };
    while (std::any_of(labels_.begin(), labels_.end(), covers)) label[1] += 2;
    labels_.push_back(label);
    svg_.text(label[0], label[1], "start", cat(number));
  }

 private:
  const Axes& axes_;
  io::Svg& svg_;
  std::vector<std::array<double, 2>> labels_;
};

void draw_entry(io::Svg& svg, double y, std::string_view colour, const std::string& text) {
  svg.rect(kListLeft, y - 9, 10, 10, colour);
  svg.text(kListLeft + 16, y, "start", text);
}

}  // namespace

std::string roofline_svg(const std::vector<Roofline>& rooflines) {
  const Axes axes = axes_of(rooflines);
  io::Svg picture("roofline of the machine with the phases of generation");
  draw_axes(picture, axes);
  Points points(axes, picture);
  double list = kTop + 12;
  std::size_t number = 0;
  for (std::size_t i = 0; i < rooflines.size(); ++i) {
    const Roofline& roof = rooflines[i];
    const std::string_view colour = io::kPlotColours[i % io::kPlotColours.size()];
    draw_roof(picture, axes, roof.machine, colour);
    draw_entry(picture, list, colour,
               cat(roof.device.empty() ? cat("threads ", roof.threads) : roof.device, ": ",
                   fixed(roof.machine.gflops, 0), " GFLOP/s, ", fixed(roof.machine.gbps, 1), " GB/s"));
    list += kLine;
    for (const PhaseRate& phase : roof.phases) {
      points.append(phase, ++number, colour);
      picture.text(kListLeft + 16, list, "start",
                   cat(number, ": ", phase.phase, ", prompt ", phase.prompt_length, ", batch ", phase.batch, ": ",
                       fixed(phase.tokens_per_second(), 1), " tokens/s"));
      list += kLine;
    }
  }
  const double height = std::max(kTop + kPlotHeight + kBelow, list);
  return picture.finish(960, height, true);
}

}  // namespace tern::engine
