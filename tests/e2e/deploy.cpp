// tern deploy as a client meets it: the built program with a tiny model, over loopback.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "deployed.h"
#include "tests/support/tiny_model.h"

namespace tern::e2e {
namespace {

constexpr const char* kQuestion = R"("messages": [{"role": "user", "content": "1+2?"}])";
std::string question(const std::string& fields) { return std::string("{") + kQuestion + ", " + fields + "}"; }

class Deploy : public ::testing::Test {
 protected:
  Deploy() { write_tiny_model(scratch_.path() / "tiny"); }
  [[nodiscard]] Deployed deploy(std::vector<std::string> flags = {}) const {
    return Deployed(scratch_.path() / "tiny", std::move(flags));
  }
  // Into <folder>/checkpoint-<steps>.
  void train_adapter(const std::string& folder, int steps) {
    const std::string rows = scratch_.write("rows.jsonl", sums(16));
    const Outcome trained = run({"sft", "--model", (scratch_.path() / "tiny").string(), "--dataset", rows,
                                 "--max_steps", std::to_string(steps), "--learning_rate", "0.05", "--output_dir",
                                 folder, "--add_version", "false", "--device", "cpu"});
    ASSERT_EQ(trained.status, 0) << trained.err;
  }
  Scratch scratch_;
};

TEST_F(Deploy, AnswersWholeAndStreamedAlike) {
  Deployed server = deploy();
  const HttpReply models = ask(server.port(), "GET", "/v1/models");
  EXPECT_EQ(json_of(models)["data"][0]["id"], "tiny");
  const std::string fields = R"("model": "tiny", "max_tokens": 12, "temperature": 0)";
  const HttpReply whole = server.post("/v1/chat/completions", question(fields));
  ASSERT_EQ(whole.status, 200) << whole.body;
  const Json answer = json_of(whole);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 12);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  const HttpReply streamed = server.post(
      "/v1/chat/completions", question(fields + R"(, "stream": true, "stream_options": {"include_usage": true})"));
  EXPECT_EQ(streamed.headers.at("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_TRUE(streamed.body.ends_with("data: [DONE]\n\n"));
  std::string text;
  const auto events = events_of(streamed);
  for (const Json& event : events) {
    if (event["choices"].empty()) continue;
    if (const Json* content = event["choices"][0]["delta"].find("content")) text += content->text();
  }
  EXPECT_EQ(text, answer["choices"][0]["message"]["content"].text());
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 12);
}

// Drawn answers are those of their seeds, whatever else is computed beside them.
TEST_F(Deploy, AnswersManyAtOnceAsItWouldOne) {
  Deployed server = deploy({"--batch_invariant", "true"});
  const auto asked = [&](int seed) {
    return json_of(server.post("/v1/completions", R"({"prompt": "ab", "max_tokens": 20, "temperature": 1, "seed": )" +
                                                      std::to_string(seed) + "}"))["choices"][0]["text"]
        .text();
  };
  std::vector<std::string> alone, together(16);
  for (int i = 0; i < 16; ++i) alone.push_back(asked(i));
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) threads.emplace_back([&, i] { together[static_cast<std::size_t>(i)] = asked(i); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(together, alone);
  EXPECT_NE(alone[0], alone[1]);
}

// Each field of sampling does what it says.
TEST_F(Deploy, DrawsAsTheRequestSays) {
  Deployed server = deploy();
  const auto asked = [&](const std::string& fields) {
    const HttpReply reply =
        server.post("/v1/completions",
                    R"({"prompt": "ab", "max_tokens": 6, "temperature": 0, "ignore_eos": true, )" + fields + "}");
    EXPECT_EQ(reply.status, 200) << fields << reply.body;
    return json_of(reply)["choices"][0];
  };
  const std::string plain = asked(R"("n": 1)")["text"].text();
  const Json ids = json_of(server.post("/tokenize", R"({"prompt": "q"})"))["tokens"];
  const std::string q = std::to_string(ids[ids.size() - 1].get<int>());
  EXPECT_EQ(asked(R"("logit_bias": {")" + q + R"(": 100})")["text"], "qqqqqq");
  const std::string first = plain.substr(0, 1);
  EXPECT_EQ(asked(R"("stop": [")" + first + R"("])")["text"], "");
  const Json kept = asked(R"("include_stop_str_in_output": true, "stop": [")" + first + R"("])");
  EXPECT_EQ(kept["text"], first);
  EXPECT_EQ(kept["stop_reason"], first);
  EXPECT_EQ(kept["finish_reason"], "stop");
  EXPECT_GE(asked(R"("min_tokens": 3, "stop": [")" + first + R"("])")["text"].text().size(), 3U);
  const Json logprobs = asked(R"("logprobs": 3)")["logprobs"];
  EXPECT_EQ(logprobs["tokens"].size(), 6U);
  EXPECT_EQ(logprobs["top_logprobs"][0].size(), 3U);
  EXPECT_EQ(logprobs["top_logprobs"][0][logprobs["tokens"][0].text()], logprobs["token_logprobs"][0]);
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "ab", "logprobs": 21})").status, 400);
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "ab", "logit_bias": {"99999999": 1}})").status, 400);
}

// Those of a text are the same echoed, asked for beside a dialogue's, and by tern score.
TEST_F(Deploy, TellsLogProbabilitiesOfThePrompt) {
  Deployed server = deploy();
  const auto asked = [&](const std::string& fields) {
    const HttpReply reply =
        server.post("/v1/completions", R"({"prompt": "hello there", "max_tokens": 1, )" + fields + "}");
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json_of(reply)["choices"][0];
  };
  const Json echoed = asked(R"("echo": true, "logprobs": 1)")["logprobs"];
  const Json beside = asked(R"("prompt_logprobs": 2)")["prompt_logprobs"];
  const std::size_t tokens = beside.size();
  ASSERT_EQ(echoed["tokens"].size(), tokens + 1);
  EXPECT_TRUE(echoed["token_logprobs"][0].is_null());
  EXPECT_TRUE(beside[0].is_null());
  const Json ids = json_of(server.post("/tokenize", R"({"prompt": "hello there"})"))["tokens"];
  scratch_.write("text.jsonl", R"({"text": "hello there"})"
                               "\n");
  const Outcome scored = run({"score", "--model", (scratch_.path() / "tiny").string(), "--dataset",
                              (scratch_.path() / "text.jsonl").string(), "--device", "cpu"});
  const Json scores = io::parse_json(scored.out.substr(0, scored.out.find('\n')), "scores").value()["tokens"];
  ASSERT_EQ(scores.size(), tokens);
  for (std::size_t i = 1; i < tokens; ++i) {
    const double here = echoed["token_logprobs"][i].get<double>();
    EXPECT_EQ(beside[i][std::to_string(ids[i].get<int>())]["logprob"].get<double>(), here);
    EXPECT_NEAR(scores[i]["logprob"].get<double>(), here, 0.02);  // a cache in bf16
  }
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "a", "stream": true, "prompt_logprobs": 1})").status, 400);
}

// What a tiny model with random weights writes has the form that was asked for all the same.
TEST_F(Deploy, HoldsAnswersToTheirForm) {
  Deployed server = deploy();
  const auto text = [&](const std::string& fields) {
    const HttpReply reply = server.post("/v1/chat/completions", question(R"("temperature": 0, )" + fields));
    EXPECT_EQ(reply.status, 200) << fields << reply.body;
    return json_of(reply)["choices"][0]["message"]["content"].text();
  };
  EXPECT_EQ(text(R"("structured_outputs": {"choice": ["blue", "blue"]})"), "blue");
  EXPECT_EQ(text(R"("structured_outputs": {"regex": "ab{3}c"})"), "abbbc");
  const std::string schema = R"({"type": "object", "properties": {"a": {"enum": ["x"]}, "b": {"type": "boolean"}},
                                 "required": ["a", "b"], "additionalProperties": false})";
  const Json made =
      io::parse_json(
          text(R"("response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": )" + schema + "}}"),
          "answer")
          .value();
  EXPECT_EQ(made["a"], "x");
  EXPECT_TRUE(made["b"].is_boolean());
  const HttpReply unenforced = server.post(
      "/v1/chat/completions", question(R"("guided_json": {"type": "array", "uniqueItems": true, "items": {}})"));
  EXPECT_EQ(unenforced.status, 400);
  EXPECT_NE(unenforced.body.find("uniqueItems"), std::string::npos) << unenforced.body;
  const std::string tools =
      R"("tools": [{"type": "function", "function": {"name": "pick", "parameters": )" + schema + "}}]";
  const auto calls = [&](const std::string& choice) {
    const HttpReply reply =
        server.post("/v1/chat/completions", question(R"("temperature": 0, "tool_choice": )" + choice + ", " + tools));
    EXPECT_EQ(reply.status, 200) << reply.body;
    const Json answer = json_of(reply)["choices"][0];
    EXPECT_EQ(answer["finish_reason"], "tool_calls");
    return answer["message"]["tool_calls"][0]["function"];
  };
  for (const char* choice : {R"({"type": "function", "function": {"name": "pick"}})", R"("required")"}) {
    const Json function = calls(choice);
    EXPECT_EQ(function["name"], "pick");
    EXPECT_EQ(io::parse_json(function["arguments"].text(), "arguments").value()["a"], "x");
  }
  const HttpReply other = server.post(
      "/v1/chat/completions", question(R"("tool_choice": {"type": "function", "function": {"name": "no"}}, )" + tools));
  EXPECT_EQ(other.status, 400) << other.body;
}

// What one request computed another finds, unless their salts differ.
TEST_F(Deploy, FindsWhatWasComputedBefore) {
  Deployed server = deploy();
  const std::string prompt(300, 'a');
  const auto cached = [&](const std::string& fields) {
    const Json answer = json_of(server.post(
        "/v1/completions", R"({"prompt": ")" + prompt + R"(", "max_tokens": 1, "temperature": 0)" + fields + "}"));
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>();
  };
  EXPECT_EQ(cached(""), 0);
  const int found = cached("");
  EXPECT_GT(found, 200);
  EXPECT_EQ(cached(R"(, "cache_salt": "mine")"), 0);
  EXPECT_EQ(cached(R"(, "cache_salt": "mine")"), found);
  EXPECT_NE(ask(server.port(), "GET", "/metrics").body.find("vllm:prefix_cache_hits_total{"), std::string::npos);
  Deployed without = deploy({"--enable_prefix_caching", "false"});
  for (int i = 0; i < 2; ++i) {
    const Json answer = json_of(without.post("/v1/completions", R"({"prompt": ")" + prompt + R"(", "max_tokens": 1})"));
    EXPECT_EQ(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  }
}

TEST_F(Deploy, RefusesInOpenAisWords) {
  Deployed server = deploy({"--api_key", "secret", "--max_model_len", "64"});
  const std::string key = "Authorization: Bearer secret\r\n";
  const auto error = [&](const HttpReply& reply) { return json_of(reply)["error"]["message"].text(); };
  EXPECT_EQ(ask(server.port(), "GET", "/health").status, 200);  // needs no key
  EXPECT_EQ(ask(server.port(), "GET", "/metrics").status, 401);
  EXPECT_EQ(server.post("/v1/chat/completions", question(R"("n": 1)")).status, 401);
  EXPECT_EQ(server.post("/v1/chat/completions", question(R"("n": 1)"), "Authorization: Bearer secre\r\n").status, 401);
  const HttpReply unknown = server.post("/v1/chat/completions", question(R"("model": "gpt-9")"), key);
  EXPECT_EQ(unknown.status, 404);
  EXPECT_NE(error(unknown).find("expected tiny, found gpt-9"), std::string::npos) << unknown.body;
  const HttpReply field = server.post("/v1/chat/completions", question(R"("temprature": 1)"), key);
  EXPECT_EQ(field.status, 400);
  EXPECT_EQ(json_of(field)["error"]["param"], "temprature");
  EXPECT_EQ(server.post("/v1/chat/completions", "{", key).status, 400);
  const HttpReply longer = server.post("/v1/completions", R"({"prompt": ")" + std::string(100, 'a') + R"("})", key);
  EXPECT_EQ(longer.status, 400) << longer.body;
  EXPECT_NE(error(longer).find("prompt is too long"), std::string::npos) << longer.body;  // as clients know it
  EXPECT_EQ(ask(server.port(), "GET", "/v1/nothing", "", key).status, 404);
  const HttpReply method = ask(server.port(), "DELETE", "/v1/chat/completions", "", key);
  EXPECT_EQ(method.status, 405);
  const HttpReply labels = server.post("/classify", R"({"input": "a"})", key);
  EXPECT_EQ(labels.status, 400);
  EXPECT_EQ(labels.body.find(scratch_.path().string()), std::string::npos) << labels.body;  // no path of this machine
  EXPECT_NE(labels.body.find("tiny: config.json"), std::string::npos) << labels.body;
  const HttpReply image = server.post(
      "/v1/chat/completions",
      R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "/etc/passwd"}}]}]})",
      key);
  EXPECT_EQ(image.status, 400);
  EXPECT_NE(error(image).find("fetches nothing"), std::string::npos) << image.body;
}

TEST_F(Deploy, TokenizesCountsAndEmbeds) {
  Deployed server = deploy({"--served_model_name", "one", "two"});
  const Json tokens = json_of(server.post("/tokenize", R"({"model": "two", "prompt": "abc"})"));
  EXPECT_EQ(json_of(server.post("/detokenize", R"({"tokens": )" + tokens["tokens"].dump() + "}"))["prompt"], "abc");
  const Json vectors = json_of(server.post("/v1/embeddings", R"({"input": ["abc", "abd"]})"));
  ASSERT_EQ(vectors["data"].size(), 2U);
  EXPECT_EQ(vectors["data"][0]["embedding"].size(), 32U);
  const Json cut = json_of(server.post("/v1/embeddings", R"({"input": "abc", "dimensions": 8})"));
  EXPECT_EQ(cut["data"][0]["embedding"].size(), 8U);
  EXPECT_EQ(server.post("/v1/embeddings", R"({"input": "abc", "dimensions": 33})").status, 400);
  (void)server.post("/v1/completions", R"({"prompt": "ab", "max_tokens": 5, "ignore_eos": true})");
  const std::string page = ask(server.port(), "GET", "/metrics").body;
  EXPECT_NE(page.find("vllm:generation_tokens_total{engine=\"0\",model_name=\"one\"} 5"), std::string::npos) << page;
  EXPECT_NE(page.find("vllm:time_to_first_token_seconds_count"), std::string::npos);
}

// A client that hangs up is not computed for any further.
TEST_F(Deploy, ForgetsAClientThatGoesAway) {
  TinyModel endless;
  endless.max_positions = 100'000;
  write_tiny_model(scratch_.path() / "endless", endless);
  Deployed server(scratch_.path() / "endless", {"--max_num_seqs", "2"});
  {
    test::HttpClient gone(server.port());
    gone.send(test::request_text("POST", "/v1/completions",
                                 R"({"prompt": "a", "max_tokens": 90000, "ignore_eos": true, "stream": true})"));
    ASSERT_TRUE(gone.read_until("data: "));
  }
  const auto running = [&] {
    const std::string page = ask(server.port(), "GET", "/metrics").body;
    return page.substr(page.find("vllm:num_requests_running{"), 80);
  };
  for (int i = 0; i < 500 && running().find("} 0") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_NE(running().find("} 0"), std::string::npos) << running();
}

// A device that fails in the middle of an answer: that one is a 500 which says why, and the next is answered.
TEST_F(Deploy, GoesOnBehindADeviceThatFailed) {
  const std::string body = R"({"prompt": "ab", "max_tokens": 8, "temperature": 0, "ignore_eos": true})";
  const auto answer = [&](const HttpReply& reply) { return json_of(reply)["choices"][0]["text"].text(); };
  Deployed sound(scratch_.path() / "tiny", {"--max_num_seqs", "2"}, "sim:0");
  const std::string text = answer(sound.post("/v1/completions", body));
  for (const int at : {100, 200}) {  // of the operations that the device is given
    Deployed server(scratch_.path() / "tiny", {"--max_num_seqs", "2"}, "sim:0",
                    {{"TERN_SIM_FAULT", "async@" + std::to_string(at)}});
    const HttpReply first = server.post("/v1/completions", body);
    EXPECT_EQ(first.status, 500) << first.body;
    EXPECT_NE(first.body.find("the device reported a fault"), std::string::npos) << first.body;
    EXPECT_EQ(answer(server.post("/v1/completions", body)), text);
  }
}

// SIGTERM: what has come is answered, and the program ends well.
TEST_F(Deploy, DrainsWhenItIsToldToStop) {
  Deployed server = deploy();
  HttpReply reply;
  std::thread client(
      [&] { reply = server.post("/v1/completions", R"({"prompt": "a", "max_tokens": 400, "ignore_eos": true})"); });
  while (ask(server.port(), "GET", "/load").body == R"({"server_load":0})") {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const Outcome& outcome = server.end();
  client.join();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(json_of(reply)["usage"]["completion_tokens"], 400);
  EXPECT_NE(outcome.err.find("serving tiny on http://127.0.0.1:"), std::string::npos) << outcome.err;
}

// ms-swift's name for the chat page.
TEST_F(Deploy, AppIsTheSame) {
  const std::uint16_t port = test::free_port();
  std::atomic<bool> shown{false};
  Options options;
  options.signal = SIGINT;
  options.signal_when = [&] {
    if (!shown && ask(port, "GET", "/").body.find("<!doctype html>") == 0) shown = true;
    return shown.load();
  };
  const Outcome outcome = run({"app", "--model", (scratch_.path() / "tiny").string(), "--device", "cpu", "--host",
                               "127.0.0.1", "--port", std::to_string(port)},
                              options);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("a chat page is at http://localhost:"), std::string::npos) << outcome.err;
}

TEST_F(Deploy, ServesAnAdapterUnderItsName) {
  const std::string folder = (scratch_.path() / "out").string();
  train_adapter(folder, 4);
  const std::string body = R"({"prompt": "1+2", "max_tokens": 12, "temperature": 0, "ignore_eos": true})";
  const auto answer = [&](const Deployed& server) {
    return json_of(server.post("/v1/completions", body))["choices"][0]["text"].text();
  };
  const std::string adapter = folder + "/checkpoint-4";
  const std::string alone = answer(deploy({"--adapters", adapter}));
  const std::string plain = answer(deploy());
  EXPECT_NE(alone, plain);
  Deployed both = deploy({"--adapters", "sums=" + adapter});
  const auto models = json_of(ask(both.port(), "GET", "/v1/models"))["data"];
  EXPECT_EQ(models[0]["id"], "tiny");
  EXPECT_EQ(models[1]["id"], "sums");
  EXPECT_EQ(models[1]["parent"], "tiny");
  const auto answer_of = [&](const Deployed& server, const std::string& name) {
    return json_of(server.post("/v1/completions", R"({"model": ")" + name + R"(", )" + body.substr(1)));
  };
  EXPECT_EQ(answer_of(both, "sums")["choices"][0]["text"].text(), alone);
  EXPECT_EQ(answer_of(both, "tiny")["choices"][0]["text"].text(), plain);
  EXPECT_EQ(answer_of(both, "sums")["model"], "sums");
  EXPECT_EQ(both.post("/v1/completions", R"({"prompt": "a", "model": "sum"})").status, 404);
  EXPECT_EQ(both.post("/v1/load_lora_adapter", R"({"lora_name": "b", "lora_path": "/"})").status, 403);
  EXPECT_EQ(both.post("/v1/embeddings", R"({"input": "a", "model": "sums"})").status, 400);
}

TEST_F(Deploy, ServesAFolderOfModels) {
  const std::filesystem::path folder = scratch_.path() / "models";
  write_tiny_model(folder / "one");
  write_tiny_model(folder / "two", {.seed = 2});
  std::filesystem::create_directories(folder / "empty");
  const auto completion = [](const Deployed& server, const std::string& model) {
    return server.post("/v1/completions",
                       R"({"prompt": "1+2", "max_tokens": 12, "temperature": 0, "model": ")" + model + R"("})");
  };
  const auto text = [&](const Deployed& server, const std::string& model) {
    return json_of(completion(server, model))["choices"][0]["text"].text();
  };
  const std::string one = text(Deployed(folder / "one", {}), "one");
  const std::string two = text(Deployed(folder / "two", {}), "two");
  EXPECT_NE(one, two);
  Deployed server("", {"--models", folder.string()});
  const auto states = [&] {
    std::string out;
    const Json models = json_of(ask(server.port(), "GET", "/v1/models"));
    for (const Json& model : models["data"]) {
      out += model["id"].text() + " " + model["status"]["value"].text() + ";";
    }
    return out;
  };
  EXPECT_EQ(states(), "one unloaded;two unloaded;");
  const Json paths = json_of(ask(server.port(), "GET", "/openapi.json"))["paths"];
  for (const char* path : {"/models", "/models/load", "/models/unload"}) EXPECT_TRUE(paths.contains(path)) << path;
  EXPECT_EQ(json_of(ask(server.port(), "GET", "/v2/health/ready"))["ready"], true);
  EXPECT_EQ(text(server, "two"), two);
  EXPECT_EQ(states(), "one unloaded;two loaded;");
  EXPECT_EQ(text(server, "one"), one);
  EXPECT_EQ(text(server, "two"), two);
  EXPECT_EQ(states(), "one sleeping;two loaded;") << "two have their weights";
  EXPECT_EQ(completion(server, "three").status, 404);
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "a"})").status, 400) << "no model is named";
  EXPECT_EQ(server.post("/v1/completions", "{").status, 400);
  EXPECT_EQ(server.post("/models/unload", R"({"model": "two"})").status, 200);
  EXPECT_EQ(states(), "one sleeping;two sleeping;");
  const std::string page = ask(server.port(), "GET", "/metrics").body;
  EXPECT_NE(page.find("model_name=\"one\""), std::string::npos);
  EXPECT_NE(page.find("model_name=\"two\""), std::string::npos);
}

TEST_F(Deploy, ServesNamedModelsWithFlagsOfTheirOwn) {
  const std::string file = scratch_.write(
      "models.yaml", "short:\n  model: " + (scratch_.path() / "tiny").string() +
                         "\n  max_model_len: 24\nlong:\n  model: " + (scratch_.path() / "tiny").string() + "\n");
  Deployed server("", {"--models", file});
  const auto length = [&](const std::string& model) {
    return json_of(server.post("/tokenize", R"({"prompt": "a", "model": ")" + model + R"("})"))["max_model_len"]
        .get<int>();
  };
  EXPECT_EQ(length("short"), 24);
  EXPECT_EQ(length("long"), 512);
}

TEST_F(Deploy, SleepsUntilItIsAsked) {
  Deployed server = deploy({"--sleep_on_idle", "1"});
  const auto sleeps = [&] { return ask(server.port(), "GET", "/is_sleeping").body == R"({"is_sleeping": true})"; };
  for (int i = 0; i < 300 && !sleeps(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(sleeps());
  EXPECT_EQ(ask(server.port(), "GET", "/health").status, 200);
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "1+2", "max_tokens": 3})").status, 200);
  EXPECT_EQ(server.post("/sleep?level=1", "").status, 200);
  EXPECT_TRUE(sleeps());
  EXPECT_EQ(server.post("/v1/embeddings", R"({"input": "a"})").status, 200);
  EXPECT_EQ(server.post("/wake_up", "").status, 200);
  EXPECT_FALSE(sleeps());
}

TEST_F(Deploy, LoadsAndUnloadsAdapters) {
  const std::string folder = (scratch_.path() / "adapters" / "sums").string();
  train_adapter(folder, 2);
  std::filesystem::rename(folder + "/checkpoint-2", scratch_.path() / "adapters" / "ready");
  const std::string ready = (scratch_.path() / "adapters" / "ready").string();
  Deployed server = deploy({"--enable_lora", "true", "--lora_resolver_dir", (scratch_.path() / "adapters").string()});
  const auto told = [&](const std::string& route, const std::string& body) { return server.post(route, body); };
  const auto asked = [&](const std::string& name) {
    return server.post("/v1/completions", R"({"prompt": "1+2", "max_tokens": 3, "model": ")" + name + R"("})").status;
  };
  EXPECT_EQ(asked("other"), 404);
  const std::string load = R"({"lora_name": "other", "lora_path": ")" + ready + R"("})";
  EXPECT_EQ(told("/v1/load_lora_adapter", load).body, "Success: LoRA adapter 'other' added successfully.");
  EXPECT_EQ(told("/v1/load_lora_adapter", load).status, 400) << "the name is taken";
  EXPECT_EQ(told("/v1/load_lora_adapter", R"({"lora_name": "tiny", "lora_path": ")" + ready + R"("})").status, 400);
  EXPECT_EQ(asked("other"), 200);
  const std::string page = ask(server.port(), "GET", "/metrics").body;
  EXPECT_NE(page.find("vllm:lora_requests_info{engine=\"0\",max_lora=\"4\""), std::string::npos) << page;
  EXPECT_EQ(told("/v1/unload_lora_adapter", R"({"lora_name": "other"})").status, 200);
  EXPECT_EQ(told("/v1/unload_lora_adapter", R"({"lora_name": "other"})").status, 404);
  EXPECT_EQ(asked("other"), 404);
  EXPECT_EQ(asked("ready"), 200) << "the folder of adapters has it";
  EXPECT_EQ(asked("../adapters/ready"), 404) << "a name leads out of the folder";
  EXPECT_EQ(asked("sums"), 404) << "a folder without an adapter";
}

TEST_F(Deploy, SaysWhatItCannotServe) {
  const std::string model = (scratch_.path() / "tiny").string();
  const auto line = [&](std::vector<std::string> flags) {
    std::vector<std::string> words = {"deploy", "--model", model, "--port", std::to_string(test::free_port())};
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome outcome = run(words, {.seconds = 60});
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    return outcome.last_error_line();
  };
  EXPECT_EQ(line({"--ssl_keyfile", "key.pem"}),
            "tern: error: --ssl_certfile and --ssl_keyfile need each other; give both.");
  for (const std::string domain : {"https://example.com", "localhost:9000", "[::1]", "example.com."}) {
    EXPECT_NE(line({"--allowed_media_domains", domain}).find("takes names of hosts, not " + domain), std::string::npos);
  }
  EXPECT_NE(line({"--allowed_local_media_path", "no/folder"}).find("--allowed_local_media_path no/folder is no folder"),
            std::string::npos);
  EXPECT_NE(line({"--tool_call_parser", "sign-language"}).find("format \"sign-language\"; name one of "),
            std::string::npos);
  EXPECT_NE(line({"--adapters", "a", "b"}).find("--adapters takes one directory, or several that have a name each"),
            std::string::npos);
  EXPECT_NE(line({"--adapters", "a=b", "a=c"}).find("two adapters under the name a"), std::string::npos);
  EXPECT_NE(line({"--max_loaded_models", "2"}).find("give --models, or remove it"), std::string::npos);
  EXPECT_NE(line({"--max_loras", "2"}).find("give --adapters name=directory or --enable_lora true"), std::string::npos);
}

}  // namespace
}  // namespace tern::e2e
