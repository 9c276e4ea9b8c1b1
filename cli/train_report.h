// What a user sees of a training run: a live line or plain ones, and at the end where everything is and what to do next.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/flags/arguments.h"
#include "cli/terminal.h"
#include "train/run.h"

namespace tern::cli {

class TrainReport {
 public:
  explicit TrainReport(const Arguments& arguments);

  // For a run that this outlives.
  [[nodiscard]] train::TrainerHooks hooks();
  // Of a run that came to its end. Throws Failure where it was stopped, or its last checkpoint wasn't saved.
  void finish(const train::Run& run, const train::TrainResult& result);

 private:
  void log(const train::LogRow& row);
  void say(const std::string& line);  // beside the live line
  [[nodiscard]] std::string in_short(const train::TrainResult& result) const;
  void tell_next(const train::TrainResult& result) const;

  const Arguments& arguments_;
  bool live_;
  std::unique_ptr<Progress> progress_;
  std::optional<double> loss_, first_held_out_, last_held_out_;
  double seconds_ = 0;
};

// A word of a command as a POSIX shell reads it back.
[[nodiscard]] std::string shell_word(const std::string& word);
// How a user calls this program: `tern` where the search path leads to it, else its file.
[[nodiscard]] std::string program_word();

}  // namespace tern::cli
