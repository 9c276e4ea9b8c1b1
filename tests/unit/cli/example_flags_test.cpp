// Command lines of ms-swift's own examples, as tests/data/flags/ms-swift-examples.tsv lists their flags: with `swift`
// replaced by `tern`, each flag has an answer, and those that work go together.
#include <gtest/gtest.h>

#include <fstream>

#include "base/strings.h"
#include "cli/flags/answer.h"
#include "cli/flags/command_line.h"
#include "cli/flags/condition.h"

namespace tern::cli {
namespace {

using Words = std::vector<std::string>;

struct Example {
  std::string file;
  std::string command;
  std::vector<Words> flags;  // each with its values
};

std::vector<Example> examples() {
  std::ifstream in(std::string(TERN_SOURCE_DIR) + "/tests/data/flags/ms-swift-examples.tsv");
  std::vector<Example> out;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#')) continue;
    const auto cells = split(line, '\t');
    Example example{std::string(cells.at(0)), std::string(cells.at(1)), {}};
    for (std::size_t i = 2; i < cells.size(); ++i) {
      if (cells[i].starts_with("--")) {
        example.flags.push_back({std::string(cells[i])});
      } else if (!example.flags.empty()) {
        example.flags.back().emplace_back(cells[i]);
      }
    }
    out.push_back(std::move(example));
  }
  return out;
}

// "" where the words are taken, else the error.
std::string judged(const Words& words, bool effects) {
  auto parsed = parse_command_line(words, [](const std::string&) { return std::optional<std::string>(); });
  if (!parsed) return parsed.error().line();
  const Status status = effects ? check_effects(parsed->arguments) : Status(Unit{});
  return status.ok() ? std::string() : status.error().line();
}

// An answer, and not that the flag is unknown or its number wrong. A word that tern does not have is answered by those
// that it has.
bool is_answer(const std::string& line) {
  for (const char* part : {" is refused: ", "not implemented yet", " has no effect in tern "}) {
    if (line.find(part) != std::string::npos) return true;
  }
  const auto wanted = line.find(", and must be ");
  const bool number = line.find(", and must be an integer") != line.npos || line.find(", and must be a ") != line.npos;
  return line.empty() || (wanted != std::string::npos && !number);
}

TEST(ExampleFlags, EachHasAnAnswerAndThoseThatWorkGoTogether) {
  const auto all = examples();
  ASSERT_GE(all.size(), 20U);
  for (const auto& example : all) {
    Words together = {example.command};
    bool all_taken = true;
    for (const auto& flag : example.flags) {
      Words alone = {example.command};
      alone.insert(alone.end(), flag.begin(), flag.end());
      const std::string line = judged(alone, false);
      EXPECT_TRUE(is_answer(line)) << example.file << ": " << join(flag, " ") << ": " << line;
      if (line.empty()) together.insert(together.end(), flag.begin(), flag.end());
      all_taken = all_taken && line.empty();
    }
    // What depends on a flag that isn't taken has no effect without it.
    EXPECT_EQ(judged(together, all_taken), "") << example.file << ": " << join(together, " ");
  }
}

}  // namespace
}  // namespace tern::cli
