#include "train/tuner.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "models/dora.h"
#include "models/initial_pairs.h"
#include "tokenizer/regex.h"
#include "train/lora_init.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

// Linear layers whose whole name matches, as PEFT takes an expression.
std::vector<models::LinearModule> modules_by_regex(const models::LoadedModel& model, const std::string& pattern) {
  const auto all = models::adapter_modules(model);
  std::vector<models::LinearModule> chosen;
  const auto matching = catching([&] {
    const tokenizer::Regex regex(cat("\\A(?:", pattern, ")\\z"), false, "flag --target_regex");
    for (const auto& module : all) {
      std::vector<tokenizer::Range> found;
      regex.find_all(module.name, found);
      if (!found.empty()) chosen.push_back(module);
    }
    return Unit{};
  });
  if (!matching) {
    const auto& error = matching.error();
    throw Failure(usage_error(cat("--target_regex \"", pattern, "\" is not a regular expression: it needs ",
                                  error.expected, " and has ", error.found),
                              "write it as Python's re takes it"));
  }
  if (chosen.empty()) {
    throw Failure(usage_error(
        cat("--target_regex \"", pattern, "\" matches no layer"),
        cat("match a whole name such as ", all.front().name, "; begin with .* where anything may come before")));
  }
  return chosen;
}

// What PEFT selects the same layers by: last parts of names where those choose no more than was chosen, else names.
std::vector<std::string> target_names(const models::LoadedModel& model,
                                      const std::vector<models::LinearModule>& chosen) {
  const auto last = [](const std::string& name) { return name.substr(name.rfind('.') + 1); };
  std::set<std::string> parts;
  std::vector<std::string> short_names;
  std::vector<std::string> names;
  for (const auto& module : chosen) {
    if (parts.insert(last(module.name)).second) short_names.push_back(last(module.name));
    names.push_back(module.name);
  }
  std::size_t matched = 0;
  for (const auto& module : models::adapter_modules(model)) matched += parts.count(last(module.name));
  return matched == chosen.size() ? short_names : names;
}

std::vector<models::LinearModule> target_modules(const TunerOptions& options, const models::LoadedModel& model) {
  if (!options.target_regex.empty()) return modules_by_regex(model, options.target_regex);
  const std::vector<std::string> all = {"all-linear"};
  return models::select_modules(model, options.target_modules.empty() ? all : options.target_modules).value();
}

std::vector<std::string> chosen_embeddings(const TunerOptions& options, const models::LoadedModel& model) {
  if (!options.target_regex.empty()) return {};
  return models::select_embeddings(model, options.target_modules);
}

// A layer that is trained in full gets no adapter, as PEFT has it.
std::vector<models::LinearModule> chosen_modules(const TunerOptions& options, const models::LoadedModel& model) {
  auto chosen = target_modules(options, model);
  const auto names = models::saved_module_names(model.config, options.modules_to_save);
  const auto saved = models::saved_modules(model.config, names).value();
  std::erase_if(chosen, [&](const auto& module) { return saved.has(module.name + ".weight"); });
  if (chosen.empty() && chosen_embeddings(options, model).empty() && options.target_parameters.empty()) {
    throw Failure(usage_error("--modules_to_save trains every layer in full that --target_modules names",
                              "name other layers, or train them all with --tuner_type full"));
  }
  return chosen;
}

// What is asked for must be what the checkpoint was trained with.
void require_same(const TunerOptions& options, const models::LoadedModel& model, const models::LoadedAdapter& adapter) {
  const auto require = [](const char* flag, bool same, const std::string& had, const std::string& asked) {
    if (same) return;
    throw Failure(usage_error(cat("--", flag, " gives ", asked, ", and the checkpoint was trained with ", had),
                              "drop the flag, or start a new run"));
  };
  const models::AdapterConfig& had = adapter.config;
  const auto compare = [&](const char* flag, const auto& asked, const auto& trained) {
    if (asked) require(flag, *asked == trained, cat(trained), cat(*asked));
  };
  compare("lora_rank", options.lora_rank, had.rank);
  compare("lora_alpha", options.lora_alpha, had.alpha);
  compare("lora_dropout", options.lora_dropout, had.dropout);
  compare("use_rslora", options.use_rslora, had.use_rslora);
  compare("use_dora", options.use_dora, had.use_dora);
  if (options.init_weights) {
    const std::string asked = parse_init_weights(*options.init_weights).value().began_as();
    const auto told = [](const std::string& began) {
      return began.empty() ? std::string("none of the weights") : began;
    };
    require("init_weights", asked == had.began_as, told(had.began_as), told(asked));
  }
  if (!options.modules_to_save.empty()) {
    const auto names = models::saved_module_names(model.config, options.modules_to_save);
    require("modules_to_save",
            std::set(names.begin(), names.end()) == std::set(had.modules_to_save.begin(), had.modules_to_save.end()),
            had.modules_to_save.empty() ? "none" : join(had.modules_to_save, " "), join(names, " "));
  }
  if (!options.target_parameters.empty()) {
    require("target_parameters", options.target_parameters == had.target_parameters,
            had.target_parameters.empty() ? "none" : join(had.target_parameters, " "),
            join(options.target_parameters, " "));
  }
  if (options.target_modules.empty() && options.target_regex.empty()) return;
  std::set<std::string> asked;
  for (const auto& module : chosen_modules(options, model)) asked.insert(module.name);
  std::set<std::string> trained;
  for (const auto& [module, layer] : adapter.layers) {
    if (!layer.in_parts) trained.insert(module);
  }
  require(options.target_regex.empty() ? "target_modules" : "target_regex", asked == trained,
          cat("another choice, of ", trained.size()), cat(asked.size(), " layers"));
}

models::LoadedAdapter new_adapter(const TunerOptions& options, models::LoadedModel& model) {
  models::AdapterConfig config;
  config.rank = options.lora_rank.value_or(config.rank);
  config.dropout = options.lora_dropout.value_or(config.dropout);
  config.use_rslora = options.use_rslora.value_or(config.use_rslora);
  config.use_dora = options.use_dora.value_or(config.use_dora);
  const InitOptions init = parse_init_weights(options.init_weights.value_or("true")).value();
  config.began_as = init.began_as();
  config.alpha = options.lora_alpha.value_or(init.kind == InitWeights::gradient ? LoraGaOptions::kAlpha : config.alpha);
  const auto modules = chosen_modules(options, model);
  config.target_modules = target_names(model, modules);
  const auto embeddings = chosen_embeddings(options, model);
  for (const std::string& module : embeddings) config.target_modules.push_back(module.substr(module.rfind('.') + 1));
  config.target_parameters = options.target_parameters;
  config.modules_to_save = models::saved_module_names(model.config, options.modules_to_save);
  if (model.config.head == models::ModelHead::classification) config.task_type = models::kClassification;
  models::LoadedAdapter adapter = models::create_adapter(model, "lora", config, modules);
  models::add_parts(adapter, models::adapter_parts(model, "lora", config, embeddings).value());
  adapter.saved = models::saved_modules(model.config, config.modules_to_save).value().parameters;
  if (model.store->only_counts()) return adapter;
  if (config.began_as.empty() || init.kind == InitWeights::gradient) {
    init_adapter(*model.store, adapter, options.seed, init.kind);
  } else {
    init_from_weights(model, adapter, options.seed, init);
  }
  models::begin_magnitudes(model, adapter.layers);
  return adapter;
}

models::LoadedAdapter make_adapter(const TunerOptions& options, models::LoadedModel& model,
                                   const fs::path& checkpoint) {
  const fs::path& from = checkpoint.empty() ? options.adapter : checkpoint;
  if (from.empty()) return new_adapter(options, model);
  auto adapter = models::load_adapter(model, "lora", from, !checkpoint.empty()).value();
  if (!checkpoint.empty()) require_same(options, model, adapter);
  log_info(cat("adapter: ", from.string(), ", rank ", adapter.config.rank, ", alpha ", adapter.config.alpha,
               ", dropout ", adapter.config.dropout, adapter.config.use_dora ? ", with magnitudes (DoRA)" : ""));
  return adapter;
}

}  // namespace

Result<models::SavedModules> modules_beside(const TunerOptions& options, const models::ModelConfig& config,
                                            const fs::path& checkpoint) {
  return catching([&] {
    const fs::path& from = checkpoint.empty() ? options.adapter : checkpoint;
    const auto names = from.empty() ? models::saved_module_names(config, options.modules_to_save)
                                    : models::read_adapter_config(from).value().modules_to_save;
    return models::saved_modules(config, names).value();
  });
}

void Tuner::describe(TrainingGraphOptions& graph) const {
  graph.trainable = trainable;
  graph.adapters = adapter.layers;
  graph.lora_dropout = static_cast<float>(adapter.config.dropout);
  graph.dropout = adapter.config.dropout > 0;
}

void Tuner::load(models::LoadedModel& model, const fs::path& checkpoint) const {
  if (type == TunerType::full) return load_full_checkpoint(model, trainable, checkpoint);
  models::read_tensors(*model.store, adapter, checkpoint);
}

Result<std::unique_ptr<Tuner>> make_tuner(const TunerOptions& options, models::LoadedModel& model,
                                          const std::string& model_name, const fs::path& model_path,
                                          const fs::path& checkpoint) {
  return catching([&] {
    auto tuner = std::make_unique<Tuner>();
    tuner->type = options.type;
    if (options.type == TunerType::full) {
      tuner->trainable = trained_parameters(options.selection, model.config).value();
      tuner->saver = full_model_saver(model, model_path, options.max_shard_size);
      if (!checkpoint.empty()) tuner->load(model, checkpoint);
      return tuner;
    }
    tuner->adapter = make_adapter(options, model, checkpoint);
    tuner->begins_by_gradients =
        checkpoint.empty() && options.adapter.empty() && tuner->adapter.config.began_as == models::kLoraGa;
    tuner->adapter.config.base_model = model_name;
    tuner->trainable = models::trained_tensors(tuner->adapter);
    tuner->saver = adapter_saver(model, tuner->adapter);
    return tuner;
  });
}

}  // namespace tern::train
