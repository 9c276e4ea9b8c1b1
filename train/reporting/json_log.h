// logging.jsonl: a row a log step in ms-swift's keys, and a last one that names the checkpoints.
#pragma once

#include <filesystem>
#include <string>

#include "train/reporting/report_sink.h"

namespace tern::train {

class JsonLog : public ReportSink {
 public:
  explicit JsonLog(std::filesystem::path file) : file_(std::move(file)) {}

  void write(const LogRow& row) override;
  void write(const LogEnd& end) override;
  void sync() override;
  // The file is replaced as a whole. Errors: as io::replace_file's.
  [[nodiscard]] Status drop_after(std::int64_t step) override;

 private:
  void append(const std::string& json_line) const;
  std::filesystem::path file_;
};

}  // namespace tern::train
