// A machine that crashes while a run trains, after every single operation on its files: whatever of the unsynced ones
// the disk has kept, no checkpoint under its final name is broken, none that was reported saved is gone, and a run that
// goes on from there ends as one that nobody stopped, to the bit. TERN_CRASH_RESUMES says how many go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <regex>
#include <vector>

#include "io/atomic_dir.h"
#include "tests/crash/disk.h"
#include "tiny_training.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;
using crash::Unsynced;

const std::vector<Unsynced> kAll = {Unsynced::nothing, Unsynced::entries, Unsynced::entries_zeros, Unsynced::everything,
                                    Unsynced::beginnings};

// The numbers of the checkpoints in a run's folder.
std::vector<int> checkpoints_in(const fs::path& run) {
  std::vector<int> steps;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run, ignored)) {
    const std::string name = entry.path().filename().string();
    std::smatch match;
    if (std::regex_match(name, match, std::regex("checkpoint-([0-9]+)"))) steps.push_back(std::stoi(match[1]));
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

// A moment of the run, and what a disk kept then.
struct Crash {
  std::size_t operations = 0;
  Unsynced unsynced = Unsynced::nothing;
  unsigned seed = 0;
};

class Crashes : public TinyTraining {
 protected:
  Crashes() : TinyTraining(sums(32)) {}

  [[nodiscard]] std::vector<std::string> sft(const std::string& output) const {
    return TinyTraining::sft(output, {"--device", "cpu", "--max_steps", "6", "--save_steps", "1", "--threads", "1",
                                      "--save_total_limit", "2", "--create_checkpoint_symlink", "true",
                                      "--gradient_accumulation_steps", "2", "--tuner_type", tuner_});
  }
  void expect_survival(const std::string& tuner, const std::vector<Unsynced>& kept);
  // Runs it with its operations on files written down.
  std::vector<crash::Record> recorded() {
    Options options = options_;
    options.variables["LD_PRELOAD"] = TERN_CRASH_RECORDER;
    options.variables[crash::kRoot] = path("disk").string();
    options.variables[crash::kJournal] = path("journal").string();
    const Outcome outcome = run(sft("disk/run"), options);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return crash::read_journal(path("journal"), path("disk"));
  }
  // The disk after a crash is the folder `name`.
  void leave(const crash::Disk& disk, const Crash& crash, const std::string& name) const {
    fs::remove_all(path(name));
    fs::create_directory(path(name));
    std::mt19937 random(crash.seed);
    disk.leave(path(name), crash.unsynced, random);
  }
  void expect_sound(const Crash& crash, int reported) const {
    const fs::path run = path("left/run");
    SCOPED_TRACE("after " + std::to_string(crash.operations) + " operations, kept " +
                 std::to_string(static_cast<int>(crash.unsynced)) + ", seed " + std::to_string(crash.seed));
    const std::vector<int> steps = checkpoints_in(run);
    for (const int step : steps) {
      const Status sound = io::verify_manifest(run / ("checkpoint-" + std::to_string(step)));
      EXPECT_TRUE(sound.ok()) << sound.error().line();
    }
    EXPECT_GE(steps.empty() ? 0 : steps.back(), reported) << "a checkpoint that was reported saved is gone";
    for (const char* link : {"last", "best"}) {
      EXPECT_TRUE(!fs::is_symlink(run / link) || fs::exists(run / link)) << link << " leads nowhere";
    }
  }
  std::string tuner_;
};

void Crashes::expect_survival(const std::string& tuner, const std::vector<Unsynced>& kept) {
  tuner_ = tuner;
  fs::create_directory(path("disk"));
  const crash::Disk before(path("disk"));
  const auto records = recorded();
  ASSERT_FALSE(HasFailure());
  std::map<crash::Operation, int> counted;
  for (const auto& record : records) ++counted[record.head.operation];
  for (const auto needed : {crash::Operation::create, crash::Operation::write, crash::Operation::sync,
                            crash::Operation::rename, crash::Operation::unlink, crash::Operation::report}) {
    ASSERT_GT(counted[needed], 0) << "the recorder misses operations of kind " << static_cast<int>(needed);
  }

  crash::Disk disk = before;
  std::vector<Crash> with_checkpoint;
  int reported = 0;
  std::string words;
  for (std::size_t i = 0; i < records.size(); ++i) {
    disk.apply(records[i]);
    if (records[i].head.operation == crash::Operation::report) {
      words += records[i].data;
      const std::regex saved("saved [^\n]*checkpoint-([0-9]+)\n");
      for (std::sregex_iterator it(words.begin(), words.end(), saved), end; it != end; ++it) {
        reported = std::max(reported, std::stoi((*it)[1]));
      }
    }
    for (const Unsynced unsynced : kept) {
      const Crash crash = {i + 1, unsynced, static_cast<unsigned>(i)};
      leave(disk, crash, "left");
      expect_sound(crash, reported);
      if (HasFailure()) return;
      if (!checkpoints_in(path("left/run")).empty()) with_checkpoint.push_back(crash);
    }
  }
  ASSERT_EQ(reported, 6) << "no report was seen";

  // Those that go on, evenly spread.
  const char* wanted = std::getenv("TERN_CRASH_RESUMES");
  const auto resumes = static_cast<std::size_t>(wanted == nullptr ? 8 : std::atoi(wanted));
  ASSERT_GT(resumes, 0U) << "TERN_CRASH_RESUMES is a number";
  const auto losses = logged("disk/run", "loss");
  for (std::size_t i = 0; i < resumes; ++i) {
    const Crash& crash = with_checkpoint[i * with_checkpoint.size() / resumes + with_checkpoint.size() / resumes / 2];
    SCOPED_TRACE("a crash after " + std::to_string(crash.operations) + " operations, kept " +
                 std::to_string(static_cast<int>(crash.unsynced)));
    crash::Disk until = before;
    for (std::size_t k = 0; k < crash.operations; ++k) until.apply(records[k]);
    leave(until, crash, "again");
    auto again = sft("again/run");
    again.insert(again.end(), {"--resume_from_checkpoint", "last"});
    const Outcome outcome = run(again, options_);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const std::string weights = tuner == "full" ? "model" : "adapter_model";
    expect_same_checkpoint("disk/run/checkpoint-6", "again/run/checkpoint-6", weights);
    EXPECT_EQ(logged("again/run", "loss"), losses) << read("again/run/logging.jsonl");
    if (HasFailure()) return;
  }
  std::cout << records.size() << " operations, " << records.size() * kept.size() << " crashes, " << resumes
            << " runs that went on\n";
}

TEST_F(Crashes, OfALoraRunLeaveNoBrokenCheckpointAndLoseNothingThatWasReportedSaved) { expect_survival("lora", kAll); }
TEST_F(Crashes, OfAFullRunLeaveNoBrokenCheckpointAndLoseNothingThatWasReportedSaved) {
  expect_survival("full", {Unsynced::entries, Unsynced::beginnings});
}

}  // namespace
}  // namespace tern::e2e
