// If these fail, a request gets another one's adapter, an adapter changes answers that did not ask for it, or one that
// can't be served is served as something else.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/strings.h"
#include "io/mapped_file.h"
#include "models/adapter.h"
#include "models/adapter_pairs.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/backend_sim/sim_device.h"
#include "tiny.h"

namespace tern::engine {
namespace {

struct Made {
  std::int64_t rank = 2;
  float size = 0.1F;
  std::vector<std::string> targets = {"all-linear"};
  bool rslora = false;
};

// An adapter of the tiny model, as PEFT would have written it.
void write_adapter(models::LoadedModel& model, const std::filesystem::path& folder, const Made& made) {
  models::AdapterConfig config;
  config.rank = made.rank;
  config.alpha = 6;
  config.use_rslora = made.rslora;
  auto modules = models::select_modules(model.config, made.targets).value();
  std::erase_if(modules, [](const auto& module) { return module.is_absorbed; });
  models::LoadedAdapter adapter = models::create_adapter(model, "made", config, modules);
  float at = made.size;
  for (const auto& [module, layer] : adapter.layers) {
    for (const auto& part : {layer.lora_a, layer.lora_b}) {
      std::vector<float> values(static_cast<std::size_t>(num_elements(model.store->at(part).desc)));
      for (float& value : values) value = made.size * std::sin(at += 1);
      model.store->upload(part, std::as_bytes(std::span(values)));
    }
    adapter.config.target_modules.push_back(module.substr(module.rfind('.') + 1));
  }
  std::filesystem::create_directories(folder);
  models::save_adapter(*model.store, adapter, folder);
}

accel::DevicePtr device_of(const std::string& name) {
  if (name != "cpu") return test::open_sim({{"TERN_SIM", name}});
  return accel::Device::open(test::load_plugin("cpu"), 0).value();
}

// Three adapters of one model, of other ranks and on other layers, and their answers alone.
class Adapters : public ::testing::TestWithParam<const char*> {
 protected:
  Adapters() : model_(tiny_model_on(device_of(GetParam()))) {
    write_adapter(model_, dir_ / "a", {.rank = 2});
    write_adapter(model_, dir_ / "b", {.rank = 5, .size = 0.12F, .rslora = true});
    write_adapter(model_, dir_ / "c", {.rank = 8, .size = 0.2F, .targets = {"q_proj", "down_proj"}});
    for (const char* name : {"a", "b", "c"}) load(name);
  }

  void load(const std::string& name) { adapters_.push_back(registry_.load({name, dir_ / name}, std::nullopt).value()); }
  [[nodiscard]] EngineOptions options(std::int64_t max_loras) const {
    EngineOptions options = small_engine();
    options.numerics.needs = TERN_NEED_DETERMINISTIC | TERN_NEED_ROW_INVARIANT;
    options.lora = {max_loras, 8, {}};
    return options;
  }
  // Who asks what: the same prompt of every adapter and of none, twice.
  void ask_all(LLMEngine& engine) {
    for (int turn = 0; turn < 2; ++turn) {
      ask(engine, nullptr, turn);
      for (const AdapterRef& adapter : adapters_) ask(engine, adapter, turn);
    }
  }
  SequenceId ask(LLMEngine& engine, const AdapterRef& adapter, int turn) {
    RequestOptions request;
    request.adapter = adapter;
    return engine.add_request(prompt_of(5, 9 + 8 * turn), greedy(answer_), {}, request).value();
  }
  std::map<SequenceId, std::vector<std::int32_t>> alone() {
    std::map<SequenceId, std::vector<std::int32_t>> out;
    LLMEngine engine(model_, any_tokenizer(), options(3), runtime_);
    for (int turn = 0; turn < 2; ++turn) {
      for (std::size_t i = 0; i <= adapters_.size(); ++i) {
        Drawn drawn;
        const SequenceId id = ask(engine, i == 0 ? nullptr : adapters_[i - 1], turn);
        drawn.run(engine);
        out[id] = drawn.tokens[id];
      }
    }
    return out;
  }

  test::TempDir dir_;
  models::LoadedModel model_;
  session::Runtime runtime_;
  std::int64_t answer_ = 12;  // tokens
  AdapterRegistry registry_{model_.config};
  std::vector<AdapterRef> adapters_;
};

TEST_P(Adapters, AnswerInAMixedBatchAsAlone) {
  const auto expected = alone();
  EXPECT_NE(expected.at(0), expected.at(1));
  EXPECT_NE(expected.at(1), expected.at(2));
  EXPECT_NE(expected.at(0), expected.at(3));
  for (const std::int64_t max_loras : {1, 2, 3, 5}) {
    SCOPED_TRACE(max_loras);
    LLMEngine engine(model_, any_tokenizer(), options(max_loras), runtime_);
    Drawn drawn;
    ask_all(engine);
    drawn.run(engine);
    EXPECT_EQ(drawn.tokens, expected);
    EXPECT_EQ(engine.adapters().num_held(), 0);
  }
}

// What reads one adapter for all requests is checked against PEFT (tests/golden).
TEST_P(Adapters, AnswerAsTheOnlyOneOfAnEngine) {
  const auto expected = alone();
  for (std::size_t i = 0; i < adapters_.size(); ++i) {
    SCOPED_TRACE(adapters_[i]->name);
    const auto only = models::load_adapter(model_, "only", adapters_[i]->path).value();
    EngineOptions of_all = options(0);
    of_all.lora = {};
    of_all.adapters = only.layers;
    LLMEngine engine(model_, any_tokenizer(), of_all, runtime_);
    for (int turn = 0; turn < 2; ++turn) {
      Drawn drawn;
      const SequenceId id = ask(engine, nullptr, turn);
      drawn.run(engine);
      EXPECT_EQ(drawn.tokens[id], expected.at(static_cast<SequenceId>(4 * turn + 1 + static_cast<int>(i))));
    }
  }
}

TEST_P(Adapters, ShareNoPrefixWithEachOther) {
  EngineOptions cached = options(3);
  cached.enable_prefix_caching = true;
  cached.max_model_len = 256;
  LLMEngine engine(model_, any_tokenizer(), cached, runtime_);
  const auto length = static_cast<std::int32_t>(engine.cache().block_size() + 3);
  const auto cached_of = [&](const AdapterRef& adapter) {
    RequestOptions request;
    request.adapter = adapter;
    const SequenceId id = engine.add_request(prompt_of(5, length), greedy(2), {}, request).value();
    Drawn drawn;
    drawn.run(engine);
    return drawn.last[id].cached_tokens;
  };
  for (const AdapterRef& adapter : {AdapterRef(), adapters_[0], adapters_[1]}) {
    EXPECT_EQ(cached_of(adapter), 0);
    EXPECT_GT(cached_of(adapter), 0);
  }
  const auto load_again = [&] {
    ASSERT_TRUE(registry_.unload("a"));
    load("a");
  };
  load_again();
  EXPECT_GT(cached_of(adapters_.back()), 0) << "it's the adapter that it was";
  write_adapter(model_, dir_ / "a", {.rank = 2, .size = 0.11F});
  load_again();
  EXPECT_EQ(cached_of(adapters_.back()), 0) << "files of the same name have changed";
}

// Later servers find blocks by it: of the same pairs it's the same, whatever their name and when they were read.
TEST_P(Adapters, AreKnownByTheirPairs) {
  AdapterRegistry later(model_.config);
  const std::string again = later.load({"other name", adapters_[1]->path}, std::nullopt).value()->digest;
  EXPECT_EQ(again, adapters_[1]->digest);
  EXPECT_EQ(again.size(), 64U);
  EXPECT_NE(adapters_[0]->digest, adapters_[1]->digest);
  EXPECT_NE(adapters_[1]->digest, adapters_[2]->digest);
}

TEST_P(Adapters, AreComputedAgainWhereBlocksWereGivenUp) {
  answer_ = 40;
  const auto expected = alone();
  EngineOptions tight = options(2);
  LLMEngine roomy(model_, any_tokenizer(), tight, runtime_);
  tight.kv_cache_memory = roomy.cache().bytes() / static_cast<std::uint64_t>(roomy.cache().pool().num_blocks() + 1) * 6;
  LLMEngine engine(model_, any_tokenizer(), tight, runtime_);
  Drawn drawn;
  ask_all(engine);
  drawn.run(engine);
  EXPECT_EQ(drawn.tokens, expected);
  EXPECT_EQ(engine.num_preemptions() > 0, engine.cache().block_size() < 20);  // else nobody needs a second block
}

INSTANTIATE_TEST_SUITE_P(Devices, Adapters, ::testing::Values("cpu", "discrete", "ascend", "graph", "embedded"),
                         [](const auto& info) { return std::string(info.param); });

// Whatever a layer computes of its rows, each row gets its own adapter there: the answers are those of engines with one
// adapter for all.
TEST(AdaptersOfArchitectures, AnswerAsTheOnlyOneOfAnEngine) {
  for (const char* name : {"cohere2-untied",      "deepseek-v2-untied", "deepseek-v3-untied",
                           "deepseek-v32-untied", "falcon-h1-untied",   "gemma2-untied",
                           "gemma3-untied",       "gemma4-untied",      "gemma4-moe",
                           "glm4-moe-untied",     "gpt-oss-untied",     "granite-h-untied",
                           "granite-moe-untied",  "lfm2-moe-untied",    "llama4-untied",
                           "ministral3-untied",   "mistral4-untied",    "mixtral",
                           "olmo3-untied",        "phi3-untied",        "qwen2-moe-untied",
                           "qwen3-moe-untied",    "qwen3-next-untied",  "qwen3.5-untied",
                           "smollm3-untied"}) {
    SCOPED_TRACE(name);
    const test::TempDir dir;
    auto model = tiny_model(name);
    write_adapter(model, dir / "a", {.rank = 2, .size = 0.2F});
    write_adapter(model, dir / "b", {.rank = 3, .size = 0.15F});
    session::Runtime runtime;
    EngineOptions options = small_engine();
    options.numerics.needs = TERN_NEED_DETERMINISTIC | TERN_NEED_ROW_INVARIANT;
    std::map<std::string, std::vector<std::int32_t>> expected;
    for (const char* folder : {"a", "b"}) {
      const auto only = models::load_adapter(model, folder, dir / folder).value();
      EngineOptions of_all = options;
      of_all.adapters = only.layers;
      LLMEngine engine(model, any_tokenizer(), of_all, runtime);
      Drawn drawn;
      const SequenceId id = engine.add_request(prompt_of(5, 20), greedy(8)).value();
      drawn.run(engine);
      expected[folder] = drawn.tokens[id];
    }
    AdapterRegistry registry(model.config);
    options.lora = {2, 3, {}};
    LLMEngine engine(model, any_tokenizer(), options, runtime);
    Drawn drawn;
    std::map<std::string, SequenceId> ids;
    for (const char* folder : {"a", "b"}) {
      RequestOptions request;
      request.adapter = registry.load({folder, dir / folder}, std::nullopt).value();
      ids[folder] = engine.add_request(prompt_of(5, 20), greedy(8), {}, request).value();
    }
    const SequenceId plain = engine.add_request(prompt_of(5, 20), greedy(8)).value();
    drawn.run(engine);
    EXPECT_EQ(drawn.tokens[ids["a"]], expected["a"]);
    EXPECT_EQ(drawn.tokens[ids["b"]], expected["b"]);
    EXPECT_FALSE(drawn.tokens[plain] == expected["a"] && drawn.tokens[plain] == expected["b"]) << "adapters do nothing";
  }
}

class AdapterFiles : public ::testing::Test {
 protected:
  // The error of reading what `change` makes of an adapter's configuration.
  std::string refused(const std::string& from, const std::string& to) {
    write_adapter(model_, dir_ / "x", {});
    const auto file = dir_ / "x" / "adapter_config.json";
    std::string config = io::read_text_file(file).value();
    const std::size_t at = config.find(from);
    EXPECT_NE(at, std::string::npos) << config;
    config.replace(at, from.size(), to);
    std::ofstream(file) << config;
    const auto read = models::read_adapter_pairs(model_.config, dir_ / "x");
    return read ? "" : read.error().line();
  }

  test::TempDir dir_;
  models::LoadedModel model_ = tiny_model();
  session::Runtime runtime_;
};

TEST_F(AdapterFiles, OthersThanPairsAreRefused) {
  EXPECT_EQ(refused("\"lora_dropout\"", "\"lora_dropout\""), "");
  for (const auto& [from, to, what] :
       {std::array<std::string, 3>{"\"fan_in_fan_out\"", "\"use_dora\": true, \"fan_in_fan_out\"", "DoRA"},
        {"\"bias\": \"none\"", "\"bias\": \"all\"", "bias all"}}) {
    const std::string line = refused(from, to);
    EXPECT_NE(line.find(cat("found ", what)), std::string::npos) << line;
    EXPECT_NE(line.find("serve it alone with --adapters DIRECTORY"), std::string::npos) << line;
  }
  write_adapter(model_, dir_ / "head", {.targets = {"q_proj", "lm_head"}});
  const auto head = models::read_adapter_pairs(model_.config, dir_ / "head");
  ASSERT_FALSE(head);
  EXPECT_NE(head.error().line().find("one of the head or of an embedding"), std::string::npos) << head.error().line();
}

TEST_F(AdapterFiles, WhatHasNoRoomIsRefused) {
  write_adapter(model_, dir_ / "q", {.rank = 4, .targets = {"q_proj"}});
  const auto pairs = models::read_adapter_pairs(model_.config, dir_ / "q").value();
  EXPECT_TRUE(adapter_fits({1, 4, {}}, pairs, "q"));
  EXPECT_EQ(adapter_fits({1, 3, {}}, pairs, "q").error().line(),
            "adapter q: expected a rank of at most 3, as --max_lora_rank says, found 4; start the server with "
            "--max_lora_rank 4");
  const auto narrow = adapter_fits({1, 4, {"model.layers.0.self_attn.k_proj"}}, pairs, "q");
  ASSERT_FALSE(narrow);
  EXPECT_NE(narrow.error().line().find("model.layers.0.self_attn.q_proj"), std::string::npos);
  LLMEngine engine(model_, any_tokenizer(), small_engine(), runtime_);
  AdapterRegistry registry(model_.config);
  RequestOptions request;
  request.adapter = registry.load({"q", dir_ / "q"}, std::nullopt).value();
  EXPECT_FALSE(engine.add_request(prompt_of(1, 3), greedy(1), {}, request)) << "an engine without room for any";
  EXPECT_FALSE(registry.load({"q", dir_ / "q"}, std::nullopt)) << "the name is taken";
  EXPECT_NE(registry.load({"q", dir_ / "q"}, std::nullopt, true).value()->id, request.adapter->id);
}

}  // namespace
}  // namespace tern::engine
