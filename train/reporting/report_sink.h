// Where rows of a run go.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "train/reporting/log_row.h"

namespace tern::train {

// How the user looks at what a sink wrote.
struct Viewer {
  std::string_view tool;       // "TensorBoard"
  std::string_view command;    // "tensorboard --logdir"
  std::filesystem::path path;  // its last word
};

class ReportSink {
 public:
  ReportSink() = default;
  virtual ~ReportSink() = default;
  ReportSink(const ReportSink&) = delete;
  ReportSink& operator=(const ReportSink&) = delete;

  // A row that can't be written is warned of: training goes on.
  virtual void write(const LogRow& row) = 0;
  virtual void write(const LogEnd& end) = 0;
  // Puts what was written onto the disk: a checkpoint is saved after the rows of its steps.
  virtual void sync() {}
  // A checkpoint was saved, or the run stands still: time for what is costly to do for each row.
  virtual void refresh() {}
  // Drops what was written behind `step`, which a run that resumes there writes again, and what was written of an end.
  // Where that fails, everything stays as it was.
  [[nodiscard]] virtual Status drop_after(std::int64_t step) = 0;
  // Of a sink that has written something, and whose files need a tool.
  [[nodiscard]] virtual std::optional<Viewer> viewer() const { return std::nullopt; }
};

}  // namespace tern::train
