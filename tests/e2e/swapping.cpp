// tern deploy --swap_space as a client meets it: what the device has no room for comes back instead of being computed.
#include <gtest/gtest.h>

#include "deployed.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

class Swapping : public ::testing::Test {
 protected:
  Swapping() { write_tiny_model(scratch_.path() / "tiny"); }
  // The device has room for one prompt of 300 tokens and its answer.
  [[nodiscard]] Deployed deploy(std::vector<std::string> flags) const {
    for (const char* word :
         {"--max_model_len", "336", "--kv_cache_memory", "200KB", "--max_num_seqs", "2", "--batch_invariant", "true"}) {
      flags.emplace_back(word);
    }
    return Deployed(scratch_.path() / "tiny", std::move(flags));
  }
  struct Told {
    std::string text;
    int cached = 0;
  };
  [[nodiscard]] static Told ask_for(const Deployed& server, char letter, const std::string& fields = "") {
    const Json answer =
        json_of(server.post("/v1/completions", R"({"prompt": ")" + std::string(300, letter) +
                                                   R"(", "max_tokens": 9, "temperature": 0)" + fields + "}"));
    return {answer["choices"][0]["text"].text(), answer["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>()};
  }
  // The value of a metric.
  [[nodiscard]] static double metric(const Deployed& server, const std::string& name) {
    const std::string page = ask(server.port(), "GET", "/metrics").body;
    const std::size_t at = page.find("\n" + name + "{");
    EXPECT_NE(at, std::string::npos) << name;
    return at == std::string::npos ? -1 : std::stod(page.substr(page.find("} ", at) + 2));
  }
  Scratch scratch_;
};

TEST_F(Swapping, ComesBackInsteadOfBeingComputed) {
  Deployed without = deploy({});
  Deployed server = deploy({"--swap_space", "0.01"});
  std::map<char, std::string> texts;
  for (const char letter : {'a', 'b', 'c'}) {
    const Told told = ask_for(without, letter);
    EXPECT_EQ(told.cached, 0);
    texts[letter] = told.text;
    EXPECT_EQ(ask_for(server, letter).text, told.text);
  }
  EXPECT_LT(ask_for(without, 'a').cached, 100) << "the device has room for two prompts, and swaps nothing";
  EXPECT_EQ(metric(server, "vllm:external_prefix_cache_hits_total"), 0);
  int cached = 0;
  for (const char letter : {'a', 'b', 'c'}) {
    const Told told = ask_for(server, letter);
    EXPECT_EQ(told.text, texts[letter]);
    EXPECT_GT(told.cached, 280);
    cached += told.cached;
  }
  EXPECT_EQ(ask_for(server, 'a', R"(, "cache_salt": "mine")").cached, 0);
  const double swapped = metric(server, "vllm:external_prefix_cache_hits_total");
  const double found = metric(server, "vllm:prefix_cache_hits_total");
  EXPECT_GT(swapped, 600);
  EXPECT_EQ(swapped + found, cached);
  EXPECT_EQ(metric(server, "vllm:external_prefix_cache_queries_total"),
            metric(server, "vllm:prefix_cache_queries_total") - found);
}

// What a server computed, the next one finds; nobody else writes into its folder meanwhile.
TEST_F(Swapping, ARestartKeepsTheCache) {
  const std::string folder = (scratch_.path() / "blocks").string();
  const std::vector<std::string> flags = {"--swap_space", "0.01", "--swap_dir", folder, "--swap_dir_space", "0.1"};
  std::string text;
  {
    Deployed server = deploy(flags);
    text = ask_for(server, 'a').text;
    const Outcome second = run({"deploy", "--model", (scratch_.path() / "tiny").string(), "--device", "cpu", "--port",
                                "0", "--max_model_len", "336", "--kv_cache_memory", "200KB", "--max_num_seqs", "2",
                                "--batch_invariant", "true", "--swap_space", "0.01", "--swap_dir", folder});
    EXPECT_EQ(second.status, 2);
    EXPECT_NE(second.err.find("is in use by another server of the same model"), std::string::npos) << second.err;
    EXPECT_EQ(server.end().status, 0);
  }
  Deployed server = deploy(flags);
  const Told told = ask_for(server, 'a');
  EXPECT_GT(told.cached, 280);
  EXPECT_EQ(told.text, text);
  EXPECT_EQ(metric(server, "vllm:external_prefix_cache_hits_total"), told.cached);
  EXPECT_NE(server.end().err.find("blocks of earlier runs"), std::string::npos);
  // Other weights under the same name, and the same ones computed otherwise.
  TinyModel other;
  other.seed = 2;
  write_tiny_model(scratch_.path() / "tiny", other);
  {
    Deployed changed = deploy(flags);
    EXPECT_EQ(ask_for(changed, 'a').cached, 0);
    const Outcome& ended = changed.end();
    EXPECT_NE(ended.err.find(" 0 blocks of earlier runs"), std::string::npos) << ended.err;
    EXPECT_NE(ended.err.find("beside it are of other models or settings"), std::string::npos) << ended.err;
  }
  write_tiny_model(scratch_.path() / "tiny");
  {
    std::vector<std::string> otherwise = flags;
    otherwise.insert(otherwise.end(), {"--kv_cache_dtype", "int8"});
    Deployed changed = deploy(otherwise);
    EXPECT_EQ(ask_for(changed, 'a').cached, 0);
  }
  Deployed same = deploy(flags);
  EXPECT_EQ(ask_for(same, 'a').cached, told.cached);
}

}  // namespace
}  // namespace tern::e2e
