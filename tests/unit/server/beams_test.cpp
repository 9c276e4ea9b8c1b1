// If these fail, a server's beam search finds other answers than the program's, disturbs those that are computed beside
// it, or goes on for nobody.
#include <future>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tiny_server.h"

namespace tern::server {
namespace {

using io::Json;
using test::HttpReply;
using test::TinyServer;

TinyServer::Options with_beams() {
  TinyServer::Options options;
  options.llm.engine.top_logprobs = 20;
  options.llm.engine.enable_prefix_caching = true;
  options.llm.engine.max_num_seqs = 8;
  options.llm.batch_invariant = true;
  return options;
}

Json json_of(const HttpReply& reply) {
  EXPECT_EQ(reply.status, 200) << reply.body;
  return io::parse_json(reply.body, "reply").value();
}

std::string asking(const std::string& more, const std::string& tokens = "12") {
  return R"({"prompt": "ab", "use_beam_search": true, "max_tokens": )" + tokens + ", " + more + "}";
}

// What `tern infer --num_beams` says: the same texts, reasons and log-probabilities.
TEST(BeamRoutes, FindWhatTheProgramFinds) {
  TinyServer server(with_beams());
  test::TempDir dir;
  e2e::TinyModel model;
  model.max_positions = 100'000;
  model.verdicts = true;
  e2e::write_tiny_model(dir.path() / "model", model);
  session::SessionOptions opening;
  opening.model = (dir.path() / "model").string();
  opening.runtime.backend_file = TERN_PLUGIN_DIR "/libtern_cpu.so";
  const auto session = session::open_session(opening).value();
  engine::LLMOptions options;
  options.num_beams = 6;
  options.batch_invariant = true;
  options.engine.max_num_seqs = 8;
  options.engine.kv_cache_memory = 32U << 20;
  const auto llm = engine::LLM::open(*session, options).value();
  for (const std::int64_t beams : {2, 3, 6}) {
    SCOPED_TRACE(beams);
    engine::SamplingParams params;
    params.num_beams = beams;
    params.max_new_tokens = 12;
    const std::vector<engine::Prompt> prompts = {std::string("ab")};
    const engine::Answer best = llm->generate(prompts, params).at(0);
    const std::string number = std::to_string(beams);
    const Json all = json_of(server.post("/v1/completions", asking(R"("logprobs": 0, "n": )" + number)));
    ASSERT_EQ(all["choices"].size(), static_cast<std::size_t>(beams));
    const Json& first = all["choices"][0];
    EXPECT_EQ(first["text"], best.text);
    EXPECT_EQ(first["finish_reason"], best.reason == engine::FinishReason::stop ? "stop" : "length");
    const Json& logprobs = first["logprobs"]["token_logprobs"];
    ASSERT_EQ(logprobs.size(), best.tokens.size());
    for (std::size_t i = 0; i < best.tokens.size(); ++i) {
      EXPECT_EQ(logprobs[i].get<float>(), best.tokens[i].logprob);
    }
    std::set<std::string> texts;
    std::int64_t tokens = 0;
    double worst = 0;
    for (std::size_t at = 0; at < all["choices"].size(); ++at) {
      const Json& choice = all["choices"][at];
      texts.insert(choice["text"].text());
      const Json& each = choice["logprobs"]["token_logprobs"];
      tokens += static_cast<std::int64_t>(each.size());
      double mean = 0;
      for (std::size_t i = 0; i < each.size(); ++i) mean += each[i].get<double>() / static_cast<double>(each.size());
      EXPECT_TRUE(at == 0 || mean <= worst + 1e-6) << "the best come first";
      worst = mean;
    }
    EXPECT_EQ(texts.size(), static_cast<std::size_t>(beams)) << "an answer twice";
    EXPECT_EQ(all["usage"]["completion_tokens"], tokens);
    const Json one = json_of(server.post("/v1/completions", asking(R"("best_of": )" + number)));
    ASSERT_EQ(one["choices"].size(), 1U);
    EXPECT_EQ(one["choices"][0]["text"], best.text);
  }
  const auto text = [&](const std::string& more) {
    return json_of(server.post("/v1/completions", asking(more)))["choices"][0]["text"].text();
  };
  // A longer answer is worth more where its log-probability counts for less.
  EXPECT_NE(text(R"("n": 4, "length_penalty": 4.0, "stop": ["U"], "include_stop_str_in_output": true)"),
            text(R"("n": 4, "length_penalty": -4.0, "stop": ["U"], "include_stop_str_in_output": true)"));
  EXPECT_TRUE(server.becomes_idle());
}

TEST(BeamRoutes, AnswerDialogues) {
  TinyServer server(with_beams());
  const auto asked = [&](const std::string& more) {
    return json_of(server.post("/v1/chat/completions",
                               R"({"messages": [{"role": "user", "content": "ab"}], "max_tokens": 9, )" + more + "}"));
  };
  const Json greedy = asked(R"("temperature": 0, "logprobs": true)");
  const Json found = asked(R"("use_beam_search": true, "n": 2, "best_of": 5, "logprobs": true)");
  ASSERT_EQ(found["choices"].size(), 2U);
  const auto mean = [](const Json& choice) {
    const Json& tokens = choice["logprobs"]["content"];
    double sum = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) sum += tokens[i]["logprob"].get<double>();
    return sum / static_cast<double>(tokens.size());
  };
  EXPECT_GE(mean(found["choices"][0]), mean(greedy["choices"][0]) - 1e-6);
  EXPECT_GE(mean(found["choices"][0]), mean(found["choices"][1]));
  EXPECT_NE(found["choices"][0]["message"]["content"].text(), "");
  const Json one = asked(R"("use_beam_search": true)");
  EXPECT_EQ(one["choices"][0]["message"]["content"], greedy["choices"][0]["message"]["content"])
      << "one beam takes the likeliest token";
}

// A stop text ends a beam, and shows where that is asked for.
TEST(BeamRoutes, EndAtStops) {
  TinyServer server(with_beams());
  const auto asked = [&](const std::string& more) {
    return json_of(server.post(
        "/v1/completions", asking(R"("n": 3, "length_penalty": -4, "return_token_ids": true, )" + more)))["choices"];
  };
  const Json plain = asked(R"("ignore_eos": true)")[0];
  const std::string text = plain["text"].text();
  ASSERT_GE(text.size(), 4U);
  const std::string stop = text.substr(1, 2);
  const Json cut = asked(R"("ignore_eos": true, "stop": [)" + Json(stop).dump() + "]");
  bool stopped = false;
  for (std::size_t i = 0; i < cut.size(); ++i) {
    EXPECT_EQ(cut[i]["text"].text().find(stop), std::string::npos);
    if (cut[i]["finish_reason"] != "stop") continue;
    stopped = true;
    EXPECT_EQ(cut[i]["stop_reason"], stop);
  }
  EXPECT_TRUE(stopped);
  const Json shown =
      asked(R"("ignore_eos": true, "include_stop_str_in_output": true, "stop": [)" + Json(stop).dump() + "]");
  for (std::size_t i = 0; i < shown.size(); ++i) {
    EXPECT_TRUE(shown[i]["finish_reason"] != "stop" || shown[i]["text"].text().ends_with(stop));
  }
  const std::string third = plain["token_ids"][2].dump();
  const Json ended = asked(R"("ignore_eos": true, "stop_token_ids": [)" + third + "]");
  bool by_token = false;
  for (std::size_t i = 0; i < ended.size(); ++i) {
    if (ended[i]["finish_reason"] != "stop") continue;
    by_token = true;
    EXPECT_EQ(ended[i]["stop_reason"].dump(), third);
    EXPECT_EQ(ended[i]["token_ids"][ended[i]["token_ids"].size() - 1].dump(), third);
  }
  EXPECT_TRUE(by_token);
}

// Its time is counted once: what came before its first round was told, and what came behind.
TEST(BeamRoutes, CountTheirTimeOnce) {
  TinyServer server(with_beams());
  (void)json_of(server.post("/v1/completions", asking(R"("best_of": 4, "ignore_eos": true)", "60")));
  const std::string page = test::ask(server.port(), "GET", "/metrics").body;
  const auto sum = [&](const std::string& name) {
    const std::size_t at = page.find("vllm:" + name + "_sum{");
    EXPECT_NE(at, std::string::npos) << name;
    return at == std::string::npos ? 0.0 : std::stod(page.substr(page.find("} ", at) + 2));
  };
  const double prefill = sum("request_prefill_time_seconds"), decode = sum("request_decode_time_seconds");
  const double inference = sum("request_inference_time_seconds");
  EXPECT_GT(prefill, 0);
  EXPECT_GT(decode, 0);
  constexpr double kPrinted = 1e-6;  // seconds: sums are printed in decimal
  EXPECT_NEAR(inference, prefill + decode, kPrinted);
  EXPECT_LE(sum("request_queue_time_seconds") + inference, sum("e2e_request_latency_seconds") + kPrinted);
}

// Who is computed beside a search gets the bits that it gets alone, and the search what it finds alone.
TEST(BeamRoutes, DisturbNobody) {
  TinyServer server(with_beams());
  const std::string drawn =
      R"({"prompt": "abc", "max_tokens": 60, "temperature": 1, "seed": 4, "logprobs": 2, "ignore_eos": true})";
  const std::string search = asking(R"("n": 4, "logprobs": 0, "ignore_eos": true)", "40");
  const auto choices = [&](const std::string& body) {
    return json_of(server.post("/v1/completions", body))["choices"].dump();
  };
  const std::string drawn_alone = choices(drawn);
  const std::string found_alone = choices(search);
  std::vector<std::future<std::string>> replies;
  for (int i = 0; i < 3; ++i) {
    replies.push_back(std::async(std::launch::async, [&] { return choices(drawn); }));
    replies.push_back(std::async(std::launch::async, [&] { return choices(search); }));
  }
  for (std::size_t i = 0; i < replies.size(); ++i) {
    EXPECT_EQ(replies[i].get(), i % 2 == 0 ? drawn_alone : found_alone);
  }
  EXPECT_TRUE(server.becomes_idle());
}

// Whether no step is computed any more, within ten seconds: between two steps a search looks as if it had ended.
bool rests(const TinyServer& server) {
  std::int64_t steps = -1;
  int same = 0;
  for (int i = 0; i < 1000 && same < 30; ++i) {
    const std::int64_t now = server.stats().steps;
    same = now == steps ? same + 1 : 0;
    steps = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return same >= 30;
}

// A client that goes away ends its search, and nothing of it is left.
TEST(BeamRoutes, EndWithTheirClient) {
  TinyServer server(with_beams());
  const auto before = server.stats().steps;
  {
    test::HttpClient gone(server.port());
    ASSERT_TRUE(
        gone.send(test::request_text("POST", "/v1/completions", asking(R"("n": 5, "ignore_eos": true)", "50000"),
                                     "Content-Type: application/json\r\n")));
    for (int i = 0; i < 1000 && server.stats().steps < before + 8; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_GE(server.stats().steps, before + 8);
  }
  EXPECT_TRUE(rests(server)) << "it goes on for nobody";
  EXPECT_TRUE(server.becomes_idle());
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "ab", "max_tokens": 2})").status, 200);
}

TEST(BeamRoutes, RefuseWhatASearchCannot) {
  TinyServer server(with_beams());
  const auto refusal = [&](const std::string& more) {
    const HttpReply reply = server.post("/v1/completions", asking(R"("n": 3, )" + more));
    EXPECT_EQ(reply.status, 400) << reply.body;
    return io::parse_json(reply.body, "reply").value()["error"]["message"].text();
  };
  for (const auto& [field, value] : std::vector<std::pair<std::string, std::string>>{{"stream", "true"},
                                                                                     {"temperature", "0.7"},
                                                                                     {"top_p", "0.9"},
                                                                                     {"top_k", "5"},
                                                                                     {"min_p", "0.1"},
                                                                                     {"repetition_penalty", "1.1"},
                                                                                     {"presence_penalty", "1"},
                                                                                     {"frequency_penalty", "1"},
                                                                                     {"logit_bias", R"({"5": 1})"},
                                                                                     {"bad_words", R"(["a"])"},
                                                                                     {"allowed_token_ids", "[5]"},
                                                                                     {"min_tokens", "3"},
                                                                                     {"thinking_token_budget", "3"},
                                                                                     {"prompt_logprobs", "1"},
                                                                                     {"logprobs", "1"}}) {
    EXPECT_EQ(refusal("\"" + field + "\": " + value).find("field \"" + field + "\": expected "), 0U)
        << refusal("\"" + field + "\": " + value);
  }
  EXPECT_NE(refusal(R"("structured_outputs": {"regex": "a+"})").find("held to a form"), std::string::npos);
  EXPECT_NE(refusal(R"("best_of": 2)").find("best_of"), std::string::npos);
  EXPECT_NE(refusal(R"("best_of": 100)").find("at most "), std::string::npos);
  // Each token that ends an answer takes one of the 20 that the engine tells: the model's own, and the request's.
  struct Ends {
    std::string fields;
    int count, beams;
  };
  for (const Ends& ends : std::vector<Ends>{{R"("stop_token_ids": [1, 2, 3, 4])", 5, 3},
                                            {R"("stop_token_ids": [257, 7, 7])", 2, 6},
                                            {R"("stop_token_ids": [1, 2], "ignore_eos": true)", 2, 6},
                                            {R"("stop": ["<|im_start|>", "<|im_end|>", "a"])", 2, 6}}) {
    const std::string most = ends.fields + R"(, "best_of": )" + std::to_string(ends.beams);
    EXPECT_EQ(server.post("/v1/completions", asking(R"("n": 3, )" + most)).status, 200) << most;
    const std::string why = refusal(ends.fields + R"(, "best_of": )" + std::to_string(ends.beams + 1));
    EXPECT_EQ(why.find("field \"use_beam_search\": expected at most " + std::to_string(ends.beams) + " beams where " +
                       std::to_string(ends.count) + " tokens end an answer"),
              0U)
        << why;
  }
  EXPECT_EQ(server.post("/v1/completions", asking(R"("temperature": 0, "top_k": -1, "seed": 3, "n": 2)")).status, 200);
}

}  // namespace
}  // namespace tern::server
