// A tiny model of tests/data/golden on the cpu, and a tokenizer that knows its ids.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "accel/backend.h"
#include "engine/llm_engine.h"
#include "models/loader.h"

namespace tern::engine {

inline models::LoadedModel tiny_model_on(const accel::DevicePtr& device, const std::string& name = "llama-tied",
                                         tern_dtype dtype = TERN_F32) {
  const auto folder = std::filesystem::path(TERN_TEST_DATA) / "golden" / name;
  auto source = std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(folder).value());
  models::LoadOptions options;
  options.dtype = dtype;
  return models::load_model(models::read_config(*source).value(), source, device, options).value();
}

inline models::LoadedModel tiny_model(const std::string& name = "llama-tied", tern_dtype dtype = TERN_F32) {
  static const auto backend = accel::Backend::load(std::filesystem::path(TERN_PLUGIN_DIR) / "libtern_cpu.so").value();
  return tiny_model_on(accel::Device::open(backend, 0).value(), name, dtype);
}

inline tokenizer::Tokenizer any_tokenizer() {
  const auto file = std::filesystem::path(TERN_TEST_DATA) / "tokenizers" / "bl-gpt2.json";
  std::ifstream in(file);
  const std::string json{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return tokenizer::Tokenizer::from_json(json, file.string()).value();
}

// The ids drawn for each request, as they come; errors and reasons beside them.
struct Drawn {
  std::map<SequenceId, std::vector<std::int32_t>> tokens;
  std::map<SequenceId, RequestOutput> last;

  void step(LLMEngine& engine) {
    for (auto& output : engine.step()) {
      if (output.token >= 0) tokens[output.id].push_back(output.token);
      last[output.id] = std::move(output);
    }
  }
  void run(LLMEngine& engine) {
    while (!engine.idle()) step(engine);
  }
};

inline EngineOptions small_engine() {
  EngineOptions options;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 16;
  options.max_model_len = 64;
  return options;
}

inline std::vector<std::int32_t> prompt_of(std::int32_t first, std::int32_t length) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < length; ++i) ids.push_back(3 + (first + 7 * i) % 150);
  return ids;
}

inline SamplingParams greedy(std::int64_t tokens) {
  SamplingParams params;
  params.max_new_tokens = tokens;
  params.ignore_eos = true;
  return params;
}

}  // namespace tern::engine
