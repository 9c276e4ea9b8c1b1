// tern sft, tern pt: fine-tuning with adapters or in full.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "base/strings.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/model_session.h"
#include "cli/terminal.h"
#include "data/chat_encoder.h"
#include "data/dataset.h"
#include "io/file_writer.h"
#include "train/lora_init.h"
#include "train/model_saver.h"
#include "train/trainer.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;

train::When when(const std::string& word) {
  if (word == "steps") return train::When::steps;
  return word == "epoch" ? train::When::epoch : train::When::no;
}

// output/<model name>/vN-YYYYMMDD-HHMMSS, N one above the highest there.
fs::path new_version(const fs::path& base) {
  std::int64_t next = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(base, error)) {
    const std::string name = entry.path().filename().string();
    if (name.size() < 2 || name[0] != 'v') continue;
    std::int64_t version = 0;
    std::size_t i = 1;
    while (i < name.size() && name[i] >= '0' && name[i] <= '9' && version < 1'000'000'000)
      version = version * 10 + (name[i++] - '0');
    if (i > 1 && i < name.size() && name[i] == '-') next = std::max(next, version + 1);
  }
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &local);
  return base / cat("v", next, "-", stamp);
}

std::string model_name(const std::string& model) {
  const fs::path path(model);
  const std::string name = path.filename().empty() ? path.parent_path().filename().string() : path.filename().string();
  return name.empty() ? "model" : name;
}

// The checkpoint to resume from; `last` is the newest sound one, in the newest version folder that has one.
fs::path checkpoint_to_resume(const Arguments& arguments, const fs::path& base) {
  const auto named = arguments.maybe_string("resume_from_checkpoint");
  if (!named) return {};
  if (*named != "last") {
    if (!fs::is_directory(*named)) {
      throw Failure(
          data_error(cat("--resume_from_checkpoint ", *named), "a checkpoint directory", "none", "name one, or last"));
    }
    return *named;
  }
  std::vector<fs::path> folders = {base};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(base, error)) {
    if (entry.is_directory(error) && entry.path().filename().string().starts_with("v")) folders.push_back(entry.path());
  }
  std::sort(folders.begin() + 1, folders.end(), [](const fs::path& a, const fs::path& b) {
    std::error_code ignored;
    return fs::last_write_time(a, ignored) > fs::last_write_time(b, ignored);
  });
  for (const fs::path& folder : folders) {
    if (fs::path found = train::newest_sound_checkpoint(folder); !found.empty()) return found;
  }
  throw Failure(data_error(cat("--resume_from_checkpoint last in ", base.string()), "a sound checkpoint", "none"));
}

data::LoadedData load_data(const Arguments& arguments, const ModelSession& session) {
  data::LoadOptions options;
  options.dataset = arguments.list("dataset");
  options.val_dataset = arguments.list("val_dataset");
  options.split_dataset_ratio = arguments.real("split_dataset_ratio");
  options.data_seed = static_cast<std::uint64_t>(arguments.integer("data_seed"));
  options.strict = arguments.boolean("strict");
  options.load_from_cache_file = arguments.boolean("load_from_cache_file");
  options.dataset_num_proc = static_cast<unsigned>(arguments.integer("dataset_num_proc"));
  options.normalize.system = arguments.maybe_string("system").value_or("");
  if (options.dataset.empty()) throw Failure(usage_error("--dataset", "at least one dataset", "none"));
  const bool templated = arguments.boolean("use_chat_template");
  data::ChatEncoderOptions encoder;
  encoder.max_length =
      static_cast<std::uint32_t>(arguments.maybe_integer("max_length")
                                     .value_or(models::read_config(*session.source).value().max_position_embeddings));
  encoder.truncation = data::parse_truncation(arguments.string("truncation_strategy")).value();
  encoder.loss_scale = text::parse_loss_scale(arguments.string("loss_scale")).value();
  encoder.use_chat_template = templated;
  encoder.identity = data::tokenizer_identity(session.path).value();
  const auto rows = data::ChatEncoder::create(session.text->tokenizer, session.text->chat_template, encoder).value();
  auto loaded = data::load_datasets(options, *rows).value();
  for (const auto& report : loaded.reports) log_info(report.line());
  if (!loaded.held_out.empty()) log_info(cat(loaded.held_out.size(), " rows held out for evaluation"));
  return loaded;
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

// An adapter from --adapters or a checkpoint, else a new one.
models::LoadedAdapter prepare_adapter(const Arguments& arguments, ModelSession& session, const fs::path& resume) {
  const auto given = arguments.list("adapters");
  if (given.size() > 1) throw Failure(usage_error("--adapters", "one adapter to train", std::to_string(given.size())));
  const fs::path from = !resume.empty() ? resume : given.empty() ? fs::path() : fs::path(given[0]);
  if (!from.empty()) {
    auto adapter = models::load_adapter(session.model, "lora", from).value();
    adapter.config.base_model = arguments.string("model");
    return adapter;
  }
  models::LoadedAdapter adapter;
  adapter.config = adapter_config(arguments);
  const auto modules = models::select_modules(session.model, arguments.list("target_modules")).value();
  std::vector<std::string> parts;
  for (const auto& module : modules) {
    std::string part = module.name.substr(module.name.rfind('.') + 1);
    if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(std::move(part));
  }
  adapter.config.target_modules = parts;
  adapter.layers = models::create_adapter(session.model, "lora", adapter.config, modules);
  train::init_adapter(*session.model.store, adapter, static_cast<std::uint64_t>(arguments.integer("seed")));
  return adapter;
}

std::vector<std::string> trained_parameters(const Arguments& arguments, const models::LoadedModel& model) {
  const auto matches = [](const std::string& name, const std::vector<std::string>& prefixes) {
    return std::any_of(prefixes.begin(), prefixes.end(), [&](const std::string& p) { return name.starts_with(p); });
  };
  std::vector<std::string> names;
  for (const auto& spec : model.architecture->parameters(model.config)) {
    const bool frozen = matches(spec.name, arguments.list("freeze_parameters")) &&
                        !matches(spec.name, arguments.list("trainable_parameters"));
    if (!frozen) names.push_back(spec.name);
  }
  return names;
}

train::ScheduleKind schedule_kind(const std::string& word) {
  if (word == "linear") return train::ScheduleKind::linear;
  return word == "constant" || word == "constant_with_warmup" ? train::ScheduleKind::constant
                                                              : train::ScheduleKind::cosine;
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
  const auto batch = static_cast<std::uint32_t>(arguments.integer("per_device_train_batch_size"));
  o.batches.per_device_batch_size = batch;
  o.batches.accumulation =
      static_cast<std::uint32_t>(arguments.maybe_integer("gradient_accumulation_steps")
                                     .value_or(std::max<std::int64_t>(1, (16 + batch - 1) / batch)));
  o.batches.shuffle = arguments.boolean("dataset_shuffle");
  o.batches.group_by_length = arguments.boolean("group_by_length");
  o.batches.packing = arguments.boolean("packing");
  o.batches.seed = static_cast<std::uint64_t>(arguments.integer("data_seed"));
  o.eval_batches.per_device_batch_size = static_cast<std::uint32_t>(arguments.integer("per_device_eval_batch_size"));
  o.eval_batches.shuffle = false;
  o.graph.gradient_checkpointing = arguments.boolean("gradient_checkpointing");
  return o;
}

std::string log_line(const train::LogRow& row) {
  if (row.eval_loss) return cat("step ", row.step, "/", row.total_steps, "  held-out loss ", fixed(*row.eval_loss, 4));
  return cat("step ", row.step, "/", row.total_steps, "  epoch ", fixed(row.epoch, 2), "  loss ",
             fixed(row.loss.value_or(0), 4), "  grad_norm ", fixed(row.grad_norm, 3), "  lr ", row.learning_rate, "  ",
             fixed(row.tokens_per_second, 0), " tokens/s");
}

int train_model(const Arguments& given) {
  Arguments arguments = given;
  const bool full = arguments.string("tuner_type") == "full";
  auto session = open_session(arguments, arguments.string("model"));
  const fs::path base =
      arguments.maybe_string("output_dir").value_or(cat("output/", model_name(arguments.string("model"))));
  const fs::path resume = checkpoint_to_resume(arguments, base);
  const data::LoadedData datasets = load_data(arguments, *session);

  models::LoadOptions load;
  load.fp32_masters = full;
  load.max_positions = std::max<std::int64_t>({1, datasets.train.longest(), datasets.validation.longest()});
  load_weights(*session, arguments, load);

  train::TrainerOptions options = trainer_options(arguments, full);
  const bool only_model = arguments.boolean("resume_only_model");
  options.output_dir = !resume.empty() && !only_model     ? fs::absolute(resume).lexically_normal().parent_path()
                       : arguments.boolean("add_version") ? new_version(base)
                                                          : base;
  if (!only_model) options.resume_from = resume;
  options.graph.compute = session->compute;
  std::unique_ptr<train::ModelSaver> saver;
  models::LoadedAdapter adapter;
  if (full) {
    options.graph.trainable = trained_parameters(arguments, session->model);
    saver = train::full_model_saver(session->model, session->path,
                                    static_cast<std::uint64_t>(arguments.integer("max_shard_size")));
    if (!resume.empty()) train::load_full_checkpoint(session->model, resume);
  } else {
    adapter = prepare_adapter(arguments, *session, resume);
    options.graph.adapters = adapter.layers;
    options.graph.lora_dropout = static_cast<float>(adapter.config.dropout);
    options.graph.dropout = adapter.config.dropout > 0;
    for (const auto& [module, layer] : adapter.layers) {
      options.graph.trainable.push_back(layer.lora_a);
      options.graph.trainable.push_back(layer.lora_b);
    }
    saver = train::adapter_saver(session->model, adapter);
  }
  std::int64_t trained = 0;
  for (const auto& name : options.graph.trainable) trained += num_elements(session->model.store->at(name).desc);
  log_info(cat("training ", trained, " of ", session->model.config.num_parameters() + (full ? 0 : trained),
               " parameters on ", datasets.train.size(), " samples, ", datasets.train.tokens(), " tokens, ",
               datasets.train.supervised(), " supervised"));

  arguments.derive("output_dir", options.output_dir.string());
  arguments.derive("learning_rate", options.learning_rate);
  arguments.derive("gradient_accumulation_steps", static_cast<std::int64_t>(options.batches.accumulation));
  options.args_json = arguments.to_json();
  fs::create_directories(options.output_dir);
  io::write_file(options.output_dir / "args.json", options.args_json).value();

  Progress progress("training", 0, "step");
  const bool terminal = stderr_is_terminal() && !arguments.boolean("quiet");
  train::TrainerHooks hooks;
  hooks.on_log = [](const train::LogRow& row) { log_info(log_line(row)); };
  hooks.on_note = [](const std::string& line) { log_info(line); };
  hooks.should_stop = [] { return interrupted(); };
  if (terminal) {
    hooks.on_step = [&](std::int64_t step, std::int64_t, double loss) {
      progress.update(static_cast<std::uint64_t>(step), cat("loss ", fixed(loss, 4)));
    };
  }
  install_interrupt_handler();
  train::Trainer trainer(session->model, *saver, datasets.train, datasets.validation, std::move(options),
                         session->choices, session->program, session->host, std::move(hooks));
  const train::TrainResult result = trainer.run();
  progress.finish();
  if (result.interrupted) {
    throw Failure(Error{ErrorKind::interrupted,
                        "interrupted",
                        {},
                        cat("saved ", result.last_checkpoint),
                        cat("go on with --resume_from_checkpoint ", result.last_checkpoint)});
  }
  if (result.save_failed)
    throw Failure(
        failed_error(base.string(), "a saved checkpoint at the end", "a failed save", "free disk space and run again"));
  if (!result.last_checkpoint.empty()) log_info(cat("last checkpoint: ", result.last_checkpoint));
  return 0;
}

}  // namespace

int run_sft(const Arguments& arguments) { return train_model(arguments); }
int run_pt(const Arguments& arguments) { return train_model(arguments); }

}  // namespace tern::cli
