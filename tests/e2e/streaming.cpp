// `--streaming` as a user types it: the same training, from rows that are read as they are needed.
#include <gtest/gtest.h>

#include <regex>

#include "tiny_training.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;

// Rows longer than those before, so that the run plans for more while it goes on.
std::string growing_rows() {
  std::string rows = sums(60);
  for (int i = 0; i < 5; ++i)
    rows += R"({"query": "Say it.", "response": ")" + std::string(100 + 40 * i, 'a') + "\"}\n";
  return rows + sums(20);
}

class Streaming : public TinyTraining {
 protected:
  Streaming() : TinyTraining(growing_rows()) {}

  [[nodiscard]] Outcome train(const std::string& output, const std::vector<std::string>& more,
                              const Options& options) const {
    // clang-format off
    std::vector<std::string> words = sft(output, {
        "--learning_rate", "1e-2", "--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "4",
        "--threads", "2"});
    // clang-format on
    words.insert(words.end(), more.begin(), more.end());
    return run(words, options);
  }
  [[nodiscard]] Outcome train(const std::string& output, const std::vector<std::string>& more) const {
    return train(output, more, options_);
  }
};

// 85 rows are 11 steps an epoch: 30 steps cross two ends.
TEST_F(Streaming, WithoutShufflingTrainsWhatTheSetTrains) {
  const std::vector<std::string> flags = {"--max_steps", "30", "--dataset_shuffle", "false"};
  const auto whole = train("whole", flags);
  ASSERT_EQ(whole.status, 0) << whole.err;
  fs::remove_all(path("cache"));
  auto stream = flags;
  stream.insert(stream.end(), {"--streaming", "true"});
  const auto outcome = train("stream", stream);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(logged("whole", "loss"), logged("stream", "loss"));
  expect_same_checkpoint("whole/checkpoint-30", "stream/checkpoint-30");
  EXPECT_FALSE(fs::exists(path("cache"))) << "a stream was cached";
}

TEST_F(Streaming, ResumesToTheBitAfterBeingKilled) {
  for (const std::string packing : {"false", "true"}) {
    const std::string whole = "whole-" + packing;
    const std::string cut = "cut-" + packing;
    const std::vector<std::string> flags = {
        "--streaming", "true",  "--max_steps",  "36",  "--save_steps",   "4",  "--shuffle_buffer_size", "20",
        "--packing",   packing, "--max_length", "400", "--lora_dropout", "0.1"};
    const auto uninterrupted = train(whole, flags);
    ASSERT_EQ(uninterrupted.status, 0) << uninterrupted.err;
    auto resumed = flags;
    // Twice, the second time in an epoch of its own.
    for (const char* until : {"checkpoint-4", "checkpoint-24"}) {
      Options options = options_;
      options.signal_when = [&] { return fs::exists(path(cut) / until); };
      ASSERT_EQ(train(cut, resumed, options).status, 128 + 9);
      fs::remove_all(path("home/choices"));
      if (resumed.size() == flags.size()) resumed.insert(resumed.end(), {"--resume_from_checkpoint", "last"});
    }
    const auto last = train(cut, resumed);
    ASSERT_EQ(last.status, 0) << last.err;
    expect_same_checkpoint(whole + "/checkpoint-36", cut + "/checkpoint-36");
    EXPECT_EQ(logged(whole, "loss"), logged(cut, "loss"));
  }
}

// Broken if a resumed run plans anew for what it meets: its kernels could differ from the uninterrupted run's.
TEST_F(Streaming, ResumesWithTheSizesThatItHadGrownTo) {
  const std::vector<std::string> flags = {"--streaming", "true", "--dataset_shuffle", "false",
                                          "--max_steps", "10",   "--save_steps",      "9"};
  ASSERT_EQ(train("whole", flags).status, 0);  // the long rows are in step 8, after it come short ones
  fs::create_directories(path("cut"));
  fs::copy(path("whole/checkpoint-9"), path("cut/checkpoint-9"), fs::copy_options::recursive);
  auto resumed = flags;
  resumed.insert(resumed.end(), {"--resume_from_checkpoint", "last"});
  ASSERT_EQ(train("cut", resumed).status, 0);
  const std::regex planned("\"planned_tokens\": ?([0-9]+)");
  std::smatch whole;
  std::smatch cut;
  const std::string whole_state = read("whole/checkpoint-10/trainer_state.json");
  const std::string cut_state = read("cut/checkpoint-10/trainer_state.json");
  ASSERT_TRUE(std::regex_search(whole_state, whole, planned)) << whole_state;
  ASSERT_TRUE(std::regex_search(cut_state, cut, planned)) << cut_state;
  EXPECT_EQ(cut[1], whole[1]);
  EXPECT_GT(std::stoi(whole[1]), 128) << "nothing grew";
}

// Two data sets in turn: a stream gives the rows of the set that the same flags make, and goes on where it was killed.
TEST_F(Streaming, MixesDataSetsAsASetDoesAndResumesToTheBit) {
  const std::string other = scratch_.write("other.jsonl", sums(30));
  for (const std::string strategy : {"first_exhausted", "all_exhausted"}) {
    const std::string whole = "whole-" + strategy;
    std::vector<std::string> flags = {
        "--dataset", rows_,         other, "--interleave_prob", "0.7", "0.3", "--stopping_strategy",
        strategy,    "--max_steps", "20",  "--save_steps",      "5"};
    auto stream = flags;
    stream.insert(stream.end(), {"--streaming", "true"});
    flags.insert(flags.end(), {"--dataset_shuffle", "false"});
    ASSERT_EQ(train(whole, flags).status, 0);
    auto in_order = stream;
    in_order.insert(in_order.end(), {"--dataset_shuffle", "false"});
    ASSERT_EQ(train("stream-" + strategy, in_order).status, 0);
    EXPECT_EQ(logged(whole, "loss"), logged("stream-" + strategy, "loss"));
    expect_same_checkpoint(whole + "/checkpoint-20", "stream-" + strategy + "/checkpoint-20");

    stream.insert(stream.end(), {"--shuffle_buffer_size", "16"});
    const std::string shuffled = "shuffled-" + strategy;
    ASSERT_EQ(train(shuffled, stream).status, 0);
    EXPECT_NE(logged(shuffled, "loss"), logged(whole, "loss"));
    fs::create_directories(path("cut-" + strategy));
    fs::copy(path(shuffled + "/checkpoint-10"), path("cut-" + strategy + "/checkpoint-10"),
             fs::copy_options::recursive);
    stream.insert(stream.end(), {"--resume_from_checkpoint", "last"});
    ASSERT_EQ(train("cut-" + strategy, stream).status, 0);
    expect_same_checkpoint(shuffled + "/checkpoint-20", "cut-" + strategy + "/checkpoint-20");
    std::swap(stream[4], stream[5]);  // the probabilities
    const auto refused = train("cut-" + strategy, stream);
    EXPECT_EQ(refused.status, 2) << refused.err;
    EXPECT_NE(refused.last_error_line().find("interleave_prob"), std::string::npos) << refused.err;
  }
}

TEST_F(Streaming, TheSeedIsTheOrderAndHeldOutRowsAreTold) {
  const std::string held_out = scratch_.write("held-out.jsonl", sums(24));
  const auto loss = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"--streaming", "true", "--max_steps", "3", "--save_strategy", "no"});
    const auto outcome = train(name, more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return logged(name, "loss");
  };
  const auto plain = loss("plain", {});
  EXPECT_EQ(loss("threads", {"--dataset_num_proc", "3"}), plain);
  EXPECT_NE(loss("seed", {"--data_seed", "7"}), plain);
  EXPECT_NE(loss("buffer", {"--shuffle_buffer_size", "2"}), plain);
  EXPECT_EQ(loss("eval", {"--val_dataset", held_out, "--eval_strategy", "steps", "--eval_steps", "1"}), plain);
  EXPECT_NE(read("eval/logging.jsonl").find("eval_loss"), std::string::npos);
}

TEST_F(Streaming, WhatAStreamCannotDoIsRefusedBeforeTheModel) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> refused = {
      {{}, "--max_steps"},
      {{"--max_steps", "2", "--split_dataset_ratio", "0.1"}, "--split_dataset_ratio"},
      {{"--max_steps", "2", "--group_by_length"}, "--group_by_length"},
      {{"--max_steps", "2", "--dataset_shuffle", "false", "--shuffle_buffer_size", "9"}, "--shuffle_buffer_size"},
      {{"--max_steps", "2", "--packing", "--max_length", "400", "--packing_length", "100"}, "--packing_length"}};
  for (auto [words, flag] : refused) {
    words.insert(words.end(), {"--streaming", "true"});
    const auto outcome = train("out", words);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_NE(outcome.last_error_line().find(flag), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(train("out", {"--max_steps", "2", "--shuffle_buffer_size", "9"}).status, 2) << "no stream";
  rows_ = scratch_.write("unsupervised.jsonl", "{\"query\": \"1 + 1\"}\n");
  const auto nothing = train("out", {"--streaming", "true", "--max_steps", "2"});
  EXPECT_EQ(nothing.status, 3) << nothing.err;
  EXPECT_FALSE(fs::exists(path("out")));
}

}  // namespace
}  // namespace tern::e2e
