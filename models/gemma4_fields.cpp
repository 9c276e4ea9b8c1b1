#include "models/gemma4_fields.h"

#include <algorithm>
#include <string_view>

#include "base/strings.h"
#include "models/gemma4_experts.h"
#include "models/gemma_fields.h"
#include "models/layer_windows.h"

namespace tern::models {
namespace {

using Texts = std::vector<std::string>;
using List = std::vector<std::int64_t>;

constexpr const char* kShared = "num_kv_shared_layers";
constexpr const char* kDouble = "use_double_wide_mlp";
constexpr const char* kOneProjection = "attention_k_eq_v";
constexpr const char* kGlobalHeads = "num_global_key_value_heads";
constexpr const char* kPerLayer = "per_layer_config";
constexpr const char* kGgufHeads = "attention.head_count_kv";
constexpr const char* kGgufMlp = "feed_forward_length";
constexpr std::int64_t kPeriod = 6;  // every sixth layer sees every key, and the last

FieldValue by_sixes(const ModelConfig& config) {
  Texts types = periodic_layer_types(config, kPeriod);
  types.back() = kFullType;
  return types;
}

std::int64_t own_number(const ModelConfig& config, const char* key) { return config.own_field<std::int64_t>(key); }

// The last layer that makes its own keys and values for layers of that type; -1: there is none.
std::int64_t last_own(const ModelConfig& config, const std::string& type) {
  const auto& types = config.own_field<Texts>("layer_types");
  for (std::int64_t layer = config.num_hidden_layers - own_number(config, kShared); layer-- > 0;) {
    if (types[static_cast<std::size_t>(layer)] == type) return layer;
  }
  return -1;
}

std::string have_sources(const ModelConfig& config, const FieldValue& value) {
  const auto shared = std::get<std::int64_t>(value);
  const auto& types = config.own_field<Texts>("layer_types");
  const bool fits =
      shared >= 0 && shared < config.num_hidden_layers && !types.empty() &&
      std::all_of(types.begin(), types.end(), [&](const auto& type) { return last_own(config, type) >= 0; });
  return fits ? "" : "fewer layers than there are, with one of each type before them";
}

std::string divides_heads_or_none(const ModelConfig& config, const FieldValue& value) {
  return std::get<std::int64_t>(value) == 0 ? "" : divides_heads(config, value);
}
// Of text, "vision" changes nothing.
std::string is_causal(const ModelConfig& /*config*/, const FieldValue& value) {
  const auto& text = std::get<std::string>(value);
  return text.empty() || text == "vision" ? "" : "null or \"vision\"";
}
std::string is_vocabulary(const ModelConfig& config, const FieldValue& value) {
  if (own_number(config, kPerLayerSize) == 0 || std::get<std::int64_t>(value) == config.vocab_size) return "";
  return cat(config.vocab_size, ", the vocabulary");
}
std::string is_local_head(const ModelConfig& config, const FieldValue& value) {
  const std::int64_t head = own_number(config, kLocalHead);
  return std::get<std::int64_t>(value) == head ? "" : cat(head, ", as keys of layers with a window have");
}

FieldValue vocabulary(const ModelConfig& config) { return config.vocab_size; }
FieldValue local_head(const ModelConfig& config) { return own_number(config, kLocalHead); }

// What a GGUF's lists, one number a layer, say of fields that it has no key for.
FieldValue doubled_in_list(const ModelConfig& config) {
  const auto list = config.own.find(kGgufMlp);
  return list != config.own.end() && std::get<List>(list->second).back() > config.intermediate_size;
}
FieldValue global_heads_in_list(const ModelConfig& config) {
  const auto list = config.own.find(kGgufHeads);
  if (list == config.own.end()) return std::int64_t{0};
  const auto& types = config.own_field<Texts>("layer_types");
  for (std::size_t layer = 0; layer < types.size() && layer < std::get<List>(list->second).size(); ++layer) {
    if (types[layer] != kSlidingType) return std::get<List>(list->second)[layer];
  }
  return std::int64_t{0};
}
FieldValue has_global_heads(const ModelConfig& config) {
  const std::int64_t heads = own_number(config, kGlobalHeads);
  return heads != 0 && heads != config.num_key_value_heads;
}

std::int64_t heads_of_layer(const ModelConfig& config, std::int64_t layer) {
  return gemma4_layers(config)[static_cast<std::size_t>(layer)].kv_heads;
}
std::int64_t mlp_of_layer(const ModelConfig& config, std::int64_t layer) {
  return gemma4_layers(config)[static_cast<std::size_t>(layer)].intermediate_size;
}

std::vector<Field> of_layers() {
  using C = ModelConfig;
  const FieldValue size = std::int64_t{0};
  const FieldValue none = 0.0;
  Field types = layer_types_field(Default{by_sixes, by_sixes, {}, false});
  types.gguf = "attention.sliding_window_pattern";
  types.gguf_words = {.no = kFullType, .yes = kSlidingType};
  return {
      {"sliding_window", "attention.sliding_window", &C::sliding_window,
       Default{FieldValue(std::int64_t{512}), {}, {}, false}, is_size},
      {kLogitCap, kLogitCap, none, otherwise(none, none), is_epsilon},
      std::move(types),
      {kShared, "attention.shared_kv_layers", size, otherwise(size), have_sources},
      {kPerLayerSize, "embedding_length_per_layer_input", size, Default{FieldValue(std::int64_t{256}), size, {}, false},
       is_count},
      {"vocab_size_per_layer_input", kImplied, size,
       Default{FieldValue(std::int64_t{262144}), FieldValue(std::int64_t{262144}), vocabulary, false}, is_vocabulary},
      {kDouble, kImplied, FieldValue(false), Default{FieldValue(false), FieldValue(false), doubled_in_list, false}},
      {kGlobalHeads, kImplied, size, Default{size, size, global_heads_in_list, true}, divides_heads_or_none},
      {kOneProjection, "", FieldValue(false), Default{FieldValue(false), FieldValue(false), has_global_heads, false}},
      {"", "attention.value_length_swa", size, otherwise(local_head), is_local_head},
      {"", "rope.dimension_count_swa", size, otherwise(local_head), is_local_head},
      {"use_bidirectional_attention", kImplied, FieldValue(std::string()),
       otherwise(FieldValue(std::string()), FieldValue(std::string())), is_causal}};
}

}  // namespace

std::vector<Gemma4Layer> gemma4_layers(const ModelConfig& config) {
  const std::vector<std::int64_t> windows = windows_by_type(config);
  const std::int64_t first_shared = config.num_hidden_layers - own_number(config, kShared);
  std::vector<Gemma4Layer> layers;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    Gemma4Layer layer;
    layer.window = windows[static_cast<std::size_t>(i)];
    const bool is_global = layer.window == 0;
    layer.head_dim = is_global ? config.head_dim : own_number(config, kLocalHead);
    layer.keys_are_values = is_global && config.own_field<bool>(kOneProjection);
    const std::int64_t global_heads = own_number(config, kGlobalHeads);
    layer.kv_heads = layer.keys_are_values && global_heads > 0 ? global_heads : config.num_key_value_heads;
    const bool shares = i >= first_shared;
    layer.intermediate_size = config.intermediate_size * (shares && config.own_field<bool>(kDouble) ? 2 : 1);
    if (shares) layer.source = last_own(config, is_global ? kFullType : kSlidingType);
    layers.push_back(layer);
  }
  for (const Gemma4Layer& layer : std::vector(layers)) {
    if (layer.source >= 0) layers[static_cast<std::size_t>(layer.source)].is_shared = true;
  }
  return layers;
}

std::vector<Field> gemma4_fields() {
  using C = ModelConfig;
  using Says = GgufTensorSays::What;
  const FieldValue size = std::int64_t{0};
  std::vector<Field> all =
      decoder_fields({.num_key_value_heads = otherwise(FieldValue(std::int64_t{4}), as_many_as_heads),
                      .head_dim = otherwise(size),
                      .max_position_embeddings = 131072,
                      .bos_token_id = std::int64_t{2},
                      .eos_token_ids = std::vector<std::int64_t>{1}});
  for (Field& field : all) {
    if (std::string_view(field.gguf) == kGgufHeads) field.gguf_of_layer = heads_of_layer;
    if (std::string_view(field.gguf) == kGgufMlp) field.gguf_of_layer = mlp_of_layer;
  }
  const auto head = std::find_if(all.begin(), all.end(),
                                 [](const Field& field) { return std::string_view(field.json) == kLocalHead; });
  *head = {kLocalHead, "attention.key_length_swa", size, Default{FieldValue(std::int64_t{256}), {}, {}, false},
           is_even_size};
  all.insert(head, {"global_head_dim", "attention.key_length", &C::head_dim,
                    Default{FieldValue(std::int64_t{512}), {}, {}, false}, is_even_size});
  Field local_theta = {"", "rope.freq_base_swa", &C::rope_local_theta, otherwise(FieldValue(10000.0)), is_positive};
  local_theta.in_rope = true;
  all = with_fields(std::move(all), gelu_tanh_fields());
  all = with_fields(std::move(all), {{"vocab_size",
                                      "",
                                      &C::vocab_size,
                                      required_in_gguf(std::int64_t{262144}),
                                      is_size,
                                      {Says::rows, "token_embd.weight"}},
                                     {"tie_word_embeddings",
                                      "",
                                      &C::tie_word_embeddings,
                                      otherwise(FieldValue(true)),
                                      nullptr,
                                      {Says::absent, "output.weight"}},
                                     {"pad_token_id", "tokenizer.ggml.padding_token_id", &C::pad_token_id,
                                      otherwise(FieldValue(std::int64_t{0}), FieldValue(std::int64_t{-1}))},
                                     {"rope_theta", "rope.freq_base", &C::rope_theta,
                                      Default{FieldValue(1e6), FieldValue(1e6), FieldValue(1e4), false}, is_positive},
                                     std::move(local_theta)});
  all = with_fields(std::move(all), gemma4_expert_fields());
  return with_fields(std::move(all), of_layers());
}

void settle_gemma4(const io::JsonField& json, io::Json& own) {
  const auto given = json.find("layer_types");
  const Texts types = given ? given->texts() : Texts();
  if (given && (types.empty() || types.back() != kFullType))
    throw given->wrong("full_attention for the last layer, as transformers takes it to be");
  const auto layers = json.find(kPerLayer);
  if (!layers) return;
  const auto refuse = [&] {
    return layers->wrong("the same head_dim and num_key_value_heads for each layer of full_attention, and no other",
                         "choose another model: this one computes what tern does not");
  };
  std::size_t left = static_cast<std::size_t>(std::count(types.begin(), types.end(), kFullType));
  const io::Json* first = nullptr;
  for (const io::Json::Member& one : layers->object()) {
    if (first == nullptr) first = &one.value;
    std::size_t layer = 0;
    while (layer < types.size() && cat(layer) != one.key) ++layer;
    if (layer == types.size() || types[layer] != kFullType || !(one.value == *first)) throw refuse();
    for (const io::Json::Member& part : layers->member(one).object()) {
      if (part.key != "head_dim" && part.key != "num_key_value_heads") throw refuse();
    }
    --left;
  }
  if (left != 0 || !given) throw refuse();
  if (first != nullptr) {
    const io::Json entry = *first;
    own["global_head_dim"] = entry.contains("head_dim") ? entry["head_dim"] : own[kLocalHead];
    if (entry.contains("num_key_value_heads")) own[kGlobalHeads] = entry["num_key_value_heads"];
  }
  own.erase(kPerLayer);
}

}  // namespace tern::models
