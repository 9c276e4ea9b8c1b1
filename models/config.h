// What a checkpoint says of its model, read from config.json or a GGUF's metadata, and written back as config.json.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint_source.h"

namespace tern::models {

enum class RopeScaling { none, linear, llama3 };

struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM": chooses the model file
  std::string model_type;    // "llama"
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_position_embeddings = 0;
  std::int64_t sliding_window = 0;  // 0: none
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling = RopeScaling::none;
  double rope_factor = 1.0;
  double rope_low_freq_factor = 1.0;   // llama3
  double rope_high_freq_factor = 4.0;  // llama3
  double rope_original_max_position = 8192;
  std::vector<float>
      rope_freq_factors;  // [head_dim / 2] divisors of the frequencies, from a GGUF; empty: none, or a formula
  bool tie_word_embeddings = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  std::string hidden_act = "silu";
  std::string torch_dtype;  // as config.json names it, "" unknown
  std::int64_t bos_token_id = -1;
  std::vector<std::int64_t> eos_token_ids;
  std::int64_t pad_token_id = -1;

  // Parameters that follow from the shapes: of the dense decoder alone.
  [[nodiscard]] std::int64_t num_parameters() const;
};

// Errors (data): the file, the key, what was expected; an architecture or a scaling that is not served names itself.
[[nodiscard]] Result<ModelConfig> read_config(const checkpoint::CheckpointSource& source);
// config.json as transformers reads it, for a model stored in `torch_dtype`. Throws Failure (data) where it has no
// words for the model's rope scaling.
[[nodiscard]] nlohmann::ordered_json config_json(const ModelConfig& config, const std::string& torch_dtype);

// Inverse frequencies [head_dim / 2] with scaling applied (transformers' modeling_rope_utils; Llama 3.1's formula).
[[nodiscard]] std::vector<double> rope_frequencies(const ModelConfig& config);

}  // namespace tern::models
