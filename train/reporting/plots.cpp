#include "train/reporting/plots.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/log.h"
#include "base/strings.h"
#include "io/json.h"
#include "train/reporting/tags.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

// ms-swift's: what was measured pale behind its smoothed course.
constexpr double kDecay = 0.9;
constexpr std::string_view kPale = "#fdba74", kStrong = "#ea580c", kHeldOut = io::kPlotColours[0];
// They only grow or shrink with the steps.
constexpr std::array<std::string_view, 3> kNotDrawn = {"epoch", "elapsed_time", "remaining_time"};
constexpr std::string_view kLoss = "train/loss", kEvalLoss = "eval/loss";

// Slashes and dots become underscores.
std::string file_name(std::string tag) {
  std::replace_if(
      tag.begin(), tag.end(), [](char c) { return c == '/' || c == '.'; }, '_');
  return tag + ".svg";
}

}  // namespace

std::vector<double> smoothed(const std::vector<double>& values, double decay) {
  std::vector<double> out;
  double sum = 0;
  double weight = 0;
  for (const double value : values) {
    sum = sum * decay + value;
    weight = weight * decay + 1;
    out.push_back(sum / weight);
  }
  return out;
}

std::map<std::string, io::LinePlot> plots_of(std::string_view jsonl) {
  std::map<std::string, io::Curve> curves;  // by tag
  double last = 0;
  for (const std::string_view line : split(jsonl, '\n')) {
    const auto parsed = io::parse_json(line, "log");
    if (!parsed || !parsed->is_object()) continue;
    const io::Json* place = parsed->find("global_step/max_steps");
    if (place == nullptr || !place->is_string() || parsed->contains("last_model_checkpoint")) continue;
    const auto step = static_cast<double>(std::strtoll(place->text().c_str(), nullptr, 10));
    if (step < last) curves.clear();  // another run began in the same folder
    last = step;
    const bool trains = parsed->contains("loss");
    for (const auto& [key, value] : parsed->items()) {
      const std::string tag = tag_of(key);
      if (!value.is_number() || std::find(kNotDrawn.begin(), kNotDrawn.end(), key) != kNotDrawn.end()) continue;
      if (!trains && tag.starts_with("train/")) continue;  // an evaluation's row has no rate of training
      io::Curve& curve = curves[tag];
      curve.x.push_back(step);
      curve.y.push_back(value.get<double>());
    }
  }
  std::map<std::string, io::LinePlot> plots;
  for (auto& [tag, curve] : curves) {
    curve.colour = kStrong;
    io::LinePlot plot{tag, "step", {curve}};
    if (tag == kLoss && curve.x.size() > 1) {
      plot.curves[0].name = "original";
      plot.curves[0].colour = kPale;
      io::Curve course = curve;
      course.name = "smoothed";
      course.y = smoothed(curve.y, kDecay);
      plot.curves.push_back(std::move(course));
    }
    if (tag == kLoss && curves.contains(std::string(kEvalLoss))) {
      if (plot.curves.size() == 1) plot.curves[0].name = "training";
      io::Curve held_out = curves.at(std::string(kEvalLoss));
      held_out.name = "held out";
      held_out.colour = kHeldOut;
      held_out.points = true;
      plot.curves.push_back(std::move(held_out));
    }
    plots.emplace(file_name(tag), std::move(plot));
  }
  return plots;
}

void Plots::refresh() {
  std::ifstream in(log_);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::error_code failed;
  fs::create_directories(directory_, failed);
  for (const auto& [name, plot] : plots_of(text)) {
    // Who looks at it meanwhile sees the old plot or the new; it needn't outlive a crash, as it's drawn again.
    const fs::path beside = directory_ / (name + ".tmp");
    std::ofstream out(beside);
    out << io::line_plot(plot);
    out.close();
    if (out) fs::rename(beside, directory_ / name, failed);
    if (out && !failed) continue;
    log_warn(cat(directory_.string(), ": no plots could be drawn there"));
    return;
  }
}

}  // namespace tern::train
