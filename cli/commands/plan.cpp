// tern plan: what a training run takes, before it runs.
#include <cstdio>

#include "cli/commands/command.h"
#include "cli/train_setup.h"
#include "train/run.h"

namespace tern::cli {

int run_plan(const Arguments& arguments) {
  const auto memory = static_cast<std::uint64_t>(arguments.maybe_integer("device_memory").value_or(0));
  const train::Run::Planned planned = train::Run::plan(run_options(arguments), memory).value();
  const std::string text = arguments.boolean("json")
                               ? train::plan_json(planned.plan, planned.changes)
                               : train::plan_table(planned.plan) + train::changes_text(planned.plan, planned.changes);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace tern::cli
