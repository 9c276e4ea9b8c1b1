// images/*.svg: a plot for each number of the log, named as ms-swift names its own (train_loss.svg, eval_loss.svg).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/svg.h"
#include "train/reporting/report_sink.h"

namespace tern::train {

// The running mean with weights that fall by `decay` a value, as TensorBoard smooths: of the values so far alone, so
// that the first is not pulled to zero.
[[nodiscard]] std::vector<double> smoothed(const std::vector<double>& values, double decay);

// Drawn from logging.jsonl whenever the run refreshes, so a resumed run's plots show its whole way.
class Plots : public ReportSink {
 public:
  Plots(std::filesystem::path log, std::filesystem::path directory)
      : log_(std::move(log)), directory_(std::move(directory)) {}

  void write(const LogRow& /*row*/) override {}
  void write(const LogEnd& /*end*/) override {}
  void refresh() override;
  [[nodiscard]] Status drop_after(std::int64_t /*step*/) override { return Unit{}; }

 private:
  std::filesystem::path log_;
  std::filesystem::path directory_;
};

// The plots of the rows of a log, by file name.
[[nodiscard]] std::map<std::string, io::LinePlot> plots_of(std::string_view jsonl);

}  // namespace tern::train
