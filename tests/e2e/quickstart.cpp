// The quick start's gain is real: the script that users run, on the real model with few rows, lowers the held-out loss,
// and with a learning rate of zero leaves it as it was, to the last digit.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include "run.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;

struct Gain {
  std::string loss_before, loss_after;
  std::string share_before, share_after;  // "3 of 6 (50%)"
};

// Runs script/quickstart with `count` rows, fewer than it has, and the given further words.
Gain quickstart(int count, const std::string& further) {
  const Scratch scratch;
  const std::string rows = std::string(TERN_SOURCE_DIR) + "/examples/gsm8k/";
  const std::string command =
      std::string("TERN_PROGRAM='") + TERN_PROGRAM + "' TERN_QUICKSTART_DIR=" + (scratch.path() / "out").string() +
      " TERN_QUICKSTART_ROWS='" + rows + "train.jsonl#" + std::to_string(count) + "' TERN_QUICKSTART_HELD_OUT='" +
      rows + "test.jsonl#6' bash '" + TERN_SOURCE_DIR + "/script/quickstart' --gradient_accumulation_steps 2 " +
      further + " >" + (scratch.path() / "log").string() + " 2>&1 </dev/null";
  const int status = std::system(command.c_str());
  std::ostringstream log;
  log << std::ifstream(scratch.path() / "log").rdbuf();
  EXPECT_EQ(status, 0) << log.str();
  std::smatch match;
  const std::string text = log.str();
  static const std::regex line("held-out loss before ([0-9.e+-]+), after ([0-9.e+-]+)\n");
  EXPECT_TRUE(std::regex_search(text, match, line)) << text;
  // The merged model answers: some text stands behind the question.
  const auto question = text.find("question: ");
  EXPECT_NE(question, std::string::npos) << text;
  EXPECT_GT(text.size() - std::min(text.size(), text.find('\n', question)), 20u) << text;
  std::smatch shares;
  static const std::regex answers(
      "end in #### number before ([0-9]+ of 6 \\([0-9]+%\\)), after ([0-9]+ of 6 \\([0-9]+%\\))\n");
  EXPECT_TRUE(std::regex_search(text, shares, answers)) << text;
  // The plot that it names is there.
  std::smatch plot;
  static const std::regex named("plot of the loss: (.*)\n");
  EXPECT_TRUE(std::regex_search(text, plot, named)) << text;
  EXPECT_TRUE(plot.size() == 2 && fs::exists(fs::path(plot[1].str()))) << text;
  return match.size() == 3 && shares.size() == 3 ? Gain{match[1], match[2], shares[1], shares[2]} : Gain{};
}

TEST(Quickstart, LowersTheHeldOutLoss) {
  if (!has_real_model()) GTEST_SKIP() << "needs smollm2-135m: run script/bootstrap";
  const Gain gain = quickstart(24, "");
  EXPECT_LT(std::stod(gain.loss_after), std::stod(gain.loss_before) - 0.02);
}

TEST(Quickstart, GainsNothingAtALearningRateOfZero) {
  if (!has_real_model()) GTEST_SKIP() << "needs smollm2-135m: run script/bootstrap";
  const Gain gain = quickstart(8, "--learning_rate 0");  // two steps: the first would do
  EXPECT_EQ(gain.loss_after, gain.loss_before);
  EXPECT_EQ(gain.share_after, gain.share_before);
}

}  // namespace
}  // namespace tern::e2e
