// The curl commands by which vLLM's and ms-swift's pages ask a server, in their own forms: routes, flags, headers,
// names of fields, quoting. What works there word for word works here.
// https://docs.vllm.ai/en/latest/getting_started/quickstart, .../serving/openai_compatible_server,
// .../models/pooling_models/scoring, .../models/pooling_models/classify, .../features/lora, .../features/sleep_mode;
// https://swift.readthedocs.io/en/latest/Instruction/Inference-and-deployment.html
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "deployed.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

// What a command of a page prints, asked of a server on another port than the page's.
std::string told(const Scratch& scratch, const Deployed& server, std::string command) {
  for (std::size_t at = command.find(":8000"); at != std::string::npos; at = command.find(":8000")) {
    command.replace(at, 5, ":" + std::to_string(server.port()));
  }
  const std::string out = (scratch.path() / "answer").string();
  const std::string script = scratch.write("command.sh", command);
  EXPECT_EQ(std::system(("sh " + script + " >" + out + " 2>/dev/null").c_str()), 0) << command;
  std::ostringstream text;
  text << std::ifstream(out).rdbuf();
  return text.str();
}

Json answer(const Scratch& scratch, const Deployed& server, const std::string& command) {
  const std::string text = told(scratch, server, command);
  const auto parsed = io::parse_json(text, "answer");
  EXPECT_TRUE(parsed.ok()) << command << text;
  if (!parsed.ok() || parsed->contains("error")) {
    ADD_FAILURE() << command << text;
    return Json::object();
  }
  return *parsed;
}

class DocumentedRequests : public ::testing::Test {
 protected:
  // A model under the name that a page gives it.
  [[nodiscard]] Deployed serve(const std::string& name, TinyModel model = {}, std::vector<std::string> flags = {}) {
    model.max_positions = 4096;
    write_tiny_model(scratch_.path() / "model", model);
    flags.insert(flags.end(), {"--served_model_name", name});
    return Deployed(scratch_.path() / "model", std::move(flags));
  }
  Scratch scratch_;
};

TEST_F(DocumentedRequests, OfVllmsQuickstart) {
  const Deployed server = serve("Qwen/Qwen2.5-1.5B-Instruct");
  const Json models = answer(scratch_, server, "curl http://localhost:8000/v1/models");
  EXPECT_EQ(models["data"][0]["id"], "Qwen/Qwen2.5-1.5B-Instruct");
  const Json completion = answer(scratch_, server, R"(curl http://localhost:8000/v1/completions \
    -H "Content-Type: application/json" \
    -d '{
        "model": "Qwen/Qwen2.5-1.5B-Instruct",
        "prompt": "San Francisco is a",
        "max_tokens": 7,
        "temperature": 0
    }')");
  EXPECT_EQ(completion["object"], "text_completion");
  EXPECT_LE(completion["usage"]["completion_tokens"].get<int>(), 7);
  const Json chat = answer(scratch_, server, R"(curl http://localhost:8000/v1/chat/completions \
    -H "Content-Type: application/json" \
    -d '{
        "model": "Qwen/Qwen2.5-1.5B-Instruct",
        "max_tokens": 64,
        "messages": [
            {"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": "Who won the world series in 2020?"}
        ]
    }')");
  EXPECT_EQ(chat["choices"][0]["message"]["role"], "assistant");
}

TEST_F(DocumentedRequests, OfMsSwiftsDeployment) {
  const Deployed server = serve("Qwen2.5-7B-Instruct");
  const Json chat = answer(scratch_, server, R"(curl http://localhost:8000/v1/chat/completions \
-H "Content-Type: application/json" \
-d '{
"model": "Qwen2.5-7B-Instruct",
"messages": [{"role": "user", "content": "What should I do if I can’t sleep at night?"}],
"max_tokens": 256,
"temperature": 0
}')");
  EXPECT_EQ(chat["model"], "Qwen2.5-7B-Instruct");
  EXPECT_EQ(chat["choices"][0]["message"]["role"], "assistant");
}

// Its pictures come from another host, which this server doesn't ask for its clients: the answer says so.
TEST_F(DocumentedRequests, OfMsSwiftThatNameAPicture) {
  const Deployed server = serve("Qwen2.5-VL-3B-Instruct");
  const std::string refused = told(scratch_, server, R"(curl http://localhost:8000/v1/chat/completions \
-H "Content-Type: application/json" \
-d '{
"model": "Qwen2.5-VL-3B-Instruct",
"messages": [{"role": "user", "content": [
    {"type": "image", "image": "http://modelscope-open.example/images/cat.png"},
    {"type": "text", "text": "What is in this image?"}
]}],
"max_tokens": 256,
"temperature": 0
}')");
  EXPECT_NE(refused.find("fetches nothing"), std::string::npos) << refused;
}

TEST_F(DocumentedRequests, OfVllmsClassification) {
  const Deployed server = serve("jason9693/Qwen2.5-1.5B-apeach", {.labels = 2});
  const std::string head = R"(curl -v "http://127.0.0.1:8000/classify" \
  -H "Content-Type: application/json" \
  -d '{
    "model": "jason9693/Qwen2.5-1.5B-apeach",
    "input": )";
  const std::string coffee = "\"Loved the new café—coffee was great.\"";
  const Json several = answer(scratch_, server, head + "[\n      " + coffee + R"(,
      "This update broke everything. Frustrating."
    ]
  }')");
  EXPECT_EQ(several["object"], "list");
  EXPECT_EQ(several["model"], "jason9693/Qwen2.5-1.5B-apeach");
  ASSERT_EQ(several["data"].size(), 2U);
  for (const Json& one : several["data"]) {
    EXPECT_EQ(one["num_classes"], 2);
    const double first = one["probs"][0].get<double>(), second = one["probs"][1].get<double>();
    EXPECT_NEAR(first + second, 1.0, 1e-6);
    EXPECT_EQ(one["label"], first > second ? "label 0" : "label 1");
  }
  EXPECT_EQ(several["usage"]["completion_tokens"], 0);
  const Json single = answer(scratch_, server, head + coffee + "\n  }'");
  ASSERT_EQ(single["data"].size(), 1U);
  EXPECT_EQ(single["data"][0]["label"], several["data"][0]["label"]);
  EXPECT_NEAR(single["data"][0]["probs"][0].get<double>(), several["data"][0]["probs"][0].get<double>(), 1e-5);
}

TEST_F(DocumentedRequests, OfVllmsScores) {
  const Deployed server = serve("BAAI/bge-reranker-v2-m3", {.verdicts = true});
  const std::string head = R"(curl -X 'POST' \
  'http://127.0.0.1:8000/score' \
  -H 'accept: application/json' \
  -H 'Content-Type: application/json' \
  -d '{
  "model": "BAAI/bge-reranker-v2-m3",
  )";
  const std::string one = "\"What is the capital of France?\"";
  const std::string both = "[\"What is the capital of Brazil?\", " + one + "]";
  const std::string paris = "\"The capital of France is Paris.\"";
  const std::string two = "[\"The capital of Brazil is Brasilia.\", " + paris + "]";
  std::vector<std::string> scores;
  // The older names of the two, and the newer.
  for (const auto& [first, second] : {std::pair{"text_1", "text_2"}, {"queries", "documents"}}) {
    const auto asked = [&](const std::string& format, const std::string& left, const std::string& right) {
      return answer(
          scratch_, server,
          head + format + "\"" + first + "\": " + left + ",\n  \"" + second + "\": " + right + "\n}'")["data"];
    };
    const std::string format = "\"encoding_format\": \"float\",\n  ";
    const Json single = asked(format, one, paris);
    ASSERT_EQ(single.size(), 1U);
    EXPECT_EQ(single[0]["object"], "score");
    const Json batch = asked("", one, two);
    ASSERT_EQ(batch.size(), 2U);
    EXPECT_EQ(batch[1]["score"].dump(), single[0]["score"].dump());
    EXPECT_NE(batch[0]["score"].dump(), single[0]["score"].dump());
    const Json pairs = asked(format, both, two);
    ASSERT_EQ(pairs.size(), 2U);
    EXPECT_EQ(pairs[1]["score"].dump(), single[0]["score"].dump());
    scores.push_back(single[0]["score"].dump() + batch.dump() + pairs.dump());
  }
  EXPECT_EQ(scores[0], scores[1]);
  EXPECT_EQ(server.post("/score", R"({"queries": "a", "text_2": "b"})").status, 400);
  EXPECT_EQ(server.post("/score", R"({"text_1": "a", "text_2": "b", "encoding_format": "base64"})").status, 400);
  EXPECT_EQ(server.post("/score", R"({"text_1": "a", "text_2": "b", "model": "other"})").status, 404);
  const Json ranked = answer(scratch_, server, R"(curl -X 'POST' \
  'http://127.0.0.1:8000/v1/rerank' \
  -H 'accept: application/json' \
  -H 'Content-Type: application/json' \
  -d '{
  "model": "BAAI/bge-reranker-v2-m3",
  "query": "What is the capital of France?",
  "documents": [
    "The capital of Brazil is Brasilia.",
    "The capital of France is Paris.",
    "Horses and cows are both animals"
  ]
}')")["results"];
  ASSERT_EQ(ranked.size(), 3U);
  EXPECT_TRUE(ranked[0]["document"].contains("text"));
  EXPECT_GE(ranked[0]["relevance_score"].get<double>(), ranked[2]["relevance_score"].get<double>());
}

TEST_F(DocumentedRequests, OfVllmsAdapters) {
  const std::string adapter = (scratch_.path() / "out").string();
  write_tiny_model(scratch_.path() / "base", {.max_positions = 4096});
  const Outcome trained = run({"sft", "--model", (scratch_.path() / "base").string(), "--dataset",
                               scratch_.write("rows.jsonl", sums(16)), "--max_steps", "2", "--learning_rate", "0.05",
                               "--output_dir", adapter, "--add_version", "false", "--device", "cpu"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  const std::string path = adapter + "/checkpoint-2";
  const Deployed server = serve("base", {}, {"--enable_lora", "true", "--adapters", "sql-lora=" + path});
  EXPECT_EQ(answer(scratch_, server, "curl localhost:8000/v1/models")["data"][1]["id"], "sql-lora");
  const Json completion = answer(scratch_, server, R"(curl http://localhost:8000/v1/completions \
    -H "Content-Type: application/json" \
    -d '{
        "model": "sql-lora",
        "prompt": "San Francisco is a",
        "max_tokens": 7,
        "temperature": 0
    }')");
  EXPECT_EQ(completion["model"], "sql-lora");
  EXPECT_NE(told(scratch_, server, R"(curl -X POST http://localhost:8000/v1/load_lora_adapter \
-H "Content-Type: application/json" \
-d '{
    "lora_name": "sql_adapter",
    "lora_path": ")" + path + R"("
}')")
                .find("Success"),
            std::string::npos);
  EXPECT_NE(told(scratch_, server, R"(curl -X POST http://localhost:8000/v1/unload_lora_adapter \
-H "Content-Type: application/json" \
-d '{
    "lora_name": "sql_adapter"
}')")
                .find("Success"),
            std::string::npos);
}

TEST_F(DocumentedRequests, OfVllmsSleepMode) {
  const Deployed server = serve("Qwen/Qwen3-0.6B");
  const auto sleeps = [&] {
    return answer(scratch_, server, "curl 'http://localhost:8000/is_sleeping'")["is_sleeping"];
  };
  const auto asked = [&](const std::string& command) { (void)told(scratch_, server, command + " --fail"); };
  asked("curl -X POST 'http://localhost:8000/sleep?level=1'");
  EXPECT_EQ(sleeps(), true);
  asked("curl -X POST 'http://localhost:8000/wake_up'");
  EXPECT_EQ(sleeps(), false);
  asked("curl -X POST 'http://localhost:8000/sleep?level=1'");
  asked("curl -X POST 'http://localhost:8000/wake_up?tags=weights'");
  asked("curl -X POST 'http://localhost:8000/wake_up?tags=kv_cache'");
  EXPECT_EQ(sleeps(), false);
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "a", "max_tokens": 1})").status, 200);
}

}  // namespace
}  // namespace tern::e2e
