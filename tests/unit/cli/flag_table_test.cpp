// The table itself: every row must be usable, as parsing, help and the docs are made from it.
#include "cli/flags/flag_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "base/strings.h"
#include "cli/flags/arguments.h"
#include "cli/flags/flag_groups.h"
#include "cli/flags/help.h"
#include "cli/models_page.h"

namespace tern::cli {
namespace {

// The most lines that docs/not-implemented.txt may have: the list only shrinks, and so does this number.
constexpr std::size_t kMostLines = 427;

std::string read(const std::string& path) {
  std::ifstream stream(std::string(TERN_SOURCE_DIR) + "/" + path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// `sft --optim=sgd` names a flag of the command.
std::string flag_of(std::string_view entry) { return std::string(entry.substr(0, entry.find('='))); }

TEST(FlagTable, EveryCommandStartsFromDefaultsThatItsFlagsAccept) {
  for (const auto& command : command_table()) {
    SCOPED_TRACE(command.name);
    ASSERT_NO_THROW(Arguments{command});
  }
}

TEST(FlagTable, RowsOfACommandNameFlagsThatItHas) {
  for (const auto& command : command_table()) {
    SCOPED_TRACE(command.name);
    std::vector<std::string> named;
    for (const auto entry : command.pending) named.push_back(flag_of(entry));
    for (const auto& row : command.defaults) named.emplace_back(row.flag);
    for (const auto& row : command.no_effect) named.emplace_back(row.flag);
    for (const auto name : command.positional) named.emplace_back(name);
    for (const auto& name : named) {
      const Flag* flag = find_flag(command, name);
      ASSERT_NE(flag, nullptr) << name;
      EXPECT_EQ(flag->name, name) << "an alias in the table";
    }
  }
}

TEST(FlagTable, NoDefaultIsPending) {
  for (const auto& command : command_table()) {
    for (const Flag* flag : command_flags(command)) {
      EXPECT_FALSE(is_pending_value(command, flag->name, contract_default(command, *flag)))
          << command.name << " --" << flag->name;
    }
  }
}

TEST(FlagTable, NamesAreUniqueAndSpelledWithUnderscores) {
  for (const auto& command : command_table()) {
    std::set<std::string> seen;
    for (const auto& name : flag_spellings(command)) {
      EXPECT_TRUE(seen.insert(name).second) << command.name << " --" << name << " twice";
      EXPECT_EQ(name, flag_name(name));
    }
    EXPECT_EQ(command.name, command_name(command.name));
  }
}

TEST(FlagTable, EveryFlagHasHelp) {
  for (const auto& group : flag_groups()) {
    for (const auto& flag : group.flags) EXPECT_FALSE(flag.help.empty()) << group.name << ": " << flag.name;
  }
}

TEST(FlagTable, HoldsTheCommandsOfTheContract) {
  for (const auto* name :
       {"pt",      "sft",          "rlhf",     "infer", "deploy",  "rollout", "export", "merge-lora",
        "eval",    "sample",       "web-ui",   "app",   "devices", "topo",    "doctor", "plan",
        "inspect", "inspect-data", "tokenize", "score", "bench",   "convert", "models", "selftest"}) {
    EXPECT_NE(find_command(name), nullptr) << name;
  }
  EXPECT_EQ(command_table().size(), 25U);
}

TEST(FlagTable, ACommandThatRunsHasAnExample) {
  for (const auto& command : command_table())
    EXPECT_EQ(command.run != nullptr, !command.example.empty()) << command.name;
}

TEST(FlagTable, UnderscoreAndDashAreTheSame) {
  ASSERT_NE(find_command("merge_lora"), nullptr);
  EXPECT_EQ(find_command("merge_lora"), find_command("merge-lora"));
  const auto& sft = *find_command("sft");
  ASSERT_NE(find_flag(sft, "lora-rank"), nullptr);
  EXPECT_EQ(find_flag(sft, "lora-rank"), find_flag(sft, "lora_rank"));
}

TEST(FlagTable, AliasesLeadToTheirFlag) {
  const auto& deploy = *find_command("deploy");
  EXPECT_EQ(find_flag(deploy, "dtype")->name, "torch_dtype");
  EXPECT_EQ(find_flag(deploy, "vllm_max_num_seqs")->name, "max_num_seqs");
  EXPECT_EQ(find_flag(deploy, "vllm_dtype")->name, "torch_dtype");
  EXPECT_EQ(find_flag(deploy, "vllm_nonsense"), nullptr);
}

// It says and does the same everywhere: where a command opens weights, it has this very row.
TEST(FlagTable, TorchDtypeIsOneRow) {
  std::set<std::string_view> with;
  for (const auto& command : command_table()) {
    const Flag* flag = find_flag(command, "torch_dtype");
    if (flag == nullptr) continue;
    with.insert(command.name);
    EXPECT_EQ(flag->help, kTorchDtype.help) << command.name;
    EXPECT_EQ(flag->computed, kTorchDtype.computed) << command.name;
    EXPECT_EQ(flag->choices, kTorchDtype.choices) << command.name;
  }
  for (const char* name : {"pt", "sft", "infer", "score", "bench", "selftest", "merge-lora", "deploy"})
    EXPECT_TRUE(with.contains(name)) << name;
}

// What sft's users rely on: the defaults of the contract.
TEST(FlagTable, DefaultsAreTheContracts) {
  struct Row {
    const char* command;
    const char* flag;
    const char* value;
  };
  static constexpr Row kRows[] = {{"sft", "tuner_type", "lora"},
                                  {"sft", "seed", "42"},
                                  {"sft", "lora_rank", "8"},
                                  {"sft", "lora_alpha", "32"},
                                  {"sft", "lora_dropout", "0.05"},
                                  {"sft", "num_train_epochs", "3"},
                                  {"sft", "max_steps", "-1"},
                                  {"sft", "warmup_ratio", "0"},
                                  {"sft", "weight_decay", "0.1"},
                                  {"sft", "adam_beta2", "0.95"},
                                  {"sft", "adam_epsilon", "1e-8"},
                                  {"sft", "max_grad_norm", "1.0"},
                                  {"sft", "lr_scheduler_type", "cosine"},
                                  {"sft", "save_steps", "500"},
                                  {"sft", "logging_steps", "5"},
                                  {"sft", "report_to", "tensorboard"},
                                  {"sft", "use_chat_template", "true"},
                                  {"pt", "use_chat_template", "false"},
                                  {"pt", "loss_scale", "all"},
                                  {"sft", "loss_scale", "default"},
                                  {"sft", "gradient_checkpointing", "true"},
                                  {"sft", "target_modules", "all-linear"},
                                  {"infer", "load_args", "true"},
                                  {"sft", "load_args", "false"},
                                  {"export", "load_args", "true"},
                                  {"rlhf", "temperature", "0.9"},
                                  {"rlhf", "max_completion_length", "512"},
                                  {"deploy", "port", "8000"},
                                  {"deploy", "host", "0.0.0.0"},
                                  {"export", "group_size", "128"},
                                  {"sft", "max_shard_size", "5GB"},
                                  {"infer", "max_batch_size", "1"}};
  for (const auto& row : kRows) {
    const auto& command = *find_command(row.command);
    const Flag* flag = find_flag(command, row.flag);
    ASSERT_NE(flag, nullptr) << row.command << " --" << row.flag;
    EXPECT_EQ(contract_default(command, *flag), row.value) << row.command << " --" << row.flag;
  }
}

TEST(Docs, CliPageIsTheTable) {
  EXPECT_EQ(read("docs/cli.md"), help_markdown()) << "write it anew: tern --help-markdown > docs/cli.md";
}

TEST(Docs, ModelsPageIsTheRegistry) {
  EXPECT_EQ(read("docs/models.md"), models_markdown()) << "write it anew: tern --help-models > docs/models.md";
}

TEST(Docs, NotImplementedListIsTheTableAndOnlyShrinks) {
  const auto lines = not_implemented();
  EXPECT_EQ(read("docs/not-implemented.txt"), join(lines, "\n") + "\n")
      << "write it anew: tern --help-not-implemented > docs/not-implemented.txt";
  EXPECT_LE(lines.size(), kMostLines) << "what worked must go on working";
}

TEST(Help, ShowsEveryFlagThatTheCommandTakes) {
  for (const auto& command : command_table()) {
    const auto help = help_command(command);
    for (const Flag* flag : command_flags(command)) {
      const bool has_effect = !why_no_effect(command, flag->name);
      EXPECT_EQ(help.find(cat("  --", flag->name, " ")) != std::string::npos, has_effect)
          << command.name << " --" << flag->name;
    }
  }
}

TEST(Help, LinesFitTheTerminal) {
  for (const auto& command : command_table()) {
    const auto help = help_command(command);
    for (const auto line : split(help, '\n')) {
      if (!line.starts_with("  ")) continue;
      EXPECT_LE(line.size(), 120U) << command.name << ": " << line;
    }
  }
}

}  // namespace
}  // namespace tern::cli
