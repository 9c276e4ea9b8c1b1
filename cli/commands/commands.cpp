#include "cli/commands/command.h"

namespace tern::cli {

const std::vector<CommandEntry>& implemented_commands() {
  static const std::vector<CommandEntry> commands = {
      {"bench", run_bench},
      {"convert", run_convert},
      {"devices", run_devices},
      {"doctor", run_doctor},
      {"infer", run_infer},
      {"inspect", run_inspect},
      {"inspect-data", run_inspect_data},
      {"merge-lora", run_merge_lora},
      {"models", run_models},
      {"pt", run_pt},
      {"score", run_score},
      {"selftest", run_selftest},
      {"sft", run_sft},
      {"tokenize", run_tokenize},
  };
  return commands;
}

std::vector<std::string> implemented_names() {
  std::vector<std::string> names;
  for (const auto& command : implemented_commands()) names.emplace_back(command.name);
  return names;
}

}  // namespace tern::cli
