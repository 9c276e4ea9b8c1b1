#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "base/dtype.h"
#include "base/log.h"
#include "base/strings.h"
#include "io/checksum.h"
#include "train/programs.h"

namespace tern::train {
namespace {

namespace fs = std::filesystem;

// Of the checkpoint that is resumed, else a new run's.
TrainState first_state(const TrainerOptions& options) {
  TrainState state;
  if (!options.resume_from.empty()) state = read_train_state(options.resume_from).value();
  if (state.run_id.empty()) state.run_id = new_run_id();
  return state;
}

ReportOptions report_options(const TrainerOptions& options, const TrainState& state) {
  ReportOptions report = options.report;
  report.run_id = state.run_id;
  return report;
}

}  // namespace

Trainer::Trainer(models::LoadedModel& model, const ModelSaver& saver, data::StepSource& training,
                 const data::EncodedDataset& validation, TrainerOptions options, session::Runtime& runtime,
                 TrainerHooks hooks)
    : model_(model),
      saver_(saver),
      training_(training),
      options_(std::move(options)),
      runtime_(runtime),
      hooks_(std::move(hooks)),
      state_(first_state(options_)),
      checkpoints_(options_.output_dir, state_.run_id),
      reporter_(options_.output_dir, report_options(options_, state_), options_.args_json, model.store->device(),
                hooks_.on_log) {
  runtime_.choices.replay(state_.kernel_choices);  // before anything is planned
  const auto per_epoch = training.steps_per_epoch();
  total_steps_ = steps_in_all(options_, training);
  checkpoints_.refuse_others(state_.global_step, total_steps_).value();
  per_epoch_ = per_epoch ? static_cast<std::int64_t>(*per_epoch) : total_steps_;
  make_schedule(validation.size() > 0 && options_.eval_strategy != When::no);
  require_same_run();
  if (!needs_loss_scale(options_.graph.numerics)) {
    state_.loss_scale.reset();
  } else if (!state_.loss_scale) {
    state_.loss_scale = options_.loss_scale;
  }
  if (validation.size() > 0) validation_ = data::SetSteps::create(validation, options_.eval_batches).value();
  RunSizes sizes = sizes_of(training, validation_ ? &*validation_ : nullptr, *model.store->device(), state_.global_step,
                            total_steps_);
  sizes.grow_from = state_.planned_tokens;
  RunPrograms programs = make_programs(model, options_, sizes, runtime);
  optimizer_ = std::move(programs.optimizer);
  runner_ = std::move(programs.runner);
  eval_runner_ = std::move(programs.eval_runner);
  pooled_ = std::move(programs.pooled);
  routes_ = std::move(programs.routes);
  norms_ = std::move(programs.norms);
  layers_ = std::move(programs.layers);
  token_sizes_ = sizes.training.tokens;
  if (norms_) norms_->refresh();
  if (reporter_.counts_flops() && !layers_) work_.emplace(model, options_.graph);
  held_out_samples_ = static_cast<std::int64_t>(validation.size());
  if (!options_.resume_from.empty()) resume();
  if (layers_) train_layers();
}

void Trainer::train_layers() {
  const auto parameters = layers_->parameters_at(state_.global_step);
  if (parameters != optimizer_->parameters() || state_.global_step > 0) {
    train_only(*optimizer_, *runner_, parameters, layers_->missed_of(state_.missed_steps), token_sizes_);
  }
  if (!reporter_.counts_flops()) return;
  TrainingGraphOptions graph = options_.graph;
  graph.trainable = parameters;
  work_.emplace(model_, graph);
}

void Trainer::make_schedule(bool evaluates) {
  schedule_.kind = options_.schedule;
  schedule_.peak = options_.learning_rate;
  schedule_.total_steps = total_steps_;
  schedule_.arguments = options_.schedule_arguments;
  schedule_.warmup_steps =
      options_.warmup_steps > 0
          ? options_.warmup_steps
          : static_cast<std::int64_t>(std::ceil(options_.warmup_ratio * static_cast<double>(total_steps_)));
  if (options_.optimizer.galore && options_.optimizer.galore->per_parameter) {
    schedule_.total_steps *= 2;
    schedule_.warmup_steps *= 2;
  }
  const std::string flag = cat("--lr_scheduler_type ", schedule_name(schedule_.kind));
  if (!warms_up(schedule_.kind) && schedule_.warmup_steps > 0) {
    log_warn(cat(flag, " never warms up, so --warmup_ratio and --warmup_steps have no effect; give ",
                 "constant_with_warmup for a warm-up"));
  }
  if (!follows_loss(schedule_.kind)) {
    state_.adaptive_rate.reset();
    return;
  }
  if (!evaluates) {
    throw Failure(usage_error(cat(flag, " follows the held-out loss, and nothing is evaluated"),
                              "give --val_dataset or --split_dataset_ratio, and --eval_strategy steps or epoch"));
  }
  adaptive_rate_.emplace(schedule_.arguments.adaptive, schedule_.peak);
  if (state_.adaptive_rate) adaptive_rate_->restore(*state_.adaptive_rate);
}

Fingerprint Trainer::fingerprint() const {
  Fingerprint out;
  std::string changeable_galore;
  out.fixed = options_.data_settings;
  const data::Settings steps = training_.identity();
  out.fixed.insert(out.fixed.end(), steps.begin(), steps.end());
  out.fixed.emplace_back("seed", cat(options_.seed));
  if (options_.pooled_loss) {
    const data::Settings loss = options_.pooled_loss->settings();
    out.fixed.insert(out.fixed.end(), loss.begin(), loss.end());
  }
  io::Xxh3 names;
  for (const std::string& name : options_.graph.trainable) {
    names.update(std::as_bytes(std::span(name.c_str(), name.size() + 1)));
  }
  if (options_.graph.neftune_noise_alpha > 0) {
    out.fixed.emplace_back("neftune_noise_alpha", cat(options_.graph.neftune_noise_alpha));
  }
  if (options_.graph.loss == kDftLoss) out.fixed.emplace_back("enable_dft_loss", "true");
  if (const double coefficient = options_.graph.router_aux_loss_coef; coefficient > 0) {
    out.fixed.emplace_back("router_aux_loss_coef", cat(coefficient));
  }
  if (options_.graph.row_losses) out.fixed.emplace_back("enable_channel_loss", "true");
  out.fixed.emplace_back("optim", std::string(optimizer_name(options_.optimizer.kind)));
  if (options_.lisa) {
    out.fixed.emplace_back("LISA",
                           cat(options_.lisa->activated_layers, " layers, every ", options_.lisa->step_interval));
  }
  if (const auto& galore = options_.optimizer.galore) {
    out.fixed.emplace_back("GaLore", cat("rank ", galore->rank, ", type ", static_cast<int>(galore->type), ", ",
                                         galore->parameters.size(), " matrices", galore_state_text(*galore)));
    changeable_galore = cat("gap ", galore->update_proj_gap, ", scale ", galore->scale);
    if (const auto& q = galore->quantised)
      changeable_galore += cat(", cosine ", q->cos_threshold, ", gamma ", q->gamma);
  }
  out.fixed.emplace_back("trained parameters", cat(options_.graph.trainable.size(), ", xxh3_64 ", names.hex()));
  const AdamwOptions& adamw = options_.optimizer.adamw;
  const auto& lora_plus = options_.optimizer.lora_plus;
  const auto batch = training_.batches().per_device_batch_size;
  out.changeable = {{"per_device_train_batch_size", cat(batch)},
                    {"max_steps", cat(total_steps_)},
                    {"learning_rate", cat(options_.learning_rate)},
                    {"lr_scheduler_type", std::string(schedule_name(schedule_.kind))},
                    {"lr_scheduler_kwargs", schedule_.arguments.text},
                    {"warmup_steps", cat(schedule_.warmup_steps)},
                    {"optim_args", options_.optimizer.arguments},
                    {"galore_update_proj_gap and galore_scale", changeable_galore},
                    {"lorap_lr_ratio", lora_plus ? cat(lora_plus->lr_ratio) : std::string()},
                    {"weight_decay", cat(adamw.weight_decay)},
                    {"adam_beta1", cat(adamw.beta1)},
                    {"adam_beta2", cat(adamw.beta2)},
                    {"adam_epsilon", cat(adamw.epsilon)},
                    {"max_grad_norm", cat(adamw.max_grad_norm)},
                    {"torch_dtype", std::string(dtype_info(model_.dtype).torch)},
                    {"products in", std::string(dtype_name(options_.graph.numerics.compute))}};
  return out;
}

void Trainer::require_same_run() {
  Fingerprint is = fingerprint();
  if (!options_.resume_from.empty()) {
    if (state_.fingerprint.fixed.empty()) {
      log_warn(cat(options_.resume_from.string(), " doesn't say what it was trained on, so nothing is compared"));
    } else {
      require_same(options_.resume_from, state_.fingerprint, is).value();
      for (const std::string& line : changes(state_.fingerprint, is)) log_warn(line);
    }
  }
  state_.fingerprint = std::move(is);
  state_.max_steps = total_steps_;
}

void Trainer::resume() {
  // Plain SGD keeps nothing.
  const auto states = optimizer_->states();
  if (!states.empty()) read_optimizer(options_.resume_from, *model_.store, states).value();
  find_best();
  // A run killed between a save and what follows it keeps one too many.
  checkpoints_.prune(options_.save_total_limit, state_.global_step, state_.best_checkpoint);
  // Steps behind the checkpoint are taken again: the rows that a killed run wrote of them would stand there twice.
  reporter_.drop_after(state_.global_step);
}

// The directory may have moved since, and the best checkpoint may be gone: what can't be gone back to isn't the best.
void Trainer::find_best() {
  if (state_.best_checkpoint.empty()) return;
  const fs::path here = options_.output_dir / fs::path(state_.best_checkpoint).filename();
  const auto own = checkpoints_.own(state_.global_step);
  const bool found = std::any_of(own.begin(), own.end(), [&](const auto& it) { return it.second == here; });
  state_.best_checkpoint = found ? here.string() : std::string();
  if (!found) state_.best_metric.reset();
}

bool Trainer::is_due(When when, std::int64_t every, bool epoch_end) const {
  switch (when) {
    case When::no:
      return false;
    case When::epoch:
      return epoch_end;
    case When::steps:
      return every > 0 && state_.global_step % every == 0;
  }
  return false;
}

double Trainer::evaluate_pooled_loss() {
  const MicroBatchInputs inputs{options_.seed, 0, 1.0};
  const auto require_finite = [&](const data::MicroBatchPlan& micro, double output) {
    if (std::isfinite(output)) return;
    throw Failure(non_finite_loss({state_.global_step, *eval_runner_, *validation_, inputs, true}, micro, output));
  };
  PooledEvaluation found = evaluate_pooled(*options_.pooled_loss, *validation_, inputs, *eval_runner_, require_finite);
  eval_metrics_ = std::move(found.metrics);
  return found.loss;
}

double Trainer::evaluate() {
  if (norms_) norms_->refresh();  // the weights may have been loaded
  if (pooled_) return evaluate_pooled_loss();
  double loss = 0;
  double weight = 0;
  for (std::uint64_t step = 0; step < *validation_->steps_per_epoch(); ++step) {
    const data::StepPlan plan = validation_->plan(0, step);
    const MicroBatchInputs inputs{options_.seed, 0, 1.0};
    for (const auto& micro : plan.micro_batches) {
      const double part = eval_runner_->run(validation_->gather(micro), inputs);
      if (!std::isfinite(part)) {
        throw Failure(non_finite_loss({state_.global_step, *eval_runner_, *validation_, inputs, true}, micro, part));
      }
      loss += part;
    }
    weight += static_cast<double>(plan.supervised_tokens);
  }
  const double mean = weight > 0 ? loss / weight : 0;
  if (options_.graph.router_aux_loss_coef <= 0) return mean;
  const double balance = balance_loss(eval_runner_->take_expert_use());
  eval_metrics_ = {{"aux_loss", balance}};
  return mean + options_.graph.router_aux_loss_coef * balance;
}

data::StepPlan Trainer::next_plan() {
  const accel::TraceSpan span(runtime_.trace(), "wait for data", "data");
  return training_.plan(static_cast<std::uint64_t>(state_.epoch), static_cast<std::uint64_t>(state_.step_in_epoch));
}

data::MicroBatch Trainer::gather(const data::MicroBatchPlan& plan) const {
  const accel::TraceSpan span(runtime_.trace(), "gather data", "data");
  return training_.gather(plan);
}

// Of each micro-batch, the rows of the experts in the others; nothing where there are no others.
std::vector<std::vector<double>> Trainer::count_experts(const data::StepPlan& plan, const MicroBatchInputs& inputs) {
  if (!routes_ || plan.micro_batches.size() < 2) return {};
  std::vector<std::vector<double>> own;
  ExpertUse all;
  for (const auto& micro : plan.micro_batches) {
    if (micro.samples.empty()) {
      own.emplace_back();
      continue;
    }
    (void)routes_->run(gather(micro), inputs);
    const ExpertUse use = routes_->take_expert_use();
    all.add(use);
    own.push_back(use.counts);
  }
  for (auto& counts : own) {
    for (std::size_t e = 0; e < counts.size(); ++e) counts[e] = all.counts[e] - counts[e];
  }
  return own;
}

double Trainer::add_gradients(const data::StepPlan& plan, MicroBatchInputs inputs) {
  MicroBatchRunner& first = pooled_ ? pooled_->forward() : *runner_;  // meets what isn't finite
  const FailedStep failed{state_.global_step + 1, first, training_, inputs, false};
  const auto require_finite = [&](const data::MicroBatchPlan& micro, double part) {
    if (std::isfinite(part)) return;
    Error error = non_finite_loss(failed, micro, part);
    optimizer_->clear_gradients();
    throw Failure(std::move(error));
  };
  double loss = pooled_ ? pooled_->step(plan, training_, inputs, *runner_, require_finite) : 0;
  const std::vector<std::vector<double>> other_counts = count_experts(plan, inputs);
  for (std::size_t i = 0; i < plan.micro_batches.size(); ++i) {
    const data::MicroBatchPlan& micro = plan.micro_batches[i];
    if (micro.samples.empty()) continue;
    const data::MicroBatch batch = gather(micro);
    if (!pooled_) {
      if (!other_counts.empty()) inputs.other_expert_counts = other_counts[i];
      const double part = runner_->run(batch, inputs);
      require_finite(micro, part);
      loss += part;
    }
    reporter_.count(static_cast<std::int64_t>(micro.tokens), work_ ? work_->flops(batch) : 0.0);
    state_.tokens += micro.tokens;
  }
  step_balance_ = balance_loss(runner_->take_expert_use());
  return loss + options_.graph.router_aux_loss_coef * step_balance_;
}

void Trainer::train_step(const data::StepPlan& plan) {
  reporter_.begin_step();
  if (layers_ && state_.global_step > 0 && layers_->draws_at(state_.global_step)) train_layers();
  MicroBatchInputs inputs;
  inputs.seed = options_.seed;
  inputs.epoch = plan.epoch;
  inputs.loss_divisor = static_cast<double>(std::max<std::uint64_t>(plan.supervised_tokens, 1));
  inputs.step_tokens = static_cast<std::int64_t>(plan.tokens);
  if (state_.loss_scale) inputs.loss_scale = state_.loss_scale->scale;
  const FailedStep failed{state_.global_step + 1, *runner_, training_, inputs, false};  // if it fails
  const double loss = add_gradients(plan, inputs);
  const std::int64_t update = state_.global_step + 1 - state_.skipped_steps;
  const double lr = adaptive_rate_ ? adaptive_rate_->rate() : schedule_.at(update);
  const StepResult result = update_weights(lr, update, inputs.loss_scale);
  if (result.skipped) {
    skip_step(failed, plan, result.grad_norm);
  } else {
    if (state_.loss_scale) state_.loss_scale->grow();
    reporter_.took(lr, result.grad_norm);
    if (layers_) layers_->count_missed(state_.global_step, state_.missed_steps);
    if (norms_) norms_->refresh();
  }
  ++state_.global_step;
  if (options_.graph.router_aux_loss_coef > 0) {
    state_.window.aux_loss = state_.window.aux_loss.value_or(0) + step_balance_;
  }
  reporter_.end_step(state_.window, loss, runner_->take_hits(), runner_->take_channel_losses());
  if (hooks_.on_step) hooks_.on_step({state_.global_step, total_steps_, loss, reporter_.memory_gib()});
}

StepResult Trainer::update_weights(double learning_rate, std::int64_t update, double loss_scale) {
  const accel::TraceSpan span(runtime_.trace(), "optimizer");
  return optimizer_->step(learning_rate, update, loss_scale);
}

void Trainer::skip_step(const FailedStep& failed, const data::StepPlan& plan, double grad_norm) {
  if (!state_.loss_scale || !state_.loss_scale->shrink()) {
    throw Failure(non_finite_gradient(failed, plan, *optimizer_, grad_norm));
  }
  optimizer_->clear_gradients();
  ++state_.skipped_steps;
  log_info(cat("step ", failed.step, " changed nothing: a gradient overflowed fp16 at a loss scale of ",
               fixed(failed.inputs.loss_scale, 0), "; the next step takes ", fixed(state_.loss_scale->scale, 0)));
}

void Trainer::log_step(bool epoch_end) {
  const bool due = is_due(options_.logging_strategy, options_.logging_steps, epoch_end);
  const bool first = options_.logging_first_step && state_.global_step == 1;
  const bool last = options_.logging_strategy != When::no && state_.global_step == total_steps_;
  if (!due && !first && !last) return;
  std::optional<double> loss_scale;
  if (state_.loss_scale) loss_scale = state_.loss_scale->scale;
  reporter_.log_window(state_.window, place(), loss_scale);
}

HeldOutReport Trainer::evaluate_and_log() {
  const accel::TraceSpan span(runtime_.trace(), "evaluate");
  const double begin = reporter_.seconds();
  HeldOutReport it;
  it.loss = evaluate();
  it.hits = eval_runner_->take_hits();
  it.metrics = eval_metrics_;
  for (auto& mean : channel_means(eval_runner_->take_channel_losses())) it.metrics.push_back(std::move(mean));
  it.samples = static_cast<double>(held_out_samples_);
  it.seconds = reporter_.seconds() - begin;
  reporter_.log_evaluation(it, place());
  return it;
}

std::optional<HeldOutReport> Trainer::maybe_evaluate(bool epoch_end) {
  if (!eval_runner_) return std::nullopt;
  const bool last = state_.global_step == total_steps_ && options_.eval_strategy != When::no;
  const double passed =
      options_.eval_strategy == When::epoch ? state_.epoch_progress : static_cast<double>(state_.global_step);
  const bool due = is_due(options_.eval_strategy, options_.eval_steps, epoch_end) && passed >= options_.eval_delay;
  if (!due && !last) return std::nullopt;
  const HeldOutReport report = evaluate_and_log();
  if (adaptive_rate_) {
    adaptive_rate_->observe(options_.best.of(report).value_or(report.loss));  // metric_for_best_model
    state_.adaptive_rate = adaptive_rate_->state();
  }
  return report;
}

void Trainer::save_checkpoint(const std::optional<HeldOutReport>& held_out) {
  const accel::TraceSpan span(runtime_.trace(), "save a checkpoint");
  const fs::path directory = checkpoints_.at(state_.global_step);
  CheckpointContent content;
  content.model = &saver_;
  content.store = model_.store.get();
  content.args_json = options_.args_json;
  content.seed = options_.seed;
  if (!options_.save_only_model) content.optimizer_tensors = optimizer_->states();
  state_.planned_tokens = runner_->grown();
  state_.kernel_choices = runtime_.choices.used();
  TrainState saved_state = state_;
  ++saved_state.saves_without_gain;
  const auto metric = held_out ? options_.best.of(*held_out) : std::nullopt;
  if (held_out && !metric) {
    log_warn(
        "the device doesn't tell how often the model is right, so no checkpoint is the best by it; give "
        "--metric_for_best_model loss");
  }
  if (metric && (!state_.best_metric || options_.best.is_better(*metric, *state_.best_metric))) {
    saved_state.best_metric = metric;
    saved_state.best_checkpoint = directory.string();
    saved_state.saves_without_gain = 0;
  }
  reporter_.sync();
  const Status saved = write_checkpoint(directory, saved_state, content);
  save_failed_ = !saved.ok();
  if (!saved.ok()) {
    log_warn(cat("checkpoint not saved, training goes on: ", saved.error().line()));
    return;
  }
  state_ = std::move(saved_state);
  if (hooks_.on_note) hooks_.on_note(cat("saved ", directory.string()));
  if (options_.create_checkpoint_symlink) {
    checkpoints_.link("last", directory);
    if (!state_.best_checkpoint.empty()) checkpoints_.link("best", state_.best_checkpoint);
  }
  // After the links, which may lead to what goes.
  checkpoints_.prune(options_.save_total_limit, state_.global_step, state_.best_checkpoint);
}

TrainResult Trainer::run() {
  reporter_.begin();
  TrainResult result;
  if (options_.eval_on_start && state_.global_step == 0 && eval_runner_) {
    (void)evaluate_and_log();
  }
  bool saved_here = false;
  while (state_.global_step < total_steps_ && !stops_early()) {
    if (hooks_.should_stop()) {
      result.interrupted = true;
      break;
    }
    const accel::TraceStep step(runtime_.trace(), state_.global_step + 1);
    const data::StepPlan plan = next_plan();
    train_step(plan);
    ++state_.step_in_epoch;
    if (plan.last) {
      state_.step_in_epoch = 0;
      ++state_.epoch;
    }
    const bool epoch_end = plan.last;
    state_.epoch_progress =
        static_cast<double>(state_.epoch) + static_cast<double>(state_.step_in_epoch) / static_cast<double>(per_epoch_);
    log_step(epoch_end);
    const bool last = state_.global_step == total_steps_;
    saved_here =
        is_due(options_.save_strategy, options_.save_steps, epoch_end) || (last && options_.save_strategy != When::no);
    const auto held_out = maybe_evaluate(epoch_end);
    if (saved_here) save_checkpoint(held_out);
    if (saved_here || held_out) reporter_.refresh();
  }
  if (result.interrupted && !saved_here) save_checkpoint(std::nullopt);
  finish(result);
  return result;
}

void Trainer::finish(TrainResult& result) {
  runtime_.choices.save();
  const auto checkpoints = checkpoints_.own(state_.global_step);
  if (!checkpoints.empty()) result.last_checkpoint = checkpoints.back().second.string();
  result.best_checkpoint = state_.best_checkpoint;
  result.best_metric = state_.best_metric;
  result.save_failed = save_failed_;
  result.steps = state_.global_step;
  result.stopped_early = stops_early() && state_.global_step < total_steps_;
  if (!result.interrupted) {
    reporter_.log_end(
        {state_.global_step, total_steps_, result.last_checkpoint, result.best_checkpoint, result.best_metric});
  }
  reporter_.refresh();
}

}  // namespace tern::train
