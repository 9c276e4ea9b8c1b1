// The protocols of tern deploy beside each other: the built program with a tiny model, over loopback.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <sstream>

#include "deployed.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

class Protocols : public ::testing::Test {
 protected:
  Protocols() { write_tiny_model(scratch_.path() / "tiny"); }
  [[nodiscard]] Deployed deploy(std::vector<std::string> flags = {}) const {
    return Deployed(scratch_.path() / "tiny", std::move(flags));
  }
  Scratch scratch_;
};

constexpr const char* kSchema = R"({"type": "object", "properties": {"a": {"enum": ["some words"]},
                                    "b": {"type": "boolean"}}, "required": ["a", "b"], "additionalProperties": false})";

// Of a demanded call each protocol streams the arguments as they are drawn, a piece a token.
TEST_F(Protocols, StreamTheArgumentsOfDemandedCalls) {
  Deployed server = deploy();
  const std::string schema = kSchema;
  const std::string function = R"({"name": "pick", "parameters": )" + schema + "}";
  const std::string hello = R"([{"role": "user", "content": "1+2?"}])";
  struct Case {
    std::string path, body;
    std::function<std::string(const Json& event)> piece;  // of the arguments, in an event
  };
  const auto openai = [](const Json& event) {
    const Json* calls = event["choices"][0]["delta"].find("tool_calls");
    return calls == nullptr ? std::string() : (*calls)[0]["function"]["arguments"].text();
  };
  const auto of_chat = [&](const std::string& choice) {
    return Case{"/v1/chat/completions",
                R"({"stream": true, "temperature": 0, "messages": )" + hello + R"(, "tool_choice": )" + choice +
                    R"(, "tools": [{"type": "function", "function": )" + function + "}]}",
                openai};
  };
  const std::vector<Case> cases = {
      of_chat(R"("required")"), of_chat(R"({"type": "function", "function": {"name": "pick"}})"),
      Case{"/v1/responses",
           R"({"stream": true, "temperature": 0, "input": "1+2?", "tool_choice": "required", "tools": [
               {"type": "function", "name": "pick", "parameters": )" +
               schema + "}]}",
           [](const Json& event) {
             const bool delta = event["type"] == "response.function_call_arguments.delta";
             return delta ? event["delta"].text() : std::string();
           }},
      Case{"/v1/messages",
           R"({"model": "tiny", "max_tokens": 400, "stream": true, "temperature": 0, "messages": )" + hello +
               R"(, "tool_choice": {"type": "any"}, "tools": [{"name": "pick", "input_schema": )" + schema + "}]}",
           [](const Json& event) {
             const bool delta = event["type"] == "content_block_delta" && event["delta"]["type"] == "input_json_delta";
             return delta ? event["delta"]["partial_json"].text() : std::string();
           }}};
  for (const Case& one : cases) {
    const HttpReply reply = server.post(one.path, one.body);
    ASSERT_EQ(reply.status, 200) << reply.body;
    std::string arguments;
    int pieces = 0;
    for (const Json& event : events_of(reply)) {
      const std::string piece = one.piece(event);
      arguments += piece;
      pieces += piece.empty() ? 0 : 1;
    }
    EXPECT_EQ(io::parse_json(arguments, one.path).value()["a"], "some words") << arguments;
    EXPECT_GT(pieces, 10) << one.path;
  }
}

// Each field of vLLM's that changes what is drawn, or what is told of it.
TEST_F(Protocols, DrawAndTellAsVllmsFieldsSay) {
  Deployed server = deploy();
  const auto asked = [&](const std::string& fields, const std::string& prompt = R"("ab")", int tokens = 6,
                         int temperature = 0) {
    const HttpReply reply =
        server.post("/v1/completions", R"({"ignore_eos": true, "prompt": )" + prompt + R"(, "max_tokens": )" +
                                           std::to_string(tokens) + R"(, "temperature": )" +
                                           std::to_string(temperature) + ", " + fields + "}");
    EXPECT_EQ(reply.status, 200) << fields << reply.body;
    return json_of(reply);
  };
  const auto text = [&](const std::string& fields, const std::string& prompt = R"("ab")") {
    return asked(fields, prompt)["choices"][0]["text"].text();
  };
  const Json plain = asked(R"("return_token_ids": true)")["choices"][0];
  const std::string said = plain["text"].text();
  ASSERT_EQ(plain["token_ids"].size(), 6U);
  EXPECT_EQ(plain["prompt_token_ids"].dump(),
            json_of(server.post("/tokenize", R"({"prompt": "ab"})"))["tokens"].dump());
  EXPECT_EQ(text(R"("n": 1)", plain["prompt_token_ids"].dump()), said);
  // The model's letters are its tokens: what would come first may not, alone or behind another.
  const std::string first = plain["token_ids"][0].dump();
  const std::string letter = json_of(server.post("/detokenize", R"({"tokens": [)" + first + "]}"))["prompt"].dump();
  const Json other = asked(R"("return_token_ids": true, "bad_words": [)" + letter + "]")["choices"][0];
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NE(other["token_ids"][i].dump(), first);
  const std::string two = json_of(server.post(
      "/detokenize", R"({"tokens": [)" + first + ", " + plain["token_ids"][1].dump() + "]}"))["prompt"]
                              .dump();
  const Json behind = asked(R"("return_token_ids": true, "bad_words": [)" + two + "]")["choices"][0];
  EXPECT_EQ(behind["token_ids"][0].dump(), first);
  EXPECT_NE(behind["token_ids"][1].dump(), plain["token_ids"][1].dump());
  const Json few = json_of(server.post("/tokenize", R"({"prompt": "xy", "add_special_tokens": false})"))["tokens"];
  EXPECT_EQ(text(R"("allowed_token_ids": )" + few.dump()).find_first_not_of("xy"), std::string::npos);
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "ab", "allowed_token_ids": [99999999]})").status, 400);
  // The best of several is the likeliest of them, and they are counted.
  const std::string drawn = R"("seed": 5, "logprobs": 0, )";
  const auto mean = [](const Json& choice) {
    double sum = 0;
    for (std::size_t i = 0; i < choice["logprobs"]["token_logprobs"].size(); ++i) {
      sum += choice["logprobs"]["token_logprobs"][i].get<double>();
    }
    return sum;
  };
  const Json all = asked(drawn + R"("n": 5)", R"("ab")", 6, 1)["choices"];
  double highest = mean(all[0]), lowest = highest;
  for (std::size_t i = 1; i < 5; ++i) {
    highest = std::max(highest, mean(all[i]));
    lowest = std::min(lowest, mean(all[i]));
  }
  EXPECT_LT(lowest, highest);
  const Json best = asked(drawn + R"("best_of": 5)", R"("ab")", 6, 1);
  ASSERT_EQ(best["choices"].size(), 1U);
  EXPECT_EQ(mean(best["choices"][0]), highest);
  EXPECT_EQ(best["usage"]["completion_tokens"], 30);
  // The end of a prompt that is too long, or its beginning.
  const Json cut = asked(R"("truncate_prompt_tokens": 1, "return_token_ids": true)")["choices"][0];
  EXPECT_EQ(cut["prompt_token_ids"][0].dump(), plain["prompt_token_ids"][plain["prompt_token_ids"].size() - 1].dump());
  const Json head = asked(R"("truncate_prompt_tokens": 1, "truncation_side": "right", "return_token_ids": true)");
  EXPECT_EQ(head["choices"][0]["prompt_token_ids"].dump(), "[" + plain["prompt_token_ids"][0].dump() + "]");
  const Json echoed = asked(R"("echo": true, "logprobs": 0)", R"("ab")", 0);
  EXPECT_EQ(echoed["choices"][0]["text"], "ab");
  EXPECT_EQ(echoed["usage"]["completion_tokens"], 0);
}

// Beams of a server find what those of `tern infer --num_beams` find, and a stream of them is refused by its name.
TEST_F(Protocols, BeamsFindWhatInferFinds) {
  const std::string rows = scratch_.write("beams.jsonl", "{\"query\": \"1 + 2\"}\n{\"query\": \"a b c\"}\n");
  const auto outcome =
      run({"infer", "--model", (scratch_.path() / "tiny").string(), "--val_dataset", rows, "--num_beams", "4",
           "--temperature", "0", "--max_new_tokens", "10", "--batch_invariant", "--device", "cpu"},
          {});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  Deployed server = deploy({"--batch_invariant"});
  std::istringstream lines(outcome.out);
  for (const char* query : {"1 + 2", "a b c"}) {
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    const std::string body = R"({"messages": [{"role": "user", "content": ")" + std::string(query) +
                             R"("}], "use_beam_search": true, "best_of": 4, "max_tokens": 10)";
    const HttpReply reply = server.post("/v1/chat/completions", body + "}");
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(io::parse_json(reply.body, "reply").value()["choices"][0]["message"]["content"],
              io::parse_json(line, "row").value()["response"]);
    const HttpReply refused = server.post("/v1/chat/completions", body + R"(, "stream": true})");
    EXPECT_EQ(refused.status, 400);
    EXPECT_EQ(io::parse_json(refused.body, "reply").value()["error"]["param"], "stream");
  }
}

// KServe's open inference protocol and Triton's generate say what OpenAI's completions say.
TEST_F(Protocols, KServeInfersAndGenerates) {
  Deployed server = deploy({"--served_model_name", "org/tiny"});
  EXPECT_EQ(ask(server.port(), "GET", "/v2/health/live").status, 200);
  EXPECT_EQ(ask(server.port(), "GET", "/v2/health/ready").status, 200);
  EXPECT_EQ(json_of(ask(server.port(), "GET", "/v2"))["name"], "tern");
  EXPECT_EQ(ask(server.port(), "GET", "/v2/models/org/tiny/ready").status, 200);
  EXPECT_EQ(ask(server.port(), "GET", "/v2/models/org/tiny/versions/1/ready").status, 200);
  EXPECT_EQ(ask(server.port(), "GET", "/v2/models/org/tiny/versions/2/ready").status, 404);
  const HttpReply unknown = ask(server.port(), "GET", "/v2/models/none/ready");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_NE(json_of(unknown)["error"].text().find("org/tiny"), std::string::npos);
  const HttpReply method = ask(server.port(), "GET", "/v2/models/org/tiny/infer");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.header("allow"), "POST");
  EXPECT_EQ(json_of(ask(server.port(), "GET", "/v2/models/org%2Ftiny"))["inputs"][0]["name"], "text_input");
  const std::string sampling = R"("temperature": 0, "max_tokens": 8, "ignore_eos": true)";
  const std::string text =
      json_of(server.post("/v1/completions", R"({"prompt": "ab", )" + sampling + "}"))["choices"][0]["text"].text();
  const std::string json =
      R"({"inputs": [{"name": "text_input", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 6}},
          {"name": "sampling_parameters", "datatype": "BYTES", "shape": [1], "data": [)" +
      Json("{" + sampling + "}").dump() +
      R"(]}], "outputs": [{"name": "text_output"}, {"name": "num_output_tokens"}]})";
  const std::string body = json + std::string("\x02\0\0\0ab", 6);
  const HttpReply inferred = server.post("/v2/models/org/tiny/infer", body,
                                         "Inference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n");
  ASSERT_EQ(inferred.status, 200) << inferred.body;
  EXPECT_EQ(json_of(inferred)["outputs"][0]["data"][0], "ab" + text);
  EXPECT_EQ(json_of(inferred)["outputs"][1]["data"][0], 8);
  const auto asked = [&](const std::string& route, const std::string& more) {
    return server.post("/v2/models/org/tiny/" + route,
                       R"({"text_input": "ab", "parameters": {)" + more + sampling + "}}");
  };
  EXPECT_EQ(json_of(asked("generate", R"("exclude_input_in_output": true, )"))["text_output"], text);
  std::string streamed;
  for (const Json& event : events_of(asked("generate_stream", R"("stream": true, )"))) {
    streamed += event["text_output"].text();
  }
  EXPECT_EQ(streamed, text);
  EXPECT_EQ(json_of(asked("generate", R"("stream": true, )"))["error"].text().find("field \"stream\""), 0U);
}

// What is missing in the middle: /infill and OpenAI's suffix ask the same, and a model that has no tokens for it says
// so.
TEST_F(Protocols, FillGapsWhereTheModelCan) {
  TinyModel coder;
  coder.fim = true;
  write_tiny_model(scratch_.path() / "coder", coder);
  Deployed server(scratch_.path() / "coder", {});
  const std::string sampling = R"("temperature": 0, "ignore_eos": true)";
  const HttpReply filled = server.post("/v1/completions", R"({"prompt": "ab", "suffix": "cd", "max_tokens": 8,
                                                              "return_token_ids": true, )" +
                                                              sampling + "}");
  ASSERT_EQ(filled.status, 200) << filled.body;
  const Json choice = json_of(filled)["choices"][0];
  EXPECT_EQ(choice["prompt_token_ids"].dump(), "[258,97,98,259,99,100,260]");
  const auto infill = [&](const std::string& fields) {
    return server.post("/infill",
                       R"({"input_prefix": "a", "prompt": "b", "input_suffix": "cd", )" + fields + sampling + "}");
  };
  const Json whole = json_of(infill(R"("n_predict": 8, )"));
  EXPECT_EQ(whole["content"], choice["text"]);
  EXPECT_EQ(whole["tokens_evaluated"], 7);
  EXPECT_EQ(whole["stop_type"], "limit");
  std::string streamed;
  for (const Json& event : events_of(infill(R"("stream": true, "n_predict": 8, )")))
    streamed += event["content"].text();
  EXPECT_EQ(streamed, choice["text"].text());
  EXPECT_EQ(json_of(infill(R"("n_predict": 0, )"))["content"], "");
  // A mark that is written out in a text is none.
  const HttpReply written =
      server.post("/v1/completions", R"({"prompt": "<|fim_middle|>", "suffix": "c", "max_tokens": 1,
                                                               "return_token_ids": true})");
  EXPECT_EQ(json_of(written)["choices"][0]["prompt_token_ids"].size(), 18U);
  Deployed plain = deploy();
  const HttpReply refused = plain.post("/v1/completions", R"({"prompt": "ab", "suffix": "cd"})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(json_of(refused)["error"]["message"].text().find("without tokens for a prefix"), std::string::npos);
  EXPECT_EQ(plain.post("/infill", R"({"input_prefix": "a", "input_suffix": "b"})").status, 400);
}

// What no handler ever sees is refused in the form of the protocol that was asked.
TEST_F(Protocols, RefuseInTheirOwnForm) {
  Deployed server = deploy({"--api_key", "secret"});
  struct Case {
    std::string path;
    std::function<std::string(const Json& body)> message;
  };
  const std::vector<Case> cases = {
      {"/v1/completions", [](const Json& body) { return body["error"]["message"].text(); }},
      {"/v1/messages", [](const Json& body) { return body["type"] == "error" ? body["error"]["message"].text() : ""; }},
      {"/api/chat", [](const Json& body) { return body["error"].text(); }},
      {"/v2/repository/index", [](const Json& body) { return body["error"].text(); }}};
  const std::string key = "Authorization: Bearer secret\r\n";
  for (const Case& one : cases) {
    const HttpReply no_key = ask(server.port(), "POST", one.path, "{}");
    EXPECT_EQ(no_key.status, 401);
    EXPECT_EQ(no_key.header("www-authenticate"), "Bearer");
    EXPECT_NE(one.message(json_of(no_key)).find("Bearer KEY"), std::string::npos);
    const HttpReply method = ask(server.port(), "DELETE", one.path, "", key);
    EXPECT_EQ(method.status, 405);
    EXPECT_EQ(method.header("allow"), "POST");
    EXPECT_NE(one.message(json_of(method)).find("takes POST, not DELETE"), std::string::npos);
    const HttpReply unknown = ask(server.port(), "POST", one.path + "/nothing", "{}", key);
    EXPECT_EQ(unknown.status, 404);
    EXPECT_NE(one.message(json_of(unknown)).find("there is no route"), std::string::npos);
  }
}

}  // namespace
}  // namespace tern::e2e
