// What RL trainers' clients ask of `tern rollout`, in their forms.
#include <gtest/gtest.h>

#include <cmath>

#include "rollout_fixture.h"

namespace tern::server {
namespace {

// TRL's form: a list of numbers a token, the drawn one's first where nothing is likelier.
TEST_F(RolloutServer, GeneratesAsTrlReads) {
  const Rollout server(dir_ / "a");
  const Json answer = server.json(
      "/generate/", R"({"prompts": ["ab", "c"], "images": null, "n": 3, "repetition_penalty": 1.0, "temperature": 1.0,
                        "top_p": 1.0, "top_k": 0, "min_p": 0.0, "max_tokens": 5, "logprobs": 2,
                        "structured_outputs_regex": null, "generation_kwargs": {"seed": 4}})");
  EXPECT_EQ(answer["prompt_ids"].dump(), "[[97,98],[99]]");
  ASSERT_EQ(answer["completion_ids"].size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    const Json& ids = answer["completion_ids"][i];
    ASSERT_EQ(answer["logprobs"][i].size(), ids.size());
    for (std::size_t t = 0; t < ids.size(); ++t) {
      const Json& told = answer["logprob_token_ids"][i][t];
      EXPECT_TRUE(told.size() == 2 || told.size() == 3);
      EXPECT_TRUE(std::any_of(told.begin(), told.end(), [&](const Json& id) { return id == ids[t]; }));
      EXPECT_GE(answer["logprobs"][i][t][0].get<double>(), answer["logprobs"][i][t][told.size() - 1].get<double>());
    }
  }
  EXPECT_NE(answer["completion_ids"][0], answer["completion_ids"][1]) << "answers to one prompt are drawn apart";
  // Prompts of ids, no log-probabilities, and a form that the answer must have.
  const Json held = server.json(
      "/generate/",
      R"({"prompts": [[97, 98]], "logprobs": null, "max_tokens": 4, "structured_outputs_regex": "[xy]{3}"})");
  EXPECT_TRUE(held["logprobs"].is_null());
  for (std::size_t t = 0; t < 3; ++t) {
    const int id = held["completion_ids"][0][t].get<int>();
    EXPECT_TRUE(id == 'x' || id == 'y') << id;
  }
  // Clients before log-probabilities came in lists, whose prompts are cut.
  const Json old = server.json(
      "/generate/",
      R"({"prompts": ["abcd"], "max_tokens": 2, "truncate_prompt_tokens": 2, "guided_decoding_regex": null})");
  EXPECT_EQ(old["prompt_ids"].dump(), "[[99,100]]");
  EXPECT_TRUE(old["logprobs"][0][0].is_number());
  for (const char* wrong : {R"({"prompts": ["a"], "generation_kwargs": {"detokenise": 1}})",
                            R"({"prompts": ["a"], "images": [["aGk="]]})", R"({"prompts": ["a"], "n": 0})", "{}"}) {
    EXPECT_EQ(server.post("/generate/", wrong).status, 400) << wrong;
  }
}

// The log-probability of a drawn token is that under what it was drawn from: filters leave top_k tokens, whose shares
// make one.
TEST_F(RolloutServer, TellsWhatTokensWereDrawnFrom) {
  const Rollout server(dir_ / "a");
  const auto first = [&](const std::string& sampling) {
    return server.json("/generate/", R"({"prompts": ["Hello"], "max_tokens": 1, "logprobs": 100, )" + sampling + "}");
  };
  const Json raw = first(R"("generation_kwargs": {"seed": 1})");
  const auto logprob_of = [](const Json& answer, const Json& id) {
    const Json& ids = answer["logprob_token_ids"][0][0];
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == id) return answer["logprobs"][0][0][i].get<double>();
    }
    return std::nan("");
  };
  constexpr double kTemperature = 0.7;
  const Json kept = first(R"("temperature": 0.7, "top_k": 5, "generation_kwargs": {"seed": 1})");
  ASSERT_EQ(kept["logprobs"][0][0].size(), 5U);
  double sum = 0, shares = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    sum += std::exp(kept["logprobs"][0][0][i].get<double>());
    shares += std::exp(logprob_of(raw, kept["logprob_token_ids"][0][0][i]) / kTemperature);
  }
  EXPECT_NEAR(sum, 1, 1e-5);
  const Json& drawn = kept["completion_ids"][0][0];
  EXPECT_NEAR(logprob_of(kept, drawn), logprob_of(raw, drawn) / kTemperature - std::log(shares), 1e-4);
  const Json half = first(R"("top_p": 0.1, "generation_kwargs": {"seed": 1})");
  EXPECT_LT(half["logprobs"][0][0].size(), 100U);
  // A penalty moves what is drawn from, and a mask leaves what it allows.
  const Json masked = first(R"("structured_outputs_regex": "[xy]", "generation_kwargs": {"seed": 1})");
  ASSERT_EQ(masked["logprobs"][0][0].size(), 2U);
  EXPECT_NEAR(std::exp(masked["logprobs"][0][0][0].get<double>()) + std::exp(masked["logprobs"][0][0][1].get<double>()),
              1, 1e-5);
  const Json biased = first(R"("temperature": 0, "generation_kwargs": {"logit_bias": {"120": 100}})");
  EXPECT_NEAR(biased["logprobs"][0][0][0].get<double>(), 0, 1e-5);
}

TEST_F(RolloutServer, ChatsAndScoresAsTrlReads) {
  const Rollout server(dir_ / "a");
  const Json chat = server.json("/chat/", R"({"messages": [[{"role": "user", "content": "Hi"}]], "max_tokens": 3,
                                              "chat_template_kwargs": {}, "tools": null, "generation_kwargs": {}})");
  EXPECT_EQ(chat["prompt_ids"][0][0], 256) << "<|im_start|>";
  const Json scores = server.json(
      "/get_sequence_logprobs/",
      R"({"sequences": [[72, 101, 108], [97, 98]], "prompt_lengths": [1, 2], "top_logprobs": 2, "temperature": 1.0})");
  ASSERT_EQ(scores["logprobs"].size(), 2U);
  ASSERT_EQ(scores["logprobs"][0].size(), 2U);
  EXPECT_EQ(scores["logprobs"][1].size(), 0U);
  const Json& ids = scores["logprob_token_ids"][0][0];
  EXPECT_TRUE(std::any_of(ids.begin(), ids.end(), [](const Json& id) { return id == 101; }));
  const Json binary = server.json(
      "/get_sequence_logprobs/",
      R"({"sequences": [[72, 101, 108]], "prompt_lengths": [1], "top_logprobs": 2, "response_format": "binary"})");
  EXPECT_EQ(binary["shape"].dump(), "[1,2,2]");
  EXPECT_EQ(binary["completion_lengths"].dump(), "[2]");
  EXPECT_EQ(binary["logprobs_b64"].text().size(), 24U) << "four floats";
}

TEST_F(RolloutServer, InfersAsMsSwiftReads) {
  const Rollout server(dir_ / "a");
  const Json answer = server.json(
      "/infer/",
      R"({"infer_requests": [{"messages": [{"role": "user", "content": "Hi"}], "images": [], "audios": [], "videos": [],
           "tools": null, "objects": {}, "chat_template_kwargs": {}, "data_dict": {"solution": "4"}, "uuid": "u"}],
          "request_config": {"max_tokens": 4, "temperature": 0.0, "top_k": null, "top_p": null, "min_p": null,
           "repetition_penalty": null, "num_beams": 1, "stop": [], "seed": null, "stream": false, "logprobs": true,
           "top_logprobs": null, "prompt_logprobs": null, "n": 2, "best_of": null, "presence_penalty": 0.0,
           "frequency_penalty": 0.0, "length_penalty": 1.0, "return_details": true, "structured_outputs_regex": null},
          "metrics": null, "use_tqdm": false, "adapter_request": null})");
  ASSERT_EQ(answer.size(), 1U);
  const Json& response = answer[0]["response"];
  ASSERT_EQ(response["choices"].size(), 2U);
  const Json& choice = response["choices"][0];
  EXPECT_EQ(choice["token_ids"].size(), choice["logprobs"]["content"].size());
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(response["prompt_token_ids"][0], 256);
  EXPECT_EQ(answer[0]["rollout_infos"]["weight_version"], "0");
  const auto refused = [&](const std::string& request, const std::string& config) {
    return server
        .post("/infer/", R"({"infer_requests": [{"messages": [{"role": "user", "content": "Hi"}])" + request +
                             R"(}], "request_config": {)" + config + "}}")
        .status;
  };
  EXPECT_EQ(refused(R"(, "images": ["aGk="])", ""), 400);
  EXPECT_EQ(refused("", R"("num_beams": 2)"), 400);
  EXPECT_EQ(refused("", R"("stream": true)"), 400);
}

// What would need a communicator says what to use in its place; what has nothing to do says that it's done.
TEST_F(RolloutServer, SaysWhereWeightsGo) {
  const Rollout server(dir_ / "a");
  for (const char* path : {"/init_communicator/", "/update_named_param/", "/update_flattened_params/",
                           "/update_adapter_param/", "/init_weight_transfer_engine", "/update_weights"}) {
    const HttpReply reply = server.post(path, R"({"update_info": {}})");
    EXPECT_EQ(reply.status, 501) << path;
    EXPECT_NE(reply.body.find("/update_weights_from_disk"), std::string::npos) << reply.body;
  }
  for (const char* path : {"/close_communicator/", "/process_weights_after_loading/", "/reset_prefix_cache/",
                           "/reset_prefix_cache", "/reset_mm_cache/", "/reset_encoder_cache/", "/get_engine_type/"}) {
    EXPECT_EQ(server.post(path).status, 200) << path;
  }
  EXPECT_EQ(server.get("/get_world_size/").body, R"({"world_size":1})");
  EXPECT_EQ(server.get("/health/").status, 200);
  const Json keys = io::parse_json(server.get("/get_model_state_keys/").body, "keys").value();
  EXPECT_EQ(keys["keys"].size(), tensors("a").size());
  EXPECT_EQ(server.post("/update_weight_version", R"({"new_version": "v"})").status, 200);
  EXPECT_EQ(server.version(), "v");
}

}  // namespace
}  // namespace tern::server
