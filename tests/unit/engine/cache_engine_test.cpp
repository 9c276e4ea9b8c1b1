// If these fail, a cache takes more memory than it was given or can use, or answers hang on what lay in it before.
#include "engine/cache_engine.h"

#include <gtest/gtest.h>

#include "base/dtype.h"
#include "engine/cache_dtype.h"
#include "ops/attention_paged.h"
#include "tests/unit/backend_sim/sim_device.h"
#include "tiny.h"

namespace tern::engine {
namespace {

std::vector<nn::CacheSpec> specs_of(const models::LoadedModel& model) {
  return model.architecture->cache_specs(model.config);
}

template <typename Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure.error().line();
  }
  return "no error";
}

// 2 layers of 2 heads of 16: 128 numbers a token, keys and values together 256 bytes in bf16.
TEST(CacheEngine, TakesWhatTheBudgetHoldsAndNoMoreThanTheSeatsCouldUse) {
  const auto model = tiny_model();
  CacheOptions options;
  options.dtype = TERN_BF16;
  options.max_model_len = 64;
  options.max_num_seqs = 4;
  const CacheEngine roomy(model.store, specs_of(model), options);
  EXPECT_EQ(roomy.num_blocks() * roomy.block_size(), 4 * 64);
  const auto reserved = static_cast<std::uint64_t>(roomy.block_size());  // block 0 of every cache
  const auto tables = [](const CacheEngine& cache) {
    return 5U * 4 * 64 / static_cast<std::uint64_t>(cache.block_size());
  };
  EXPECT_EQ(roomy.bytes(), (4U * 64 + reserved) * (256 + 4) + tables(roomy));
  EXPECT_EQ(roomy.capacity().num_blocks, roomy.num_blocks() + 1);
  options.memory = 100 * (256 + 4) + tables(roomy);  // a hundred tokens with their ids
  const CacheEngine tight(model.store, specs_of(model), options);
  EXPECT_EQ(tight.num_blocks(), 100 / tight.block_size() - 1);
  EXPECT_LE(tight.bytes(), options.memory);
  options.dtype = TERN_F32;
  options.memory += 100 * 256;
  const CacheEngine wide(model.store, specs_of(model), options);
  EXPECT_EQ(wide.num_blocks(), tight.num_blocks());
}

// What a vision tower takes later is not the cache's.
TEST(CacheEngine, LeavesWhatIsReserved) {
  const auto backend = accel::Backend::load(std::filesystem::path(TERN_PLUGIN_DIR) / "libtern_sim.so").value();
  const auto tokens = [&](std::uint64_t reserved) {
    const auto device = accel::Device::open(backend, 0, {{"memory_limit", "4000000"}}).value();
    const auto model = tiny_model_on(device);
    CacheOptions options;
    options.max_model_len = 1 << 20;
    options.shorten = true;
    options.reserved = reserved;
    return CacheEngine(model.store, specs_of(model), options).max_model_len();
  };
  const std::int64_t all = tokens(0);
  const double a_token = 2 * 2 * 2 * 16 * sizeof(float) + sizeof(std::int32_t) + 2.0 * sizeof(std::int32_t) / 16;
  EXPECT_NEAR(static_cast<double>(all - tokens(1'000'000)), 0.8 * 1'000'000 / a_token, 64.0);
}

TEST(CacheEngine, ServesShorterSequencesWhereItMay) {
  const auto model = tiny_model();
  CacheOptions options;
  options.max_model_len = 4096;
  options.memory = 100 * (512 + 4) + 2 * 4 * 256;  // a hundred tokens, and the tables of two seats
  EXPECT_EQ(
      error_of([&] { const CacheEngine cache(model.store, specs_of(model), options); }),
      "the key-value cache needs 2.03 MiB for one sequence of 4096 tokens, and --kv_cache_memory allows 52.4 KiB; "
      "raise --kv_cache_memory or lower --max_model_len.");
  options.shorten = true;
  const CacheEngine cache(model.store, specs_of(model), options);
  EXPECT_EQ(cache.max_model_len(), (100 / cache.block_size() - 1) * cache.block_size());
  EXPECT_EQ(cache.capacity().max_kv_len, cache.max_model_len());
  EXPECT_EQ(cache.capacity().max_blocks, cache.num_blocks());
  options.memory = 1;
  EXPECT_NE(error_of([&] { const CacheEngine none(model.store, specs_of(model), options); }), "no error");
}

// Each seat has them, whatever the length of its sequence.
TEST(CacheEngine, CountsTheStatesOfEverySeat) {
  const auto model = tiny_model("qwen3.5-untied");
  CacheOptions options;
  options.max_num_seqs = 3;
  options.max_model_len = 64;
  const CacheEngine cache(model.store, specs_of(model), options);
  const std::uint64_t states = 3 * 4 * (3 * 256 + 4 * 32 * 32);  // of three layers: a convolution's rows, and matrices
  const std::uint64_t keys = 2 * 4 * 2 * 16;                     // of a token, in the fourth
  const auto blocks = static_cast<std::uint64_t>(cache.num_blocks() + 1);
  const auto tokens = blocks * static_cast<std::uint64_t>(cache.block_size());
  const std::uint64_t tables = 4 * 4 * static_cast<std::uint64_t>(64 / cache.block_size());
  EXPECT_EQ(cache.bytes(), 4 * states + tables + tokens * (keys + 4));
  options.memory = 4 * states;
  EXPECT_NE(error_of([&] {
              const CacheEngine none(model.store, specs_of(model), options);
            }).find("for one sequence of 64 tokens and the states of 3 at once, and --kv_cache_memory allows"),
            std::string::npos);
}

// A layer that reads another's has none of its own.
TEST(CacheEngine, SharedCachesTakeNoMemory) {
  const auto model = tiny_model("gemma4-tied");
  CacheOptions options;
  options.dtype = TERN_F32;
  options.max_model_len = 64;
  options.max_num_seqs = 2;
  const auto specs = specs_of(model);
  ASSERT_EQ(specs[5].kind, nn::CacheKind::shared);
  EXPECT_EQ(specs[5].shares_with, "model.layers.2.self_attn");
  EXPECT_EQ(specs[4].shares_with, "model.layers.3.self_attn");
  const CacheEngine cache(model.store, specs, options);
  const std::string& scope = cache.capacity().scope;
  EXPECT_NE(model.store->find(nn::key_cache_name(scope, specs[2].module)), nullptr);
  EXPECT_EQ(model.store->find(nn::key_cache_name(scope, specs[5].module)), nullptr);
  EXPECT_EQ(model.store->find(nn::value_cache_name(scope, specs[5].module)), nullptr);
  const auto tokens = static_cast<std::uint64_t>((cache.num_blocks() + 1) * cache.block_size());
  const std::uint64_t tables = 4 * 3 * static_cast<std::uint64_t>(64 / cache.block_size());
  EXPECT_EQ(cache.bytes(), tables + tokens * (2 * 4 * 2 * 8 + 2 * 4 * 2 * 16 + 4));
}

// One plane: 20 features of the latent vector and 8 that positions turn, whatever the number of heads.
TEST(CacheEngine, KeepsLatentVectorsAlone) {
  const auto model = tiny_model("deepseek-v3-untied");
  CacheOptions options;
  options.dtype = TERN_F32;
  options.max_model_len = 64;
  options.max_num_seqs = 2;
  const CacheEngine cache(model.store, specs_of(model), options);
  const std::string module = "model.layers.2.self_attn";
  const auto& keys = model.store->at(nn::key_cache_name(cache.capacity().scope, module)).desc;
  EXPECT_EQ(keys.shape[2], 1);
  EXPECT_EQ(keys.shape[3], 28);
  EXPECT_EQ(model.store->find(nn::value_cache_name(cache.capacity().scope, module)), nullptr);
  const auto tokens = static_cast<std::uint64_t>((cache.num_blocks() + 1) * cache.block_size());
  const std::uint64_t tables = 4 * 3 * static_cast<std::uint64_t>(64 / cache.block_size());
  EXPECT_EQ(cache.bytes(), tables + tokens * (3 * 4 * 28 + 4));
}

// Beside each layer's vector a key of its indexer, 20 features.
TEST(CacheEngine, KeepsKeysOfIndexers) {
  const auto model = tiny_model("deepseek-v32-untied");
  CacheOptions options;
  options.dtype = TERN_F32;
  options.max_model_len = 64;
  options.max_num_seqs = 2;
  const CacheEngine cache(model.store, specs_of(model), options);
  const std::string module = "model.layers.2.self_attn.indexer";
  EXPECT_EQ(model.store->at(nn::key_cache_name(cache.capacity().scope, module)).desc.shape[3], 20);
  const auto tokens = static_cast<std::uint64_t>((cache.num_blocks() + 1) * cache.block_size());
  const std::uint64_t tables = 4 * 3 * static_cast<std::uint64_t>(64 / cache.block_size());
  EXPECT_EQ(cache.bytes(), tables + tokens * (3 * 4 * (28 + 20) + 4));
}

TEST(CacheEngine, IsInTheModelsDtypeUnlessToldOtherwise) {
  for (const tern_dtype dtype : {TERN_F32, TERN_BF16, TERN_F16}) {
    auto model = tiny_model("llama-tied", dtype);
    session::Runtime runtime;
    EngineOptions options = small_engine();
    EXPECT_EQ(LLMEngine(model, any_tokenizer(), options, runtime).cache().dtype(), dtype);
    for (const tern_dtype told : {TERN_F32, TERN_BF16, TERN_F16}) {
      options.cache_dtype = told;
      EXPECT_EQ(LLMEngine(model, any_tokenizer(), options, runtime).cache().dtype(), told);
    }
  }
}

// Half of bfloat16's bytes, and a scale in fp32 for the keys and one for the values of each head: of heads of 16 that's
// 40 bytes where there are 64.
TEST(CacheEngine, InEightBitsHoldsMoreTokensInTheSameMemory) {
  const auto model = tiny_model();
  for (const tern_dtype dtype : {TERN_I8, TERN_F8_E4M3}) {
    CacheOptions options;
    options.dtype = dtype;
    options.max_model_len = 64;
    options.max_num_seqs = 4;
    const CacheEngine cache(model.store, specs_of(model), options);
    const auto tokens = static_cast<std::uint64_t>((cache.num_blocks() + 1) * cache.block_size());
    const std::uint64_t tables = 5U * 4 * 64 / static_cast<std::uint64_t>(cache.block_size());
    EXPECT_EQ(cache.bytes(), tokens * (4 * (2 * 16 + 2 * 4) + 4) + tables);
    const std::string module = "model.layers.1.self_attn", scope = cache.capacity().scope;
    std::uint64_t bytes = 0;
    for (const auto& name : {nn::key_cache_name(scope, module), nn::value_cache_name(scope, module),
                             nn::key_scale_name(scope, module), nn::value_scale_name(scope, module)}) {
      bytes += total_bytes(model.store->at(name).desc);
    }
    EXPECT_EQ(bytes, tokens * 2 * (2 * 16 + 2 * 4));
    options.memory = 100 * (4 * 40 + 4) + tables;
    EXPECT_EQ(CacheEngine(model.store, specs_of(model), options).num_blocks(), 100 / cache.block_size() - 1);
  }
}

// Asked before a step is built: in words that name the flag, and say what to do.
TEST(CacheEngine, EightBitsAreRefusedWhereThereAreNoKeysOrNoKernel) {
  const auto refused = [](const models::LoadedModel& model, tern_dtype dtype) {
    const Status status = check_cache_dtype(*model.store->device(), model.config, dtype);
    return status ? "" : status.error().line();
  };
  EXPECT_EQ(refused(tiny_model(), TERN_I8), "");
  EXPECT_EQ(refused(tiny_model("qwen3.5-untied"), TERN_F8_E4M3), "");  // states beside keys
  const std::string latent = refused(tiny_model("deepseek-v3-untied"), TERN_I8);
  EXPECT_NE(latent.find("--kv_cache_dtype int8 is not for DeepseekV3ForCausalLM, whose layer model.layers.0.self_attn "
                        "keeps a latent vector of each token, no keys and values"),
            std::string::npos)
      << latent;
  EXPECT_EQ(refused(tiny_model("deepseek-v3-untied"), TERN_BF16), "");
  const test::SimEnvironment environment(test::Environment{{"TERN_SIM", "ascend"}});
  const std::string without = refused(tiny_model_on(accel::Device::open(test::load_plugin("sim"), 0).value()), TERN_I8);
  EXPECT_NE(without.find("has no attention over a cache in 8 bits"), std::string::npos) << without;
  auto model = tiny_model("deepseek-v3-untied");
  session::Runtime runtime;
  EngineOptions options = small_engine();
  options.cache_dtype = TERN_F8_E4M3;
  EXPECT_NE(error_of([&] { const LLMEngine engine(model, any_tokenizer(), options, runtime); }).find("fp8 is not for"),
            std::string::npos);
}

// Memory is taken as it comes: what lay there before is never read.
TEST(CacheEngine, AnswersDoNotHangOnWhatLayInItsMemory) {
  auto mistral = tiny_model("mistral");
  auto with_states = tiny_model("qwen3.5-untied");
  auto latent = tiny_model("deepseek-v3-untied");
  auto indexed = tiny_model("deepseek-v32-untied");
  auto shared = tiny_model("gemma4-tied");
  struct Case {
    models::LoadedModel& model;
    tern_dtype dtype;
  };
  for (const auto& [model, dtype] :
       {Case{mistral, TERN_F32}, Case{mistral, TERN_BF16}, Case{mistral, TERN_F16}, Case{mistral, TERN_I8},
        Case{mistral, TERN_F8_E4M3}, Case{with_states, TERN_BF16}, Case{with_states, TERN_I8}, Case{latent, TERN_BF16},
        Case{indexed, TERN_BF16}, Case{shared, TERN_BF16}, Case{shared, TERN_F8_E4M3}}) {
    EngineOptions options = small_engine();
    options.cache_dtype = dtype;
    std::vector<std::vector<std::int32_t>> answers;
    for (const int byte : {0x00, 0xff}) {  // zeros, NaN
      session::Runtime runtime;
      LLMEngine engine(model, any_tokenizer(), options, runtime);
      for (const auto& spec : specs_of(model)) {
        const std::string& scope = engine.cache().capacity().scope;
        std::vector<std::string> names = {nn::key_cache_name(scope, spec.module),
                                          nn::value_cache_name(scope, spec.module)};
        if (ops::has_scales(dtype)) {
          names.push_back(nn::key_scale_name(scope, spec.module));
          names.push_back(nn::value_scale_name(scope, spec.module));
        }
        if (spec.kind == nn::CacheKind::latent) names.pop_back();
        if (spec.kind == nn::CacheKind::state || spec.kind == nn::CacheKind::shared) names.clear();
        for (const auto& state : spec.states) names.push_back(nn::state_name(scope, spec.module, state.name));
        for (const auto& name : names) {
          const std::vector<std::byte> rubbish(total_bytes(model.store->at(name).desc), std::byte(byte));
          model.store->upload(name, rubbish);
        }
      }
      const std::string tokens = nn::token_cache_name(engine.cache().capacity().scope);
      model.store->upload(tokens, std::vector<std::byte>(total_bytes(model.store->at(tokens).desc), std::byte(byte)));
      std::vector<SequenceId> ids;
      for (const std::int32_t length : {1, 15, 16, 17, 40}) {
        SamplingParams params = greedy(10);
        params.presence_penalty = length % 2 == 0 ? 0.5F : 0.0F;  // looks at earlier tokens
        ids.push_back(engine.add_request(prompt_of(length, length), params).value());
      }
      Drawn drawn;
      drawn.run(engine);
      for (const SequenceId id : ids) answers.push_back(drawn.tokens.at(id));
    }
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(answers[i], answers[i + 5]) << dtype_name(dtype) << " " << i;
  }
}

}  // namespace
}  // namespace tern::engine
