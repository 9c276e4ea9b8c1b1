// tern deploy of models that make no words: labels, rewards, relevance and vectors, beside transformers' numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "deployed.h"
#include "tests/support/parsed_json.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Tensors of 32-bit numbers, as script/golden wrote them.
class Golden {
 public:
  explicit Golden(const fs::path& file) {
    std::ostringstream all;
    all << std::ifstream(file, std::ios::binary).rdbuf();
    bytes_ = all.str();
    std::uint64_t size = 0;
    std::memcpy(&size, bytes_.data(), sizeof size);
    header_ = io::parse_json(bytes_.substr(sizeof size, size), "header").value();
    begin_ = sizeof size + size;
  }
  template <typename T>
  [[nodiscard]] std::vector<T> read(const char* name) const {
    static_assert(sizeof(T) == 4 && std::endian::native == std::endian::little);
    const auto from = header_[name]["data_offsets"][0].get<std::uint64_t>();
    std::vector<T> out((header_[name]["data_offsets"][1].get<std::uint64_t>() - from) / sizeof(T));
    std::memcpy(out.data(), bytes_.data() + begin_ + from, out.size() * sizeof(T));
    return out;
  }
  // The texts that the numbers are of, as a request asks for them.
  [[nodiscard]] Json texts() const {
    const auto ids = read<std::int32_t>("tokens");
    auto at = ids.begin();
    Json out = Json::array();
    for (const std::int32_t length : read<std::int32_t>("lengths")) {
      out.push_back(Json(std::vector<std::int32_t>(at, at + length)));
      at += length;
    }
    return out;
  }

 private:
  std::string bytes_;
  Json header_;
  std::size_t begin_ = 0;
};

class PoolingModels : public ::testing::Test {
 protected:
  // A published directory in small; what asks by ids takes any tokenizer.
  [[nodiscard]] fs::path fixture(const std::string& name) const {
    const fs::path golden = fs::path(TERN_TEST_DATA) / "golden";
    fs::copy(golden / name, path(name), fs::copy_options::recursive);
    fs::copy(golden / "bert-reranker/tokenizer.json", path(name), fs::copy_options::skip_existing);
    return path(name);
  }
  [[nodiscard]] fs::path path(const std::string& name) const { return scratch_.path() / name; }
  static std::vector<double> numbers(const Json& list) {
    std::vector<double> out;
    for (const Json& one : list) out.push_back(one.get<double>());
    return out;
  }
  Scratch scratch_;
};

constexpr double kPooled = 1e-4;  // absolute, as of the golden tests of these numbers

TEST_F(PoolingModels, LabelsHaveTransformersProbabilities) {
  for (const char* name : {"qwen3-seq-cls", "roberta-seq-cls", "modernbert-seq-cls"}) {
    const fs::path folder = fixture(name);
    const Golden golden(folder / "pooled.safetensors");
    const auto logits = golden.read<float>("logits");
    const Deployed server(folder, {});
    Json body = {{"model", name}, {"input", golden.texts()}};
    const Json data = json_of(server.post("/classify", body.dump()))["data"];
    body["use_activation"] = false;
    const Json raw = json_of(server.post("/pooling", body.dump()))["data"];
    ASSERT_EQ(data.size(), 5U);
    ASSERT_EQ(raw.size(), 5U);
    for (std::size_t i = 0; i < 5; ++i) {
      const auto row = std::span(logits).subspan(3 * i, 3);
      double sum = 0;
      for (const float logit : row) sum += std::exp(logit);
      const auto probs = numbers(data[i]["probs"]);
      const auto given = numbers(raw[i]["data"]);
      for (std::size_t label = 0; label < 3; ++label) {
        EXPECT_NEAR(given.at(label), row[label], kPooled) << name << i;
        EXPECT_NEAR(probs.at(label), std::exp(row[label]) / sum, kPooled) << name << i;
      }
      const auto best = static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
      EXPECT_EQ(data[i]["label"], (std::vector{"negative", "neutral", "positive"}[best])) << name << i;
    }
  }
}

TEST_F(PoolingModels, CrossEncodersHaveTransformersScores) {
  for (const char* name : {"bert-reranker", "xlm-roberta-reranker"}) {
    const fs::path folder = fixture(name);
    const Json pairs = test::parsed_json(std::ifstream(folder / "pairs.json"));
    const Deployed server(folder, {"--task_type", "reranker"});
    for (const Json& pair : pairs) {
      Json body = {{"query", pair["query"]}, {"documents", {pair["document"]}}};
      const Json ranked = json_of(server.post("/v1/rerank", body.dump()))["results"][0];
      EXPECT_NEAR(ranked["relevance_score"].get<double>(), pair["score"].get<double>(), 1e-5) << name;
      body = {{"text_1", pair["query"]}, {"text_2", pair["document"]}, {"use_activation", false}};
      const Json score = json_of(server.post("/score", body.dump()))["data"][0];
      EXPECT_NEAR(score["score"].get<double>(), pair["logit"].get<double>(), 1e-5) << name;
    }
    // The tokens around a text stay where it is cut.
    const auto tokens = [&](const std::string& fields) {
      return json_of(server.post("/classify", R"({"input": "the quick brown fox")" + fields + "}"))["data"][0]["probs"];
    };
    Json ids = json_of(server.post("/tokenize", R"({"prompt": "the quick brown fox"})"))["tokens"];
    ASSERT_GT(ids.size(), 5U);
    std::vector<std::int64_t> first, last;
    for (const Json& id : ids) first.push_back(id.get<std::int64_t>());
    last = first;
    first.erase(first.begin() + 3, first.end() - 1);
    last.erase(last.begin() + 1, last.end() - 3);
    const auto of_ids = [&](const std::vector<std::int64_t>& some) {
      return numbers(json_of(server.post("/classify", Json{{"input", some}}.dump()))["data"][0]["probs"]).at(0);
    };
    EXPECT_NEAR(numbers(tokens(R"(, "truncate_prompt_tokens": 4)")).at(0), of_ids(first), 1e-5) << name;
    EXPECT_NEAR(numbers(tokens(R"(, "truncate_prompt_tokens": 4, "truncation_side": "left")")).at(0), of_ids(last),
                1e-5)
        << name;
  }
}

// What vLLM calls a bi-encoder: texts are as near as their vectors.
TEST_F(PoolingModels, ModelsWithoutAHeadMakeVectorsAndCompareThem) {
  for (const char* name : {"bert", "qwen3-embedding"}) {
    const fs::path folder = fixture(name);
    const Golden golden(folder / "pooled.safetensors");
    const bool encoder = std::string(name) == "bert";
    const auto want = golden.read<float>(encoder ? "mean" : "last");
    Deployed server(folder, {});
    Json body = {{"input", golden.texts()}, {"use_activation", false}};
    const Json data = json_of(server.post("/pooling", body.dump()))["data"];
    ASSERT_EQ(data.size(), 5U);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(numbers(data[i / 32]["data"]).at(i % 32), want[i], kPooled) << name << i;
    }
    const std::string ascii = R"(["a b", "c d"])";
    const Json vectors = json_of(server.post("/v1/embeddings", R"({"input": )" + ascii + "}"))["data"];
    const auto first = numbers(vectors[0]["embedding"]), second = numbers(vectors[1]["embedding"]);
    double cosine = 0;
    for (std::size_t i = 0; i < first.size(); ++i) cosine += first[i] * second[i];
    const Json scores = json_of(server.post("/score", R"({"text_1": "a b", "text_2": )" + ascii + "}"))["data"];
    EXPECT_NEAR(scores[0]["score"].get<double>(), 1.0, 1e-5) << name;
    EXPECT_NEAR(scores[1]["score"].get<double>(), cosine, 1e-5) << name;
    EXPECT_LT(cosine, 0.999) << name;
    const HttpReply told = server.post("/rerank", R"({"query": "a", "documents": ["b"], "instruction": "c"})");
    EXPECT_EQ(told.status, 400);
    EXPECT_NE(told.body.find("an instruction beside them"), std::string::npos) << told.body;
    const HttpReply words = server.post("/v1/completions", R"({"prompt": "a"})");
    EXPECT_EQ(words.status, 400);
    EXPECT_NE(words.body.find("found one that is served for vectors"), std::string::npos) << words.body;
    EXPECT_NE(server.end().err.find("it answers at /v1/embeddings, /pooling, /score and /rerank"), std::string::npos);
  }
}

// No cache of keys and values is made for it.
TEST_F(PoolingModels, ALanguageModelMakesVectorsAloneWhereItIsToldTo) {
  write_tiny_model(path("tiny"), {.verdicts = true});
  Deployed server(path("tiny"), {"--task_type", "embedding"});
  EXPECT_EQ(json_of(server.post("/v1/embeddings", R"({"input": "abc"})"))["data"][0]["embedding"].size(), 32U);
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "a"})").status, 400);
  EXPECT_EQ(ask(server.port(), "GET", "/metrics").body.find("num_gpu_blocks="), std::string::npos);
}

TEST_F(PoolingModels, WhatTheyCannotDoIsSaid) {
  TinyModel model;
  write_tiny_model(path("tiny"), model);
  model.labels = 3;
  write_tiny_model(path("labels"), model);
  const auto refused = [&](const char* name, const Words& more, int status, const char* part) {
    Words words = {"deploy", "--model", path(name).string(), "--host", "127.0.0.1", "--port", "0"};
    words.insert(words.end(), more.begin(), more.end());
    const auto outcome = run(words);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  };
  refused("tiny", {"--task_type", "seq_cls"}, 3,
          "expected a model with labels for --task_type seq_cls, found one without");
  refused("labels", {"--task_type", "causal_lm"}, 3, "expected a language model, found a classification");
  refused("labels", {"--temperature", "0.5"}, 2, "--temperature has no effect: no token is drawn");
  refused("labels", {"--task_type", "seq_cls", "--max_new_tokens", "5"}, 2, "--max_new_tokens has no effect");
  refused("labels", {"--adapters", "a=" + path("a").string()}, 2, "lets requests choose");
  const Deployed server(path("labels"), {"--task_type", "seq_cls"});
  EXPECT_EQ(json_of(server.post("/classify", R"({"input": "a"})"))["data"][0]["num_classes"], 3);
  const HttpReply score = server.post("/score", R"({"text_1": "a", "text_2": "b"})");
  EXPECT_EQ(score.status, 400);
  EXPECT_EQ(score.body.find(scratch_.path().string()), std::string::npos) << score.body;
}

// Among several models of one address each is served for what it is.
TEST_F(PoolingModels, StandBesideLanguageModels) {
  TinyModel model;
  write_tiny_model(path("models/words"), model);
  model.labels = 3;
  write_tiny_model(path("models/labels"), model);
  const Deployed server("", {"--models", path("models").string(), "--kv_cache_memory", "8MiB"});
  EXPECT_EQ(json_of(server.post("/classify", R"({"model": "labels", "input": "a"})"))["data"][0]["num_classes"], 3);
  EXPECT_EQ(server.post("/v1/completions", R"({"model": "words", "prompt": "a", "max_tokens": 2})").status, 200);
  EXPECT_EQ(server.post("/v1/completions", R"({"model": "labels", "prompt": "a"})").status, 400);
}

}  // namespace
}  // namespace tern::e2e
