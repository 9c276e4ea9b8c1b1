#include "train/plan.h"

#include <algorithm>
#include <limits>
#include <set>

#include "graph/work.h"
#include "ops/table.h"
#include "train/galore_targets.h"

namespace tern::train {
namespace {

// Sequences of one length that fill the micro-batch: the host's side of every length argument.
std::vector<std::int32_t> equal_lengths(const Capacity& batch) {
  std::vector<std::int32_t> cumulative = {0};
  const std::int64_t sequences = std::max<std::int64_t>(batch.sequences, 1);
  for (std::int64_t s = 1; s <= sequences; ++s) {
    cumulative.push_back(static_cast<std::int32_t>(batch.tokens * s / sequences));
  }
  return cumulative;
}

// Adds what the steps of a program must do. Time is that of each op at the slower of its two rates.
void add_work(const graph::ProgramPlan& program, const Capacity& batch, double times,
              const session::MachineRates* rates, TrainingPlan& plan) {
  const std::vector<std::int32_t> lengths = equal_lengths(batch);
  graph::Counts counts;
  counts.fill(std::numeric_limits<std::int64_t>::max());
  for (const graph::Node& node : program.graph().nodes()) {
    std::vector<tern_host_array> arrays;
    for (const ops::ArgSpec& argument : ops::op_spec(node.call.op).args) {
      if ((argument.flags & ops::kLengths) != 0) {
        arrays.push_back({lengths.data(), static_cast<std::int64_t>(lengths.size())});
      }
    }
    const graph::Work work = graph::work_of(program.graph(), node, counts, arrays);
    plan.step_flops += times * work.flops;
    plan.step_bytes += times * work.bytes;
    if (rates == nullptr) continue;
    plan.step_seconds += times * std::max(work.flops / (rates->gflops * 1e9), work.bytes / (rates->gbps * 1e9));
  }
}

TrainingMemory memory_of(const graph::TensorStore& store, const RunPrograms& programs,
                         const graph::MemoryReport& step) {
  TrainingMemory memory;
  std::map<std::string, std::uint64_t> owners = store.bytes_by_owner();
  memory.packs = store.packed_bytes();
  memory.weights = owners[graph::TensorStore::kModel] - std::min(owners[graph::TensorStore::kModel], memory.packs);
  owners.erase(graph::TensorStore::kModel);
  memory.gradients = owners["gradients"];
  owners.erase("gradients");
  memory.optimizer = owners["optimizer"];
  owners.erase("optimizer");
  for (const auto& [owner, bytes] : owners) memory.adapter += bytes;
  const std::uint64_t arena = programs.arena->bytes();
  memory.workspace = std::min(step.workspace, arena);
  memory.activations = arena - memory.workspace;
  const tern_memory_info device = store.device()->memory();
  memory.context = store.device()->info().context_bytes;
  memory.library = store.device()->info().described != 0 ? step.library : device.library_bytes;
  memory.peak = store.allocator()->statistics().peak_reserved + memory.context + memory.library;
  memory.mapped = store.mapped_bytes();
  memory.staging = step.staging + store.host_bytes();
  memory.host_scratch = step.host_scratch;
  return memory;
}

// Of LISA: leaves the programs made for the layers that take the most memory.
void take_the_most(const graph::TensorStore& store, const std::vector<std::string>& trained,
                   const RunPrograms& programs, const RunSizes& sizes) {
  std::map<std::string, std::int64_t> numbers;
  for (const std::string& name : trained) numbers[name] = num_elements(store.at(name).desc);
  const auto train = [&](const std::vector<std::int64_t>& layers) {
    train_only(*programs.optimizer, *programs.runner, programs.layers->of_layers(layers), {}, sizes.training.tokens);
    return programs.arena->bytes() + store.bytes_by_owner()["gradients"];
  };
  std::uint64_t most = 0;
  std::vector<std::int64_t> chosen;
  for (const auto& layers : programs.layers->extremes(numbers)) {
    const std::uint64_t bytes = train(layers);
    if (bytes <= most) continue;
    most = bytes;
    chosen = layers;
  }
  (void)train(chosen);
}

}  // namespace

models::LoadOptions load_options(const TunerOptions& tuner, const models::ModelConfig& config,
                                 const std::filesystem::path& checkpoint, std::int64_t max_positions) {
  std::set<std::string> masters;
  if (tuner.type == TunerType::full) {
    const auto trained = trained_parameters(tuner.selection, config).value();
    masters.insert(trained.begin(), trained.end());
  } else {
    for (const auto& each : modules_beside(tuner, config, checkpoint).value().parameters) {
      if (each.is_trained) masters.insert(each.spec.name);
    }
  }
  models::LoadOptions load;
  load.is_master = [masters = std::move(masters)](const std::string& name) { return masters.contains(name); };
  load.max_positions = std::max<std::int64_t>(1, max_positions);
  return load;
}

TrainingPlan plan_training(const PlannedRun& run, const session::MachineRates* rates) {
  session::Session& session = run.session;
  models::LoadOptions load = load_options(run.tuner, session.model.config, run.checkpoint, run.max_positions);
  load.dtype = session.model.dtype;
  load.quantise = session.quantise;
  load.backing = accel::Backing::none;
  models::LoadedModel model =
      models::load_model(session.model.config, session.source, session.runtime->device, load).value();
  if (run.tuner.type == TunerType::lora && modules_beside(run.tuner, model.config, run.checkpoint).value().unties) {
    models::untie_head(model, load.is_master);
  }
  const auto tuner = make_tuner(run.tuner, model, run.model_name, session.path, run.checkpoint).value();
  TrainerOptions options = run.trainer;
  options.graph.numerics = session.numerics;
  options.graph.numerics.needs = TERN_NEED_DETERMINISTIC;
  if (tuner->begins_by_gradients) {
    init_by_gradients(model, tuner->adapter, {}, run.tuner.lora_ga, options.graph,
                      run.sizes.training.largest.max_seqlen, run.tuner.seed, *session.runtime);
  }
  tuner->describe(options.graph);
  if (options.optimizer.galore) {
    options.optimizer.galore->parameters = galore_parameters(*options.optimizer.galore, model);
  }
  const RunPrograms programs = make_programs(model, options, run.sizes, *session.runtime);
  if (programs.layers) take_the_most(*model.store, tuner->trainable, programs, run.sizes);
  const graph::ProgramPlan& step = programs.runner->prepare().plan();

  TrainingPlan plan;
  plan.device = model.store->device()->name();
  plan.memory = memory_of(*model.store, programs, step.report);
  plan.device_memory = run.device_memory > 0 ? run.device_memory : model.store->device()->memory().total;
  for (const std::string& name : tuner->trainable) plan.trained_parameters += num_elements(model.store->at(name).desc);
  plan.micro_batch = run.sizes.training.largest;
  plan.micro_batches = run.accumulation;
  add_work(step, plan.micro_batch, static_cast<double>(run.accumulation), rates, plan);
  return plan;
}

}  // namespace tern::train
