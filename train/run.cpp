#include "train/run.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "io/atomic_dir.h"
#include "io/checksum.h"
#include "io/file_writer.h"
#include "session/machine_rates.h"
#include "session/pooling_config.h"
#include "train/loss.h"

namespace tern::train {

namespace fs = std::filesystem;
namespace {

std::string hash(const std::string& text) { return cat("xxh3_64 ", io::xxh3_64(std::as_bytes(std::span(text)))); }

std::string_view word_of(chat::LossScale scale) {
  switch (scale) {
    case chat::LossScale::every_turn:
      return "default";
    case chat::LossScale::last_round:
      return "last_round";
    case chat::LossScale::all:
      return "all";
  }
  return {};
}

std::string_view word_of(data::Truncation truncation) {
  switch (truncation) {
    case data::Truncation::remove:
      return "delete";
    case data::Truncation::left:
      return "left";
    case data::Truncation::right:
      return "right";
    case data::Truncation::split:
      return "split";
  }
  return {};
}

// How rows become samples, under the names of the flags: what a run that resumes must have been told too.
data::Settings data_settings(const RunOptions& options, const session::Session& session) {
  const data::ChatEncoderOptions& encoding = options.encoder;
  const bool templated = encoding.use_chat_template && session.text->chat_template.has_value();
  const std::string& system = options.data.normalize.system;
  std::string columns;
  for (const auto& [theirs, ours] : options.data.normalize.columns) columns += cat(theirs, "=", ours, " ");
  return {{"template", templated ? hash(session.text->chat_template->source()) : std::string()},
          {"enable_thinking", encoding.template_kwargs},
          {"system", system.empty() ? system : hash(system)},
          {"loss_scale", cat(word_of(encoding.loss_scale), encoding.loss_rules.text())},
          {"is_binary_loss_scale", encoding.binary_weights ? "true" : ""},
          {"max_length", cat(encoding.max_length)},
          {"truncation_strategy", std::string(word_of(encoding.truncation))},
          {"columns", columns},
          {"split_dataset_ratio", cat(options.data.split_dataset_ratio)},
          {"tokenizer of --model", hash(data::tokenizer_identity(session.path).value())}};
}

// The weights that GaLore projects: of linear layers, or those whose module's name has one of the words.
std::set<std::string> galore_parameters(const GaloreOptions& options, const models::LoadedModel& model) {
  std::set<std::string> out;
  const auto is_target = [&](const std::string& module) {
    return options.target_modules.empty() ||
           std::any_of(options.target_modules.begin(), options.target_modules.end(),
                       [&](const std::string& word) { return module.find(word) != std::string::npos; });
  };
  for (const auto& module : models::linear_modules(model)) {
    if (is_target(module.name)) out.insert(module.name + ".weight");
  }
  if (out.empty()) {
    throw Failure(usage_error(cat("--galore_target_modules \"", join(options.target_modules, " "), "\" is in no name"),
                              "give parts of layers' names, such as q_proj, or leave it out for all of them"));
  }
  if (options.with_embedding) out.insert("model.embed_tokens.weight");
  return out;
}

}  // namespace

Result<std::unique_ptr<Run>> Run::open(RunOptions options, TrainerHooks hooks) {
  return catching([&] {
    auto run = std::unique_ptr<Run>(new Run(std::move(options)));
    const RunOptions& o = run->options_;
    (void)find_loss(o.trainer.graph.loss).value();
    if (o.data.dataset.empty()) {
      throw Failure(usage_error("no dataset was given", "give --dataset a file or a hub id"));
    }
    run->base_ = o.output_dir.empty() ? default_output_dir(o.session.model) : o.output_dir;
    run->session_ = session::open_text(o.session).value();
    run->session_->runtime = session::open_runtime(o.session.runtime).value();
    if (!o.resume_from.empty()) run->resume_ = find_checkpoint(o.resume_from, run->base_).value();
    run->load_data();
    run->load_model();
    run->choose_directory();
    run->plan(std::move(hooks));
    return run;
  });
}

void Run::load_data() {
  const auto longest =
      static_cast<std::uint32_t>(std::max<std::int64_t>(session_->model.config.max_position_embeddings, 1));
  data::ChatEncoderOptions& encoding = options_.encoder;
  if (encoding.max_length == 0) encoding.max_length = longest;
  encoding.identity = (options_.session.chat_template.empty()
                           ? data::tokenizer_identity(session_->path)
                           : data::tokenizer_identity(session_->path, *session_->text->chat_template))
                          .value();
  // A model that only looks at texts may have no chat template; one that answers needs it.
  if (options_.task.is_pooled() && !session_->text->chat_template) encoding.use_chat_template = false;
  encoder_ = task_encoder(
      options_.task, session_->model.config,
      data::ChatEncoder::create(session_->text->tokenizer, session_->text->chat_template, encoding).value());
  data::BatchOptions& batches = options_.batches;
  if (batches.packing && batches.packing_length == 0) batches.packing_length = encoding.max_length;

  if (options_.task.is_pooled()) options_.data.needs_supervision = false;  // no token is
  data::LoadOptions at_once = options_.data;
  if (options_.streaming) {
    data::StreamStepOptions stream;
    stream.batches = batches;
    stream.buffer = options_.shuffle_buffer_size;
    stream.longest = encoding.max_length;
    steps_ = data::StreamSteps::open(options_.data, *encoder_, stream).value();
    at_once.dataset.clear();
  }
  if (!at_once.dataset.empty() || !at_once.val_dataset.empty()) {
    data_ = data::load_datasets(at_once, *encoder_).value();
  }
  for (const auto& report : data_.reports) log_info(report.line());
  if (!data_.held_out.empty()) log_info(cat(data_.held_out.size(), " rows held out for evaluation"));
  if (!steps_ && options_.task.is_pooled() && data_.train.size() == 0) {
    throw Failure(data_error(join(options_.data.dataset, ", "), "at least one row to learn from",
                             data_.reports.front().line(), "correct the rows, or raise --max_length"));
  }
  if (!steps_) steps_ = std::make_unique<data::SetSteps>(data::SetSteps::create(data_.train, batches).value());
}

void Run::load_model() {
  session::open_model(*session_, options_.session).value();
  const bool full = options_.tuner.type == TunerType::full;
  models::LoadOptions load;
  std::set<std::string> masters;
  models::SavedModules saved;
  if (full) {
    const auto trained = trained_parameters(options_.tuner.selection, session_->model.config).value();
    masters.insert(trained.begin(), trained.end());
  } else {
    if (session_->model.config.head == models::ModelHead::classification) {
      options_.tuner.modules_to_save.emplace_back("score");
    }
    saved = modules_beside(options_.tuner, session_->model.config, resume_).value();
    for (const auto& spec : saved.parameters) masters.insert(spec.name);
  }
  load.is_master = [&masters](const std::string& name) { return masters.contains(name); };
  load.max_positions = std::max<std::int64_t>({1, steps_->bounds().longest, data_.validation.longest()});
  load.progress = options_.load_progress;
  session::load_weights(*session_, load).value();
  models::LoadedModel& model = session_->model;
  if (saved.unties) models::untie_head(model, load.is_master);
  if (model.config.label_head_is_new) models::init_label_head(*model.store, model.config, options_.tuner.seed);
  tuner_ = make_tuner(options_.tuner, model, options_.session.model, session_->path, resume_).value();
  model.saved_modules_of.clear();  // they are the run's own from here on

  std::int64_t trained = 0;
  for (const auto& name : tuner_->trainable) trained += num_elements(model.store->at(name).desc);
  std::int64_t added = full ? 0 : trained;
  for (const auto& spec : tuner_->adapter.saved) added -= num_elements(model.store->at(spec.name).desc);
  const std::string data = options_.streaming ? std::string("a stream")
                                              : cat(data_.train.size(), " samples, ", data_.train.tokens(), " tokens, ",
                                                    data_.train.supervised(), " supervised");
  log_info(cat("training ", trained, " of ", model.config.num_parameters() + added, " parameters on ", data));
}

// Where the run writes, which nobody else writes to from here on.
void Run::choose_directory() {
  const bool goes_on = !resume_.empty() && !options_.resume_only_model;
  output_dir_ = goes_on                ? fs::absolute(resume_).lexically_normal().parent_path()
                : options_.add_version ? new_version(base_)
                                       : base_;
  lock_ = std::make_unique<DirectoryLock>(output_dir_);
  for (const auto& name : io::remove_stale_directories(output_dir_)) {
    log_info(cat("removed what a killed run left: ", name));
  }
  TrainerOptions& trainer = options_.trainer;
  trainer.output_dir = output_dir_;
  if (goes_on) trainer.resume_from = resume_;
  trainer.args_json = options_.args_json ? options_.args_json(output_dir_) : "{}\n";
}

fs::path Run::tensorboard_dir() const {
  const ReportOptions& report = options_.trainer.report;
  return report.tensorboard ? tensorboard_directory(output_dir_, report) : fs::path();
}

void Run::plan(TrainerHooks hooks) {
  TrainerOptions options = options_.trainer;
  options.graph.numerics = session_->numerics;
  options.graph.numerics.needs = TERN_NEED_DETERMINISTIC;  // a resumed run equals one never interrupted
  tuner_->describe(options.graph);
  if (options.optimizer.galore) {
    options.optimizer.galore->parameters = galore_parameters(*options.optimizer.galore, session_->model);
  }
  options.report.product_rate = 1e9 * session::measure_products(*session_->runtime, options.graph.numerics.compute);
  if (options_.task.is_pooled()) {
    const auto told = session::read_pooling_config(*session_->source).value().pooling;
    options_.task.pooling = told.value_or(models::Pooling::last);
    options.graph.pooled = pooled_of(options_.task, session_->text->tokenizer);
    options.pooled_loss = loss_of(options_.task, session_->model.config);
  }
  options.data_settings = data_settings(options_, *session_);
  trainer_ = std::make_unique<Trainer>(session_->model, *tuner_->saver, *steps_, data_.validation, std::move(options),
                                       *session_->runtime, std::move(hooks));
  // Only now is it known that no other run's checkpoints are in the way: nothing of theirs is overwritten.
  io::write_file(output_dir_ / "args.json", options_.trainer.args_json).value();
  if (!data_.held_out.empty()) {
    data::write_held_out(options_.data, data_, output_dir_ / "val_dataset.jsonl").value();
  }
  session::keep_bindings(trainer_->training_program(), output_dir_ / "binding.txt");
}

Result<TrainResult> Run::train() {
  return catching([&] {
    const TrainResult result = trainer_->run();
    if (options_.load_best_model_at_end && !result.interrupted && !result.save_failed) end_on_best(result);
    return result;
  });
}

void Run::end_on_best(const TrainResult& result) {
  if (result.best_checkpoint.empty() || result.best_checkpoint == result.last_checkpoint) return;
  tuner_->load(session_->model, result.best_checkpoint);
  log_info(cat("best weights loaded: held-out loss ", fixed(trainer_->evaluate(), 4)));
}

}  // namespace tern::train
