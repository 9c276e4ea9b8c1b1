// The run for wandb, as `wandb offline` keeps one: wandb/offline-run-<time>-<id>/run-<id>.wandb and files beside it,
// which `wandb sync` uploads. The numbers are those that transformers' WandbCallback logs, under its tags.
// https://github.com/wandb/wandb: wandb/proto/wandb_internal.proto, core/internal/transactionlog
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "train/reporting/record_log.h"
#include "train/reporting/report_sink.h"

namespace tern::train {

// "" is what wandb itself takes.
struct WandbOptions {
  std::filesystem::path directory = ".";  // holds the folder wandb: WANDB_DIR
  std::string project = "huggingface";    // WANDB_PROJECT
  std::string name;                       // --run_name, else WANDB_NAME; "": the run's folder, as ms-swift has it
  std::string run_id;                     // WANDB_RUN_ID
  std::string entity;                     // WANDB_ENTITY
  std::string group;                      // WANDB_RUN_GROUP
  std::string job_type;                   // WANDB_JOB_TYPE
  std::string notes;                      // WANDB_NOTES
  std::vector<std::string> tags;          // WANDB_TAGS
};

class WandbLog : public ReportSink {
 public:
  // Nothing is made before the first row. `args_json`: the run's config.
  WandbLog(WandbOptions options, std::string args_json);

  void write(const LogRow& row) override;
  void write(const LogEnd& end) override;
  void sync() override { log_.sync(); }
  // The newest folder of the run's id loses what lies behind the step, and is the one that is gone on with.
  [[nodiscard]] Status drop_after(std::int64_t step) override;
  [[nodiscard]] std::optional<Viewer> viewer() const override {
    return log_.is_open() ? std::optional(Viewer{"wandb", "wandb sync", folder()}) : std::nullopt;
  }

 private:
  using Values = std::vector<std::pair<std::string, std::string>>;  // key and JSON
  [[nodiscard]] std::filesystem::path folder() const { return log_.file().parent_path(); }
  void begin();
  void add(std::uint32_t field, const std::string& message);
  void update_summary(const Values& values);
  void write_files() const;

  WandbOptions options_;
  std::string args_json_;
  RecordLog log_;
  double begin_ = 0;       // wall time of the run's start
  std::int64_t next_ = 1;  // record
  std::int64_t rows_ = 0;  // of history
};

}  // namespace tern::train
