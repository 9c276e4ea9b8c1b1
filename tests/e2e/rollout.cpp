// tern rollout as a trainer meets it: the built program with tiny models, over loopback.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "deployed.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

class Rollout : public ::testing::Test {
 protected:
  Rollout() {
    write_tiny_model(scratch_.path() / "smollm2-135m", {.seed = 1});
    write_tiny_model(scratch_.path() / "trained", {.seed = 2});
  }
  [[nodiscard]] Deployed serve(const std::string& model, std::vector<std::string> flags = {}) const {
    return Deployed(scratch_.path() / model, std::move(flags), "cpu", {}, {"rollout"});
  }
  Scratch scratch_;
};

std::string greedy(const Deployed& server) {
  const HttpReply reply =
      server.post("/generate/", R"({"prompts": ["Hello", "1+2="], "temperature": 0, "max_tokens": 16})");
  EXPECT_EQ(reply.status, 200) << reply.body;
  return json_of(reply)["completion_ids"].dump();
}

// Weights that the program mapped, packed or quantised as it loaded them are the trainer's after an update.
TEST_F(Rollout, AnswersWithTheTrainersWeights) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{}, {"--torch_dtype", "bfloat16"}, {"--quant_method", "bnb", "--quant_bits", "8"}}) {
    Deployed trained = serve("trained", flags);
    const std::string want = greedy(trained);
    Deployed server = serve("smollm2-135m", flags);
    ASSERT_NE(greedy(server), want);
    const std::string path = (scratch_.path() / "trained").string();
    const HttpReply reply = server.post("/update_weights_from_disk", R"({"model_path": ")" + path + "\"}");
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(greedy(server), want);
    const Outcome& outcome = server.end();
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("weights: version 1"), std::string::npos) << outcome.err;
  }
}

// A server that pauses is told to stop: it does.
TEST_F(Rollout, APausedServerEnds) {
  Deployed server = serve("trained");
  EXPECT_EQ(server.post("/pause?mode=keep", "").status, 200);
  EXPECT_EQ(server.end().status, 0);
}

// Each curl of docs/rollout.md, with files of the tiny models.
TEST_F(Rollout, ThePagesRequestsAreAnswered) {
  Deployed server = serve("smollm2-135m");
  std::ifstream page(std::string(TERN_SOURCE_DIR) + "/docs/rollout.md");
  const auto replace = [](std::string& line, const std::string& from, const std::string& to) {
    if (const auto at = line.find(from); at != std::string::npos) line.replace(at, from.size(), to);
  };
  int asked = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("curl ")) continue;
    replace(line, "8000", std::to_string(server.port()));
    replace(line, "@model.safetensors", "@" + (scratch_.path() / "trained" / "model.safetensors").string());
    replace(line, "/checkpoints/step-100", (scratch_.path() / "trained").string());
    const std::string log = (scratch_.path() / "log").string();
    EXPECT_EQ(std::system((line + " --fail >" + log + " 2>&1").c_str()), 0) << line;
    ++asked;
  }
  EXPECT_EQ(asked, 5);
}

}  // namespace
}  // namespace tern::e2e
