// score and bench on a tiny model: laws that hold whatever its weights are.
#include <cmath>
#include <fstream>
#include <regex>
#include <sstream>

#include "inferring.h"
#include "io/json.h"

namespace tern::e2e {
namespace {

using Measuring = Inference;

TEST_F(Measuring, TheLossIsTheMeanOfTheTokens) {
  const auto file = scratch_.write("texts.jsonl", "{\"text\": \"one and two\"}\n");
  const auto row = output({"score", "--dataset", file});
  const std::regex number("\"logprob\":([-+.0-9eE]+)");
  double sum = 0;
  int count = 0;
  for (std::sregex_iterator it(row.begin(), row.end(), number), end; it != end; ++it, ++count)
    sum += std::stod((*it)[1]);
  ASSERT_EQ(count, 10) << row;
  EXPECT_NE(row.find("\"logprob\":null"), std::string::npos);
  std::smatch found;
  ASSERT_TRUE(std::regex_search(row, found, std::regex("\"loss\":([-+.0-9eE]+),\"perplexity\":([-+.0-9eE]+)"))) << row;
  EXPECT_NEAR(std::stod(found[1]), -sum / count, 1e-9);
  EXPECT_NEAR(std::stod(found[2]), std::exp(-sum / count), 1e-6 * std::exp(-sum / count));
}

// A text of more than the 512 tokens of the context, and another model beside: each row and the end tell the same
// means.
TEST_F(Measuring, LongTextsAreScoredInWindowsAndBesideAReference) {
  write_tiny_model(path("other"), {.seed = 2});
  const auto file =
      scratch_.write("texts.jsonl", "{\"text\": \"" + std::string(700, 'x') + "\"}\n{\"text\": \"one\"}\n");
  const auto words = [&](const std::string& reference) {
    return std::vector<std::string>{"score",    "--model",     path("model").string(),   "--dataset",    file,
                                    "--json",   "--reference", path(reference).string(), "--max_length", "64",
                                    "--stride", "16"};
  };
  const auto outcome = run(words("other"), options_);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("texts of more than 64 tokens are scored in windows that begin every 16 tokens\n"),
            std::string::npos)
      << outcome.err;
  std::vector<io::Json> rows;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) rows.push_back(io::parse_json(line, "row").value());
  ASSERT_EQ(rows.size(), 3U) << outcome.out;
  double kl = 0;
  int tokens = 0;
  for (const auto& row : {rows[0], rows[1]}) {
    EXPECT_GT(row["kl_divergence"].get<double>(), 0.01);
    for (const auto& token : row["tokens"]) {
      if (!token.contains("kl")) continue;
      kl += token["kl"].get<double>();
      ++tokens;
    }
  }
  EXPECT_EQ(tokens, 699 + 2);
  EXPECT_EQ(rows[2]["texts"].get<int>(), 2);
  EXPECT_EQ(rows[2]["scored_tokens"].get<int>(), tokens);
  EXPECT_NEAR(rows[2]["kl_divergence"].get<double>(), kl / tokens, 1e-9);
  EXPECT_LE(rows[2]["same_top"].get<double>(), 1.0);
  EXPECT_NE(outcome.err.find("texts: 2, scored tokens: 701, loss "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("; from the reference: KL divergence "), std::string::npos) << outcome.err;
  const auto itself = run(words("model"), options_);
  EXPECT_NE(itself.err.find("KL divergence 0 a token, the same likeliest token for 100.00% of them\n"),
            std::string::npos)
      << itself.err;
  // Without flags: half of the context at a time, and no comparison.
  const auto plain = run({"score", "--model", path("model").string(), "--dataset", file}, options_);
  EXPECT_NE(plain.err.find("texts of more than 512 tokens are scored in windows that begin every 256 tokens\n"),
            std::string::npos)
      << plain.err;
  EXPECT_EQ(plain.out.find("kl"), std::string::npos);
}

// What the cache of answers changes: nothing where it holds fp32, little where it rounds, in steps of any size.
TEST_F(Measuring, TextsAreScoredThroughACacheAsAnswersAre) {
  const auto file = scratch_.write("texts.jsonl", "{\"text\": \"" + std::string(90, 'x') + " one and two\"}\n");
  const auto kl = [&](const std::string& dtype, const std::string& tokens) {
    const auto outcome = run(
        {"score", "--model", path("model").string(), "--dataset", file, "--json", "--reference", path("model").string(),
         "--kv_cache_dtype", dtype, "--max_num_batched_tokens", tokens, "--max_length", "64"},
        options_);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const auto last = outcome.out.rfind("{\"texts\":");
    return io::parse_json(outcome.out.substr(last), "the last row").value()["kl_divergence"].get<double>();
  };
  for (const char* tokens : {"1", "5", "32"}) {
    EXPECT_LT(kl("float32", tokens), 1e-9) << tokens;
    EXPECT_GT(kl("bfloat16", tokens), 1e-9) << tokens;
    EXPECT_LT(kl("bfloat16", tokens), 1e-3) << tokens;
  }
  // Without a reference the same numbers are told.
  const std::vector<std::string> plain = {"score", "--model", path("model").string(), "--dataset", file};
  auto cached = plain;
  cached.insert(cached.end(), {"--kv_cache_dtype", "float32"});
  const auto loss = [&](const std::vector<std::string>& words) {
    return io::parse_json(run(words, options_).out, "row").value()["loss"].get<double>();
  };
  EXPECT_NEAR(loss(cached), loss(plain), 1e-5);
}

TEST_F(Measuring, BenchTellsBothPhases) {
  const auto rows = output({"bench", "--prompt_length", "16", "--max_new_tokens", "4", "--batch_size", "1", "3",
                            "--kv_cache_dtype", "int8", "--json"});
  for (const char* part : {"\"phase\": \"prefill\", \"batch\": 1, \"tokens\": 16,",
                           "\"phase\": \"decode\", \"batch\": 3, \"tokens\": 9,", "\"gflops\": "}) {
    EXPECT_NE(rows.find(part), std::string::npos) << rows;
  }
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 4);
}

// A prompt of every sequence is longer than a step together, and still all of them decode at once: at least 4 x 15 of
// the 4 x 19 tokens that follow the first ones.
TEST_F(Measuring, BenchMeasuresDecodeOfAllSequences) {
  const auto rows =
      output({"bench", "--prompt_length", "300", "--max_new_tokens", "20", "--batch_size", "4", "--json"});
  std::smatch found;
  ASSERT_TRUE(std::regex_search(rows, found, std::regex("\"phase\": \"decode\", \"batch\": 4, \"tokens\": ([0-9]+),")))
      << rows;
  EXPECT_GE(std::stoi(found[1]), 60) << rows;
}

// Each number of threads is measured with a device of its own, and has a roof in the picture.
TEST_F(Measuring, BenchComparesThreadsAndDrawsARoofline) {
  const auto table = output({"bench", "--prompt_length", "8", "16", "--max_new_tokens", "4", "--threads", "1", "3",
                             "--svg", path("roof.svg").string()});
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 1 + 8) << table;
  for (const char* line : {"\nprefill      8     1       1       8 ", "\ndecode      16     1       3       3 "})
    EXPECT_NE(table.find(line), std::string::npos) << table;
  std::ostringstream svg;
  svg << std::ifstream(path("roof.svg")).rdbuf();
  const std::string text = svg.str();
  EXPECT_EQ(text.find("<svg "), 0U);
  const std::regex point("<circle class=\"phase\"");
  EXPECT_EQ(std::distance(std::sregex_iterator(text.begin(), text.end(), point), std::sregex_iterator()), 8);
  EXPECT_NE(text.find(">threads 1: "), std::string::npos) << text;
  EXPECT_NE(text.find(">threads 3: "), std::string::npos);
}

// Devices are measured side by side: each has its rows, its ops and its roof.
TEST_F(Measuring, BenchComparesDevices) {
  const std::vector<std::string> words = {"bench",     "--prompt_length", "8",     "--max_new_tokens",       "3",
                                          "--compare", "cpu,cpu:0",       "--svg", path("both.svg").string()};
  const auto table = output(words);
  for (const char* line : {"\ncpu\nprefill ", "\ncpu:0\nprefill ", "us a call, of its roof "})
    EXPECT_NE(table.find(line), std::string::npos) << table;
  // Each has a time for the product and for attention.
  const std::regex both("\n(matmul|matmul_q|attention_paged) +[0-9.]+ +[0-9]+% +[0-9.]+ +[0-9]+%");
  EXPECT_GE(std::distance(std::sregex_iterator(table.begin(), table.end(), both), std::sregex_iterator()), 2) << table;
  std::ostringstream svg;
  svg << std::ifstream(path("both.svg")).rdbuf();
  EXPECT_NE(svg.str().find(">cpu: "), std::string::npos) << svg.str();
  EXPECT_NE(svg.str().find(">cpu:0: "), std::string::npos);

  auto json = words;
  json.push_back("--json");
  const auto rows = output(json);
  EXPECT_NE(rows.find("{\"device\": \"cpu:0\", \"phase\": \"decode\""), std::string::npos) << rows;
  EXPECT_NE(rows.find("\"op\": \"rms_norm\", \"device\": \"cpu\", \"calls\": "), std::string::npos) << rows;
}

}  // namespace
}  // namespace tern::e2e
