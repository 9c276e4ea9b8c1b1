// Weights that change while `tern rollout` serves.
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <random>
#include <thread>

#include "rollout_fixture.h"

namespace tern::server {
namespace {

// In whatever form weights are held, new ones make the server what one would be that was started with them.
class InEachForm : public RolloutServer, public ::testing::WithParamInterface<Form> {};

TEST_P(InEachForm, NewWeightsAnswerAsAServerStartedWithThem) {
  const std::string want = Rollout(dir_ / "b", GetParam()).greedy();
  const Rollout server(dir_ / "a", GetParam());
  const std::string before = server.greedy();
  ASSERT_NE(before, want);
  const HttpReply reply = server.send("/update_weights", weights("b"));
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(server.greedy(), want);
  EXPECT_EQ(server.version(), "1");
  ASSERT_EQ(server.json("/update_weights_from_disk", R"({"model_path": ")" + (dir_ / "a").string() + "\"}")["success"],
            true);
  EXPECT_EQ(server.greedy(), before);
  EXPECT_EQ(server.version(), "2");
}

models::QuantiseOptions quantised(models::QuantiseMethod method) {
  models::QuantiseOptions options;
  options.method = method;
  return options;
}

INSTANTIATE_TEST_SUITE_P(RolloutServer, InEachForm,
                         ::testing::Values(Form{"f32", TERN_F32}, Form{"bf16", TERN_BF16}, Form{"f16", TERN_F16},
                                           Form{"int8", TERN_F32, quantised(models::QuantiseMethod::int8)},
                                           Form{"nf4", TERN_BF16, quantised(models::QuantiseMethod::nf4)}),
                         [](const auto& info) { return info.param.name; });

// In as many parts as it has tensors, and nothing changes before the last word.
TEST_F(RolloutServer, PartsAreKeptUntilAllAreThere) {
  const std::string want = Rollout(dir_ / "b").greedy();
  const Rollout server(dir_ / "a");
  const std::string before = server.greedy();
  EXPECT_EQ(server.post("/finish_weight_update").status, 400) << "none has begun";
  EXPECT_EQ(server.post("/start_weight_update", R"({"is_checkpoint_format": true})").status, 200);
  for (const NamedTensor& tensor : tensors("b")) {
    const HttpReply part = server.send("/update_weights", file_of({tensor}));
    ASSERT_EQ(part.status, 200) << part.body;
  }
  EXPECT_EQ(server.greedy(), before);
  EXPECT_EQ(server.version(), "0");
  const Json done = server.json("/finish_weight_update", R"({"weight_version": "step-7"})");
  EXPECT_EQ(done["parameters"], done["parameters_of_model"]);
  EXPECT_EQ(server.version(), "step-7");
  EXPECT_EQ(server.greedy(), want);
}

// What is wrong with one tensor leaves all of them as they were.
TEST_F(RolloutServer, WhatIsWrongChangesNothing) {
  const Rollout server(dir_ / "a");
  const std::string before = server.greedy();
  std::vector<NamedTensor> all = tensors("b");
  const auto refused = [&](const std::vector<NamedTensor>& sent, const std::string& why) {
    const HttpReply reply = server.send("/update_weights", file_of(sent));
    EXPECT_EQ(reply.status, 400) << reply.body;
    EXPECT_NE(reply.body.find(why), std::string::npos) << reply.body;
    EXPECT_EQ(server.greedy(), before) << why;
    EXPECT_EQ(server.version(), "0");
  };
  std::vector<NamedTensor> sent = all;
  sent.push_back({"model.layers.9.mlp.up_proj.weight", {1}, std::string(4, '\0')});
  refused(sent, "model.layers.9.mlp.up_proj.weight");
  sent = all;
  sent.back().shape.push_back(1);
  refused(sent, "shape");
  refused({}, "none");
  EXPECT_EQ(server.send("/update_weights", weights("b").substr(0, 5000)).status, 400);
  EXPECT_EQ(server.post("/update_weights_from_disk", R"({"model_path": "/no/such"})").status, 400);
  EXPECT_EQ(server.send("/update_weights?weight_versoin=1", weights("b")).status, 400);
  ASSERT_EQ(server.post("/start_weight_update").status, 200);
  ASSERT_EQ(server.send("/update_weights", file_of({all[0]})).status, 200);
  EXPECT_EQ(server.send("/update_weights", file_of({all[0]})).status, 400) << "twice";
  sent = {all[1], {"no.such", {1}, std::string(4, '\0')}};
  ASSERT_EQ(server.send("/update_weights", file_of(sent)).status, 200);
  EXPECT_EQ(server.post("/finish_weight_update").status, 400);
  EXPECT_EQ(server.post("/finish_weight_update").status, 400) << "it has ended";
  EXPECT_EQ(server.greedy(), before);
}

// A number that f16 can't hold is found before any weight is written.
TEST_F(RolloutServer, ANumberBeyondTheFormChangesNothing) {
  const Rollout server(dir_ / "a", {"f16", TERN_F16});
  const std::string before = server.greedy();
  std::vector<NamedTensor> all = tensors("b");
  const float big = 1e30F;
  std::memcpy(all.back().bytes.data(), &big, sizeof(big));
  EXPECT_EQ(server.send("/update_weights", file_of(all)).status, 400);
  EXPECT_EQ(server.greedy(), before);
}

// A part of the weights is new, the others stay.
TEST_F(RolloutServer, SomeWeightsMayChangeAlone) {
  const Rollout server(dir_ / "a");
  const std::string before = server.greedy();
  const auto layer = [&](const char* model) {
    std::vector<NamedTensor> some;
    for (NamedTensor& tensor : tensors(model)) {
      if (tensor.name.starts_with("model.layers.1.")) some.push_back(std::move(tensor));
    }
    return file_of(some);
  };
  ASSERT_EQ(server.send("/update_weights", layer("b")).status, 200);
  EXPECT_NE(server.greedy(), before);
  ASSERT_EQ(server.send("/update_weights", layer("a")).status, 200);
  EXPECT_EQ(server.greedy(), before);
}

// Requests on their way wait while it pauses, and go on with the new weights as if these had been there for all of
// their tokens.
TEST_F(RolloutServer, PausesWhileWeightsChange) {
  const Rollout server(dir_ / "a");
  EXPECT_EQ(server.post("/pause?mode=keep").body, R"({"status":"paused"})");
  auto waiting = std::async(std::launch::async, [&] { return server.greedy(); });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  EXPECT_EQ(server.get("/is_paused").body, R"({"is_paused":true})");
  ASSERT_EQ(server.send("/update_weights?weight_version=x", weights("b")).status, 200);
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_EQ(server.post("/resume").status, 200);
  EXPECT_EQ(waiting.get(), Rollout(dir_ / "b").greedy());
  EXPECT_EQ(server.get("/is_paused").body, R"({"is_paused":false})");
  EXPECT_EQ(server.post("/pause?mode=wait").status, 200);
  EXPECT_EQ(server.post("/resume").status, 200);
  EXPECT_EQ(server.post("/pause?mode=never").status, 400);
}

// Requests that run as weights change go on with the new ones alone, from what they have.
TEST_F(RolloutServer, WhoRunsGoesOnWithTheNewWeights) {
  const Rollout old(dir_ / "a"), fresh(dir_ / "b"), server(dir_ / "a");
  const auto answer = [](const Rollout& to, const std::string& prompt, std::size_t tokens) {
    return to.json("/generate/", R"({"prompts": [)" + prompt + R"(], "temperature": 0, "max_tokens": )" +
                                     std::to_string(tokens) + R"(, "generation_kwargs": {"ignore_eos": true}})");
  };
  constexpr std::size_t kTokens = 400;
  auto running = std::async(std::launch::async, [&] { return answer(server, R"("ab")", kTokens); });
  while (io::parse_json(server.get("/load").body, "load").value()["server_load"] == 0) std::this_thread::yield();
  ASSERT_EQ(server.post("/pause?mode=keep").status, 200);
  ASSERT_EQ(server.send("/update_weights", weights("b")).status, 200);
  ASSERT_EQ(server.post("/resume").status, 200);
  const Json mixed = running.get();
  const Json before = answer(old, R"("ab")", kTokens);
  std::size_t same = 0;
  while (same < kTokens && mixed["completion_ids"][0][same] == before["completion_ids"][0][same]) ++same;
  ASSERT_LT(same, kTokens) << "the answer was complete before the weights came";
  Json prompt = mixed["prompt_ids"][0];
  for (std::size_t t = 0; t < same; ++t) prompt.push_back(mixed["completion_ids"][0][t]);
  const Json after = answer(fresh, prompt.dump(), kTokens - same);
  for (std::size_t t = same; t < kTokens; ++t) {
    ASSERT_EQ(mixed["completion_ids"][0][t], after["completion_ids"][0][t - same]) << t << " of " << same;
  }
}

TEST_F(RolloutServer, APauseCanEndWhatIsOnItsWay) {
  const Rollout server(dir_ / "a");
  auto running = std::async(std::launch::async, [&] {
    return server.json("/generate/",
                       R"({"prompts": ["a"], "max_tokens": 480, "generation_kwargs": {"ignore_eos": true}})");
  });
  while (io::parse_json(server.get("/load").body, "load").value()["server_load"] == 0) std::this_thread::yield();
  EXPECT_EQ(server.post("/pause").status, 200);
  const Json answer = running.get();
  EXPECT_LT(answer["completion_ids"][0].size(), 480U);
  EXPECT_EQ(server.post("/resume").status, 200);
}

// A prompt that was computed with the old weights isn't found in the prefix cache.
TEST_F(RolloutServer, NothingIsFoundThatOldWeightsComputed) {
  const Rollout fresh(dir_ / "b"), server(dir_ / "a");
  const std::string prompt(100, 'q');
  const std::string asked = R"({"prompts": [")" + prompt + R"("], "temperature": 0, "max_tokens": 8})";
  (void)server.json("/generate/", asked);
  ASSERT_EQ(server.send("/update_weights", weights("b")).status, 200);
  EXPECT_EQ(server.json("/generate/", asked)["completion_ids"], fresh.json("/generate/", asked)["completion_ids"]);
}

// An adapter of PEFT's over queries and values of both layers.
void write_adapter(const std::filesystem::path& directory, unsigned seed, std::int64_t rank) {
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "adapter_config.json")
      << R"({"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": )" << rank
      << R"(, "lora_alpha": 16, "lora_dropout": 0.0, "bias": "none", "target_modules": ["q_proj", "v_proj"]})";
  std::mt19937 random(seed);
  const auto tensor = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
    NamedTensor out{name, {rows, columns}, std::string(static_cast<std::size_t>(rows * columns) * sizeof(float), '\0')};
    for (std::size_t at = 0; at < out.bytes.size(); at += sizeof(float)) {
      const float value = static_cast<float>(random() >> 8) / 8388608.0F - 1.0F;
      std::memcpy(&out.bytes[at], &value, sizeof(value));
    }
    return out;
  };
  std::vector<NamedTensor> tensors;
  for (int layer = 0; layer < 2; ++layer) {
    for (const auto& [name, rows] : {std::pair<const char*, std::int64_t>("q_proj", 32), {"v_proj", 16}}) {
      const std::string at = "base_model.model.model.layers." + std::to_string(layer) + ".self_attn." + name;
      tensors.push_back(tensor(at + ".lora_A.weight", rank, 32));
      tensors.push_back(tensor(at + ".lora_B.weight", rows, rank));
    }
  }
  std::ofstream(directory / "adapter_model.safetensors", std::ios::binary) << file_of(tensors);
}

TEST_F(RolloutServer, AnAdapterTakesTheOthersPlace) {
  write_adapter(dir_ / "one", 1, 4);
  write_adapter(dir_ / "two", 2, 4);
  write_adapter(dir_ / "wide", 3, 8);
  const std::string want = Rollout(dir_ / "a", {}, dir_ / "two").greedy();
  const Rollout server(dir_ / "a", {}, dir_ / "one");
  const std::string before = server.greedy();
  ASSERT_NE(before, want);
  const auto update = [&](const char* name) {
    return server.post("/update_weights_from_disk", R"({"model_path": ")" + (dir_ / name).string() + "\"}");
  };
  EXPECT_EQ(update("wide").status, 400);
  EXPECT_EQ(server.greedy(), before);
  const HttpReply done = update("two");
  EXPECT_EQ(done.status, 200) << done.body;
  EXPECT_EQ(server.greedy(), want);
  EXPECT_EQ(server.version(), "1");
  EXPECT_EQ(server.send("/update_weights", weights("b")).status, 400) << "an adapter stands over the weights";
  EXPECT_EQ(Rollout(dir_ / "a")
                .post("/update_weights_from_disk", R"({"model_path": ")" + (dir_ / "one").string() + "\"}")
                .status,
            400);
}

}  // namespace
}  // namespace tern::server
