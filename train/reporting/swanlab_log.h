// The run for SwanLab, as its offline mode keeps one: swanlog/run-<time>-<id>/run-<id>.swanlab and files beside it,
// which `swanlab sync` uploads. The numbers are those that its callback for transformers logs, under its tags.
// https://github.com/SwanHubX/SwanLab: swanlab/proto, swanlab/sdk/internal/core_python/store (version 2 of the file)
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "train/reporting/record_log.h"
#include "train/reporting/report_sink.h"
#include "train/reporting/wire.h"

namespace tern::train {

struct SwanlabOptions {
  std::filesystem::path directory = "swanlog";  // SWANLAB_LOG_DIR
  std::string project = "ms-swift";             // --swanlab_project
  std::string workspace;                        // --swanlab_workspace; "": the one of who uploads it
  std::string name;                             // --swanlab_exp_name; "": the run's folder
  std::string run_id;                           // "": the run's own
};

class SwanlabLog : public ReportSink {
 public:
  // Nothing is made before the first row. `args_json`: the run's config.
  SwanlabLog(SwanlabOptions options, std::string args_json);

  void write(const LogRow& row) override;
  void write(const LogEnd& end) override;
  void sync() override { log_.sync(); }
  // The newest folder of the run's id loses what lies behind the step, and is the one that is gone on with.
  [[nodiscard]] Status drop_after(std::int64_t step) override;
  [[nodiscard]] std::optional<Viewer> viewer() const override {
    return log_.is_open() ? std::optional(Viewer{"SwanLab", "swanlab sync", folder()}) : std::nullopt;
  }

 private:
  [[nodiscard]] std::filesystem::path folder() const { return log_.file().parent_path(); }
  void begin();
  void add(std::int64_t number, std::uint32_t field, const WireMessage& message);
  void add_file(std::int64_t number, std::string_view name, std::int64_t type, std::string_view file,
                const std::string& text);
  void add_scalar(std::string_view key, std::int64_t step, double value);

  SwanlabOptions options_;
  std::string args_json_;
  RecordLog log_;
  std::int64_t next_ = 1;          // record of numbers
  std::set<std::string> columns_;  // keys that the file has met
};

}  // namespace tern::train
