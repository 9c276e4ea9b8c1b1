// Every flag of ms-swift's commands, as tests/data/flags/ms-swift.tsv lists them, has an answer in tern.
#include "cli/flags/answer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "base/strings.h"
#include "cli/flags/arguments.h"
#include "cli/flags/command_line.h"
#include "cli/flags/condition.h"

namespace tern::cli {
namespace {

struct Listed {
  std::string command;
  std::string flag;
  std::string value;  // the default, as a user would type it; empty where there is none
  std::string from;
};

// `['tensorboard']` is typed `tensorboard`.
std::string as_typed(std::string value) {
  for (const char* none : {"None", "[]", "{}", "-"}) {
    if (value == none) return {};
  }
  const auto inside = [](char c) { return c != '[' && c != ']' && c != '\''; };
  std::string out;
  std::copy_if(value.begin(), value.end(), std::back_inserter(out), inside);
  return out;
}

std::vector<Listed> listed() {
  std::ifstream in(std::string(TERN_SOURCE_DIR) + "/tests/data/flags/ms-swift.tsv");
  std::vector<Listed> rows;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#')) continue;
    const auto cells = split(line, '\t');
    if (cells.size() != 4) continue;
    rows.push_back(
        {std::string(cells[0]), std::string(cells[1]), as_typed(std::string(cells[2])), std::string(cells[3])});
  }
  return rows;
}

// Where tern's default is another: the flag and the reason.
const std::map<std::string, std::string>& other_defaults() {
  static const std::map<std::string, std::string> table = {
      {"load_from_cache_file", "rows are kept by what they and the template are, so that an old cache is never taken"},
      {"optim", "transformers finds adamw_torch_fused as it runs, and that is AdamW"},
      {"app host", "there it is of the server behind the page, which is one with it here"},
      {"app port", "there it is of the server behind the page, which is one with it here"},
      {"warmup_steps", "none is the same as 0"},
      {"rollout max_logprobs", "trainers that distil ask for more, and each request says how many"},
      {"vllm_max_lora_rank", "the adapters that are named say it, and 16 is the least where others may be loaded"},
  };
  return table;
}

bool same_default(const Listed& row, std::string_view mine) {
  const Answer like{nullptr, row.flag, mine};
  return row.value == mine || asks_nothing(like, row.value);
}

TEST(Answers, TheListHasEveryCommandOfMsSwift) {
  std::map<std::string, int> count;
  for (const auto& row : listed()) ++count[row.command];
  for (const auto* command :
       {"pt", "sft", "rlhf", "infer", "deploy", "rollout", "export", "merge-lora", "eval", "sample", "app", "web-ui"}) {
    EXPECT_GT(count[command], command == std::string("web-ui") ? 3 : 100) << command;
  }
}

TEST(Answers, EveryFlagOfMsSwiftHasOne) {
  for (const auto& row : listed()) {
    const CommandSpec* command = find_command(row.command);
    ASSERT_NE(command, nullptr) << row.command;
    const bool answered = find_flag(*command, row.flag) != nullptr || find_answer(*command, row.flag).has_value();
    EXPECT_TRUE(answered) << row.command << " --" << row.flag << " " << row.value << " (" << row.from << ")";
  }
}

TEST(Answers, AFlagThatWorksHasMsSwiftsDefaultOrAReason) {
  std::set<std::string> used;
  for (const auto& row : listed()) {
    const CommandSpec& command = *find_command(row.command);
    const Flag* flag = find_flag(command, row.flag);
    if (flag == nullptr || why_no_effect(command, flag->name) || !flag->explanation.empty()) continue;
    if (row.value.empty() || same_default(row, contract_default(command, *flag))) continue;
    const auto key = other_defaults().contains(row.flag) ? row.flag : row.command + " " + row.flag;
    EXPECT_TRUE(other_defaults().contains(key)) << row.command << " --" << row.flag << " is " << row.value
                                                << " there and " << contract_default(command, *flag) << " here";
    used.insert(key);
  }
  for (const auto& [key, reason] : other_defaults()) EXPECT_TRUE(used.contains(key)) << key << ": " << reason;
}

// What a script says though it is the default changes nothing, and so it does not fail.
TEST(Answers, MsSwiftsDefaultGivenOutrightIsNoError) {
  for (const auto& row : listed()) {
    if (row.value.empty() || row.value == "default_optim") continue;  // the latter is adamw_torch, found as it runs
    if (is_pending_value(*find_command(row.command), row.flag, row.value)) continue;
    auto parsed = parse_command_line({row.command, "--" + row.flag, row.value},
                                     [](const std::string&) { return std::optional<std::string>(); });
    const std::string typed = cat(row.command, " --", row.flag, " ", row.value, ": ");
    ASSERT_TRUE(bool(parsed)) << typed << parsed.error().problem;
    const Status effects = check_effects(parsed->arguments);
    EXPECT_TRUE(effects.ok()) << typed << effects.error().line();
  }
}

// Of one name, the answer is the same; what only Megatron has stands in the page's table.
TEST(Answers, EveryFlagOfMegatronIsInThePage) {
  std::set<std::string> known;
  for (const auto& row : listed()) known.insert(row.flag);
  std::ifstream page(std::string(TERN_SOURCE_DIR) + "/docs/migrate.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  std::ifstream in(std::string(TERN_SOURCE_DIR) + "/tests/data/flags/megatron.tsv");
  std::size_t count = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#')) continue;
    const std::string flag = line.substr(0, line.find('\t'));
    ++count;
    EXPECT_TRUE(known.contains(flag) || text.find(cat("`", flag, "`")) != std::string::npos) << flag;
  }
  EXPECT_GT(count, 400U);
}

// A flag that every command of its row has among its own is answered there, and never here.
TEST(Answers, EachIsSomeCommands) {
  for (const auto& row : answer_rows()) {
    for (const auto& answer : answers_of(row)) {
      bool is_read = false;
      for (const auto name : split(row.commands, '|')) {
        is_read = is_read || find_flag(*find_command(name), answer.flag) == nullptr;
      }
      EXPECT_TRUE(is_read) << row.commands << ": " << answer.flag;
    }
  }
}

}  // namespace
}  // namespace tern::cli
