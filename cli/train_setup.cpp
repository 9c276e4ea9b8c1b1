#include "cli/train_setup.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "tokenizer/regex.h"
#include "train/lora_init.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;

train::When when(const std::string& word) {
  if (word == "steps") return train::When::steps;
  return word == "epoch" ? train::When::epoch : train::When::no;
}

train::ScheduleKind schedule_kind(const std::string& word) {
  if (word == "linear") return train::ScheduleKind::linear;
  if (word == "constant") return train::ScheduleKind::constant;
  return word == "constant_with_warmup" ? train::ScheduleKind::constant_with_warmup : train::ScheduleKind::cosine;
}

models::AdapterConfig adapter_config(const Arguments& arguments) {
  models::AdapterConfig config;
  config.rank = arguments.integer("lora_rank");
  config.alpha = arguments.real("lora_alpha");
  config.dropout = arguments.real("lora_dropout");
  config.use_rslora = arguments.boolean("use_rslora");
  config.base_model = arguments.string("model");
  return config;
}

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
    throw Failure(usage_error(error.where, error.expected, error.found, "write a regular expression of Python's re"));
  }
  if (chosen.empty()) {
    throw Failure(usage_error("flag --target_regex", cat("an expression of layer names such as ", all.front().name),
                              cat("\"", pattern, "\", which matches none"),
                              "it must match the whole name: begin with .* where any may come before"));
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

}  // namespace

models::LoadedAdapter prepare_adapter(const Arguments& arguments, session::Session& session, const fs::path& resume) {
  const auto& given = arguments.list("adapters");
  const fs::path from = !resume.empty() ? resume : given.empty() ? fs::path() : fs::path(given[0]);
  if (!from.empty()) {
    auto adapter = models::load_adapter(session.model, "lora", from).value();
    adapter.config.base_model = arguments.string("model");
    log_info(cat("adapter: ", from.string(), ", rank ", adapter.config.rank, ", alpha ", adapter.config.alpha,
                 ", dropout ", adapter.config.dropout));
    return adapter;
  }
  models::LoadedAdapter adapter;
  adapter.config = adapter_config(arguments);
  const auto regex = arguments.maybe_string("target_regex");
  const auto modules = regex ? modules_by_regex(session.model, *regex)
                             : models::select_modules(session.model, arguments.list("target_modules")).value();
  adapter.config.target_modules = target_names(session.model, modules);
  adapter.layers = models::create_adapter(session.model, "lora", adapter.config, modules);
  train::init_adapter(*session.model.store, adapter, static_cast<std::uint64_t>(arguments.integer("seed")));
  return adapter;
}

std::vector<std::string> trained_parameters(const Arguments& arguments, const models::LoadedModel& model) {
  const auto specs = model.architecture->parameters(model.config);
  for (const char* flag : {"freeze_parameters", "trainable_parameters"}) {
    for (const auto& prefix : arguments.list(flag)) {
      if (std::none_of(specs.begin(), specs.end(), [&](const auto& spec) { return spec.name.starts_with(prefix); })) {
        throw Failure(usage_error(cat("flag --", flag), cat("a prefix of a weight's name, such as ", specs[0].name),
                                  cat("\"", prefix, "\", which none begins with"), "`tern inspect` lists the names"));
      }
    }
  }
  const auto matches = [](const std::string& name, const std::vector<std::string>& prefixes) {
    return std::any_of(prefixes.begin(), prefixes.end(), [&](const std::string& p) { return name.starts_with(p); });
  };
  std::vector<std::string> names;
  for (const auto& spec : specs) {
    const bool frozen = matches(spec.name, arguments.list("freeze_parameters")) &&
                        !matches(spec.name, arguments.list("trainable_parameters"));
    if (!frozen) names.push_back(spec.name);
  }
  if (names.empty()) {
    throw Failure(usage_error("flag --freeze_parameters", "a weight that is trained", "every weight frozen",
                              "free some by --trainable_parameters"));
  }
  return names;
}

data::BatchOptions batch_options(const Arguments& arguments) {
  data::BatchOptions o;
  const auto batch = static_cast<std::uint32_t>(arguments.integer("per_device_train_batch_size"));
  o.per_device_batch_size = batch;
  o.accumulation = static_cast<std::uint32_t>(arguments.maybe_integer("gradient_accumulation_steps")
                                                  .value_or(std::max<std::int64_t>(1, (16 + batch - 1) / batch)));
  o.shuffle = arguments.boolean("dataset_shuffle");
  o.group_by_length = arguments.boolean("group_by_length");
  o.packing = arguments.boolean("packing");
  for (const char* name : {"max_length", "packing_length"}) {
    if (o.packing && arguments.has(name)) o.packing_length = static_cast<std::uint32_t>(arguments.integer(name));
  }
  o.seed = static_cast<std::uint64_t>(arguments.integer("data_seed"));
  return o;
}

train::TrainerOptions trainer_options(const Arguments& arguments, bool full) {
  train::TrainerOptions o;
  o.num_train_epochs = arguments.real("num_train_epochs");
  o.max_steps = arguments.integer("max_steps");
  o.logging_steps = arguments.integer("logging_steps");
  o.logging_first_step = arguments.boolean("logging_first_step");
  o.save_strategy = when(arguments.string("save_strategy"));
  o.save_steps = arguments.integer("save_steps");
  o.save_total_limit = arguments.maybe_integer("save_total_limit").value_or(0);
  o.save_only_model = arguments.boolean("save_only_model");
  o.eval_strategy = when(arguments.maybe_string("eval_strategy").value_or(arguments.string("save_strategy")));
  o.eval_steps = arguments.maybe_integer("eval_steps").value_or(o.save_steps);
  o.eval_on_start = arguments.boolean("eval_on_start");
  o.create_checkpoint_symlink = arguments.boolean("create_checkpoint_symlink");
  o.seed = static_cast<std::uint64_t>(arguments.integer("seed"));
  o.adamw = {arguments.real("adam_beta1"), arguments.real("adam_beta2"), arguments.real("adam_epsilon"),
             arguments.real("weight_decay"), arguments.real("max_grad_norm")};
  o.schedule = schedule_kind(arguments.string("lr_scheduler_type"));
  o.learning_rate = arguments.maybe_real("learning_rate").value_or(full ? 1e-5 : 1e-4);
  o.warmup_ratio = arguments.real("warmup_ratio");
  o.warmup_steps = arguments.maybe_integer("warmup_steps").value_or(0);
  o.eval_batches.per_device_batch_size = static_cast<std::uint32_t>(arguments.integer("per_device_eval_batch_size"));
  o.eval_batches.shuffle = false;
  o.graph.gradient_checkpointing = arguments.boolean("gradient_checkpointing");
  return o;
}

}  // namespace tern::cli
