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

struct Losses {
  std::string before;
  std::string after;
};

// Runs script/quickstart with fewer rows and the given further words.
Losses quickstart(const std::string& further) {
  const Scratch scratch;
  const std::string rows = std::string(TERN_SOURCE_DIR) + "/examples/gsm8k/";
  const std::string command =
      std::string("TERN_PROGRAM='") + TERN_PROGRAM + "' TERN_QUICKSTART_DIR=" + (scratch.path() / "out").string() +
      " bash '" + TERN_SOURCE_DIR + "/script/quickstart' --dataset '" + rows + "train.jsonl#24' --val_dataset '" +
      rows + "test.jsonl#6' --gradient_accumulation_steps 2 " + further + " >" + (scratch.path() / "log").string() +
      " 2>&1 </dev/null";
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
  return match.size() == 3 ? Losses{match[1], match[2]} : Losses{};
}

TEST(Quickstart, LowersTheHeldOutLoss) {
  if (!has_real_model()) GTEST_SKIP() << "needs smollm2-135m: run script/bootstrap";
  const Losses losses = quickstart("");
  EXPECT_LT(std::stod(losses.after), std::stod(losses.before) - 0.02);
}

TEST(Quickstart, GainsNothingAtALearningRateOfZero) {
  if (!has_real_model()) GTEST_SKIP() << "needs smollm2-135m: run script/bootstrap";
  const Losses losses = quickstart("--learning_rate 0");
  EXPECT_EQ(losses.after, losses.before);
}

}  // namespace
}  // namespace tern::e2e
