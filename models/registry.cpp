#include "models/registry.h"

#include <array>

#include "models/llama.h"
#include "models/mistral.h"

namespace tern::models {
namespace {

const std::array<Architecture, 2>& table() {
  static const std::array<Architecture, 2> architectures = {llama_architecture(), mistral_architecture()};
  return architectures;
}

}  // namespace

const Architecture* find_architecture(const std::string& name) {
  for (const auto& architecture : table()) {
    if (architecture.name == name) return &architecture;
  }
  return nullptr;
}

std::vector<std::string> architecture_names() {
  std::vector<std::string> names;
  for (const auto& architecture : table()) names.push_back(architecture.name);
  return names;
}

std::string architecture_of_model_type(const std::string& model_type) {
  for (const auto& architecture : table()) {
    if (architecture.model_type == model_type) return architecture.name;
  }
  return {};
}

std::string model_type_of_architecture(const std::string& name) {
  const Architecture* architecture = find_architecture(name);
  return architecture == nullptr ? std::string() : architecture->model_type;
}

std::string lm_head_weight(const ModelConfig& config) {
  return config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
}

}  // namespace tern::models
