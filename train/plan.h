// What a training run will take, before it takes anything: the run's own code makes its weights, its optimizer and its
// programs over a store that only counts (graph/tensor_store.h). What is printed is what is placed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"
#include "session/machine_rates.h"
#include "session/session.h"
#include "train/programs.h"
#include "train/trainer.h"
#include "train/tuner.h"

namespace tern::train {

// Bytes, by what takes them.
struct TrainingMemory {
  // Of the device:
  std::uint64_t weights = 0;      // of the model, in memory of their own
  std::uint64_t packs = 0;        // of the model, in the device's private layouts
  std::uint64_t adapter = 0;      // what is trained beside the model
  std::uint64_t optimizer = 0;    // its state
  std::uint64_t gradients = 0;    // accumulated
  std::uint64_t activations = 0;  // and inputs, of the largest micro-batch
  std::uint64_t workspace = 0;    // of kernels
  std::uint64_t library = 0;      // taken by the vendor's library
  std::uint64_t context = 0;      // taken by the device once it's open
  std::uint64_t peak = 0;         // the most at once, loading included
  // Beside it:
  std::uint64_t mapped = 0;  // pages of the model's file that the device reads where they lie
  std::uint64_t staging = 0;
  std::uint64_t host_scratch = 0;
};

struct TrainingPlan {
  std::string device;
  TrainingMemory memory;
  std::uint64_t device_memory = 0;  // that the device has in all
  std::int64_t trained_parameters = 0;
  Capacity micro_batch;            // the largest
  std::int64_t micro_batches = 1;  // in an optimizer step
  double step_flops = 0;           // of an optimizer step of the largest micro-batches; 2 a multiply-add
  double step_bytes = 0;           // that it must read and write at least
  double step_seconds = 0;         // at the rates given, each op alone; 0: none were given

  [[nodiscard]] bool fits() const { return memory.peak <= device_memory; }
};

// A run as its options have it, up to the point where weights are loaded.
struct PlannedRun {
  session::Session& session;  // opened; weights are neither needed nor touched
  std::string model_name;
  TunerOptions tuner;
  TrainerOptions trainer;
  std::filesystem::path checkpoint;  // whose adapter goes on; "": a new one
  RunSizes sizes;
  std::int64_t accumulation = 1;
  std::int64_t max_positions = 1;   // rows of the rope tables
  std::uint64_t device_memory = 0;  // instead of what the device has; 0: that
};

// How a run loads its model: what is trained becomes masters.
[[nodiscard]] models::LoadOptions load_options(const TunerOptions& tuner, const models::ModelConfig& config,
                                               const std::filesystem::path& checkpoint, std::int64_t max_positions);

// Throws Failure (device) where an op can't be bound, or one tensor is larger than the device allocates. `rates`: what
// the step's time is estimated with; null: nothing.
[[nodiscard]] TrainingPlan plan_training(const PlannedRun& run, const session::MachineRates* rates = nullptr);

// One setting changed, and what the run takes then.
struct PlannedChange {
  std::string setting;  // "--max_length 1024"
  std::uint64_t peak = 0;
  bool fits = false;
};
// For each of recompute, batch, max_length, rank, tuner and quantised base that can take less: the nearest value with
// which the run fits, else the least that there is. `at_most`: halvings tried of each.
[[nodiscard]] std::vector<PlannedChange> smaller_runs(const PlannedRun& run, const TrainingPlan& plan, int at_most);

// The plan for people: two lines before a run, and the table of `tern plan`.
[[nodiscard]] std::string plan_lines(const TrainingPlan& plan);
[[nodiscard]] std::string plan_table(const TrainingPlan& plan);
[[nodiscard]] std::string plan_json(const TrainingPlan& plan, const std::vector<PlannedChange>& changes);
[[nodiscard]] std::string changes_text(const TrainingPlan& plan, const std::vector<PlannedChange>& changes);

// `error`, and where it's for want of memory which settings take less, and how much of it.
[[nodiscard]] Error with_advice(const Error& error, const PlannedRun& run, const TrainingPlan& plan);
// The error of a run that can't fit.
[[nodiscard]] Error does_not_fit(const PlannedRun& run, const TrainingPlan& plan);

}  // namespace tern::train
