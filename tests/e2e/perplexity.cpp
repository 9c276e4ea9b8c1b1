// tern score as it comes, on the real model: its perplexity beside that which transformers computes from the same GGUF
// in float32 (script/golden.d/perplexity.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "io/json.h"
#include "run.h"
#include "tests/support/temp_dir.h"

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

// As tern answers unless told otherwise, over a cache in bfloat16, beside the same weights computed in fp32 without
// one: in steps of many tokens, as prompts are computed, and of one, as answers are. Broken if roundings of the default
// added up to more than is promised, or a step over the cache saw other keys than a text that is scored at once.
TEST(Divergence, FromFp32ThroughTheCacheIsSmall) {
  if (!has_real_model()) GTEST_SKIP() << "needs smollm2-135m: run script/bootstrap";
  constexpr double kLargest = 1e-3, kInt8 = 3e-3, kFp8 = 2e-2, kRounded = 6e-3;  // a token
  const test::TempDir scratch;
  std::string text;
  std::ifstream shakespeare(std::string(TERN_TEST_DATA) + "/golden/perplexity/tinyshakespeare.jsonl");
  ASSERT_TRUE(std::getline(shakespeare, text));
  io::Json row;
  row["text"] = io::parse_json(text, "tinyshakespeare.jsonl").value()["text"].get<std::string>().substr(0, 1200);
  const auto file = scratch.write("text.jsonl", row.dump() + "\n");
  const std::string exact = (scratch.path() / "exact").string();
  const auto converted = run({"convert", "smollm2-135m", exact, "--outtype", "f32"});
  ASSERT_EQ(converted.status, 0) << converted.err;
  struct Case {
    const char* dtype;
    const char* tokens;
    double largest;
    const char* rounding = "none";
  };
  for (const auto& [dtype, tokens, largest, rounding] :
       {Case{"auto", "32", kLargest}, Case{"auto", "1", kLargest}, Case{"int8", "32", kInt8}, Case{"fp8", "32", kFp8},
        Case{"auto", "16", kRounded, "int8"}}) {
    const auto outcome =
        run({"score", "--model", "smollm2-135m", "--reference", exact, "--dataset", file, "--json", "--kv_cache_dtype",
             dtype, "--max_num_batched_tokens", tokens, "--dynamic_quantization", rounding});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("torch_dtype float32, products in f32"), std::string::npos) << outcome.err;
    const auto last = outcome.out.rfind("{\"texts\":");
    ASSERT_NE(last, std::string::npos) << outcome.out;
    const auto found = io::parse_json(outcome.out.substr(last), "the last row").value();
    const double kl = found["kl_divergence"].get<double>();
    std::printf("a cache in %s, steps of %s, rounding %s: KL divergence %.3g a token over %d\n", dtype, tokens,
                rounding, kl, found["scored_tokens"].get<int>());
    EXPECT_LT(kl, largest);
    EXPECT_GT(kl, std::string_view(rounding) == "int8" ? kLargest : 0) << "nothing was rounded";
  }
}

}  // namespace
}  // namespace tern::e2e
