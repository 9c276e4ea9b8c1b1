// The programs of a run, made in one order by those who train and by those who only count what training takes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/steps.h"
#include "models/dora.h"
#include "train/lisa.h"
#include "train/micro_batch.h"
#include "train/optimizer.h"
#include "train/tasks/pooled_objective.h"

namespace tern::train {

struct TrainerOptions;

// The micro-batches of one set of steps.
struct BatchSizes {
  Capacity largest;
  std::int64_t typical_tokens = 0;  // of most; 0: unknown
  std::set<std::int64_t> tokens;    // of each, on a device that has a program for each size
};

struct RunSizes {
  BatchSizes training;
  std::optional<BatchSizes> held_out;
  bool streams = false;        // nobody knows its longest sample before its end
  std::int64_t grow_from = 0;  // tokens that a stream is planned for at first
};

// Optimizer steps of a run: max_steps, else what the epochs take. Throws std::logic_error for a stream without
// max_steps.
[[nodiscard]] std::int64_t steps_in_all(const TrainerOptions& options, const data::StepSource& training);

// `held_out`: null where nothing is; `begin` and `end`: steps of training.
[[nodiscard]] RunSizes sizes_of(data::StepSource& training, data::StepSource* held_out, const accel::Device& device,
                                std::int64_t begin, std::int64_t end);

struct RunPrograms {
  std::shared_ptr<graph::Arena> arena;  // that all of them share, as they take turns
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<MicroBatchRunner> runner;
  std::unique_ptr<MicroBatchRunner> eval_runner;  // null where nothing is held out
  std::unique_ptr<models::RowNorms> norms;        // of DoRA's adapters, not measured yet; null: there are none
  std::unique_ptr<PooledObjective> pooled;        // of a pooled loss, else null
  std::optional<LayerSampler> layers;             // of LISA: what the programs are made for are those of the first step
};

// From here on `optimizer` changes those parameters alone, and the programs of `runner` take their gradients: at the
// cost of building them anew. `missed`: as of Optimizer::train_only; `tokens`: sizes that are prepared beside the
// largest. Throws Failure (device) where memory does not suffice.
void train_only(Optimizer& optimizer, MicroBatchRunner& runner, const std::vector<std::string>& parameters,
                const std::map<std::string, std::int64_t>& missed, const std::set<std::int64_t>& tokens);

// `options.graph` says what is trained. Throws Failure (device) where memory does not suffice.
[[nodiscard]] RunPrograms make_programs(const models::LoadedModel& model, TrainerOptions& options,
                                        const RunSizes& sizes, session::Runtime& runtime);

}  // namespace tern::train
