// Which settings of a run take less memory.
#include <algorithm>
#include <functional>

#include "base/strings.h"
#include "train/plan.h"

namespace tern::train {
namespace {

constexpr std::int64_t kShortest = 64;  // tokens: nobody trains on less for want of memory

// A run with one setting at its `step`th smaller value; empty text: there is none.
using Change = std::function<std::string(PlannedRun& run, int step)>;

void shrink(BatchSizes& sizes, std::int64_t sequences, std::int64_t longest) {
  Capacity& batch = sizes.largest;
  const std::int64_t before = std::max<std::int64_t>(batch.sequences, 1);
  batch.max_seqlen = std::min(batch.max_seqlen, longest);
  batch.tokens = std::min(batch.tokens * sequences / before, sequences * batch.max_seqlen);
  batch.loss_rows = std::min(batch.loss_rows * sequences / before, batch.tokens);
  batch.sequences = std::min(batch.sequences, sequences);
  sizes.typical_tokens = std::min(sizes.typical_tokens, batch.tokens);
  sizes.tokens.clear();
}

std::string recompute(PlannedRun& run, int step) {
  if (step > 1 || run.trainer.graph.gradient_checkpointing) return {};
  run.trainer.graph.gradient_checkpointing = true;
  return "--gradient_checkpointing true";
}

std::string smaller_batch(PlannedRun& run, int step) {
  const std::int64_t sequences = run.sizes.training.largest.sequences >> step;
  if (sequences < 1) return {};
  shrink(run.sizes.training, sequences, run.sizes.training.largest.max_seqlen);
  return cat("--per_device_train_batch_size ", sequences);
}

std::string shorter(PlannedRun& run, int step) {
  const std::int64_t longest = run.sizes.training.largest.max_seqlen >> step;
  if (longest < kShortest) return {};
  shrink(run.sizes.training, run.sizes.training.largest.sequences, longest);
  if (run.sizes.held_out) shrink(*run.sizes.held_out, run.sizes.held_out->largest.sequences, longest);
  return cat("--max_length ", longest);
}

std::string lower_rank(PlannedRun& run, int step) {
  if (run.tuner.type != TunerType::lora || !run.tuner.adapter.empty() || !run.checkpoint.empty()) return {};
  const std::int64_t rank = run.tuner.lora_rank.value_or(models::AdapterConfig().rank) >> step;
  if (rank < 1) return {};
  run.tuner.lora_rank = rank;
  return cat(run.tuner.kind == models::AdapterKind::vera ? "--vera_rank " : "--lora_rank ", rank);
}

std::string adapter_alone(PlannedRun& run, int step) {
  if (step > 1 || run.tuner.type != TunerType::full || !run.checkpoint.empty()) return {};
  run.tuner.type = TunerType::lora;
  return "--tuner_type lora";
}

// What a change sets in the session is set back after it.
class QuantisedBase {
 public:
  explicit QuantisedBase(session::Session& session) : session_(session), before_(session.quantise) {}
  ~QuantisedBase() { session_.quantise = before_; }
  QuantisedBase(const QuantisedBase&) = delete;
  QuantisedBase& operator=(const QuantisedBase&) = delete;

 private:
  session::Session& session_;
  std::optional<models::QuantiseOptions> before_;
};

std::string quantised(PlannedRun& run, int step) {
  if (step > 1 || run.session.quantise || run.tuner.type != TunerType::lora) return {};
  if (run.session.source->gguf() != nullptr) return {};
  run.session.quantise = models::QuantiseOptions{};
  return "--quant_method bnb --quant_bits 4";
}

std::optional<PlannedChange> nearest(const PlannedRun& run, const TrainingPlan& plan, const Change& change,
                                     int at_most) {
  std::optional<PlannedChange> best;
  for (int step = 1; step <= at_most; ++step) {
    const QuantisedBase restored(run.session);
    PlannedRun changed = run;
    const std::string setting = change(changed, step);
    if (setting.empty()) break;
    // A base that is quantised already can't be quantised again, and the like: no way out of this lack.
    const auto smaller = catching([&] { return plan_training(changed); });
    if (!smaller) break;
    if (smaller->memory.peak >= plan.memory.peak) break;
    best = PlannedChange{setting, smaller->memory.peak, smaller->fits()};
    if (best->fits) break;
  }
  return best;
}

std::string gigabytes(std::uint64_t bytes) { return cat(fixed(static_cast<double>(bytes) / 1e9, 2), " GB"); }

std::string advice(const PlannedRun& run, const TrainingPlan& plan) {
  std::vector<std::string> ways;
  for (const PlannedChange& change : smaller_runs(run, plan, 1)) {
    ways.push_back(cat(change.setting, " (", gigabytes(plan.memory.peak - change.peak), " less)"));
  }
  if (ways.empty()) return accel::kUseLess;
  return cat("take less memory with ", join(ways, ", or "), "; tern plan shows what fits");
}

}  // namespace

std::vector<PlannedChange> smaller_runs(const PlannedRun& run, const TrainingPlan& plan, int at_most) {
  std::vector<PlannedChange> changes;
  for (const Change& change : {Change(recompute), Change(shorter), Change(smaller_batch), Change(lower_rank),
                               Change(adapter_alone), Change(quantised)}) {
    if (auto found = nearest(run, plan, change, at_most)) changes.push_back(*std::move(found));
  }
  return changes;
}

Error with_advice(const Error& error, const PlannedRun& run, const TrainingPlan& plan) {
  if (!accel::lacks_memory(error)) return error;
  Error advised = error;
  advised.mend = advice(run, plan);
  return advised;
}

Error does_not_fit(const PlannedRun& run, const TrainingPlan& plan) {
  return device_error(cat(plan.device, " has ", gigabytes(plan.device_memory), " of memory, and this run needs ",
                          gigabytes(plan.memory.peak)),
                      advice(run, plan));
}

}  // namespace tern::train
