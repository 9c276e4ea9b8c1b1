// The run's scalars for TensorBoard, under the tags that transformers gives them.
#pragma once

#include <filesystem>
#include <string>

#include "train/reporting/report_sink.h"

namespace tern::train {

class TensorBoardLog : public ReportSink {
 public:
  // `args_json`: shown as the text `args`. Nothing is made before the first row.
  TensorBoardLog(std::filesystem::path directory, std::string args_json)
      : directory_(std::move(directory)), args_json_(std::move(args_json)) {}

  void write(const LogRow& row) override;
  void write(const LogEnd& /*end*/) override {}
  void sync() override;
  // The newest event file of the directory loses what lies behind the step, and is the one that is gone on with.
  [[nodiscard]] Status drop_after(std::int64_t step) override;
  [[nodiscard]] std::optional<Viewer> viewer() const override {
    return Viewer{"TensorBoard", "tensorboard --logdir", directory_};
  }

 private:
  void append(const std::string& records);
  std::filesystem::path directory_;
  std::string args_json_;
  std::filesystem::path file_;  // "": none yet
};

}  // namespace tern::train
