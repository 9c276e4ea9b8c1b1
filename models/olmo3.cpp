#include "models/olmo3.h"

#include "models/layer_windows.h"
#include "models/olmo2.h"
#include "models/rope.h"
#include "nn/rope.h"

namespace tern::models {
namespace {

constexpr const char* kLocalRope = "local";  // of layers with a window
constexpr std::int64_t kPeriod = 4;          // every fourth layer sees every key

FieldValue by_fours(const ModelConfig& config) { return periodic_layer_types(config, kPeriod); }
FieldValue theta_of_all(const ModelConfig& config) { return config.rope_theta; }

std::vector<Field> fields() {
  using C = ModelConfig;
  Field types = layer_types_field(otherwise(by_fours));
  types.gguf = "attention.sliding_window_pattern";
  types.gguf_words = {.no = kFullType, .yes = kSlidingType};
  return olmo_fields({{"rope_theta", "rope.freq_base", &C::rope_theta, otherwise(FieldValue(500000.0)), is_positive},
                      {"", kImplied, &C::rope_local_theta, otherwise(theta_of_all), is_positive},
                      {"sliding_window", "attention.sliding_window", &C::sliding_window,
                       Default{FieldValue(std::int64_t{4096}), {}, {}, false}, is_size},
                      std::move(types)});
}

std::vector<RopeTable> rope_tables(const ModelConfig& config) {
  return {scaled_rope_table(config), {kLocalRope, local_rope_frequencies(config)}};
}

ops::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  return olmo_hidden_states(context, config, inputs, windows_by_type(config), kLocalRope);
}

std::vector<nn::CacheSpec> cache_specs(const ModelConfig& config) {
  return attention_caches(config, windows_by_type(config));
}

}  // namespace

Architecture olmo3_architecture() {
  return {.name = "Olmo3ForCausalLM",
          .model_type = "olmo3",
          .gguf = "olmo2",  // llama.cpp has no other name for it
          .fields = fields(),
          .gguf_rope_factors = false,
          .parameters = olmo_parameters,
          .rope_tables = rope_tables,
          .hidden_states = hidden_states,
          .cache_specs = cache_specs,
          .head = tied_or_own_head};
}

}  // namespace tern::models
