// The architectures that are served, one file each.
#pragma once

#include <string>
#include <vector>

#include "models/config.h"
#include "nn/cache_spec.h"
#include "nn/context.h"

namespace tern::models {

// A parameter as the model names it (Hugging Face's names), its shape, and where a GGUF keeps it.
struct ParameterSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string gguf_name;
  // Rows of each head are stored in pairs (2i, 2i + 1) by GGUF's conversion of this model: put back on loading.
  std::int64_t interleaved_heads = 0;
};

struct Architecture {
  std::string name;        // "LlamaForCausalLM"
  std::string model_type;  // "llama"
  // Hidden states after the final norm, [tokens, hidden_size].
  ops::Value (*hidden_states)(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs);
  std::vector<ParameterSpec> (*parameters)(const ModelConfig& config);
  // What each layer keeps of the tokens it has seen, in the layers' order.
  std::vector<nn::CacheSpec> (*cache_specs)(const ModelConfig& config);
};

[[nodiscard]] const Architecture* find_architecture(const std::string& name);  // null: not served
[[nodiscard]] std::vector<std::string> architecture_names();
// "" where no architecture has that model type ("llama", also a GGUF's general.architecture).
[[nodiscard]] std::string architecture_of_model_type(const std::string& model_type);
[[nodiscard]] std::string model_type_of_architecture(const std::string& architecture);

// The weight of the output projection: lm_head's, or the tied embedding's.
[[nodiscard]] std::string lm_head_weight(const ModelConfig& config);

}  // namespace tern::models
