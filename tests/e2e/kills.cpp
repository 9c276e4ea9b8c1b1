// Training killed again and again at any moment: nothing that was reported saved is lost, and what comes out in the end
// is what a run that nobody stopped gives, to the bit. TERN_KILLS says how many times; script/test --full says
// hundreds.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <regex>
#include <sstream>

#include "run.h"
#include "tiny_model.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

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

class Kills : public ::testing::Test {
 protected:
  Kills() {
    write_tiny_model(path("model"));
    rows_ = scratch_.write("rows.jsonl", sums(64));
    options_.variables["TERN_HOME"] = path("home").string();
    options_.variables["TERN_CACHE_DIR"] = path("cache").string();
    options_.folder = scratch_.path();
  }
  [[nodiscard]] fs::path path(const std::string& name) const { return scratch_.path() / name; }
  [[nodiscard]] std::vector<std::string> sft(const std::string& output) const {
    return {"sft",
            "--model",
            path("model").string(),
            "--dataset",
            rows_,
            "--output_dir",
            path(output).string(),
            "--add_version",
            "false",
            "--torch_dtype",
            "float32",
            "--max_steps",
            "12",
            "--save_steps",
            "1",
            "--logging_steps",
            "1",
            "--threads",
            "1",
            "--save_total_limit",
            "2",
            "--gradient_accumulation_steps",
            "2"};
  }

  Scratch scratch_;
  Options options_;
  std::string rows_;
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
    for (const char* file : {"adapter_model.safetensors", "optimizer.safetensors"}) {
      EXPECT_TRUE(read(path("whole/checkpoint-12") / file) == read(path("cut/checkpoint-12") / file))
          << file << " differs after " << killed << " kills";
    }
    int folders = 0;
    std::string names;
    for (const auto& entry : fs::directory_iterator(path("cut"))) {
      folders += entry.is_directory() ? 1 : 0;
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
