#include "train/tuner.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "checkpoint/safetensors.h"
#include "tokenizer/regex.h"
#include "train/lora_init.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

// Linear layers whose whole name matches, as PEFT takes an expression.
std::vector<models::LinearModule> modules_by_regex(const models::LoadedModel& model, const std::string& pattern) {
  const auto all = models::linear_modules(model);
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
  for (const auto& module : models::linear_modules(model)) matched += parts.count(last(module.name));
  return matched == chosen.size() ? short_names : names;
}

std::vector<models::LinearModule> chosen_modules(const TunerOptions& options, const models::LoadedModel& model) {
  if (!options.target_regex.empty()) return modules_by_regex(model, options.target_regex);
  const std::vector<std::string> all = {"all-linear"};
  return models::select_modules(model, options.target_modules.empty() ? all : options.target_modules).value();
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
  if (options.target_modules.empty() && options.target_regex.empty()) return;
  std::set<std::string> asked;
  for (const auto& module : chosen_modules(options, model)) asked.insert(module.name);
  std::set<std::string> trained;
  for (const auto& [module, layer] : adapter.layers) trained.insert(module);
  require(options.target_regex.empty() ? "target_modules" : "target_regex", asked == trained,
          cat("another choice, of ", trained.size()), cat(asked.size(), " layers"));
}

models::LoadedAdapter new_adapter(const TunerOptions& options, models::LoadedModel& model) {
  models::AdapterConfig config;
  config.rank = options.lora_rank.value_or(config.rank);
  config.alpha = options.lora_alpha.value_or(config.alpha);
  config.dropout = options.lora_dropout.value_or(config.dropout);
  config.use_rslora = options.use_rslora.value_or(config.use_rslora);
  const auto modules = chosen_modules(options, model);
  config.target_modules = target_names(model, modules);
  models::LoadedAdapter adapter = models::create_adapter(model, "lora", config, modules);
  if (!model.store->only_counts()) init_adapter(*model.store, adapter, options.seed);
  return adapter;
}

models::LoadedAdapter make_adapter(const TunerOptions& options, models::LoadedModel& model,
                                   const fs::path& checkpoint) {
  const fs::path& from = checkpoint.empty() ? options.adapter : checkpoint;
  if (from.empty()) return new_adapter(options, model);
  auto adapter = models::load_adapter(model, "lora", from).value();
  if (!checkpoint.empty()) require_same(options, model, adapter);
  log_info(cat("adapter: ", from.string(), ", rank ", adapter.config.rank, ", alpha ", adapter.config.alpha,
               ", dropout ", adapter.config.dropout));
  return adapter;
}

}  // namespace

Result<std::vector<std::string>> trained_parameters(const TunerOptions& options, const models::ModelConfig& config) {
  return catching([&] {
    const auto specs = models::find_architecture(config.architecture)->parameters(config);
    for (const auto& [flag, prefixes] : {std::pair{"freeze_parameters", &options.freeze_parameters},
                                         {"trainable_parameters", &options.trainable_parameters}}) {
      for (const auto& prefix : *prefixes) {
        if (std::none_of(specs.begin(), specs.end(), [&](const auto& spec) { return spec.name.starts_with(prefix); })) {
          throw Failure(
              usage_error(cat("--", flag, " \"", prefix, "\" begins no weight's name"),
                          cat("give a prefix of a name such as ", specs[0].name, "; `tern inspect` lists them")));
        }
      }
    }
    const auto matches = [](const std::string& name, const std::vector<std::string>& prefixes) {
      return std::any_of(prefixes.begin(), prefixes.end(), [&](const std::string& p) { return name.starts_with(p); });
    };
    std::vector<std::string> names;
    for (const auto& spec : specs) {
      const bool frozen =
          matches(spec.name, options.freeze_parameters) && !matches(spec.name, options.trainable_parameters);
      if (!frozen && !spec.is_buffer && !spec.is_frozen) names.push_back(spec.name);
    }
    if (names.empty()) {
      throw Failure(
          usage_error("--freeze_parameters freezes every weight", "let some be trained with --trainable_parameters"));
    }
    return names;
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
  const auto file = checkpoint::Safetensors::open_directory(checkpoint, "adapter_model").value();
  for (const auto& [module, layer] : adapter.layers) {
    model.store->upload(layer.lora_a, file.tensor(models::peft_name(module, "lora_A"))->bytes);
    model.store->upload(layer.lora_b, file.tensor(models::peft_name(module, "lora_B"))->bytes);
  }
}

Result<std::unique_ptr<Tuner>> make_tuner(const TunerOptions& options, models::LoadedModel& model,
                                          const std::string& model_name, const fs::path& model_path,
                                          const fs::path& checkpoint) {
  return catching([&] {
    auto tuner = std::make_unique<Tuner>();
    tuner->type = options.type;
    if (options.type == TunerType::full) {
      tuner->trainable = trained_parameters(options, model.config).value();
      tuner->saver = full_model_saver(model, model_path, options.max_shard_size);
      if (!checkpoint.empty()) tuner->load(model, checkpoint);
      return tuner;
    }
    tuner->adapter = make_adapter(options, model, checkpoint);
    tuner->adapter.config.base_model = model_name;
    for (const auto& [module, layer] : tuner->adapter.layers) {
      tuner->trainable.push_back(layer.lora_a);
      tuner->trainable.push_back(layer.lora_b);
    }
    tuner->saver = adapter_saver(model, tuner->adapter);
    return tuner;
  });
}

}  // namespace tern::train
