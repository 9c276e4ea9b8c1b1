// How a command is written: one file `cli/<name>.cpp` that defines `run_<name>`, declared here and listed in
// cli/commands.cpp; its flags stand in cli/command_table.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/flags/arguments.h"

namespace tern::cli {

// Runs the command and gives its exit status. Results go to stdout, all else through base/log.h; a Failure ends it with
// the error line and the status of its kind.
using CommandFunction = int (*)(const Arguments& arguments);

struct CommandEntry {
  std::string_view name;
  CommandFunction run;
};

[[nodiscard]] const std::vector<CommandEntry>& implemented_commands();
[[nodiscard]] std::vector<std::string> implemented_names();

int run_bench(const Arguments& arguments);
int run_convert(const Arguments& arguments);
int run_devices(const Arguments& arguments);
int run_doctor(const Arguments& arguments);
int run_infer(const Arguments& arguments);
int run_inspect(const Arguments& arguments);
int run_inspect_data(const Arguments& arguments);
int run_merge_lora(const Arguments& arguments);
int run_models(const Arguments& arguments);
int run_pt(const Arguments& arguments);
int run_score(const Arguments& arguments);
int run_selftest(const Arguments& arguments);
int run_sft(const Arguments& arguments);
int run_tokenize(const Arguments& arguments);

}  // namespace tern::cli
