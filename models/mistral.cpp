#include "models/mistral.h"

#include "models/llama.h"

namespace tern::models {

Architecture mistral_architecture() {
  return {"MistralForCausalLM", "mistral", llama_hidden_states, llama_parameters, llama_cache_specs};
}

}  // namespace tern::models
