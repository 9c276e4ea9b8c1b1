#include "cli/train_report.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/log.h"
#include "base/strings.h"
#include "cli/interrupt.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;

// Three digits: 1.7e-05.
std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

std::string log_line(const train::LogRow& row) {
  const std::string place = cat("step ", row.step, "/", row.total_steps);
  if (row.eval_loss) return cat(place, "  held-out loss ", fixed(*row.eval_loss, 4));
  return cat(place, "  epoch ", fixed(row.epoch, 2), "  loss ", fixed(row.loss.value_or(0), 4), "  grad_norm ",
             fixed(row.grad_norm, 3), "  lr ", short_number(row.learning_rate), "  ", fixed(row.tokens_per_second, 0),
             " tokens/s");
}

}  // namespace

std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("/._-+=:,@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string program_word() {
  std::error_code failed;
  const fs::path self = fs::read_symlink("/proc/self/exe", failed);
  if (failed) return "tern";
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : split(path != nullptr ? path : "", ':')) {
    if (fs::equivalent(fs::path(folder) / "tern", self, failed)) return "tern";
  }
  return shell_word(self.string());
}

TrainReport::TrainReport(const Arguments& arguments)
    : arguments_(arguments), live_(stderr_is_terminal() && !arguments.boolean("quiet")) {}

train::TrainerHooks TrainReport::hooks() {
  train::TrainerHooks hooks;
  hooks.on_log = [this](const train::LogRow& row) { log(row); };
  hooks.on_note = [this](const std::string& line) { say(line); };
  hooks.should_stop = [] { return interrupted(); };
  if (!live_) return hooks;
  hooks.on_step = [this](const train::StepProgress& at) {
    if (!progress_) {
      progress_ = std::make_unique<Progress>("training", static_cast<std::uint64_t>(at.total_steps), "step");
      progress_->begin_at(
          static_cast<std::uint64_t>(at.step));  // a resumed run's earlier steps took no time of this one
    }
    progress_->update(static_cast<std::uint64_t>(at.step),
                      cat("loss ", fixed(at.loss, 4), " ", fixed(at.memory_gib, 2), " GiB"));
  };
  return hooks;
}

void TrainReport::say(const std::string& line) {
  if (progress_) progress_->clear();
  log_info(line);
}

void TrainReport::log(const train::LogRow& row) {
  if (row.loss) loss_ = row.loss;
  if (row.eval_loss && !first_held_out_) first_held_out_ = row.eval_loss;
  if (row.eval_loss) last_held_out_ = row.eval_loss;
  seconds_ = row.elapsed_seconds;
  say(log_line(row));
}

std::string TrainReport::in_short(const train::TrainResult& result) const {
  std::string out = cat("trained ", result.steps, " steps in ", clock_text(seconds_));
  if (loss_) out += cat(": loss ", fixed(*loss_, 4));
  if (last_held_out_) {
    out += cat(loss_ ? ", " : ": ", "held-out loss ", fixed(*last_held_out_, 4));
    if (first_held_out_ != last_held_out_) out += cat(" (first ", fixed(*first_held_out_, 4), ")");
  }
  return out;
}

void TrainReport::tell_next(const train::TrainResult& result) const {
  if (result.last_checkpoint.empty()) {
    log_info("nothing was saved, as --save_strategy is no");
    return;
  }
  const std::string& checkpoint = result.best_checkpoint.empty() ? result.last_checkpoint : result.best_checkpoint;
  const bool full = arguments_.string("tuner_type") == "full";
  const std::string program = program_word();
  log_info(cat("ask it:       ", program, " infer ", full ? "--model " : "--adapters ", shell_word(checkpoint)));
  if (!full) log_info(cat("merge it:     ", program, " merge-lora --adapters ", shell_word(checkpoint)));
}

void TrainReport::finish(const train::Run& run, const train::TrainResult& result) {
  progress_.reset();
  const std::string output = run.output_dir().string();
  const std::string go_on = cat("give --resume_from_checkpoint ", result.last_checkpoint, " to go on");
  if (result.save_failed) {
    throw Failure(failed_error(cat("the last checkpoint could not be saved in ", output),
                               result.last_checkpoint.empty() ? std::string("free disk space and run again")
                                                              : cat("free disk space and ", go_on)));
  }
  if (result.interrupted)
    throw Failure(interrupted_error(cat("training was stopped, and ", result.last_checkpoint, " is saved"), go_on));
  if (result.stopped_early) {
    log_info(cat("stopped early, at step ", result.steps, ": ", arguments_.integer("early_stop_interval"),
                 " checkpoints in a row were no better than the best; a larger --early_stop_interval goes on"));
  }
  log_info(in_short(result));
  if (!result.best_checkpoint.empty()) {
    log_info(cat("best checkpoint: ", result.best_checkpoint, ", ", train::metric_name(run.best().metric), " ",
                 fixed(*result.best_metric, 4)));
  }
  if (!result.last_checkpoint.empty()) log_info(cat("last checkpoint: ", result.last_checkpoint));
  log_info(cat("log:          ", output, "/logging.jsonl"));
  log_info(cat("plots:        ", output, "/images/train_loss.svg and others beside it"));
  for (const train::Viewer& viewer : run.viewers()) {
    const std::string tool = cat(viewer.tool, ":");
    log_info(cat(tool, std::string(std::max<std::size_t>(14, tool.size() + 1) - tool.size(), ' '), viewer.command, " ",
                 shell_word(viewer.path.string())));
  }
  tell_next(result);
}

}  // namespace tern::cli
