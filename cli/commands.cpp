#include "cli/command.h"

namespace tern::cli {

const std::vector<CommandEntry>& implemented_commands() {
  static const std::vector<CommandEntry> commands = {
      {"models", run_models},
      {"devices", run_devices},
      {"infer", run_infer},
      {"merge-lora", run_merge_lora},
      {"pt", run_pt},
      {"score", run_score},
      {"sft", run_sft},
      {"selftest", run_selftest},
      {"inspect-data", run_inspect_data},
  };
  return commands;
}

std::vector<std::string> implemented_names() {
  std::vector<std::string> names;
  for (const auto& command : implemented_commands()) names.emplace_back(command.name);
  return names;
}

}  // namespace tern::cli
