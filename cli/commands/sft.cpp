// tern sft, tern pt: fine-tuning with adapters or in full.
#include <csignal>

#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "cli/train_report.h"
#include "cli/train_setup.h"

namespace tern::cli {

int run_sft(const Arguments& arguments) {
  TrainReport report(arguments);
  const auto run = train::Run::open(run_options(arguments), report.hooks()).value();
  // A closed pipe behind stderr must not end hours of work.
  std::signal(SIGPIPE, SIG_IGN);
  install_interrupt_handler();
  report.finish(*run, run->train().value());
  return 0;
}

int run_pt(const Arguments& arguments) { return run_sft(arguments); }

}  // namespace tern::cli
