// The architectures that are served, one file each, which describes itself.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "io/json_field.h"
#include "models/config_fields.h"
#include "models/encoder.h"
#include "models/parameters.h"
#include "nn/cache_spec.h"
#include "nn/context.h"
#include "nn/decoder.h"
#include "nn/head.h"

namespace tern::models {

// A table of rotary phases that layers of one kind read (nn/rope.h).
struct RopeTable {
  std::string kind;
  std::vector<double> frequencies;  // radians a position
  double amplitude = 1.0;           // of cosines and sines
  // Of runs of more than `border` positions; empty: the same.
  std::vector<double> long_frequencies = {};
  double border = 0.0;
  // Of queries that grow with their position, so that the softmax over ever more keys stays as sharp (Llama 4): the
  // amplitude is also times 1 + growth ln(1 + floor((position + ahead) / period)).
  double growth = 0.0;
  double period = 1.0;
  double ahead = 0.0;
  [[nodiscard]] double amplitude_at(std::int64_t position) const;
};

struct Architecture {
  std::string name;           // "LlamaForCausalLM"; of an encoder "BertModel"
  std::string model_type;     // "llama"
  std::string gguf;           // general.architecture; empty: neither read from a GGUF nor written as one
  std::vector<Field> fields;  // of the configuration, read from above
  // Whether a GGUF of that name is of this architecture, where several have the same keys; none: by them alone.
  bool (*is_gguf)(const checkpoint::Gguf& gguf) = nullptr;
  bool gguf_rope_factors;  // whether llama.cpp reads rope_freqs.weight of it, which is how a GGUF says llama3 scaling
  bool gguf_longrope = false;         // whether llama.cpp reads longrope's divisors of it
  bool gguf_yarn_multiplier = false;  // whether llama.cpp reads YaRN's mscale_all_dim of it, beside an mscale of 1
  bool gguf_yarn_tenth = false;       // or a tenth of it, which mscale is, too
  bool gguf_yarn_truncates = true;    // whether YaRN's borders lie on whole features, for which a GGUF has no word
  bool rope_by_layer_type = false;    // config.json must have rope_parameters for each type of layers
  // Says in the table's words what newer files say in others, before they are read; none: there is no such.
  void (*settle_json)(const io::JsonField& json, io::Json& own) = nullptr;
  std::vector<ParameterSpec> (*parameters)(const ModelConfig& config);
  std::vector<RopeTable> (*rope_tables)(const ModelConfig& config);
  // Hidden states after the final norm, [tokens, hidden_size].
  ops::Value (*hidden_states)(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs);
  // One of its layers, for those behind its own that predict further tokens (mtp.h), which a config of as many more
  // layers counts; none: its model has no such, or they are not computed. What it takes by reference outlives it.
  nn::DecoderLayer (*layer)(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) = nullptr;
  // Such layers lie under names of their own, "mtp.layers.0", and their norms multiply by 1 + weight, as Qwen has them.
  bool predicts_apart = false;
  // What each layer keeps of the tokens it has seen, in the layers' order, and the language model's head. An encoder
  // has neither.
  std::vector<nn::CacheSpec> (*cache_specs)(const ModelConfig& config) = nullptr;
  nn::Head (*head)(const ModelConfig& config) = nullptr;
  std::optional<Encoder> encoder = std::nullopt;
};

[[nodiscard]] std::span<const Architecture> architectures();
[[nodiscard]] const Architecture* find_architecture(const std::string& name);  // null: not served
[[nodiscard]] const Architecture* find_model_type(const std::string& model_type);
// What there is, for errors and lists.
[[nodiscard]] std::vector<std::string> architecture_names();
[[nodiscard]] std::vector<std::string> model_types();
[[nodiscard]] std::vector<std::string> gguf_names();

// The architecture that a class of transformers is built upon, "Qwen3ForSequenceClassification" or "Qwen3Model", and
// the head that the class has; null: not served.
inline constexpr const char* kScoreWeight = "score.weight";
struct ModelClass {
  const Architecture* architecture = nullptr;
  ModelHead head = ModelHead::language;
};
[[nodiscard]] ModelClass find_class(const std::string& name);
// Of the class that an architecture is named after: none of an encoder, else the language model's.
[[nodiscard]] ModelHead own_head(const Architecture& architecture);
// The architecture's parameters, with those of the model's head in the place of the language model's.
[[nodiscard]] std::vector<ParameterSpec> parameters_of(const ModelConfig& config);
// Those of the language model, whatever stands upon it.
[[nodiscard]] std::vector<ParameterSpec> language_parameters_of(const ModelConfig& config);

// What stands before an encoder's names in a file that has a head, too; of other architectures nothing.
[[nodiscard]] std::string_view encoder_prefix(const ModelConfig& config);

// By the model's scaling.
[[nodiscard]] RopeTable scaled_rope_table(const ModelConfig& config);
// The same for queries that grow by ModelConfig::rope_query_growth at each multiple of the original context.
[[nodiscard]] RopeTable query_rope_table(const ModelConfig& config, const char* kind);
// The first of these for all layers.
[[nodiscard]] std::vector<RopeTable> one_rope_table(const ModelConfig& config);
// Keys and values of `num_key_value_heads` in each layer's self_attn, of the last windows[layer] tokens; of all where
// that is 0.
[[nodiscard]] std::vector<nn::CacheSpec> attention_caches(const ModelConfig& config,
                                                          const std::vector<std::int64_t>& windows);
// The same window in every layer: ModelConfig::sliding_window.
[[nodiscard]] std::vector<nn::CacheSpec> even_caches(const ModelConfig& config);
// lm_head.weight, or model.embed_tokens.weight where they are tied.
[[nodiscard]] nn::Head tied_or_own_head(const ModelConfig& config);

}  // namespace tern::models
