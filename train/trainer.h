// The training loop: steps, evaluation, checkpoints and logs, resumable to the bit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/steps.h"
#include "models/adapter.h"
#include "models/dora.h"
#include "session/runtime.h"
#include "train/adaptive_rate.h"
#include "train/best_metric.h"
#include "train/checkpoint.h"
#include "train/lisa.h"
#include "train/loss_scale.h"
#include "train/micro_batch.h"
#include "train/non_finite.h"
#include "train/optimizer.h"
#include "train/reporting/reporter.h"
#include "train/reporting/step_work.h"
#include "train/run_checkpoints.h"
#include "train/schedule.h"
#include "train/tasks/pooled_objective.h"

namespace tern::train {

enum class When { no, steps, epoch };

struct TrainerOptions {
  std::filesystem::path output_dir;  // of this run: holds checkpoints and logging.jsonl
  double num_train_epochs = 3;
  std::int64_t max_steps = -1;  // above 0: wins over epochs, and what a stream needs
  When logging_strategy = When::steps;
  std::int64_t logging_steps = 5;
  bool logging_first_step = true;
  ReportOptions report;
  When save_strategy = When::steps;
  std::int64_t save_steps = 500;
  std::int64_t save_total_limit = 0;  // 0: all are kept
  bool save_only_model = false;
  When eval_strategy = When::no;
  std::int64_t eval_steps = 500;
  bool eval_on_start = false;
  double eval_delay = 0;  // no evaluation before this step; of eval_strategy epoch: before this epoch
  BestMetric best;
  std::int64_t early_stop_interval = 0;  // a run ends after so many saves without a better metric; 0: it doesn't
  bool create_checkpoint_symlink = false;
  std::uint64_t seed = 42;
  OptimizerOptions optimizer;
  std::optional<LisaOptions> lisa;  // of full tuning: a few layers train at a time
  ScheduleKind schedule = ScheduleKind::cosine;
  ScheduleArguments schedule_arguments;
  double learning_rate = 1e-4;
  double warmup_ratio = 0;
  std::int64_t warmup_steps = 0;      // above 0: wins over the ratio
  std::filesystem::path resume_from;  // a checkpoint; empty: from the beginning
  std::string args_json;              // args.json of the run, copied into each checkpoint
  data::Settings data_settings;       // how rows became samples: template, lengths; a run that resumes has the same
  data::BatchOptions eval_batches;
  LossScale loss_scale;                           // that a run begins with whose gradients need one
  std::shared_ptr<const PooledLoss> pooled_loss;  // of graph.pooled, else null
  TrainingGraphOptions graph;                     // trainable and adapters are filled in; capacity from the data
};

// Where a run stands after a step.
struct StepProgress {
  std::int64_t step = 0;
  std::int64_t total_steps = 0;
  double loss = 0;
  double memory_gib = 0;
};

struct TrainerHooks {
  std::function<void(const LogRow&)> on_log;
  std::function<void(const StepProgress&)> on_step;          // for a progress line
  std::function<void(const std::string&)> on_note;           // a saved checkpoint, a full disk
  std::function<bool()> should_stop = [] { return false; };  // polled between steps
};

struct TrainResult {
  std::string last_checkpoint;  // "" where none was saved
  std::string best_checkpoint;
  std::optional<double> best_metric;
  bool interrupted = false;  // stopped after saving
  bool stopped_early = false;
  std::int64_t steps = 0;    // optimizer steps done
  bool save_failed = false;  // a save failed (a full disk) and no later one succeeded
};

class Trainer {
 public:
  // `model`, `saver` and the data outlive the trainer. `validation` may be empty. Resuming takes optimizer state, place
  // in the data and kernel choices from the checkpoint; the weights themselves are loaded with the model. Throws
  // Failure before it writes anything: the checkpoint isn't sound, or of a run with another fingerprint; another run's
  // checkpoint is in the way.
  Trainer(models::LoadedModel& model, const ModelSaver& saver, data::StepSource& training,
          const data::EncodedDataset& validation, TrainerOptions options, session::Runtime& runtime,
          TrainerHooks hooks);

  // Throws Failure (failed) where a loss or a gradient isn't finite: the weights stay as the step before left them.
  TrainResult run();

  [[nodiscard]] std::int64_t total_steps() const { return total_steps_; }
  [[nodiscard]] std::vector<Viewer> viewers() const { return reporter_.viewers(); }
  [[nodiscard]] const graph::Program& training_program() { return runner_->prepare(); }
  // Sum of weighted cross entropy over the validation set divided by its weights, or the mean of a pooled loss. Throws
  // Failure where it isn't finite.
  double evaluate();

 private:
  [[nodiscard]] Fingerprint fingerprint() const;
  void make_schedule(bool evaluates);
  void require_same_run();
  void resume();
  void find_best();
  [[nodiscard]] data::StepPlan next_plan();
  [[nodiscard]] data::MicroBatch gather(const data::MicroBatchPlan& plan) const;
  [[nodiscard]] StepResult update_weights(double learning_rate, std::int64_t update, double loss_scale);
  // Of LISA: makes ready for the layers that the next step trains.
  void train_layers();
  void train_step(const data::StepPlan& plan);
  // Adds the step's gradients and gives its loss.
  double add_gradients(const data::StepPlan& plan, const MicroBatchInputs& inputs);
  double evaluate_pooled_loss();
  // The step's gradients aren't finite: it changes nothing where a smaller loss scale can mend that. Throws Failure.
  void skip_step(const FailedStep& failed, const data::StepPlan& plan, double grad_norm);
  void log_step(bool epoch_end);
  HeldOutReport evaluate_and_log();
  [[nodiscard]] Place place() const { return {state_.global_step, total_steps_, state_.epoch_progress}; }
  // Of the held-out rows, where it is due.
  std::optional<HeldOutReport> maybe_evaluate(bool epoch_end);
  // `held_out`: of this step, where it was measured. It counts as the best only once it is saved.
  void save_checkpoint(const std::optional<HeldOutReport>& held_out);
  // The best metric is older than so many saves.
  [[nodiscard]] bool stops_early() const {
    return options_.early_stop_interval > 0 && state_.saves_without_gain >= options_.early_stop_interval;
  }
  void finish(TrainResult& result);
  [[nodiscard]] bool is_due(When when, std::int64_t every, bool epoch_end) const;

  models::LoadedModel& model_;
  const ModelSaver& saver_;
  data::StepSource& training_;
  TrainerOptions options_;
  session::Runtime& runtime_;
  TrainerHooks hooks_;
  std::optional<data::SetSteps> validation_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<MicroBatchRunner> runner_;
  std::unique_ptr<MicroBatchRunner> eval_runner_;
  std::optional<StepWork> work_;  // where FLOPs are told
  std::int64_t held_out_samples_ = 0;
  std::unique_ptr<models::RowNorms> norms_;  // of DoRA, which change with each step; null: none
  std::unique_ptr<PooledObjective> pooled_;  // of a pooled loss, else null
  std::optional<LayerSampler> layers_;       // of LISA
  std::set<std::int64_t> token_sizes_;       // that training's programs are prepared for, beside the largest
  Metrics eval_metrics_;                     // of the newest evaluation
  LearningRateSchedule schedule_;
  std::optional<AdaptiveRate> adaptive_rate_;  // of a schedule that follows the held-out loss
  TrainState state_;
  RunCheckpoints checkpoints_;
  Reporter reporter_;
  std::int64_t total_steps_ = 0;
  std::int64_t per_epoch_ = 0;  // steps; of a stream, whose epochs end where they end, all of the run's
  bool save_failed_ = false;
};

}  // namespace tern::train
