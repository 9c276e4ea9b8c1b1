// tern score as it comes, on the real model: its perplexity beside that which transformers computes from the same GGUF
// in float32 (script/golden.d/perplexity.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "io/json.h"
#include "run.h"

namespace tern::e2e {
namespace {

constexpr double kBound = 0.002;  // relative

TEST(Perplexity, IsThatOfTransformers) {
  if (!has_real_model()) GTEST_SKIP() << "needs smollm2-135m: run script/bootstrap";
  const std::string folder = std::string(TERN_TEST_DATA) + "/golden/perplexity/";
  std::ostringstream kept;
  kept << std::ifstream(folder + "perplexity.json").rdbuf();
  const auto theirs = io::parse_json(kept.str(), "perplexity.json").value();
  const auto outcome =
      run({"score", "--model", "smollm2-135m", "--dataset", folder + "tinyshakespeare.jsonl", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto last = outcome.out.rfind("{\"texts\":");
  ASSERT_NE(last, std::string::npos) << outcome.out;
  const auto ours = io::parse_json(outcome.out.substr(last), "the last row").value();
  EXPECT_EQ(ours["scored_tokens"].get<int>(), theirs["scored_tokens"].get<int>());
  const double ratio = ours["perplexity"].get<double>() / theirs["perplexity"].get<double>();
  std::printf("perplexity %.4f, of transformers %.4f\n", ours["perplexity"].get<double>(),
              theirs["perplexity"].get<double>());
  EXPECT_LE(std::fabs(ratio - 1), kBound);
}

}  // namespace
}  // namespace tern::e2e
