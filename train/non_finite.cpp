#include "train/non_finite.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "graph/finite_probe.h"

namespace tern::train {
namespace {

constexpr std::size_t kNamed = 4;  // samples that a line names

constexpr const char* kMend =
    "lower --learning_rate or train in --torch_dtype float32; checkpoints saved before are kept";
constexpr const char* kWeightMend =
    "the model's file or the checkpoint is damaged: fetch it again, or start from another";

std::string where(const FailedStep& failed, const data::MicroBatch& batch, const data::MicroBatchPlan& micro) {
  const auto ids = batch.values<std::uint32_t>(data::kSampleIds);
  std::vector<std::string> samples;
  const std::size_t named = std::min(kNamed, micro.samples.size());
  for (std::size_t i = 0; i < named; ++i) {
    samples.push_back(cat(ids[i], " (", failed.source.place(micro.samples[i]), ")"));
  }
  const std::size_t more = micro.samples.size() - named;
  return cat("step ", failed.step, failed.held_out ? ", held-out samples " : ", samples ", join(samples, ", "),
             more > 0 ? cat(" and ", more, " more") : std::string());
}

// What the runner's search found, as the end of a sentence. A device may lack the memory for the search.
std::optional<graph::NonFinite> search(const FailedStep& failed, const data::MicroBatch& batch) {
  const auto found = catching([&] { return failed.runner.first_non_finite(batch, failed.inputs); });
  return found.ok() ? *found : std::nullopt;
}

std::string origin(const std::optional<graph::NonFinite>& found) { return found ? cat(": ", found->text()) : ""; }

std::string mend(const std::optional<graph::NonFinite>& found) {
  return found && found->op.empty() ? kWeightMend : cat("look at these samples, ", kMend);
}

struct BadGradient {
  std::string first;  // parameter
  double value = 0;
  std::size_t count = 0;  // parameters
};

BadGradient bad_gradient(const Optimizer& optimizer) {
  BadGradient bad;
  for (const std::string& name : optimizer.parameters()) {
    const auto value = graph::first_non_finite(optimizer.store(), gradient_name(name));
    if (value && bad.count++ == 0) {
      bad.first = name;
      bad.value = *value;
    }
  }
  return bad;
}

std::string text(const BadGradient& bad, double norm) {
  if (bad.count == 0) return cat("the gradients are finite, but their norm is ", graph::non_finite_name(norm));
  return cat("the gradient of ", bad.first, " has ", graph::non_finite_name(bad.value),
             bad.count > 1 ? cat(", and so have ", bad.count - 1, " others") : std::string());
}

}  // namespace

Error non_finite_loss(const FailedStep& failed, const data::MicroBatchPlan& micro, double loss) {
  const data::MicroBatch batch = failed.source.gather(micro);
  const auto found = search(failed, batch);
  return failed_error(cat(where(failed, batch, micro), ": the loss is ", graph::non_finite_name(loss), origin(found)),
                      mend(found));
}

Error non_finite_gradient(const FailedStep& failed, const data::StepPlan& plan, Optimizer& optimizer, double norm) {
  const BadGradient sum = bad_gradient(optimizer);
  for (const auto& micro : plan.micro_batches) {
    if (micro.samples.empty()) continue;
    optimizer.clear_gradients();
    const data::MicroBatch batch = failed.source.gather(micro);
    (void)failed.runner.run(batch, failed.inputs);
    const double alone = optimizer.gradient_norm();
    if (std::isfinite(alone)) continue;
    const BadGradient bad = bad_gradient(optimizer);
    const auto found = search(failed, batch);
    optimizer.clear_gradients();
    return failed_error(cat(where(failed, batch, micro), ": ", text(bad, alone), origin(found)), mend(found));
  }
  optimizer.clear_gradients();
  return failed_error(cat("step ", failed.step, ": ", text(sum, norm), ", though only in the sum over ",
                          plan.micro_batches.size(), " micro-batches"),
                      kMend);
}

}  // namespace tern::train
