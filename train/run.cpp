#include "train/run.h"

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"
#include "io/atomic_dir.h"
#include "io/checksum.h"
#include "io/file_writer.h"
#include "session/machine_rates.h"
#include "session/pooling_config.h"
#include "train/galore_targets.h"
#include "train/lora_init.h"
#include "train/loss.h"

namespace tern::train {

namespace fs = std::filesystem;
namespace {

constexpr int kHalvings = 8;  // of each setting that `tern plan` tries

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
          {"tokenizer of --model", hash(data::tokenizer_identity(session.path).value())},
          {"new_special_tokens", join(options.session.new_special_tokens, " ")}};
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
    run->require_lora_ga();
    run->load_data();
    session::open_model(*run->session_, o.session).value();
    run->prepare_task();
    run->plan_memory();
    try {
      run->load_model();
      run->choose_directory();
      run->make_trainer(std::move(hooks));
    } catch (const Failure& failure) {
      throw Failure(run->advised(failure.error()));
    }
    return run;
  });
}

Result<Run::Planned> Run::plan(RunOptions options, std::uint64_t device_memory) {
  return catching([&] {
    Run run(std::move(options));
    const RunOptions& o = run.options_;
    run.session_ = session::open_described(o.session, !o.data.dataset.empty()).value();
    run.base_ = o.output_dir.empty() ? default_output_dir(o.session.model) : o.output_dir;
    if (!o.resume_from.empty()) run.resume_ = find_checkpoint(o.resume_from, run.base_).value();
    run.require_lora_ga();
    if (!o.data.dataset.empty()) run.load_data();
    run.prepare_task();
    PlannedRun planned = run.planned_run();
    planned.device_memory = device_memory;
    std::optional<session::MachineRates> rates;
    if (run.session_->runtime->device->info().described == 0) {
      rates = session::measure_machine(*run.session_->runtime, static_cast<tern_dtype>(run.session_->numerics.compute));
    }
    Planned result{plan_training(planned, rates ? &*rates : nullptr), {}};
    result.changes = smaller_runs(planned, result.plan, kHalvings);
    return result;
  });
}

// What is learned of each text as a whole, and the head that learns it.
void Run::prepare_task() {
  if (options_.tuner.type == TunerType::lora && session_->model.config.head == models::ModelHead::classification) {
    options_.tuner.modules_to_save.emplace_back("score");
  }
  if (!options_.task.is_pooled()) return;
  if (!session_->text) {
    throw Failure(usage_error("a task of whole texts needs the model's tokenizer", "name a model that comes with one"));
  }
  const auto told = session::read_pooling_config(*session_->source).value().pooling;
  options_.task.pooling = told.value_or(models::Pooling::last);
  options_.trainer.graph.pooled = pooled_of(options_.task, session_->text->tokenizer);
  options_.trainer.pooled_loss = loss_of(options_.task, session_->model.config);
}

void Run::require_lora_ga() const {
  if (options_.tuner.type != TunerType::lora || !options_.tuner.init_weights || !resume_.empty()) return;
  if (parse_init_weights(*options_.tuner.init_weights).value().kind != InitWeights::gradient) return;
  if (options_.task.is_pooled()) {
    throw Failure(usage_error("--init_weights lora-ga takes the gradients of a loss of tokens, and the task has none",
                              "give --task_type causal_lm, or use pissa, which begins from the weights"));
  }
  if (options_.streaming) {
    throw Failure(
        usage_error("--init_weights lora-ga and --streaming cannot be used together: samples are looked at before "
                    "the first step",
                    "drop one, or use pissa, which begins from the weights"));
  }
}

// What is known of the run before its weights are loaded; without data all samples are as long as they may be.
PlannedRun Run::planned_run() {
  PlannedRun planned{.session = *session_,
                     .model_name = options_.session.model,
                     .tuner = options_.tuner,
                     .trainer = options_.trainer,
                     .checkpoint = resume_,
                     .sizes = {}};
  planned.accumulation = options_.batches.accumulation;
  if (!steps_) {
    const std::int64_t longest =
        options_.encoder.max_length > 0 ? options_.encoder.max_length : session_->model.config.max_position_embeddings;
    const std::int64_t sequences = options_.batches.per_device_batch_size;
    planned.sizes.training.largest = {longest * sequences, sequences, longest * sequences, longest};
    planned.max_positions = longest;
    return planned;
  }
  std::optional<data::SetSteps> held_out;
  if (data_.validation.size() > 0) {
    held_out = data::SetSteps::create(data_.validation, options_.trainer.eval_batches).value();
  }
  planned.sizes = sizes_of(*steps_, held_out ? &*held_out : nullptr, *session_->runtime->device, 0,
                           steps_in_all(options_.trainer, *steps_));
  planned.max_positions = std::max<std::int64_t>(steps_->bounds().longest, data_.validation.longest());
  return planned;
}

// Before anything is loaded: a run that can't fit is refused here.
void Run::plan_memory() {
  planned_.emplace(planned_run());
  plan_ = plan_training(*planned_);
  const std::string lines = plan_lines(plan_);
  for (const std::string_view line : split(lines, '\n')) log_info(std::string(line));
  if (!plan_.fits()) throw Failure(does_not_fit(*planned_, plan_));
  // Before the weights are there, in no more memory than the run takes: what it reports as its most is its own.
  const TrainingMemory& memory = plan_.memory;
  options_.trainer.report.product_rate =
      1e9 * session::measure_products(*session_->runtime, static_cast<tern_dtype>(session_->numerics.compute),
                                      memory.peak - memory.context - memory.library);
}

Error Run::advised(const Error& error) const { return planned_ ? with_advice(error, *planned_, plan_) : error; }

void Run::load_data() {
  const auto longest =
      static_cast<std::uint32_t>(std::max<std::int64_t>(session_->model.config.max_position_embeddings, 1));
  data::ChatEncoderOptions& encoding = options_.encoder;
  if (encoding.max_length == 0) encoding.max_length = longest;
  const std::string new_tokens = join(options_.session.new_special_tokens, "\n");
  encoding.identity = (options_.session.chat_template.empty()
                           ? data::tokenizer_identity(session_->path)
                           : data::tokenizer_identity(session_->path, *session_->text->chat_template))
                          .value() +
                      (new_tokens.empty() ? "" : cat("\n", new_tokens));
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
  const bool full = options_.tuner.type == TunerType::full;
  const models::SavedModules saved =
      full ? models::SavedModules() : modules_beside(options_.tuner, session_->model.config, resume_).value();
  models::LoadOptions load = load_options(options_.tuner, session_->model.config, resume_,
                                          std::max<std::int64_t>(steps_->bounds().longest, data_.validation.longest()));
  load.progress = options_.load_progress;
  session::load_weights(*session_, load).value();
  models::LoadedModel& model = session_->model;
  if (saved.unties) models::untie_head(model, load.is_master);
  if (model.config.label_head_is_new) models::init_label_head(*model.store, model.config, options_.tuner.seed);
  tuner_ = make_tuner(options_.tuner, model, options_.session.model, session_->path, resume_).value();
  if (tuner_->begins_by_gradients) {
    TrainingGraphOptions graph = options_.trainer.graph;
    graph.numerics = session_->numerics;
    graph.numerics.needs = TERN_NEED_DETERMINISTIC;
    const LoraGaOptions& lora_ga = options_.tuner.lora_ga;
    init_by_gradients(model, tuner_->adapter, gradient_samples(data_.train, options_.batches, lora_ga), lora_ga, graph,
                      steps_->bounds().longest, options_.tuner.seed, *session_->runtime);
  }
  model.saved_modules_of.clear();  // they are the run's own from here on

  std::int64_t trained = 0;
  for (const auto& name : tuner_->trainable) trained += num_elements(model.store->at(name).desc);
  std::int64_t added = full ? 0 : trained;
  for (const auto& each : tuner_->adapter.saved) {
    if (each.is_trained) added -= num_elements(model.store->at(each.spec.name).desc);
  }
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

void Run::make_trainer(TrainerHooks hooks) {
  TrainerOptions options = options_.trainer;
  options.graph.numerics = session_->numerics;
  options.graph.numerics.needs = TERN_NEED_DETERMINISTIC;  // a resumed run equals one never interrupted
  tuner_->describe(options.graph);
  if (options.optimizer.galore) {
    options.optimizer.galore->parameters = galore_parameters(*options.optimizer.galore, session_->model);
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
  const auto trained = catching([&] {
    const TrainResult result = trainer_->run();
    if (options_.load_best_model_at_end && !result.interrupted && !result.save_failed) end_on_best(result);
    return result;
  });
  return trained ? trained : advised(trained.error());
}

void Run::end_on_best(const TrainResult& result) {
  if (result.best_checkpoint.empty() || result.best_checkpoint == result.last_checkpoint) return;
  tuner_->load(session_->model, result.best_checkpoint);
  log_info(cat("best weights loaded: held-out loss ", fixed(trainer_->evaluate(), 4)));
}

}  // namespace tern::train
