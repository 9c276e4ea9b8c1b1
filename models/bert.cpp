#include "models/bert.h"

#include "base/strings.h"
#include "models/encoder_fields.h"
#include "nn/attention.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/mlp.h"
#include "nn/norm.h"
#include "nn/scale.h"
#include "ops/softcap.h"

namespace tern::models {
namespace {

using C = ModelConfig;

constexpr const char* kPositions = "max_position_embeddings";  // rows of the table
constexpr const char* kTypes = "type_vocab_size";
constexpr const char* kAct = "hidden_act";

// RoBERTa's padding has the last position that no other token takes.
std::string is_behind_padding(const C& config, const FieldValue& value) {
  if (!is_size(config, value).empty()) return is_size(config, value);
  return std::get<std::int64_t>(value) > config.pad_token_id + 1
             ? ""
             : cat("more than pad_token_id + 1, ", config.pad_token_id + 1, ", where the first token stands");
}
FieldValue all_positions(const C& config) { return config.own_field<std::int64_t>(kPositions); }
std::string is_in_table(const C& config, const FieldValue& value) {
  const auto rows = config.own_field<std::int64_t>(kPositions);
  return std::get<std::int64_t>(value) > rows ? cat("at most the ", rows, " positions that it has")
                                              : is_size(config, value);
}
FieldValue positions_behind_padding(const C& config) {
  return config.own_field<std::int64_t>(kPositions) - config.pad_token_id - 1;
}

std::vector<Field> fields(std::int64_t pad, std::int64_t bos, std::int64_t eos, bool behind_padding) {
  const FieldValue none = std::int64_t{-1}, no = false, types = std::int64_t{2};
  const FieldValue no_ids = std::vector<std::int64_t>{};
  const FieldValue ends = eos < 0 ? no_ids : FieldValue(std::vector<std::int64_t>{eos});
  const GgufTensorSays position_rows = {GgufTensorSays::What::rows, "position_embd.weight"};
  std::vector<Field> more = {
      {"layer_norm_eps", "attention.layer_norm_epsilon", &C::rms_norm_eps, otherwise(FieldValue(1e-12)), is_epsilon},
      gelu_field(kAct),
      {kTypes, "tokenizer.ggml.token_type_count", types, otherwise(types), is_size},
      learned_positions_field(),
      {"pad_token_id", "tokenizer.ggml.padding_token_id", &C::pad_token_id, otherwise(FieldValue(pad), none),
       behind_padding ? is_count : nullptr},
      {"bos_token_id", "tokenizer.ggml.bos_token_id", &C::bos_token_id, otherwise(FieldValue(bos), none)},
      {"eos_token_id", "tokenizer.ggml.eos_token_id", &C::eos_token_ids, otherwise(ends, no_ids)},
      {kPositions, "", types, required(), behind_padding ? is_behind_padding : is_size, position_rows},
      {"", "context_length", &C::max_position_embeddings,
       otherwise(behind_padding ? positions_behind_padding : all_positions), is_in_table},
      {"is_decoder", "attention.causal", no, otherwise(no), is_false},
      idle_field("tie_word_embeddings", true),  // with a head that is not read
  };
  return encoder_fields(std::move(more), {"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"});
}

void add_norm(ParameterList& list, const std::string& module, const std::string& gguf, std::int64_t width) {
  list.norm(module, gguf, width);
  list.tensor(module + ".bias", {width}, gguf + ".bias");
}

// The names in GGUF are those that llama.cpp has for BERT.
std::vector<ParameterSpec> parameters(const C& config) {
  const std::int64_t hidden = config.hidden_size, wide = config.intermediate_size;
  ParameterList list;
  list.embedding("embeddings.word_embeddings", "token_embd", config.vocab_size, hidden);
  list.embedding("embeddings.position_embeddings", "position_embd", config.own_field<std::int64_t>(kPositions), hidden);
  list.embedding("embeddings.token_type_embeddings", "token_types", config.own_field<std::int64_t>(kTypes), hidden);
  add_norm(list, "embeddings.LayerNorm", "token_embd_norm", hidden);
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string module = cat("encoder.layer.", layer);
    const std::string gguf = cat("blk.", layer);
    list.linear(module + ".attention.self.query", gguf + ".attn_q", {hidden, hidden, true});
    list.linear(module + ".attention.self.key", gguf + ".attn_k", {hidden, hidden, true});
    list.linear(module + ".attention.self.value", gguf + ".attn_v", {hidden, hidden, true});
    list.linear(module + ".attention.output.dense", gguf + ".attn_output", {hidden, hidden, true});
    add_norm(list, module + ".attention.output.LayerNorm", gguf + ".attn_output_norm", hidden);
    list.linear(module + ".intermediate.dense", gguf + ".ffn_up", {wide, hidden, true});
    list.linear(module + ".output.dense", gguf + ".ffn_down", {hidden, wide, true});
    add_norm(list, module + ".output.LayerNorm", gguf + ".layer_output_norm", hidden);
  }
  return list.take();
}

ops::Value hidden_states(nn::Context& context, const C& config, const nn::TokenInputs& inputs) {
  const double eps = config.rms_norm_eps;
  const nn::AttentionConfig attention{
      .heads = config.num_attention_heads,
      .kv_heads = config.num_key_value_heads,
      .head_dim = config.head_dim,
      .causal = false,
      .rope = "",
      .names = {.output = "output.dense", .q = "self.query", .k = "self.key", .v = "self.value"}};
  const nn::Value words = nn::word_embedding(context, "embeddings.word_embeddings", inputs.ids);
  const nn::Value types = nn::embedding(context, "embeddings.token_type_embeddings", inputs.token_types);
  const nn::Value places = nn::embedding(context, "embeddings.position_embeddings", inputs.positions);
  const nn::Value typed = nn::weighted_sum(context, 1.0, words, 1.0, types);
  nn::Value x = nn::layer_norm(context, "embeddings.LayerNorm", eps, typed, places);
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string module = cat("encoder.layer.", layer);
    context.begin_layer();
    const nn::Value attended = nn::attention(context, module + ".attention", attention, inputs, x);
    x = nn::layer_norm(context, module + ".attention.output.LayerNorm", eps, x, attended);
    const nn::Value fed =
        nn::plain_mlp(context, module + ".intermediate.dense", module + ".output.dense", x, gelu_of(config, kAct));
    x = nn::layer_norm(context, module + ".output.LayerNorm", eps, x, fed);
    context.end_layer();
  }
  return x;
}

std::vector<RopeTable> no_rope_tables(const C& /*config*/) { return {}; }
Pooling first_token(const C& /*config*/) { return Pooling::cls; }

// A dense layer, tanh, and the labels' own.
struct LabelNames {
  const char* dense;
  const char* labels;
};
constexpr LabelNames kBert{"pooler.dense", "classifier"}, kRoberta{"classifier.dense", "classifier.out_proj"};

template <const LabelNames& names>
std::vector<ParameterSpec> label_parameters(const C& config) {
  const std::int64_t hidden = config.hidden_size;
  const auto count = static_cast<std::int64_t>(config.labels.size());
  ParameterList list;
  list.tensor(cat(names.dense, ".weight"), {hidden, hidden}, "cls.weight");
  list.tensor(cat(names.dense, ".bias"), {hidden}, "cls.bias");
  list.tensor(cat(names.labels, ".weight"), {count, hidden}, "cls.output.weight");
  list.tensor(cat(names.labels, ".bias"), {count}, "cls.output.bias");
  return list.take();
}

template <const LabelNames& names>
ops::Value label_logits(nn::Context& context, const C& /*config*/, ops::Value rows) {
  const nn::BuildOptions& build = context.options();
  const ops::Value pooled = ops::softcap(context.graph(), nn::linear(context, names.dense, rows),
                                         {.cap = 1.0F, .out = build.activations, .needs = build.needs});  // tanh
  return nn::product(context, pooled, context.weight(cat(names.labels, ".weight")),
                     context.weight(cat(names.labels, ".bias")), TERN_F32, build.compute);
}

std::int64_t types(const C& config) { return config.own_field<std::int64_t>(kTypes); }

std::vector<std::int32_t> behind_padding(const C& config, std::span<const std::int32_t> ids) {
  const auto pad = static_cast<std::int32_t>(config.pad_token_id);
  std::vector<std::int32_t> positions;
  std::int32_t last = pad;
  for (const std::int32_t id : ids) positions.push_back(id == pad ? pad : ++last);
  return positions;
}

// In a GGUF RoBERTa's positions begin with the first token's, so that it is BERT's there (llama.cpp's converter).
Architecture encoder(const char* name, const char* model_type, std::vector<Field> fields, Encoder encoder) {
  return {.name = name,
          .model_type = model_type,
          .gguf = "bert",
          .fields = std::move(fields),
          .is_gguf = encoder.positions == nullptr ? nullptr : +[](const checkpoint::Gguf&) { return false; },
          .gguf_rope_factors = false,
          .parameters = parameters,
          .rope_tables = no_rope_tables,
          .hidden_states = hidden_states,
          .encoder = std::move(encoder)};
}

Architecture roberta(const char* name, const char* model_type) {
  return encoder(name, model_type, fields(1, 0, 2, true),
                 {.prefix = "roberta.",
                  .other_heads = {"pooler.", "lm_head."},
                  .token_types = types,
                  .positions = behind_padding,
                  .label_parameters = label_parameters<kRoberta>,
                  .label_pooling = first_token,
                  .label_logits = label_logits<kRoberta>});
}

}  // namespace

Architecture bert_architecture() {
  return encoder("BertModel", "bert", fields(0, -1, -1, false),
                 {.prefix = "bert.",
                  .other_heads = {"pooler.", "cls."},
                  .token_types = types,
                  .second_has_type = true,
                  .label_parameters = label_parameters<kBert>,
                  .label_pooling = first_token,
                  .label_logits = label_logits<kBert>});
}

Architecture roberta_architecture() { return roberta("RobertaModel", "roberta"); }
Architecture xlm_roberta_architecture() { return roberta("XLMRobertaModel", "xlm-roberta"); }

}  // namespace tern::models
