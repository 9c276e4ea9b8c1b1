// What /metrics tells of the engine is what the engine counted, under the names that vLLM's dashboards read.
#include "server/metrics.h"

#include <gtest/gtest.h>

namespace tern::server {
namespace {

TEST(Metrics, TellWhatGuessesWereGoodFor) {
  engine::EngineStats stats;
  stats.guesses = {.drafts = 9, .checked = 31, .right = 12, .right_at = {8, 3, 1}};
  const Metrics metrics("m");
  const std::string labels = "{engine=\"0\",model_name=\"m\"";
  for (int turn = 0; turn < 2; ++turn) {
    const std::string page = metrics.page(stats, 0);
    EXPECT_NE(page.find("vllm:spec_decode_num_drafts_total" + labels + "} 9\n"), std::string::npos) << page;
    EXPECT_NE(page.find("vllm:spec_decode_num_draft_tokens_total" + labels + "} 31\n"), std::string::npos) << page;
    EXPECT_NE(page.find("vllm:spec_decode_num_accepted_tokens_total" + labels + "} 12\n"), std::string::npos) << page;
    for (const auto& [place, right] : {std::pair{"0", "8"}, {"1", "3"}, {"2", "1"}}) {
      const std::string line = "vllm:spec_decode_num_accepted_tokens_per_pos_total" + labels + ",position=\"" + place +
                               "\"} " + right + "\n";
      EXPECT_NE(page.find(line), std::string::npos) << line << page;
    }
  }
}

}  // namespace
}  // namespace tern::server
