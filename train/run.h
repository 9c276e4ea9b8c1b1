// Fine-tuning from C++: data, model, loss by name and trainer, put together from plain options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/chat_encoder.h"
#include "data/dataset.h"
#include "data/steps.h"
#include "session/session.h"
#include "train/plan.h"
#include "train/run_directory.h"
#include "train/tasks/task.h"
#include "train/trainer.h"
#include "train/tuner.h"

namespace tern::train {

struct RunOptions {
  session::SessionOptions session;
  data::LoadOptions data;
  data::ChatEncoderOptions encoder;  // max_length 0: the model's longest; `identity` is found
  data::BatchOptions batches;        // packing_length 0: the encoder's max_length
  bool streaming = false;            // rows are read as they are needed
  std::uint32_t shuffle_buffer_size = 1000;
  Task task;  // of session.label_head, where it is a classification
  TunerOptions tuner;
  TrainerOptions trainer;  // the loss is graph.loss; output_dir, resume_from and args_json are found

  std::filesystem::path output_dir;  // "": output/<name of the model>
  bool add_version = true;           // write to vN-YYYYMMDD-HHMMSS below it
  std::string resume_from;           // a checkpoint, or `last`: the newest sound one of output_dir; "": a new run
  bool resume_only_model = false;    // its weights alone: a new run that starts from them
  bool load_best_model_at_end = false;

  // Text of args.json for a run in that directory; none: an empty object.
  std::function<std::string(const std::filesystem::path& output_dir)> args_json;
  std::function<void(std::uint64_t done, std::uint64_t total)> load_progress;  // bytes of weights
};

class Run {
 public:
  // Opens text, device and data, in this order, and only then the model: data without a supervised token cost nobody
  // the time of a large model. Then makes the output directory and plans the training. Errors: usage (options), data
  // (rows, model, checkpoint), device (absent, no memory), failed (a directory that cannot be written, or that another
  // run holds).
  [[nodiscard]] static Result<std::unique_ptr<Run>> open(RunOptions options, TrainerHooks hooks = {});

  // What such a run takes, and which settings take less; of a model's config.json alone, too, and without data: then
  // samples are as long as max_length. Reads no weights and makes no directory. Errors: as open's.
  struct Planned {
    TrainingPlan plan;
    std::vector<PlannedChange> changes;
  };
  // `device_memory`: bytes to fit into; 0: the device's.
  [[nodiscard]] static Result<Planned> plan(RunOptions options, std::uint64_t device_memory = 0);

  // Trains to the end or until should_stop; with load_best_model_at_end the session then holds the best weights.
  // Errors: data (a stream's rows), device (no memory), failed.
  [[nodiscard]] Result<TrainResult> train();

  [[nodiscard]] const std::filesystem::path& output_dir() const { return output_dir_; }
  [[nodiscard]] const BestMetric& best() const { return options_.trainer.best; }
  [[nodiscard]] std::vector<Viewer> viewers() const { return trainer_->viewers(); }   // of what was logged so far
  [[nodiscard]] std::int64_t total_steps() const { return trainer_->total_steps(); }  // optimizer steps
  // The model as trained so far: LoRA layers are in tuner().adapter.
  [[nodiscard]] session::Session& session() { return *session_; }
  [[nodiscard]] const Tuner& tuner() const { return *tuner_; }

 private:
  explicit Run(RunOptions options) : options_(std::move(options)) {}
  void load_data();
  [[nodiscard]] PlannedRun planned_run();
  void plan_memory();
  void prepare_task();
  void require_lora_ga() const;
  void load_model();
  void choose_directory();
  void make_trainer(TrainerHooks hooks);
  [[nodiscard]] Error advised(const Error& error) const;
  void end_on_best(const TrainResult& result);

  RunOptions options_;
  std::unique_ptr<session::Session> session_;
  std::filesystem::path base_;    // of the versions
  std::filesystem::path resume_;  // the checkpoint; "": none
  std::shared_ptr<const data::RowEncoder> encoder_;
  data::LoadedData data_;
  std::unique_ptr<data::StepSource> steps_;
  std::unique_ptr<Tuner> tuner_;
  std::filesystem::path output_dir_;
  std::unique_ptr<DirectoryLock> lock_;
  std::unique_ptr<Trainer> trainer_;
  std::optional<PlannedRun> planned_;  // what plan_ is of
  TrainingPlan plan_;
};

}  // namespace tern::train
