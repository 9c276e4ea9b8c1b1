// tern sft, tern pt: fine-tuning with adapters or in full.
#include <algorithm>
#include <csignal>
#include <filesystem>

#include "base/log.h"
#include "base/strings.h"
#include "checkpoint/safetensors.h"
#include "cli/commands/command.h"
#include "cli/data_setup.h"
#include "cli/interrupt.h"
#include "cli/run_directory.h"
#include "cli/session_flags.h"
#include "cli/terminal.h"
#include "cli/train_setup.h"
#include "io/atomic_dir.h"
#include "io/file_writer.h"
#include "train/model_saver.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;

std::string log_line(const train::LogRow& row) {
  if (row.eval_loss) return cat("step ", row.step, "/", row.total_steps, "  held-out loss ", fixed(*row.eval_loss, 4));
  return cat("step ", row.step, "/", row.total_steps, "  epoch ", fixed(row.epoch, 2), "  loss ",
             fixed(row.loss.value_or(0), 4), "  grad_norm ", fixed(row.grad_norm, 3), "  lr ", row.learning_rate, "  ",
             fixed(row.tokens_per_second, 0), " tokens/s");
}

// One training run: what is trained, what saves it, where it goes.
class Run {
 public:
  explicit Run(const Arguments& given) : arguments_(given), full_(given.string("tuner_type") == "full") {}

  int train() {
    refuse_idle_flags(arguments_);
    session_ = open_session(arguments_, arguments_.string("model"));
    const fs::path base = base_directory(arguments_);
    resume_ = checkpoint_to_resume(arguments_, base);
    const data::LoadOptions load = load_options(arguments_);
    if (load.dataset.empty()) {
      throw Failure(usage_error("--dataset", "at least one dataset", "none", "give --dataset FILE or a hub id"));
    }
    load_data(load);
    load_model();
    train::TrainerOptions options = trainer_options(arguments_, full_);
    const bool only_model = arguments_.boolean("resume_only_model");
    options.output_dir = !resume_.empty() && !only_model     ? fs::absolute(resume_).lexically_normal().parent_path()
                         : arguments_.boolean("add_version") ? new_version(base)
                                                             : base;
    if (!only_model) options.resume_from = resume_;
    options.data_settings = data_settings(arguments_, *session_);
    const fs::path output = options.output_dir;
    const DirectoryLock lock(output);
    for (const auto& name : io::remove_stale_directories(output))
      log_info(cat("removed what a killed run left: ", name));
    prepare(options);
    derive_arguments(options);
    return run(std::move(options), load);
  }

 private:
  void load_data(const data::LoadOptions& options) {
    const auto longest =
        static_cast<std::uint32_t>(std::max<std::int64_t>(session_->config.max_position_embeddings, 1));
    encoder_ = make_encoder(arguments_, session_->path, *session_->text, longest);
    const data::BatchOptions batches = batch_options(arguments_);
    data::LoadOptions at_once = options;
    if (arguments_.boolean("streaming")) {
      steps_ = open_stream(options, batches, longest);
      at_once.dataset.clear();
    }
    if (!at_once.dataset.empty() || !at_once.val_dataset.empty()) {
      data_ = data::load_datasets(at_once, *encoder_).value();
    }
    for (const auto& report : data_.reports) log_info(report.line());
    if (!data_.held_out.empty()) log_info(cat(data_.held_out.size(), " rows held out for evaluation"));
    if (!steps_) steps_ = std::make_unique<data::SetSteps>(data::SetSteps::create(data_.train, batches).value());
  }

  std::unique_ptr<data::StepSource> open_stream(const data::LoadOptions& load, const data::BatchOptions& batches,
                                                std::uint32_t longest) {
    data::StreamStepOptions options;
    options.batches = batches;
    options.buffer = static_cast<std::uint32_t>(arguments_.integer("shuffle_buffer_size"));
    options.longest = longest;
    if (arguments_.has("max_length")) options.longest = static_cast<std::uint32_t>(arguments_.integer("max_length"));
    return data::StreamSteps::open(load, *encoder_, options).value();
  }

  void load_model() {
    models::LoadOptions load;
    load.fp32_masters = full_;
    load.max_positions = std::max<std::int64_t>({1, steps_->bounds().longest, data_.validation.longest()});
    load_weights(*session_, arguments_, load);
  }

  // What is trained, and what writes it.
  void prepare(train::TrainerOptions& options) {
    auto& model = session_->model;
    options.graph.compute = session_->compute;
    if (full_) {
      options.graph.trainable = trained_parameters(arguments_, model);
      saver_ = train::full_model_saver(model, session_->path,
                                       static_cast<std::uint64_t>(arguments_.integer("max_shard_size")));
      if (!resume_.empty()) train::load_full_checkpoint(model, resume_);
    } else {
      adapter_ = prepare_adapter(arguments_, *session_, resume_);
      options.graph.adapters = adapter_.layers;
      options.graph.lora_dropout = static_cast<float>(adapter_.config.dropout);
      options.graph.dropout = adapter_.config.dropout > 0;
      for (const auto& [module, layer] : adapter_.layers) {
        options.graph.trainable.push_back(layer.lora_a);
        options.graph.trainable.push_back(layer.lora_b);
      }
      saver_ = train::adapter_saver(model, adapter_);
    }
    std::int64_t trained = 0;
    for (const auto& name : options.graph.trainable) trained += num_elements(model.store->at(name).desc);
    const std::string data = arguments_.boolean("streaming")
                                 ? std::string("a stream")
                                 : cat(data_.train.size(), " samples, ", data_.train.tokens(), " tokens, ",
                                       data_.train.supervised(), " supervised");
    log_info(cat("training ", trained, " of ", model.config.num_parameters() + (full_ ? 0 : trained), " parameters on ",
                 data));
  }

  void derive_arguments(train::TrainerOptions& options) {
    arguments_.derive("output_dir", options.output_dir.string());
    arguments_.derive("learning_rate", options.learning_rate);
    arguments_.derive("gradient_accumulation_steps", static_cast<std::int64_t>(batch_options(arguments_).accumulation));
    options.args_json = arguments_.to_json();
  }

  int run(train::TrainerOptions options, const data::LoadOptions& load) {
    const fs::path output = options.output_dir;
    const std::string args_json = options.args_json;
    train::TrainerHooks hooks;
    std::unique_ptr<Progress> progress;
    hooks.on_log = [](const train::LogRow& row) { log_info(log_line(row)); };
    hooks.on_note = [](const std::string& line) { log_info(line); };
    hooks.should_stop = [] { return interrupted(); };
    if (stderr_is_terminal() && !arguments_.boolean("quiet")) {
      hooks.on_step = [&](std::int64_t step, std::int64_t total, double loss) {
        if (!progress) progress = std::make_unique<Progress>("training", static_cast<std::uint64_t>(total), "step");
        progress->update(static_cast<std::uint64_t>(step), cat("loss ", fixed(loss, 4)));
      };
    }
    train::Trainer trainer(session_->model, *saver_, *steps_, data_.validation, std::move(options), *session_->runtime,
                           std::move(hooks));
    // Only now is it known that no other run's checkpoints are in the way: nothing of theirs is overwritten.
    io::write_file(output / "args.json", args_json).value();
    if (!data_.held_out.empty()) data::write_held_out(load, data_, output / "val_dataset.jsonl").value();
    session::keep_bindings(trainer.training_program(), output / "binding.txt");
    // A closed pipe behind stderr must not end hours of work.
    std::signal(SIGPIPE, SIG_IGN);
    install_interrupt_handler();
    const train::TrainResult result = trainer.run();
    progress.reset();
    return report(trainer, result, output);
  }

  int report(train::Trainer& trainer, const train::TrainResult& result, const fs::path& output) {
    if (result.save_failed) {
      throw Failure(
          failed_error(output.string(), "a saved checkpoint at the end", "a failed save",
                       result.last_checkpoint.empty()
                           ? std::string("free disk space and run again")
                           : cat("free disk space and go on with --resume_from_checkpoint ", result.last_checkpoint)));
    }
    if (result.interrupted) {
      throw Failure(interrupted_error(cat("saved ", result.last_checkpoint),
                                      cat("go on with --resume_from_checkpoint ", result.last_checkpoint)));
    }
    if (arguments_.boolean("load_best_model_at_end")) end_on_best(trainer, result);
    if (!result.best_checkpoint.empty()) {
      log_info(cat("best checkpoint: ", result.best_checkpoint, ", held-out loss ", fixed(*result.best_metric, 4)));
    }
    if (!result.last_checkpoint.empty()) log_info(cat("last checkpoint: ", result.last_checkpoint));
    return 0;
  }

  // --load_best_model_at_end: the weights in memory become the best checkpoint's, and are measured again.
  void end_on_best(train::Trainer& trainer, const train::TrainResult& result) {
    if (result.best_checkpoint.empty() || result.best_checkpoint == result.last_checkpoint) return;
    if (full_) {
      train::load_full_checkpoint(session_->model, result.best_checkpoint);
    } else {
      const auto file = checkpoint::Safetensors::open_directory(result.best_checkpoint, "adapter_model").value();
      for (const auto& [module, layer] : adapter_.layers) {
        session_->model.store->upload(layer.lora_a, file.tensor(models::peft_name(module, "lora_A"))->bytes);
        session_->model.store->upload(layer.lora_b, file.tensor(models::peft_name(module, "lora_B"))->bytes);
      }
    }
    log_info(cat("best weights loaded: held-out loss ", fixed(trainer.evaluate(), 4)));
  }

  Arguments arguments_;
  bool full_;
  std::unique_ptr<session::Session> session_;
  fs::path resume_;
  std::shared_ptr<const data::RowEncoder> encoder_;
  data::LoadedData data_;
  std::unique_ptr<data::StepSource> steps_;
  models::LoadedAdapter adapter_;
  std::unique_ptr<train::ModelSaver> saver_;
};

}  // namespace

int run_sft(const Arguments& arguments) { return Run(with_saved_arguments(arguments)).train(); }
int run_pt(const Arguments& arguments) { return Run(with_saved_arguments(arguments)).train(); }

}  // namespace tern::cli
