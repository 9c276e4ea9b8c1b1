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
std::vector<models::LinearModule> modules_by_regex(const models::ModelConfig& model, const std::string& pattern) {
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
std::vector<std::string> target_names(const models::ModelConfig& model,
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

std::vector<models::LinearModule> target_modules(const TunerOptions& options, const models::ModelConfig& model) {
  if (!options.target_regex.empty()) return modules_by_regex(model, options.target_regex);
  const std::vector<std::string> all = {"all-linear"};
  return models::select_modules(model, options.target_modules.empty() ? all : options.target_modules).value();
}

std::vector<std::string> chosen_embeddings(const TunerOptions& options, const models::ModelConfig& model) {
  if (!options.target_regex.empty()) return {};
  return models::select_embeddings(model, options.target_modules);
}

// ms-swift's choice where layers differ in shape: those of the shape of the first target whose name has a v.
void keep_one_shape(std::vector<models::LinearModule>& chosen) {
  const auto shape = [](const models::LinearModule& module) { return std::pair(module.in, module.out); };
  const bool is_one = std::all_of(chosen.begin(), chosen.end(),
                                  [&](const auto& module) { return shape(module) == shape(chosen.front()); });
  if (is_one) return;
  const auto last = [](const std::string& name) { return name.substr(name.rfind('.') + 1); };
  const auto has_v = [&](const auto& module) { return last(module.name).find('v') != std::string::npos; };
  const auto model = std::find_if(chosen.begin(), chosen.end(), has_v);
  if (model == chosen.end()) {
    throw Failure(usage_error("--tuner_type vera needs layers of one shape, and those that are chosen differ",
                              "name layers of one shape with --target_modules"));
  }
  const auto wanted = shape(*model);
  std::set<std::string> names;
  for (const auto& module : chosen) {
    if (shape(module) == wanted) names.insert(last(module.name));
  }
  std::erase_if(chosen, [&](const auto& module) { return !names.contains(last(module.name)); });
  log_info(cat("--tuner_type vera takes layers of one shape: ", join({names.begin(), names.end()}, ", ")));
}

// A layer that is trained in full gets no adapter, as PEFT has it.
std::vector<models::LinearModule> chosen_modules(const TunerOptions& options, const models::ModelConfig& model) {
  auto chosen = target_modules(options, model);
  const auto names = models::saved_module_names(model, options.modules_to_save);
  const auto saved = models::saved_modules(model, names).value();
  std::erase_if(chosen, [&](const auto& module) { return saved.has(module.name + ".weight"); });
  if (options.kind == models::AdapterKind::vera && options.target_regex.empty() && !chosen.empty()) {
    keep_one_shape(chosen);
  }
  if (chosen.empty() && chosen_embeddings(options, model).empty() && options.target_parameters.empty()) {
    throw Failure(usage_error("--modules_to_save trains every layer in full that --target_modules names",
                              "name other layers, or train them all with --tuner_type full"));
  }
  return chosen;
}

InitOptions init_options(const TunerOptions& options) {
  return parse_init_weights(options.init_weights.value_or("true")).value();
}

// What is asked for must be what the checkpoint was trained with.
void require_same(const TunerOptions& options, const models::ModelConfig& model, const models::LoadedAdapter& adapter) {
  const auto require = [](const char* flag, bool same, const std::string& had, const std::string& asked) {
    if (same) return;
    throw Failure(usage_error(cat("--", flag, " gives ", asked, ", and the checkpoint was trained with ", had),
                              "drop the flag, or start a new run"));
  };
  const models::AdapterConfig& had = adapter.config;
  const auto compare = [&](const char* flag, const auto& asked, const auto& trained) {
    if (asked) require(flag, *asked == trained, cat(trained), cat(*asked));
  };
  const bool is_vera = had.kind == models::AdapterKind::vera;
  compare(is_vera ? "vera_rank" : "lora_rank", options.lora_rank, had.rank);
  compare("lora_alpha", options.lora_alpha, had.alpha);
  compare(is_vera ? "vera_dropout" : "lora_dropout", options.lora_dropout, had.dropout);
  compare("use_rslora", options.use_rslora, had.use_rslora);
  compare("use_dora", options.use_dora, had.use_dora);
  compare("vera_projection_prng_key", options.vera_projection_prng_key, had.projection_prng_key);
  compare("vera_d_initial", options.vera_d_initial, had.d_initial);
  if (options.lora_bias) {
    require("lora_bias", *options.lora_bias == had.bias, std::string(word_of(had.bias)),
            std::string(word_of(*options.lora_bias)));
  }
  if (options.init_weights) {
    const std::string asked = parse_init_weights(*options.init_weights).value().began_as();
    const auto told = [](const std::string& began) {
      return began.empty() ? std::string("none of the weights") : began;
    };
    require("init_weights", asked == had.began_as, told(had.began_as), told(asked));
  }
  if (!options.modules_to_save.empty()) {
    const auto names = models::saved_module_names(model, options.modules_to_save);
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

models::AdapterConfig new_config(const TunerOptions& options, const models::ModelConfig& model) {
  models::AdapterConfig config;
  config.rank = options.lora_rank.value_or(config.rank);
  config.dropout = options.lora_dropout.value_or(config.dropout);
  config.use_rslora = options.use_rslora.value_or(config.use_rslora);
  config.use_dora = options.use_dora.value_or(config.use_dora);
  config.bias = options.lora_bias.value_or(config.bias);
  config.kind = options.kind;
  config.projection_prng_key = options.vera_projection_prng_key.value_or(config.projection_prng_key);
  config.d_initial = options.vera_d_initial.value_or(config.d_initial);
  const InitOptions init = init_options(options);
  config.began_as = init.began_as();
  config.alpha = options.lora_alpha.value_or(init.kind == InitWeights::gradient ? LoraGaOptions::kAlpha : config.alpha);
  config.target_modules = target_names(model, chosen_modules(options, model));
  for (const std::string& module : chosen_embeddings(options, model)) {
    config.target_modules.push_back(module.substr(module.rfind('.') + 1));
  }
  config.target_parameters = options.target_parameters;
  config.modules_to_save = models::saved_module_names(model, options.modules_to_save);
  if (model.head == models::ModelHead::classification) config.task_type = models::kClassification;
  return config;
}

// Beside an adapter only what is named is trained, and so it is in ms-swift.
void warn_of_untrained_tokens(const models::ModelConfig& model, const models::LoadedAdapter& adapter) {
  if (model.new_special_tokens.empty()) return;
  for (const std::string& module : models::embedding_modules(model)) {
    const auto is_it = [&](const auto& each) { return each.is_trained && each.spec.name == module + ".weight"; };
    if (adapter.layers.contains(module) || std::any_of(adapter.saved.begin(), adapter.saved.end(), is_it)) return;
  }
  log_warn(
      "the embeddings of --new_special_tokens stay as they begin; --modules_to_save embed_tokens lm_head trains them");
}

void require_biases(const models::AdapterConfig& config, const std::vector<models::SavedParameter>& saved) {
  const auto is_bias = [](const models::SavedParameter& each) { return each.name.ends_with(".bias"); };
  if (config.bias == models::TrainedBiases::none || std::any_of(saved.begin(), saved.end(), is_bias)) return;
  throw Failure(usage_error(cat("--lora_bias ", word_of(config.bias), " trains nothing: ",
                                config.bias == models::TrainedBiases::all ? "the model has no biases"
                                                                          : "no layer with an adapter has a bias"),
                            "drop the flag"));
}

models::LoadedAdapter new_adapter(const TunerOptions& options, models::LoadedModel& model) {
  const models::AdapterConfig config = new_config(options, model.config);
  const InitOptions init = init_options(options);
  models::LoadedAdapter adapter = models::create_adapter(model, "lora", config, chosen_modules(options, model.config));
  models::add_parts(
      adapter, models::adapter_parts(model.config, "lora", config, chosen_embeddings(options, model.config)).value());
  adapter.saved = models::saved_beside(model.config, config).value().parameters;
  require_biases(config, adapter.saved);
  if (model.store->only_counts()) return adapter;
  warn_of_untrained_tokens(model.config, adapter);
  if (config.kind == models::AdapterKind::vera) {
    init_vera(*model.store, "lora", adapter, chosen_modules(options, model.config));
    return adapter;
  }
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
  if (!checkpoint.empty()) require_same(options, model.config, adapter);
  log_info(cat("adapter: ", from.string(), ", rank ", adapter.config.rank, ", alpha ", adapter.config.alpha,
               ", dropout ", adapter.config.dropout,
               adapter.config.kind == models::AdapterKind::vera ? ", of two random matrices (VeRA)" : "",
               adapter.config.use_dora ? ", with magnitudes (DoRA)" : ""));
  return adapter;
}

}  // namespace

Result<models::SavedModules> modules_beside(const TunerOptions& options, const models::ModelConfig& config,
                                            const fs::path& checkpoint) {
  return catching([&] {
    const fs::path& from = checkpoint.empty() ? options.adapter : checkpoint;
    const models::AdapterConfig adapter =
        from.empty() ? new_config(options, config) : models::read_adapter_config(from).value();
    return models::saved_beside(config, adapter).value();
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
