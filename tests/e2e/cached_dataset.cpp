// tern export --to_cached_dataset, and training on what it wrote.
#include <gtest/gtest.h>

#include "tiny_training.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;

class CachedDataset : public TinyTraining {
 protected:
  CachedDataset() : TinyTraining(sums(60)) {}

  [[nodiscard]] Outcome export_rows(const std::string& output, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"export", "--model",      path("model").string(), "--to_cached_dataset",
                                      "true",   "--output_dir", path(output).string()};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, options_);
  }
  // Without --dataset, unless `more` brings it.
  [[nodiscard]] Outcome train(const std::string& output, const std::vector<std::string>& more) const {
    // clang-format off
    std::vector<std::string> words = {
        "sft", "--model", path("model").string(), "--output_dir", path(output).string(), "--add_version", "false",
        "--torch_dtype", "float32", "--logging_steps", "1", "--max_steps", "5", "--save_strategy", "no",
        "--gradient_accumulation_steps", "4", "--threads", "2"};
    // clang-format on
    words.insert(words.end(), more.begin(), more.end());
    return run(words, options_);
  }
};

TEST_F(CachedDataset, TrainsWhatTheRowsTrain) {
  const auto wrote = export_rows("cache", {"--dataset", rows_, "--split_dataset_ratio", "0.1"});
  ASSERT_EQ(wrote.status, 0) << wrote.err;
  EXPECT_NE(wrote.err.find("--cached_dataset " + path("cache/train").string()), std::string::npos) << wrote.err;
  const std::string train_rows = path("cache/train").string();
  const std::string val_rows = path("cache/val").string();
  for (const std::vector<std::string>& how : {std::vector<std::string>{"--eval_strategy", "steps", "--eval_steps", "5"},
                                              {"--packing", "true", "--packing_length", "2048"},
                                              {"--group_by_length", "true", "--per_device_train_batch_size", "2"}}) {
    auto plain = how;
    plain.insert(plain.end(), {"--dataset", rows_, "--split_dataset_ratio", "0.1"});
    auto cached = how;
    cached.insert(cached.end(), {"--cached_dataset", train_rows, "--cached_val_dataset", val_rows});
    const auto first = train("plain", plain);
    ASSERT_EQ(first.status, 0) << first.err;
    const auto second = train("cached", cached);
    ASSERT_EQ(second.status, 0) << second.err;
    ASSERT_EQ(logged("plain", "loss").size(), 5U);
    EXPECT_EQ(logged("plain", "loss"), logged("cached", "loss"));
    EXPECT_EQ(logged("plain", "eval_loss"), logged("cached", "eval_loss"));
    fs::remove_all(path("plain"));
    fs::remove_all(path("cached"));
  }
  EXPECT_NE(train("some", {"--cached_dataset", train_rows + "#20"}).err.find("20 samples"), std::string::npos);
}

TEST_F(CachedDataset, OfOtherSettingsIsRefusedByName) {
  const auto wrote = export_rows("cache", {"--dataset", rows_, "--system", "Add.", "--max_length", "300"});
  ASSERT_EQ(wrote.status, 0) << wrote.err;
  const std::vector<std::string> use = {"--cached_dataset", path("cache/train").string()};
  const std::vector<std::pair<std::vector<std::string>, std::string>> refused = {
      {{}, "system"},
      {{"--system", "Add.", "--max_length", "301"}, "max_length 300"},
      {{"--system", "Add.", "--max_length", "300", "--loss_scale", "last_round"}, "loss_scale"},
      {{"--system", "Add.", "--max_length", "300", "--use_chat_template", "false"}, "template"},
      {{"--system", "Add.", "--max_length", "300", "--truncation_strategy", "left"}, "truncation_strategy"},
      {{"--system", "Add.", "--max_length", "300", "--streaming", "true"}, "--streaming"}};
  for (const auto& [more, name] : refused) {
    auto words = use;
    words.insert(words.end(), more.begin(), more.end());
    const auto outcome = train("out", words);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_NE(outcome.last_error_line().find(name), std::string::npos) << outcome.err;
  }
  const auto absent = train("out", {"--cached_dataset", path("nowhere").string()});
  EXPECT_EQ(absent.status, 3) << absent.err;
  EXPECT_EQ(export_rows("cache", {"--dataset", rows_}).status, 2) << "an export was replaced";
  EXPECT_FALSE(fs::exists(path("out")));
}

// A run with a smaller --max_length leaves out what is longer, as it does of rows.
TEST_F(CachedDataset, LongerSamplesAreLeftOut) {
  rows_ = scratch_.write("long.jsonl",
                         sums(30) + "{\"query\": \"Say it.\", \"response\": \"" + std::string(400, 'a') + "\"}\n");
  ASSERT_EQ(export_rows("cache", {"--dataset", rows_, "--max_length", "800"}).status, 0);
  const std::vector<std::string> shorter = {"--max_length", "200"};
  auto cached = shorter;
  cached.insert(cached.end(), {"--cached_dataset", path("cache/train").string()});
  auto plain = shorter;
  plain.insert(plain.end(), {"--dataset", rows_});
  const auto outcome = train("cached", cached);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("1 longer than max_length (dropped)"), std::string::npos) << outcome.err;
  ASSERT_EQ(train("plain", plain).status, 0);
  EXPECT_EQ(logged("plain", "loss"), logged("cached", "loss"));
}

TEST_F(CachedDataset, KeepsChannelsAndResumes) {
  rows_ = scratch_.write("channels.jsonl", R"({"query": "1 + 1", "response": "2", "channel": "math"})"
                                           "\n"
                                           R"({"query": "Hi", "response": "Hello"})"
                                           "\n");
  ASSERT_EQ(export_rows("cache", {"--dataset", rows_}).status, 0);
  const std::vector<std::string> flags = {"--cached_dataset",      path("cache/train").string(),
                                          "--save_strategy",       "steps",
                                          "--save_steps",          "2",
                                          "--enable_channel_loss", "true"};
  const auto whole = train("whole", flags);
  ASSERT_EQ(whole.status, 0) << whole.err;
  EXPECT_EQ(logged("whole", "loss_math").size(), 5U);
  EXPECT_EQ(logged("whole", "loss_None").size(), 5U);
  fs::create_directories(path("cut"));
  fs::copy(path("whole/checkpoint-2"), path("cut/checkpoint-2"), fs::copy_options::recursive);
  auto resumed = flags;
  resumed.insert(resumed.end(), {"--resume_from_checkpoint", "last"});
  const auto cut = train("cut", resumed);
  ASSERT_EQ(cut.status, 0) << cut.err;
  expect_same_checkpoint("whole/checkpoint-5", "cut/checkpoint-5");
}

}  // namespace
}  // namespace tern::e2e
