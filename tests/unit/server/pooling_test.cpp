// What is made of whole texts, of a model that makes nothing else: vLLM's /classify, /pooling, /score and /rerank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/base64.h"
#include "base/strings.h"
#include "tests/unit/server/tiny_server.h"

namespace tern::test {
namespace {

using io::Json;

TinyServer::Options labels(int count, const std::string& problem_type = "") {
  TinyServer::Options options;
  options.max_positions = 1024;
  options.labels = count;
  options.problem_type = problem_type;
  return options;
}

Json json_of(const HttpReply& reply) {
  EXPECT_EQ(reply.status, 200) << reply.body;
  return io::parse_json(reply.body, "answer").value();
}

std::vector<double> numbers(const Json& list) {
  std::vector<double> out;
  for (const Json& one : list) out.push_back(one.get<double>());
  return out;
}

std::vector<double> probs(const TinyServer& server, const std::string& fields) {
  return numbers(json_of(server.post("/classify", "{" + fields + "}"))["data"][0]["probs"]);
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5);
}

std::vector<double> sigmoids(std::vector<double> logits) {
  for (double& one : logits) one = 1 / (1 + std::exp(-one));
  return logits;
}

const std::string kLogits = R"(, "use_activation": false)";

TEST(Pooling, OneLabelOfSeveralIsASoftmax) {
  TinyServer server(labels(3));
  const Json answer = json_of(server.post("/classify", R"({"model": "tiny", "input": ["good", "bad"], "user": "u"})"));
  EXPECT_TRUE(answer["id"].text().starts_with("classify-"));
  ASSERT_EQ(answer["data"].size(), 2U);
  const std::vector<double> logits = probs(server, R"("input": "good")" + kLogits);
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  std::vector<double> shares;
  for (const double logit : logits) shares.push_back(std::exp(logit) / sum);
  expect_near(numbers(answer["data"][0]["probs"]), shares);
  const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
  EXPECT_EQ(answer["data"][0]["label"], "label " + std::to_string(best));
  EXPECT_EQ(answer["data"][0]["num_classes"], 3);
  EXPECT_EQ(answer["data"][1]["index"], 1);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 7);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 0);
  // /pooling gives the same, and a vector where one is asked for; older names say the same.
  expect_near(numbers(json_of(server.post("/pooling", R"({"input": "good"})"))["data"][0]["data"]), shares);
  EXPECT_EQ(json_of(server.post("/pooling", R"({"input": "good", "task": "embed"})"))["data"][0]["data"].size(), 32U);
  for (const char* name : {"softmax", "activation"}) {
    expect_near(probs(server, R"("input": "good", ")" + std::string(name) + R"(": false)"), logits);
  }
  for (const char* wrong :
       {R"("softmax": true, "use_activation": false)", R"("use_activation": 1)", R"("truncate_prompt_tokens": 0)",
        R"("truncation_side": "both")", R"("inputs": 1)", R"("messages": [])"}) {
    EXPECT_EQ(server.post("/classify", R"({"input": "good", )" + std::string(wrong) + "}").status, 400) << wrong;
  }
  EXPECT_EQ(server.post("/pooling", R"({"input": "good", "task": "plugin"})").status, 400);
  EXPECT_EQ(server.post("/classify", R"({"input": "good", "model": "other"})").status, 404);
  const HttpReply score = server.post("/score", R"({"text_1": "a", "text_2": "b"})");
  EXPECT_EQ(score.status, 400);
  EXPECT_NE(score.body.find("a classification with one label"), std::string::npos) << score.body;
}

// vLLM's tasks of each token: a row a token, of which the last is what is told of the whole text.
TEST(Pooling, TokensHaveRowsOfTheirOwn) {
  TinyServer server(labels(3));
  const auto pooling = [&](const std::string& fields) {
    return json_of(server.post("/pooling", R"({"input": ["good", "longer"])" + fields + "}"));
  };
  const Json whole = pooling("")["data"];
  const Json answer = pooling(R"(, "task": "token_classify")");
  const Json rows = answer["data"];
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    tokens += rows[i]["data"].size();
    ASSERT_GT(rows[i]["data"].size(), 1U);
    for (const Json& row : rows[i]["data"]) {
      const std::vector<double> shares = numbers(row);
      ASSERT_EQ(shares.size(), 3U);
      EXPECT_NEAR(shares[0] + shares[1] + shares[2], 1, 1e-5);
    }
    expect_near(numbers(rows[i]["data"][rows[i]["data"].size() - 1]), numbers(whole[i]["data"]));
  }
  EXPECT_EQ(answer["usage"]["prompt_tokens"], tokens);
  const Json vectors = pooling(R"(, "task": "token_embed")")["data"];
  EXPECT_EQ(vectors[1]["data"].size(), rows[1]["data"].size());
  for (const Json& row : vectors[1]["data"]) {
    double squares = 0;
    for (const double one : numbers(row)) squares += one * one;
    EXPECT_NEAR(squares, 1, 1e-4);
  }
  // As base64 they come one after the other.
  for (const char* task : {"token_classify", "token_embed", "classify", "embed"}) {
    const std::string field = cat(R"(, "task": ")", task, "\"");
    const Json of_numbers = pooling(field)["data"][1]["data"];
    const std::string bytes =
        decode_base64(pooling(field + R"(, "encoding_format": "base64")")["data"][1]["data"].text()).value();
    std::vector<double> flat;
    for (const Json& one : of_numbers) {
      const std::vector<double> row = one.is_array() ? numbers(one) : std::vector<double>{one.get<double>()};
      flat.insert(flat.end(), row.begin(), row.end());
    }
    ASSERT_EQ(bytes.size(), flat.size() * sizeof(float)) << task;
    for (std::size_t i = 0; i < flat.size(); ++i) {
      float value = 0;
      std::memcpy(&value, bytes.data() + i * sizeof(float), sizeof(float));
      EXPECT_NEAR(value, flat[i], 1e-6) << task;
    }
  }
  EXPECT_EQ(server.post("/pooling", R"({"input": "good", "encoding_format": "bytes"})").status, 400);
}

TEST(Pooling, SeveralLabelsOfSeveralAreSigmoids) {
  TinyServer server(labels(3, "multi_label_classification"));
  expect_near(probs(server, R"("input": "good")"), sigmoids(probs(server, R"("input": "good")" + kLogits)));
}

TEST(Pooling, ARegressionsNumbersAreItsOwn) {
  TinyServer server(labels(3, "regression"));
  EXPECT_EQ(probs(server, R"("input": "good")"), probs(server, R"("input": "good")" + kLogits));
}

// A cross-encoder, and a reward model, whose number is of a dialogue.
TEST(Pooling, OneLabelRanks) {
  TinyServer server(labels(1, "single_label_classification"));
  expect_near(probs(server, R"("input": "good")"), sigmoids(probs(server, R"("input": "good")" + kLogits)));
  const auto score = [&](const std::string& fields) {
    return json_of(server.post("/score", R"({"text_1": "a", "text_2": "b")" + fields + "}"))["data"][0]["score"]
        .get<double>();
  };
  EXPECT_NEAR(score(""), 1 / (1 + std::exp(-score(kLogits))), 1e-6);
  const Json ranked = json_of(server.post("/rerank", R"({"query": "a", "documents": ["b", "c"])" + kLogits + "}"));
  EXPECT_NEAR(ranked["results"][ranked["results"][0]["index"] == 0 ? 0 : 1]["relevance_score"].get<double>(),
              score(kLogits), 1e-5);
  const std::string dialogue = R"("messages": [{"role": "user", "content": "Hello"}, )"
                               R"({"role": "assistant", "content": "Hi"}])";
  const Json ids = json_of(server.post("/tokenize", "{" + dialogue + R"(, "add_generation_prompt": false})"))["tokens"];
  expect_near(probs(server, dialogue + kLogits), probs(server, R"("input": )" + ids.dump() + kLogits));
  for (const char* wrong :
       {R"("add_special_tokens": true)", R"("add_generation_prompt": true, "continue_final_message": true)"}) {
    EXPECT_EQ(server.post("/classify", "{" + dialogue + ", " + wrong + "}").status, 400) << wrong;
  }
}

TEST(Pooling, TextsAreCutWhereTheyAreToBe) {
  TinyServer server(labels(2));
  const auto asked = [&](const std::string& fields) { return probs(server, fields); };
  const Json ids = json_of(server.post("/tokenize", R"({"prompt": "abcdef"})"))["tokens"];
  expect_near(asked(R"("input": "abcdef", "truncate_prompt_tokens": 3)"), asked(R"("input": "abc")"));
  expect_near(asked(R"("input": "abcdef", "truncate_prompt_tokens": 3, "truncation_side": "left")"),
              asked(R"("input": "def")"));
  expect_near(asked(R"("input": "abcdef", "truncate_prompt_tokens": 9)"), asked(R"("input": "abcdef")"));
  expect_near(asked(R"("input": )" + ids.dump() + R"(, "truncate_prompt_tokens": 3)"), asked(R"("input": "abc")"));
  const std::string longer(2000, 'a');
  EXPECT_EQ(server.post("/classify", R"({"input": ")" + longer + R"("})").status, 400);
  const Json cut = json_of(server.post("/classify", R"({"input": ")" + longer + R"(", "truncate_prompt_tokens": -1})"));
  EXPECT_EQ(cut["usage"]["prompt_tokens"], 1024);
  // Vectors are cut by the same rule.
  const auto vector = [&](const std::string& fields) {
    return numbers(json_of(server.post("/v1/embeddings", "{" + fields + "}"))["data"][0]["embedding"]);
  };
  expect_near(vector(R"("input": "abcdef", "truncate_prompt_tokens": 3)"), vector(R"("input": "abc")"));
}

// Every protocol says in plain words that there is nothing to be said, and the rest of the server serves.
TEST(Pooling, WordsAreRefused) {
  TinyServer server(labels(3));
  for (const auto& [path, body] :
       {std::pair{"/v1/chat/completions", R"({"messages": [{"role": "user", "content": "a"}]})"},
        {"/v1/completions", R"({"prompt": "a"})"},
        {"/v1/completions", R"({"prompt": "a", "stream": true})"},
        {"/v1/responses", R"({"input": "a"})"},
        {"/v1/messages", R"({"model": "tiny", "max_tokens": 1, "messages": [{"role": "user", "content": "a"}]})"},
        {"/api/generate", R"({"model": "tiny", "prompt": "a"})"},
        {"/v2/models/tiny/generate", R"({"text_input": "a"})"}}) {
    const HttpReply reply = server.post(path, body);
    EXPECT_EQ(reply.status, 400) << path << reply.body;
    EXPECT_NE(reply.body.find("expected one that answers in words, found one that gives labels of texts; ask it by "
                              "POST /classify or /pooling, or serve a language model"),
              std::string::npos)
        << path << reply.body;
  }
  EXPECT_EQ(ask(server.port(), "GET", "/health").status, 200);
  EXPECT_EQ(json_of(ask(server.port(), "GET", "/v1/models"))["data"][0]["id"], "tiny");
  EXPECT_EQ(json_of(server.post("/api/show", R"({"model": "tiny"})"))["capabilities"][0], "embedding");
  const std::vector<double> before = probs(server, R"("input": "good")");
  EXPECT_EQ(server.post("/sleep", "").status, 200);
  EXPECT_TRUE(json_of(ask(server.port(), "GET", "/is_sleeping"))["is_sleeping"].get<bool>());
  EXPECT_EQ(probs(server, R"("input": "good")"), before);
  EXPECT_EQ(server.post("/sleep", "").status, 200);
  EXPECT_EQ(server.post("/wake_up", "").status, 200);
  EXPECT_FALSE(json_of(ask(server.port(), "GET", "/is_sleeping"))["is_sleeping"].get<bool>());
}

}  // namespace
}  // namespace tern::test
