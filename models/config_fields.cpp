#include "models/config_fields.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "base/strings.h"

namespace tern::models {
namespace {

constexpr std::int64_t kMostLayers = 8192;  // beyond it the list of its weights alone would fill memory

// What transformers keeps for itself, for generation (generation_config.json decides that), for other heads than that
// of a language model, and what other tools leave behind.
constexpr std::string_view kNoEffect[] = {
    "architectures",  // these four: read by whoever opens the checkpoint
    "model_type",
    "torch_dtype",
    "dtype",
    "quantization_config",  // read with the tensors
    "attn_implementation",
    "auto_map",
    "aux_loss_alpha",  // DeepSeek's, with seq_aux: counts with output_router_logits alone
    "bad_words_ids",
    "begin_suppress_tokens",
    "block_dim",  // LFM2's: of how it was made, or what other fields say
    "block_mlp_init_scale",
    "block_norm_eps",
    "block_out_init_scale",
    "block_use_xavier_init",
    "cache_implementation",
    "cls_token_id",
    "conv_dim",
    "conv_dim_out",
    "conv_use_xavier_init",
    "decoder_start_token_id",
    "deterministic_flash_attn",
    "directionality",  // this and pooler_...: of Google's multilingual BERT
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "ep_size",  // how many devices its authors spread the experts over
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",  // --gradient_checkpointing says it
    "id2label",
    "init_method",
    "initializer_cutoff_factor",
    "initializer_range",
    "internal_version",
    "is_decoder",
    "is_llama_config",
    "keys_to_ignore_at_inference",
    "label2id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "max_window_layers",  // counts with use_sliding_window alone
    "mamba_chunk_size",   // which an op chooses for itself
    "mamba_ssm_dtype",    // states are kept in fp32
    "max_sequence_length",
    "mlp_expansion_factor",  // intermediate_size says it
    "model_max_length",      // max_position_embeddings says it
    "mtp_use_dedicated_embeddings",
    "min_length",
    "no_repeat_ngram_size",
    "num_logits_to_keep",  // of a prompt
    "num_beam_groups",
    "num_beams",
    "num_heads",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_scores",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "reference_compile",
    "repad_logits_with_grad",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "router_aux_loss_coef",                  // counts with output_router_logits alone
    "sbert_ce_default_activation_function",  // read with a classification's labels, as the newer key below is
    "sentence_transformers",
    "sep_token_id",
    "seq_aux",
    "sparse_pred_ignore_index",
    "sparse_prediction",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "tokenizer_model_max_length",
    "tokenizer_padding_side",
    "top_k",
    "top_p",
    "time_step_floor",  // these four: of how Mamba's steps of time begin
    "time_step_max",
    "time_step_min",
    "time_step_rank",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "use_pos_enc",
};

struct OnlyValue {
  std::string_view key;
  const char* json;
};
// Another value would change numbers. An architecture that serves more has the key in its table, which is asked first.
constexpr OnlyValue kOnlyValues[] = {
    {"activation", "\"swiglu\""},
    {"add_cross_attention", "false"},
    {"attention_bias", "false"},
    {"attention_dropout", "0.0"},
    {"attn_layer_indices", "null"},
    {"attn_logit_softcapping", "null"},
    {"block_use_swiglu", "true"},
    {"chunk_size_feed_forward", "0"},
    {"full_attn_mod", "1"},
    {"interpolate_factor", "1"},
    {"is_causal", "true"},
    {"is_encoder_decoder", "false"},
    {"lm_head_bias", "false"},
    {"mamba_use_mlp", "true"},
    {"mlp_bias", "false"},
    {"mlp_only_layers", "[]"},
    {"moe_layer_freq", "1"},
    {"normalization_function", "\"rmsnorm\""},
    {"output_router_logits", "false"},
    {"position_embedding_type", "\"rope\""},
    {"pruned_heads", "{}"},
    {"qkv_bias", "false"},
    {"quantization", "null"},  // MLX's
    {"rope_interleaved", "false"},
    {"router_jitter_noise", "0.0"},
    {"shared_expert_intermediate_size", "0"},
    {"sliding_window", "null"},
    {"tie_encoder_decoder", "false"},
    {"time_step_limit", R"([0.0, {"__float__": "Infinity"}])"},  // as transformers writes it: none
    {"use_bidirectional_attention", "false"},
    {"use_mrope", "false"},
    {"use_sliding_window", "false"},
};

// vocab_size: the table of embeddings says it. The layout is the rows' order, which the conversion names fix. How texts
// are pooled is read by who makes vectors of them. feed_forward_length: of an architecture whose table hasn't it, all
// layers have experts in its place (gpt-oss). Labels are read with their head. The last two are of images alone.
constexpr std::string_view kNoEffectGguf[] = {
    "vocab_size",          "tensor_data_layout",       "pooling_type",
    "feed_forward_length", "classifier.output_labels", "rope.dimension_sections",
    "n_deepstack_layers"};

template <typename T>
bool holds(const Member& member) {
  return std::holds_alternative<T ModelConfig::*>(member);
}

template <typename T>
T& kept(ModelConfig& config, const Member& member) {
  return config.*std::get<T ModelConfig::*>(member);
}

std::string own_key(const Field& field) { return *field.json != '\0' ? field.json : field.gguf; }

double as_double(const FieldValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  return std::get<double>(value);
}

}  // namespace

Default required() { return {}; }
Default otherwise(Stand everywhere) { return {everywhere, everywhere, everywhere, false}; }
Default otherwise(Stand json, Stand none) {
  const bool is_null = std::holds_alternative<FieldValue>(none);
  return {std::move(json), none, none, is_null};
}
Default required_in_gguf(FieldValue json) { return {json, json, {}, false}; }

FieldValue field_value(const ModelConfig& config, const Field& field) {
  return std::visit(
      [&](const auto& member) -> FieldValue {
        if constexpr (std::is_same_v<std::decay_t<decltype(member)>, FieldValue>) {
          return config.own.at(own_key(field));
        } else {
          return config.*member;
        }
      },
      field.member);
}

void set_field(ModelConfig& config, const Field& field, FieldValue value) {
  if (std::holds_alternative<FieldValue>(field.member)) {
    config.own[own_key(field)] = std::move(value);
  } else if (holds<std::int64_t>(field.member)) {
    kept<std::int64_t>(config, field.member) = std::get<std::int64_t>(value);
  } else if (holds<double>(field.member)) {
    kept<double>(config, field.member) = as_double(value);
  } else if (holds<bool>(field.member)) {
    kept<bool>(config, field.member) = std::get<bool>(value);
  } else {
    kept<std::vector<std::int64_t>>(config, field.member) = std::get<std::vector<std::int64_t>>(std::move(value));
  }
}

void require_law(const ModelConfig& config, const Field& field, const std::string& where) {
  if (field.law == nullptr) return;
  const FieldValue value = field_value(config, field);
  const std::string expected = field.law(config, value);
  if (expected.empty()) return;
  throw Failure(data_error(where, expected, value_text(value),
                           "take what describes the model from its repository again, or choose another model"));
}

std::string value_text(const FieldValue& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, bool>) {
          return held ? "true" : "false";
        } else if constexpr (std::is_same_v<T, std::string>) {
          return cat("\"", held, "\"");
        } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>> || std::is_same_v<T, std::vector<double>>) {
          std::vector<std::string> parts;
          for (const auto each : held) parts.push_back(cat(each));
          return cat("[", join(parts, ", "), "]");
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          return cat("[", join(held, ", "), "]");
        } else {
          return cat(held);
        }
      },
      value);
}

bool has_no_effect(const std::string& json_key) {
  if (json_key.starts_with('_')) return true;  // transformers' own notes: _name_or_path, _attn_implementation_autoset
  return std::find(std::begin(kNoEffect), std::end(kNoEffect), json_key) != std::end(kNoEffect);
}

const char* only_value(const std::string& json_key) {
  for (const auto& [key, json] : kOnlyValues) {
    if (key == json_key) return json;
  }
  return nullptr;
}

bool gguf_key_has_no_effect(const std::string& key) {
  return std::find(std::begin(kNoEffectGguf), std::end(kNoEffectGguf), key) != std::end(kNoEffectGguf);
}

std::string is_size(const ModelConfig& /*config*/, const FieldValue& value) {
  const auto size = std::get<std::int64_t>(value);
  return size > 0 && size <= (std::int64_t{1} << 31) ? "" : "a size from 1 to 2^31";
}

std::string is_layers(const ModelConfig& /*config*/, const FieldValue& value) {
  const auto layers = std::get<std::int64_t>(value);
  return layers > 0 && layers <= kMostLayers ? "" : cat("from 1 to ", kMostLayers, " layers");
}

std::string is_count(const ModelConfig& /*config*/, const FieldValue& value) {
  const auto count = std::get<std::int64_t>(value);
  return count >= 0 && count <= (std::int64_t{1} << 31) ? "" : "a number from 0 to 2^31";
}

std::string is_positive(const ModelConfig& /*config*/, const FieldValue& value) {
  const double number = std::get<double>(value);
  return std::isfinite(number) && number > 0 ? "" : "a positive number";
}

std::string is_true(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<bool>(value) ? "" : "true";
}

std::string is_false(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<bool>(value) ? "false" : "";
}

bool are_words_of_layers(const ModelConfig& config, const FieldValue& value, std::string_view first,
                         std::string_view second) {
  const auto& words = std::get<std::vector<std::string>>(value);
  return words.size() == static_cast<std::size_t>(config.num_hidden_layers) &&
         std::all_of(words.begin(), words.end(), [&](const auto& word) { return word == first || word == second; });
}

std::string is_epsilon(const ModelConfig& /*config*/, const FieldValue& value) {
  const double number = std::get<double>(value);
  return std::isfinite(number) && number >= 0 ? "" : "a number from 0 on";
}

std::string is_even_size(const ModelConfig& config, const FieldValue& value) {
  if (!is_size(config, value).empty()) return is_size(config, value);
  return std::get<std::int64_t>(value) % 2 == 0 ? "" : "an even size: rotary positions turn pairs";
}

std::string is_rotary_size(const ModelConfig& config, const FieldValue& value) {
  if (!is_even_size(config, value).empty()) return is_even_size(config, value);
  return std::get<std::int64_t>(value) <= config.head_dim ? "" : cat("at most the ", config.head_dim, " of a head");
}

std::string is_head_size(const ModelConfig& config, const FieldValue& value) {
  return std::get<std::int64_t>(value) == config.head_dim ? "" : cat(config.head_dim, ", as keys have");
}

std::string divides_heads(const ModelConfig& config, const FieldValue& value) {
  if (!is_size(config, value).empty()) return is_size(config, value);
  return config.num_attention_heads % std::get<std::int64_t>(value) == 0
             ? ""
             : cat("a divisor of ", config.num_attention_heads, " heads");
}

std::string is_kernel(const ModelConfig& /*config*/, const FieldValue& value) {
  const auto rows = std::get<std::int64_t>(value);
  return rows >= 2 && rows <= 64 ? "" : "from 2 to 64 rows";
}

std::string is_silu(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<std::string>(value) == "silu" ? "" : "\"silu\"";
}

FieldValue as_many_as_heads(const ModelConfig& config) { return config.num_attention_heads; }
FieldValue hidden_over_heads(const ModelConfig& config) {
  return config.num_attention_heads > 0 ? config.hidden_size / config.num_attention_heads : std::int64_t{0};
}
FieldValue whole_head(const ModelConfig& config) { return config.head_dim; }
FieldValue turned_features(const ModelConfig& config) {
  const auto share = config.own.find("partial_rotary_factor");
  if (share == config.own.end()) return config.head_dim;
  // What a GGUF says in features comes back as that many.
  return static_cast<std::int64_t>(static_cast<double>(config.head_dim) * std::get<double>(share->second) + 1e-9);
}

std::vector<Field> decoder_fields(const DecoderDefaults& defaults) {
  using C = ModelConfig;
  using Says = GgufTensorSays::What;
  const FieldValue none = std::int64_t{-1};
  const FieldValue no_ids = std::vector<std::int64_t>{};
  return {
      {"vocab_size", "", &C::vocab_size, required(), is_size, {Says::rows, "token_embd.weight"}},
      {"hidden_size", "embedding_length", &C::hidden_size, required(), is_size},
      {"intermediate_size", "feed_forward_length", &C::intermediate_size, required(), is_size},
      {"num_hidden_layers", "block_count", &C::num_hidden_layers, required(), is_layers},
      {"num_attention_heads", "attention.head_count", &C::num_attention_heads, required(), is_size},
      {"num_key_value_heads", "attention.head_count_kv", &C::num_key_value_heads, defaults.num_key_value_heads,
       divides_heads},
      {"head_dim", "attention.key_length", &C::head_dim, defaults.head_dim, is_even_size},
      {"", "attention.value_length", FieldValue(std::int64_t{0}), otherwise(whole_head), is_head_size},
      {"", "rope.dimension_count", &C::rotary_dim, otherwise(turned_features), is_rotary_size},
      {"max_position_embeddings", "context_length", &C::max_position_embeddings,
       required_in_gguf(defaults.max_position_embeddings), is_size},
      {"rms_norm_eps", "attention.layer_norm_rms_epsilon", &C::rms_norm_eps, required_in_gguf(1e-6), is_epsilon},
      {"rope_theta", "rope.freq_base", &C::rope_theta, otherwise(FieldValue(10000.0)), is_positive},
      {"hidden_act", "", FieldValue(std::string()), otherwise(FieldValue(std::string("silu"))), is_silu},
      {"tie_word_embeddings",
       "",
       &C::tie_word_embeddings,
       otherwise(FieldValue(false)),
       nullptr,
       {Says::absent, "output.weight"}},
      {"bos_token_id", "tokenizer.ggml.bos_token_id", &C::bos_token_id, otherwise(defaults.bos_token_id, none)},
      {"eos_token_id", "tokenizer.ggml.eos_token_id", &C::eos_token_ids, otherwise(defaults.eos_token_ids, no_ids)},
      {"pad_token_id", "tokenizer.ggml.padding_token_id", &C::pad_token_id, otherwise(none, none)},
  };
}

std::vector<Field> with_fields(std::vector<Field> fields, std::vector<Field> more) {
  for (Field& field : more) {
    const auto same = std::find_if(fields.begin(), fields.end(), [&](const Field& each) {
      return *field.json != '\0' && std::string_view(each.json) == field.json;
    });
    if (same == fields.end()) {
      fields.push_back(std::move(field));
    } else {
      *same = std::move(field);
    }
  }
  return fields;
}

}  // namespace tern::models
