// Plans as people and machines read them.
#include <algorithm>

#include "base/strings.h"
#include "io/json.h"
#include "train/plan.h"

namespace tern::train {
namespace {

struct Row {
  const char* key;
  const char* what;
  std::uint64_t TrainingMemory::*bytes;
};

constexpr Row kOnDevice[] = {
    {"weights", "weights", &TrainingMemory::weights},
    {"packs", "weights in the device's layout", &TrainingMemory::packs},
    {"adapter", "adapter", &TrainingMemory::adapter},
    {"optimizer", "optimizer state", &TrainingMemory::optimizer},
    {"gradients", "gradients", &TrainingMemory::gradients},
    {"activations", "activations", &TrainingMemory::activations},
    {"workspace", "workspace of kernels", &TrainingMemory::workspace},
    {"library", "the vendor's library", &TrainingMemory::library},
    {"context", "the device itself", &TrainingMemory::context},
};
constexpr Row kBeside[] = {
    {"mapped", "pages of the model's file", &TrainingMemory::mapped},
    {"staging", "staging in the host's memory", &TrainingMemory::staging},
    {"host_scratch", "the host's part of kernels", &TrainingMemory::host_scratch},
};

std::uint64_t sum(const TrainingMemory& memory) {
  std::uint64_t total = 0;
  for (const Row& row : kOnDevice) total += memory.*row.bytes;
  return total;
}

// What there is at the peak and no longer in the steps: a weight beside its pack, while that is made.
std::uint64_t loading(const TrainingMemory& memory) { return memory.peak - std::min(memory.peak, sum(memory)); }

std::string padded(const std::string& text, std::size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
}

std::string line(const char* what, std::uint64_t bytes) {
  return cat("  ", padded(what, 34), human_bytes(bytes), "\n");
}

std::string work_text(const TrainingPlan& plan) {
  std::string text =
      cat(fixed(plan.step_flops / 1e12, plan.step_flops < 1e13 ? 3 : 1), " TFLOP a step of ", plan.micro_batches, " x ",
          plan.micro_batch.tokens, " tokens");
  if (plan.step_seconds > 0) text += cat(", at least ", fixed(plan.step_seconds, plan.step_seconds < 10 ? 2 : 0), " s");
  return text;
}

}  // namespace

std::string plan_lines(const TrainingPlan& plan) {
  std::vector<std::string> parts;
  for (const Row& row : kOnDevice) {
    if (plan.memory.*row.bytes > 0) parts.push_back(cat(row.what, " ", human_bytes(plan.memory.*row.bytes)));
  }
  std::string first = cat("plan: ", human_bytes(plan.memory.peak), " of ", plan.device, "'s ",
                          human_bytes(plan.device_memory));
  if (plan.memory.mapped > 0) first += cat(", and ", human_bytes(plan.memory.mapped), " of the model's file");
  return cat(first, "; ", work_text(plan), "\nplan: ", join(parts, ", "));
}

std::string plan_table(const TrainingPlan& plan) {
  const TrainingMemory& memory = plan.memory;
  std::string text = cat("memory of ", plan.device, "\n");
  for (const Row& row : kOnDevice) {
    if (memory.*row.bytes > 0) text += line(row.what, memory.*row.bytes);
  }
  if (loading(memory) > 0) text += line("more while weights are loaded", loading(memory));
  text += line("in all", memory.peak);
  text += "beside it\n";
  for (const Row& row : kBeside) text += line(row.what, memory.*row.bytes);
  text += cat("trained parameters: ", plan.trained_parameters, "\n");
  text += cat("work: ", work_text(plan), "\n");
  return text + cat(plan.fits() ? "it fits" : "it does not fit", ": ", plan.device, " has ",
                    human_bytes(plan.device_memory), "\n");
}

std::string changes_text(const TrainingPlan& plan, const std::vector<PlannedChange>& changes) {
  std::string text = changes.empty() ? "no setting takes less\n" : "one setting changed\n";
  for (const PlannedChange& change : changes) {
    text += cat("  ", padded(change.setting, 34), human_bytes(change.peak), change.fits ? ", fits" : ", does not fit",
                ", ", human_bytes(plan.memory.peak - change.peak), " less\n");
  }
  return text;
}

std::string plan_json(const TrainingPlan& plan, const std::vector<PlannedChange>& changes) {
  io::Json json;
  json["device"] = plan.device;
  for (const Row& row : kOnDevice) json["memory"][row.key] = plan.memory.*row.bytes;
  json["memory"]["loading"] = loading(plan.memory);
  json["memory"]["peak"] = plan.memory.peak;
  for (const Row& row : kBeside) json["host"][row.key] = plan.memory.*row.bytes;
  json["device_memory"] = plan.device_memory;
  json["fits"] = plan.fits();
  json["trained_parameters"] = plan.trained_parameters;
  json["micro_batch"] = {{"tokens", plan.micro_batch.tokens},
                         {"sequences", plan.micro_batch.sequences},
                         {"supervised", plan.micro_batch.loss_rows},
                         {"longest", plan.micro_batch.max_seqlen}};
  json["micro_batches"] = plan.micro_batches;
  json["step_flops"] = plan.step_flops;
  if (plan.step_seconds > 0) json["step_seconds"] = plan.step_seconds;
  json["changes"] = io::Json::array();
  for (const PlannedChange& change : changes) {
    json["changes"].push_back({{"setting", change.setting}, {"peak", change.peak}, {"fits", change.fits}});
  }
  return io::write_json(json);
}

}  // namespace tern::train
