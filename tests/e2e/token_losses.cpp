// Losses of tokens as a user asks for them: by the token's probability, and told by the rows' channels.
#include <gtest/gtest.h>

#include "tiny_training.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;

std::string rows_of_channels() {
  std::string rows;
  for (int i = 0; i < 40; ++i) {
    const std::string channel = i % 4 == 3 ? ""
                                           : R"(, "channel": )" + std::string(i % 4 == 0   ? R"("math")"
                                                                              : i % 4 == 1 ? "7"
                                                                                           : "null");
    rows += R"({"query": ")" + std::to_string(i) + " + " + std::to_string(2 * i) + R"(", "response": ")" +
            std::to_string(3 * i) + "\"" + channel + "}\n";
  }
  return rows;
}

class TokenLosses : public TinyTraining {
 protected:
  TokenLosses() : TinyTraining(rows_of_channels()) {}

  [[nodiscard]] Outcome train(const std::string& output, const std::vector<std::string>& more) const {
    std::vector<std::string> words = sft(output, {"--gradient_accumulation_steps", "4", "--threads", "2"});
    words.insert(words.end(), more.begin(), more.end());
    return run(words, options_);
  }
  const std::vector<std::string> channels_ = {"--enable_channel_loss", "true", "--max_steps", "9", "--save_steps", "3"};
};

TEST_F(TokenLosses, ChannelsAreLoggedUnderTheirNames) {
  auto flags = channels_;
  flags.insert(flags.end(), {"--split_dataset_ratio", "0.2", "--eval_steps", "9"});
  const auto outcome = train("out", flags);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::string log = read("out/logging.jsonl");
  for (const char* key :
       {"\"loss_math\":", "\"loss_7\":", "\"loss_None\":", "\"eval_loss_math\":", "\"eval_loss_None\":"}) {
    EXPECT_NE(log.find(key), std::string::npos) << key << " in\n" << log;
  }
  std::string events;
  for (const auto& file : fs::directory_iterator(path("out/runs")))
    events += read("out/runs/" + file.path().filename().string());
  EXPECT_NE(events.find("train/loss_math"), std::string::npos);
  EXPECT_NE(events.find("eval/loss_None"), std::string::npos);
  EXPECT_TRUE(fs::exists(path("out/images/train_loss_math.svg")));

  // What is told changes nothing of what is trained.
  ASSERT_EQ(
      train("plain", {"--split_dataset_ratio", "0.2", "--eval_steps", "9", "--max_steps", "9", "--save_steps", "3"})
          .status,
      0);
  EXPECT_EQ(logged("plain", "loss"), logged("out", "loss"));
  EXPECT_EQ(read("plain/logging.jsonl").find("loss_math"), std::string::npos);
}

// A row of the log covers steps before the checkpoint and behind it: broken if the channels' sums are not part of it.
TEST_F(TokenLosses, AResumedRunLogsTheSameOfChannels) {
  for (const std::string streaming : {"false", "true"}) {
    auto flags = channels_;
    flags.insert(flags.end(), {"--streaming", streaming, "--logging_steps", "5", "--logging_first_step", "false",
                               "--enable_dft_loss", "true"});
    const std::string whole = "whole-" + streaming;
    const std::string cut = "cut-" + streaming;
    ASSERT_EQ(train(whole, flags).status, 0);
    fs::create_directories(path(cut));
    fs::copy(path(whole + "/checkpoint-3"), path(cut + "/checkpoint-3"), fs::copy_options::recursive);
    flags.insert(flags.end(), {"--resume_from_checkpoint", "last"});
    ASSERT_EQ(train(cut, flags).status, 0);
    for (const char* key : {"loss_math", "loss_7", "loss_None"}) {
      const auto want = logged(whole, key);
      ASSERT_EQ(want.size(), 2U) << key;  // of steps 5 and 9
      EXPECT_EQ(logged(cut, key), want) << key;
    }
    expect_same_checkpoint(whole + "/checkpoint-9", cut + "/checkpoint-9");
  }
}

TEST_F(TokenLosses, ProbabilitiesWeighTheLossAndAreNotLeftOutOnTheWay) {
  const std::vector<std::string> flags = {"--max_steps", "4", "--save_steps", "2"};
  auto dft = flags;
  dft.insert(dft.end(), {"--enable_dft_loss", "true"});
  ASSERT_EQ(train("plain", flags).status, 0);
  ASSERT_EQ(train("dft", dft).status, 0);
  EXPECT_LT(std::stod(logged("dft", "loss").front()), 0.5 * std::stod(logged("plain", "loss").front()));
  auto other = flags;
  other.insert(other.end(), {"--resume_from_checkpoint", path("dft/checkpoint-2").string()});
  const auto refused = train("dft", other);
  EXPECT_EQ(refused.status, 2) << refused.err;
  EXPECT_NE(refused.last_error_line().find("enable_dft_loss"), std::string::npos) << refused.err;
}

TEST_F(TokenLosses, AChannelIsAName) {
  rows_ = scratch_.write("wrong.jsonl", "{\"query\": \"1\", \"response\": \"2\", \"channel\": [1]}\n");
  const auto refused = train("out", {"--enable_channel_loss", "true", "--max_steps", "1", "--strict"});
  EXPECT_EQ(refused.status, 3) << refused.err;
  EXPECT_NE(refused.last_error_line().find("wrong.jsonl:1: field \"channel\": expected a name, found a JSON array"),
            std::string::npos)
      << refused.err;
}

}  // namespace
}  // namespace tern::e2e
