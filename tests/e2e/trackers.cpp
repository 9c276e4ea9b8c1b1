// --report_to wandb and swanlab, as the user's flags and variables say. What is in the files is tested where they're
// made (tests/unit/train/trackers_test.cpp), and by the tools' own readers (script/golden.d/trackers.py).
#include <gtest/gtest.h>

#include "tiny_training.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;

class Trackers : public TinyTraining {
 protected:
  Trackers() : TinyTraining(sums(12)) {}

  // The bytes of the one run's file below `root`; "" where there is none.
  [[nodiscard]] std::string run_file(const std::string& root, const std::string& extension) const {
    std::string text;
    std::error_code none;
    for (const auto& entry : fs::recursive_directory_iterator(path(root), none)) {
      if (entry.path().extension() != extension) continue;
      EXPECT_EQ(text, "") << "a second run";
      text = read(fs::relative(entry.path(), scratch_.path()).string());
    }
    return text;
  }
  [[nodiscard]] Outcome train(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"--max_steps", "1", "--save_strategy", "no"};
    words.insert(words.end(), more.begin(), more.end());
    return run(sft("out", words), options_);
  }
};

TEST_F(Trackers, WandbsVariablesMeanWhatTheyMeanThere) {
  options_.variables.insert({{"WANDB_DIR", "kept"},
                             {"WANDB_PROJECT", "sums"},
                             {"WANDB_NAME", "by-variable"},
                             {"WANDB_ENTITY", "us"},
                             {"WANDB_TAGS", "one, two"},
                             {"WANDB_RUN_GROUP", "group-1"},
                             {"WANDB_JOB_TYPE", "job-1"},
                             {"WANDB_NOTES", "note-1"},
                             {"WANDB_RUN_ID", "run12345"}});
  const Outcome outcome = train({"--report_to", "wandb", "--hub_token", "secret-token"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "--report_to wandb: nothing is sent while training")) << outcome.err;
  EXPECT_TRUE(
      std::regex_search(outcome.err, std::regex("wandb:        wandb sync kept/wandb/offline-run-[0-9_]+-run12345")))
      << outcome.err;
  EXPECT_FALSE(fs::exists(path("out/runs"))) << "nobody asked for TensorBoard's";
  const std::string file = run_file("kept/wandb", ".wandb");
  for (const char* part : {"sums", "by-variable", "us", "one", "two", "group-1", "job-1", "note-1", "run12345",
                           "per_device_train_batch_size", "train/loss", "train/global_step"}) {
    EXPECT_TRUE(has(file, part)) << part;
  }
  EXPECT_FALSE(has(file, "secret-token"));
}

TEST_F(Trackers, ARunNameGoesBeforeTheVariable) {
  options_.variables.insert({{"WANDB_NAME", "by-variable"}, {"WANDB_MODE", "offline"}, {"WANDB_WATCH", "all"}});
  const Outcome outcome = train({"--report_to", "wandb", "--run_name", "by-flag"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_FALSE(has(outcome.err, "nothing is sent")) << "that is what offline means";
  EXPECT_TRUE(has(outcome.err, "WANDB_WATCH=all has no effect")) << outcome.err;
  const std::string file = run_file("wandb", ".wandb");
  EXPECT_TRUE(has(file, "by-flag"));
  EXPECT_TRUE(has(file, "huggingface")) << "transformers' project";
  EXPECT_FALSE(has(file, "by-variable"));
}

TEST_F(Trackers, ADisabledWandbWritesNothing) {
  options_.variables["WANDB_MODE"] = "disabled";
  const Outcome outcome = train({"--report_to", "wandb"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_FALSE(has(outcome.err, "wandb sync"));
  EXPECT_FALSE(fs::exists(path("wandb")));
}

TEST_F(Trackers, SwanlabsFlagsAreMsSwifts) {
  options_.variables["SWANLAB_LOG_DIR"] = "swans";
  const Outcome outcome =
      train({"--report_to", "swanlab", "--swanlab_project", "sums", "--swanlab_exp_name", "by-flag",
             "--swanlab_workspace", "us", "--swanlab_mode", "cloud", "--swanlab_email_language", "zh"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(std::regex_search(outcome.err, std::regex("SwanLab:      swanlab sync swans/run-[0-9_]+-[0-9a-f]{8}\n")))
      << outcome.err;
  const std::string file = run_file("swans", ".swanlab");
  for (const char* part : {"sums", "by-flag", "us", "train/loss"}) EXPECT_TRUE(has(file, part)) << part;
}

TEST_F(Trackers, WhatNeedsSwanlabsCloudIsRefusedWithWhatToDo) {
  const auto refused = [&](const std::vector<std::string>& words, const std::string& line) {
    const Outcome outcome = train(words);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_TRUE(has(outcome.err, line)) << outcome.err;
  };
  refused({"--report_to", "swanlab", "--swanlab_token", "t"},
          "nothing is sent to SwanLab while training; run swanlab login once, and swanlab sync when the run is over.");
  refused({"--report_to", "swanlab", "--swanlab_notification_method", "email"},
          "tern sends no messages; have the shell send one when the command ends.");
}

TEST_F(Trackers, AllStandsForTheThree) {
  EXPECT_EQ(train({"--report_to", "all"}).status, 0);
  EXPECT_TRUE(fs::exists(path("out/runs")));
  EXPECT_NE(run_file("wandb", ".wandb"), "");
  EXPECT_NE(run_file("swanlog", ".swanlab"), "");
}

}  // namespace
}  // namespace tern::e2e
