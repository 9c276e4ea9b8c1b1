// Training killed again and again at any moment: nothing that was reported saved is lost, and what comes out in the end
// is what a run that nobody stopped gives, to the bit. TERN_KILLS says how many times; script/test --full says
// hundreds.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <random>
#include <regex>

#include "tiny_training.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// The largest N of checkpoint-N in `text`, or of the folders in a directory; 0 where there is none.
int newest_in(const std::string& text, const char* before) {
  const std::regex pattern(std::string(before) + "checkpoint-([0-9]+)\\b");
  int newest = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    newest = std::max(newest, std::stoi((*it)[1]));
  }
  return newest;
}
int newest_folder(const fs::path& directory) {
  int newest = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (std::regex_match(name, std::regex("checkpoint-[0-9]+"))) newest = std::max(newest, newest_in(name, ""));
  }
  return newest;
}

class Kills : public TinyTraining {
 protected:
  Kills() : TinyTraining(sums(64)) {}

  [[nodiscard]] std::vector<std::string> sft(const std::string& output) const {
    return TinyTraining::sft(output, {"--max_steps", "12", "--save_steps", "1", "--threads", "1", "--save_total_limit",
                                      "2", "--gradient_accumulation_steps", "2"});
  }
};

TEST_F(Kills, LoseNothingThatWasReportedSaved) {
  const char* wanted = std::getenv("TERN_KILLS");
  const int kills = wanted == nullptr ? 6 : std::atoi(wanted);
  ASSERT_GT(kills, 0) << "TERN_KILLS is a number";

  const auto begin = Clock::now();
  ASSERT_EQ(run(sft("whole"), options_).status, 0);
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
  std::mt19937 random(7);
  // Not beyond the middle of a run: each start gets on, and few starts end before their kill.
  std::uniform_int_distribution<long> moment(whole / 20, whole / 2);

  int killed = 0;
  int ended = 0;
  int reported = 0;
  for (int starts = 0; killed < kills || ended == 0; ++starts) {
    ASSERT_LT(starts, 40 * kills + 200) << "the runs do not get on";
    auto words = sft("cut");
    const int kept = newest_folder(path("cut"));
    if (kept > 0) words.insert(words.end(), {"--resume_from_checkpoint", "last"});
    Options options = options_;
    const auto until = Clock::now() + std::chrono::microseconds(moment(random));
    if (killed < kills) options.signal_when = [until] { return Clock::now() >= until; };
    const Outcome outcome = run(words, options);
    reported = std::max(reported, newest_in(outcome.err, "saved [^\n]*"));
    ASSERT_GE(newest_folder(path("cut")), reported) << "a checkpoint that was reported saved is gone\n" << outcome.err;
    if (outcome.status == 128 + 9) {
      ++killed;
      continue;
    }
    ASSERT_EQ(outcome.status, 0) << "after " << killed << " kills: " << outcome.err;
    ++ended;
    SCOPED_TRACE(std::to_string(killed) + " kills");
    expect_same_checkpoint("whole/checkpoint-12", "cut/checkpoint-12");
    int folders = 0;
    std::string names;
    for (const auto& entry : fs::directory_iterator(path("cut"))) {
      const bool is_of_the_run = entry.path().filename() == "images" || entry.path().filename() == "runs";
      folders += entry.is_directory() && !is_of_the_run ? 1 : 0;
      names += entry.path().filename().string() + " ";
    }
    EXPECT_EQ(folders, 2) << "more is left than the checkpoints to keep: " << names << "\n" << outcome.err;
    fs::remove_all(path("cut"));
    reported = 0;
  }
  std::cout << killed << " kills, " << ended << " runs that came to their end\n";
}

}  // namespace
}  // namespace tern::e2e
