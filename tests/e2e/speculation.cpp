// Guessed tokens change no answer, whoever guesses.
#include <regex>
#include <sstream>

#include "deployed.h"
#include "inferring.h"
#include "io/json.h"
#include "tests/support/eagle3_head.h"

namespace tern::e2e {
namespace {

// Guesses are checked by what is drawn anyway: the same rows to the bit where a row's bits don't depend on what is
// computed beside it, and elsewhere the same tokens up to one that rounding may turn.
TEST_F(Inference, GuessedTokensChangeNoAnswer) {
  std::string text;
  for (int i = 0; i < 4; ++i)
    text += "{\"query\": \"one two three one two three one two three " + std::to_string(i) + "\"}\n";
  const auto rows = scratch_.write("repeats.jsonl", text);
  const char* config =
      R"({"method": "ngram", "num_speculative_tokens": 6, "prompt_lookup_max": 3, "prompt_lookup_min": 1})";
  const auto answers = [&](const std::vector<std::string>& more, bool guess) {
    std::vector<std::string> words = {"infer",
                                      "--model",
                                      path("model").string(),
                                      "--val_dataset",
                                      rows,
                                      "--strict",
                                      "--max_new_tokens",
                                      "60",
                                      "--max_batch_size",
                                      "3",
                                      "--torch_dtype",
                                      "float32",
                                      "--logprobs",
                                      "--top_logprobs",
                                      "2"};
    words.insert(words.end(), more.begin(), more.end());
    if (guess) words.insert(words.end(), {"--speculative_config", config});
    const auto outcome = run(words, options_);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err.find("guessed tokens: ") != std::string::npos, guess) << outcome.err;
    return outcome.out;
  };
  for (const char* temperature : {"0", "0.8"}) {
    const std::vector<std::string> more = {"--batch_invariant", "--temperature", temperature};
    EXPECT_EQ(answers(more, true), answers(more, false)) << temperature;
  }
  std::istringstream plain(answers({"--temperature", "0"}, false));
  std::istringstream guessed(answers({"--temperature", "0"}, true));
  std::string mine;
  std::string other;
  while (std::getline(plain, mine) && std::getline(guessed, other)) {
    const io::Json a = io::parse_json(mine, "row").value();
    const io::Json b = io::parse_json(other, "row").value();
    const io::Json& tokens = a["logprobs"]["content"];
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i]["id"] == b["logprobs"]["content"][i]["id"]) continue;
      const io::Json& top = tokens[i]["top_logprobs"];
      EXPECT_LT(top[0]["logprob"].get<double>() - top[1]["logprob"].get<double>(), 1e-3) << i;
      break;
    }
  }
}

// Nor does a second model that guesses; the run says what both take, and how many were right.
TEST_F(Inference, ADraftModelChangesNoAnswer) {
  const std::string model = path("model").string();
  const std::vector<std::string> words = {"infer",    "--model",          model, "--val_dataset",     rows_,
                                          "--strict", "--max_new_tokens", "40",  "--batch_invariant", "--temperature",
                                          "0.8"};
  const auto plain = run(words, options_);
  ASSERT_EQ(plain.status, 0) << plain.err;
  for (const char* method : {"", R"("method": "draft_model", )"}) {
    auto more = words;
    const std::string config =
        std::string("{") + method + R"("model": ")" + model + R"(", "num_speculative_tokens": 3})";
    more.insert(more.end(), {"--speculative_config", config});
    const auto guessed = run(more, options_);
    ASSERT_EQ(guessed.status, 0) << guessed.err;
    EXPECT_EQ(guessed.out, plain.out);
    EXPECT_NE(guessed.err.find("draft model: " + model), std::string::npos) << guessed.err;
    EXPECT_NE(guessed.err.find("draft model: its weights take "), std::string::npos) << guessed.err;
    EXPECT_NE(guessed.err.find("guessed tokens: "), std::string::npos) << guessed.err;
  }
}

// Nor do earlier answers that guess. Rows that are asked again are answered as before, and guessed.
TEST_F(Inference, EarlierAnswersChangeNoAnswer) {
  std::string text;
  for (int i = 0; i < 6; ++i) text += "{\"query\": \"one two three four " + std::to_string(i % 3) + "\"}\n";
  const auto rows = scratch_.write("again.jsonl", text);
  const std::vector<std::string> words = {"infer",
                                          "--model",
                                          path("model").string(),
                                          "--strict",
                                          "--val_dataset",
                                          rows,
                                          "--seed",
                                          "1",
                                          "--max_new_tokens",
                                          "40",
                                          "--batch_invariant",
                                          "--temperature",
                                          "0",
                                          "--max_batch_size",
                                          "3"};
  const auto plain = run(words, options_);
  ASSERT_EQ(plain.status, 0) << plain.err;
  const auto right = [&](const std::string& more) {
    auto guessing = words;
    guessing.insert(guessing.end(), {"--speculative_config", R"({"method": "suffix")" + more + "}"});
    const auto guessed = run(guessing, options_);
    EXPECT_EQ(guessed.status, 0) << guessed.err;
    EXPECT_EQ(guessed.out, plain.out);
    std::smatch found;
    EXPECT_TRUE(std::regex_search(guessed.err, found, std::regex("guessed tokens: ([0-9]+) of "))) << guessed.err;
    return found.empty() ? 0 : std::stoi(found[1]);
  };
  const int alone = right(R"(, "num_speculative_tokens": 8, "suffix_decoding_max_cached_requests": 0)");
  EXPECT_GT(right(R"(, "num_speculative_tokens": 8)"), alone);
  EXPECT_GT(right(R"(, "suffix_decoding_max_tree_depth": 12, "suffix_decoding_max_spec_factor": 2,
                     "suffix_decoding_min_token_prob": 0.05)"),
            alone);
}

// Nor does a head over the model's hidden states, in infer, deploy and bench; one of another model is refused.
TEST_F(Inference, AHeadChangesNoAnswer) {
  test::write_eagle3_head(path("head"), {.vocab = 320, .draft_vocab = 160, .layers = {0, 0, 1}});
  const std::string model = path("model").string();
  const std::string config =
      R"({"method": "eagle3", "model": ")" + path("head").string() + R"(", "num_speculative_tokens": 3})";
  const std::vector<std::string> words = {"infer",    "--model",          model, "--val_dataset",     rows_,
                                          "--strict", "--max_new_tokens", "40",  "--batch_invariant", "--temperature",
                                          "0.8",      "--logprobs"};
  const auto with = [](std::vector<std::string> some, const std::string& given) {
    some.insert(some.end(), {"--speculative_config", given});
    return some;
  };
  const auto plain = run(words, options_);
  ASSERT_EQ(plain.status, 0) << plain.err;
  const auto guessed = run(with(words, config), options_);
  ASSERT_EQ(guessed.status, 0) << guessed.err;
  EXPECT_EQ(guessed.out, plain.out);
  EXPECT_NE(guessed.err.find("EAGLE-3 head: " + path("head").string() + ", of layers 1, 1, 2, 160 tokens"),
            std::string::npos)
      << guessed.err;
  EXPECT_NE(guessed.err.find("guessed tokens: "), std::string::npos) << guessed.err;

  const std::vector<std::string> bench = {"bench", "--model", model, "--prompt_length", "8", "--max_new_tokens", "20"};
  const auto measured = run(with(bench, config), options_);
  EXPECT_EQ(measured.status, 0) << measured.err;
  EXPECT_NE(measured.err.find("guessed tokens: "), std::string::npos) << measured.err;

  Deployed server(path("model"), {"--speculative_config", config});
  const std::string asked = R"({"prompt": "one two", "max_tokens": 20, "ignore_eos": true, "temperature": 0})";
  for (int turn = 0; turn < 2; ++turn) {  // the second begins behind the blocks of the first
    const auto reply = server.post("/v1/completions", asked);
    EXPECT_EQ(reply.status, 200) << reply.body;
  }
  const std::string page = ask(server.port(), "GET", "/metrics").body;
  EXPECT_TRUE(std::regex_search(page, std::regex("\\nvllm:spec_decode_num_drafts_total\\{[^}]*\\} [1-9]"))) << page;
  EXPECT_EQ(server.end().status, 0);

  test::write_eagle3_head(path("head"), {.hidden = 64, .vocab = 320, .layers = {0, 0, 1}});
  const auto refused = run(with(words, config), options_);
  EXPECT_EQ(refused.status, 3) << refused.err;
  EXPECT_NE(refused.err.find("head/config.json: field \"hidden_size\": expected the model's hidden size, 32, found 64"),
            std::string::npos)
      << refused.err;
}

// A tokenizer's folder with a model of another: one whose checkpoint has a layer of prediction.
void put_golden_model(const fs::path& folder, const std::string& name) {
  for (const char* file : {"config.json", "model.safetensors"}) {
    fs::copy_file(fs::path(TERN_TEST_DATA) / "golden" / name / file, folder / file,
                  fs::copy_options::overwrite_existing);
  }
}

std::vector<std::string> guessing_by_layer(const fs::path& model, const fs::path& rows, const std::string& method) {
  std::vector<std::string> words = {
      "infer", "--model",           model.string(),  "--val_dataset", rows.string(), "--strict", "--max_new_tokens",
      "40",    "--batch_invariant", "--temperature", "0.8",           "--logprobs"};
  if (method.empty()) return words;
  words.insert(words.end(),
               {"--speculative_config", R"({"method": ")" + method + R"(", "num_speculative_tokens": 2})"});
  return words;
}

// Nor does the layer for it that a model's own checkpoint has, under whatever name vLLM gives it, whether the model
// keeps keys or states; a model without says so before its weights are read.
TEST_F(Inference, AModelsOwnLayerOfPredictionChangesNoAnswer) {
  fs::copy(path("model"), path("mtp"));
  struct Case {
    const char* folder;
    const char* method;  // of vLLM, beside "mtp"
    const char* layer;
  };
  for (const auto& [folder, method, layer] :
       {Case{"mtp-glm4-moe", "glm4_moe_mtp", "model.layers.3"}, Case{"mtp-qwen3.5", "qwen3_5_mtp", "mtp.layers.0"},
        Case{"mtp-qwen3-next", "qwen3_next_mtp", "mtp.layers.0"}}) {
    SCOPED_TRACE(folder);
    put_golden_model(path("mtp"), folder);
    const auto plain = run(guessing_by_layer(path("mtp"), rows_, ""), options_);
    ASSERT_EQ(plain.status, 0) << plain.err;
    for (const char* name : {"mtp", method}) {
      const auto guessed = run(guessing_by_layer(path("mtp"), rows_, name), options_);
      ASSERT_EQ(guessed.status, 0) << guessed.err;
      EXPECT_EQ(guessed.out, plain.out);
      EXPECT_NE(guessed.err.find("MTP head: " + std::string(layer) + " of " + path("mtp").string() +
                                 ", with the model's embedding and the model's output projection"),
                std::string::npos)
          << guessed.err;
      EXPECT_NE(guessed.err.find("guessed tokens: "), std::string::npos) << guessed.err;
    }

    Deployed server(path("mtp"), {"--speculative_config", R"({"method": "mtp", "num_speculative_tokens": 2})"});
    const std::string asked = R"({"prompt": "one two", "max_tokens": 20, "ignore_eos": true, "temperature": 0})";
    for (int turn = 0; turn < 2; ++turn) EXPECT_EQ(server.post("/v1/completions", asked).status, 200);
    const std::string page = ask(server.port(), "GET", "/metrics").body;
    for (const char* counter : {"num_drafts", "num_draft_tokens"}) {
      const std::regex counted("\\nvllm:spec_decode_" + std::string(counter) + "_total\\{[^}]*\\} [1-9]");
      EXPECT_TRUE(std::regex_search(page, counted)) << page;
    }
    EXPECT_EQ(server.end().status, 0);
  }
  const auto refused = run(guessing_by_layer(path("model"), rows_, "mtp"), options_);
  EXPECT_EQ(refused.status, 3) << refused.err;
  EXPECT_NE(refused.err.find("expected a model whose layer for further tokens is computed here: "), std::string::npos)
      << refused.err;
}

TEST_F(Inference, AModelsOwnLayerOfPredictionIsQuantisedWithIt) {
  fs::copy(path("model"), path("mtp"));
  put_golden_model(path("mtp"), "mtp-glm4-moe");
  auto quantised = guessing_by_layer(path("mtp"), rows_, "mtp");
  quantised.insert(quantised.end(), {"--quant_method", "bnb"});
  const auto smaller = run(quantised, options_);
  EXPECT_EQ(smaller.status, 0) << smaller.err;
  EXPECT_NE(smaller.err.find("MTP head: weights of routed experts were quantised to nf4"), std::string::npos)
      << smaller.err;
}

// In deploy and bench as in infer.
TEST_F(Inference, AServerAndABenchTellHowManyGuessesWereRight) {
  const std::string model = path("model").string();
  const std::string config = R"({"model": ")" + model + R"(", "num_speculative_tokens": 3})";
  Deployed server(path("model"), {"--speculative_config", config});
  const auto reply = server.post("/v1/completions",
                                 R"({"prompt": "one two", "max_tokens": 20, "ignore_eos": true, "temperature": 0})");
  EXPECT_EQ(reply.status, 200) << reply.body;
  const std::string page = ask(server.port(), "GET", "/metrics").body;
  const std::regex drafts("\\nvllm:spec_decode_num_drafts_total\\{[^}]*\\} [1-9]");
  EXPECT_TRUE(std::regex_search(page, drafts)) << page;
  EXPECT_NE(page.find("vllm:spec_decode_num_accepted_tokens_per_pos_total{"), std::string::npos) << page;
  EXPECT_EQ(server.end().status, 0);

  std::vector<std::string> words = {"bench", "--model", model, "--prompt_length", "8", "--max_new_tokens", "20"};
  EXPECT_EQ(run(words, options_).err.find("guessed tokens: "), std::string::npos);
  words.insert(words.end(), {"--speculative_config", config});
  const auto measured = run(words, options_);
  EXPECT_EQ(measured.status, 0) << measured.err;
  EXPECT_NE(measured.err.find("guessed tokens: "), std::string::npos) << measured.err;
  words.back() = R"({"method": "suffix"})";
  const auto by_suffix = run(words, options_);
  EXPECT_EQ(by_suffix.status, 0) << by_suffix.err;
  EXPECT_NE(by_suffix.err.find("guessed tokens: "), std::string::npos) << by_suffix.err;
}

// A tenant's answers guess for this tenant alone; the server tells how many were right.
TEST_F(Inference, AServerGuessesByEarlierAnswersOfOneSalt) {
  Deployed server(path("model"), {"--speculative_config", R"({"method": "suffix", "num_speculative_tokens": 8})"});
  const auto right = [&](const std::string& salt) {
    const auto total = [&] {
      const std::string page = ask(server.port(), "GET", "/metrics").body;
      std::smatch found;
      const std::regex accepted("\\nvllm:spec_decode_num_accepted_tokens_total\\{[^}]*\\} ([0-9]+)");
      EXPECT_TRUE(std::regex_search(page, found, accepted)) << page;
      return found.empty() ? 0 : std::stoi(found[1]);
    };
    const int before = total();
    const auto reply = server.post("/v1/completions",
                                   R"({"prompt": "one two", "max_tokens": 40, "ignore_eos": true, "temperature": 1,
                                       "seed": 3, "cache_salt": ")" +
                                       salt + R"("})");
    EXPECT_EQ(reply.status, 200) << reply.body;
    return total() - before;
  };
  const int first = right("a");
  const int other = right("b");
  EXPECT_EQ(other, first);
  EXPECT_GT(right("a"), first + 10);
  EXPECT_EQ(server.end().status, 0);
}

}  // namespace
}  // namespace tern::e2e
