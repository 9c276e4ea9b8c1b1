// tern sft, tern pt: fine-tuning with adapters or in full.
#include <csignal>

#include "base/log.h"
#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "cli/terminal.h"
#include "cli/train_setup.h"

namespace tern::cli {
namespace {

std::string log_line(const train::LogRow& row) {
  if (row.eval_loss) return cat("step ", row.step, "/", row.total_steps, "  held-out loss ", fixed(*row.eval_loss, 4));
  return cat("step ", row.step, "/", row.total_steps, "  epoch ", fixed(row.epoch, 2), "  loss ",
             fixed(row.loss.value_or(0), 4), "  grad_norm ", fixed(row.grad_norm, 3), "  lr ", row.learning_rate, "  ",
             fixed(row.tokens_per_second, 0), " tokens/s");
}

// `progress` outlives the hooks: the bar goes when it is reset.
train::TrainerHooks make_hooks(const Arguments& arguments, std::unique_ptr<Progress>& progress) {
  train::TrainerHooks hooks;
  hooks.on_log = [](const train::LogRow& row) { log_info(log_line(row)); };
  hooks.on_note = [](const std::string& line) { log_info(line); };
  hooks.should_stop = [] { return interrupted(); };
  if (!stderr_is_terminal() || arguments.boolean("quiet")) return hooks;
  hooks.on_step = [&progress](std::int64_t step, std::int64_t total, double loss) {
    if (!progress) progress = std::make_unique<Progress>("training", static_cast<std::uint64_t>(total), "step");
    progress->update(static_cast<std::uint64_t>(step), cat("loss ", fixed(loss, 4)));
  };
  return hooks;
}

void report(const train::TrainResult& result, const std::filesystem::path& output) {
  const std::string go_on = cat("give --resume_from_checkpoint ", result.last_checkpoint, " to go on");
  if (result.save_failed) {
    throw Failure(failed_error(cat("the last checkpoint could not be saved in ", output.string()),
                               result.last_checkpoint.empty() ? std::string("free disk space and run again")
                                                              : cat("free disk space and ", go_on)));
  }
  if (result.interrupted)
    throw Failure(interrupted_error(cat("training was stopped, and ", result.last_checkpoint, " is saved"), go_on));
  if (!result.best_checkpoint.empty()) {
    log_info(cat("best checkpoint: ", result.best_checkpoint, ", held-out loss ", fixed(*result.best_metric, 4)));
  }
  if (!result.last_checkpoint.empty()) log_info(cat("last checkpoint: ", result.last_checkpoint));
}

}  // namespace

int run_sft(const Arguments& arguments) {
  std::unique_ptr<Progress> progress;
  const auto run = train::Run::open(run_options(arguments), make_hooks(arguments, progress)).value();
  // A closed pipe behind stderr must not end hours of work.
  std::signal(SIGPIPE, SIG_IGN);
  install_interrupt_handler();
  const train::TrainResult result = run->train().value();
  progress.reset();
  report(result, run->output_dir());
  return 0;
}

int run_pt(const Arguments& arguments) { return run_sft(arguments); }

}  // namespace tern::cli
