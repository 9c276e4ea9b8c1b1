#include "cli/train_setup.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "cli/data_setup.h"
#include "cli/run_directory.h"
#include "io/checksum.h"
#include "io/mapped_file.h"
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

void refuse(const Arguments& arguments, std::initializer_list<const char*> flags, const std::string& why) {
  for (const char* flag : flags) {
    if (!arguments.was_set(flag)) continue;
    throw Failure(usage_error(cat("flag --", flag), "a flag with an effect", cat("no effect, as ", why), "remove it"));
  }
}

// What needs the whole set cannot be had of a stream.
void refuse_with_streaming(const Arguments& arguments) {
  if (arguments.integer("max_steps") <= 0) {
    throw Failure(usage_error("flag --streaming", "--max_steps beside it, as the number of rows is not known", "none",
                              "give --max_steps N"));
  }
  if (arguments.real("split_dataset_ratio") > 0) {
    throw Failure(usage_error("flag --split_dataset_ratio", "0 with --streaming, as the number of rows is not known",
                              cat(arguments.real("split_dataset_ratio")), "give --val_dataset"));
  }
  if (arguments.boolean("group_by_length")) {
    throw Failure(usage_error("flag --group_by_length", "false with --streaming, as lengths are not known before",
                              "true", "remove one of them"));
  }
  refuse(arguments, {"load_from_cache_file"}, "--streaming keeps no cache");
  if (!arguments.boolean("dataset_shuffle")) refuse(arguments, {"shuffle_buffer_size"}, "--dataset_shuffle is false");
}

}  // namespace

Arguments with_saved_arguments(const Arguments& given) {
  Arguments arguments = given;
  if (!given.boolean("load_args")) return arguments;
  const auto& adapters = given.list("adapters");
  fs::path folder = adapters.empty() ? fs::path(given.maybe_string("model").value_or("")) : fs::path(adapters[0]);
  if (given.has("resume_from_checkpoint")) {
    const bool last = given.string("resume_from_checkpoint") == "last";
    folder = checkpoint_to_resume(given, last ? base_directory(given) : fs::path());
  }
  const fs::path file = folder / "args.json";
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) {
    throw Failure(data_error("--load_args", "an args.json in what the run goes on from",
                             folder.empty() ? "nothing that it goes on from" : cat("none in ", folder.string()),
                             "give --resume_from_checkpoint or --adapters, or leave --load_args away"));
  }
  std::vector<std::string_view> names = {"tuner_type", "torch_dtype",       "max_length", "truncation_strategy",
                                         "template",   "use_chat_template", "system",     "enable_thinking",
                                         "loss_scale"};
  if (!adapters.empty() || given.has("resume_from_checkpoint")) names.emplace_back("model");
  arguments.load_saved(io::read_text_file(file).value(), file.string(), names).value();
  return arguments;
}

void refuse_idle_flags(const Arguments& arguments) {
  require_one_adapter(arguments);
  if (arguments.string("tuner_type") == "full") {
    refuse(arguments,
           {"adapters", "lora_rank", "lora_alpha", "lora_dropout", "target_modules", "target_regex", "use_rslora"},
           "--tuner_type full trains no adapter");
  } else {
    refuse(arguments, {"freeze_parameters", "trainable_parameters", "max_shard_size"},
           "--tuner_type lora trains adapters only");
  }
  if (!arguments.list("adapters").empty()) {
    refuse(arguments, {"lora_rank", "lora_alpha", "lora_dropout", "target_modules", "target_regex", "use_rslora"},
           "the adapter of --adapters brings its own");
  }
  if (arguments.boolean("use_chat_template") == false) {
    refuse(arguments, {"template", "enable_thinking"}, "--use_chat_template is false");
  }
  const bool held_out = !arguments.list("val_dataset").empty() || arguments.real("split_dataset_ratio") > 0;
  if (!held_out && arguments.maybe_string("eval_strategy").value_or("no") != "no") {
    throw Failure(usage_error("flag --eval_strategy", "held-out rows to evaluate on", "none",
                              "give --val_dataset or --split_dataset_ratio"));
  }
  if (!held_out) refuse(arguments, {"eval_on_start"}, "there are no held-out rows: give --val_dataset");
  if (!arguments.boolean("packing")) refuse(arguments, {"packing_length"}, "--packing is not given");
  if (arguments.boolean("streaming")) {
    refuse_with_streaming(arguments);
  } else {
    refuse(arguments, {"shuffle_buffer_size"}, "--streaming is not given");
  }
  if (!arguments.boolean("load_best_model_at_end")) return;
  if (!held_out) {
    throw Failure(usage_error("flag --load_best_model_at_end", "held-out rows to judge by", "none",
                              "give --val_dataset or --split_dataset_ratio"));
  }
  if (arguments.string("save_strategy") == "no") {
    throw Failure(usage_error("flag --load_best_model_at_end", "saved checkpoints", "--save_strategy no",
                              "give --save_strategy epoch or steps"));
  }
}

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

data::Settings data_settings(const Arguments& arguments, const session::Session& session) {
  const auto hash = [](const std::string& text) {
    return cat("xxh3_64 ", io::xxh3_64(std::as_bytes(std::span(text))));
  };
  const auto text_of = [&](const char* flag) { return arguments.maybe_string(flag).value_or(""); };
  const bool templated = arguments.boolean("use_chat_template") && session.text->chat_template.has_value();
  const std::string system = system_message(arguments);
  return {{"template", templated ? hash(session.text->chat_template->source()) : std::string()},
          {"enable_thinking", template_kwargs(arguments)},
          {"system", system.empty() ? system : hash(system)},
          {"loss_scale", arguments.string("loss_scale")},
          {"max_length", arguments.has("max_length") ? cat(arguments.integer("max_length"))
                                                     : cat(session.config.max_position_embeddings)},
          {"truncation_strategy", arguments.string("truncation_strategy")},
          {"columns", text_of("columns")},
          {"split_dataset_ratio", cat(arguments.real("split_dataset_ratio"))},
          {"tokenizer of --model", hash(data::tokenizer_identity(session.path).value())}};
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
