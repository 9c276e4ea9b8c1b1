#include "models/modernbert.h"

#include "base/strings.h"
#include "models/encoder_fields.h"
#include "models/layer_windows.h"
#include "models/rope.h"
#include "nn/activation.h"
#include "nn/attention.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/mlp.h"
#include "nn/norm.h"
#include "nn/rope.h"

namespace tern::models {
namespace {

using C = ModelConfig;

constexpr const char* kLocalRope = "local";  // of layers with a window
constexpr const char* kAct = "hidden_activation";
constexpr const char* kLabelAct = "classifier_activation";
constexpr const char* kLabelPooling = "classifier_pooling";
constexpr const char* kLabelBias = "classifier_bias";
constexpr const char* kNormBias = "norm_bias";
constexpr const char* kWindow = "local_attention";  // to both sides together
constexpr const char* kPeriod = "global_attn_every_n_layers";
constexpr const char* kGgufPooling = "classifier.pooling_type";  // kLabelPooling as a number
constexpr std::int64_t kGgufCls = 2;

// The first layer sees all, and each `period`-th after it.
FieldValue by_period(const C& config) {
  std::vector<std::string> types;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    types.emplace_back(layer % config.own_field<std::int64_t>(kPeriod) == 0 ? kFullType : kSlidingType);
  return types;
}

FieldValue pooling_by_number(const C& config) {
  // llama.cpp takes the mean where none is said.
  return std::string(config.own_field<std::int64_t>(kGgufPooling) == kGgufCls ? "cls" : "mean");
}

std::string is_pooling(const C& /*config*/, const FieldValue& value) {
  const auto& name = std::get<std::string>(value);
  return name == "cls" || name == "mean" ? "" : R"("cls" or "mean")";
}

std::vector<Field> fields() {
  const FieldValue no = false, window = std::int64_t{128}, period = std::int64_t{3}, cls = std::string("cls");
  const auto id = [](std::int64_t value) { return FieldValue(value); };
  std::vector<Field> more = {
      {"", "rope.dimension_count", &C::rotary_dim, otherwise(turned_features), is_rotary_size},
      {"max_position_embeddings", "context_length", &C::max_position_embeddings, otherwise(id(8192)), is_size},
      {"norm_eps", "attention.layer_norm_epsilon", &C::rms_norm_eps, otherwise(FieldValue(1e-5)), is_epsilon},
      {"", "attention.layer_norm_rms_epsilon", FieldValue(0.0), otherwise(FieldValue(0.0)), is_epsilon},  // the same
      {kNormBias, "", no, otherwise(no)},
      {"attention_bias", "", &C::attention_bias, otherwise(no)},
      {"mlp_bias", "", &C::mlp_bias, otherwise(no)},
      gelu_field(kAct, "hidden_activation"),
      {kWindow, "attention.sliding_window", window, otherwise(window), is_size},
      {kPeriod, "attention.sliding_window_pattern", period, otherwise(period), is_size},
      layer_types_field(Default{by_period, by_period, by_period, false}),
      {"global_rope_theta", "rope.freq_base", &C::rope_theta, otherwise(FieldValue(160000.0)), is_positive},
      {"local_rope_theta", "rope.freq_base_swa", &C::rope_local_theta, otherwise(FieldValue(10000.0)), is_positive},
      {"", kGgufPooling, id(0), otherwise(id(0)), is_count},
      {kLabelPooling, "", cls, {cls, cls, pooling_by_number}, is_pooling},
      {kLabelBias, "", no, otherwise(no)},
      gelu_field(kLabelAct),
      {"pad_token_id", "tokenizer.ggml.padding_token_id", &C::pad_token_id, otherwise(id(50283), id(-1))},
      {"bos_token_id", "tokenizer.ggml.bos_token_id", &C::bos_token_id, otherwise(id(50281), id(-1))},
      {"eos_token_id", "tokenizer.ggml.eos_token_id", &C::eos_token_ids,
       otherwise(FieldValue(std::vector<std::int64_t>{50282}), FieldValue(std::vector<std::int64_t>{}))},
      {"", "attention.causal", no, otherwise(no), is_false},
      // Of the head of a masked language model, of training, and of how
      // transformers computes.
      idle_field("tie_word_embeddings", true),
      idle_field("decoder_bias", true),
      idle_field("layer_norm_eps", 0.0),  // beside norm_eps, which counts
      idle_field("position_embedding_type",
                 std::string()),  // they turn, whatever it says
  };
  return encoder_fields(std::move(more),
                        {"attention_dropout", "embedding_dropout", "mlp_dropout", "classifier_dropout"});
}

void add_norm(ParameterList& list, const C& config, const std::string& module, const std::string& gguf) {
  list.norm(module, gguf, config.hidden_size);
  if (config.own_field<bool>(kNormBias)) list.tensor(module + ".bias", {config.hidden_size}, "");
}

// A GGUF, which llama.cpp's converter makes of the classes of transformers, has no biases of norms and projections.
std::vector<ParameterSpec> parameters(const C& config) {
  const std::int64_t hidden = config.hidden_size, wide = config.intermediate_size;
  ParameterList list;
  list.embedding("embeddings.tok_embeddings", "token_embd", config.vocab_size, hidden);
  add_norm(list, config, "embeddings.norm", "token_embd_norm");
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string module = cat("layers.", layer), gguf = cat("blk.", layer);
    if (layer > 0) add_norm(list, config, module + ".attn_norm", gguf + ".attn_norm");
    list.linear(module + ".attn.Wqkv", gguf + ".attn_qkv", {3 * hidden, hidden, config.attention_bias});
    list.linear(module + ".attn.Wo", gguf + ".attn_output", {hidden, hidden, config.attention_bias});
    add_norm(list, config, module + ".mlp_norm", gguf + ".ffn_norm");
    list.linear(module + ".mlp.Wi", gguf + ".ffn_up", {2 * wide, hidden, config.mlp_bias});
    list.linear(module + ".mlp.Wo", gguf + ".ffn_down", {hidden, wide, config.mlp_bias});
  }
  add_norm(list, config, "final_norm", "output_norm");
  return list.take();
}

std::vector<RopeTable> rope_tables(const C& config) {
  return {scaled_rope_table(config), {kLocalRope, local_rope_frequencies(config)}};
}

ops::Value hidden_states(nn::Context& context, const C& config, const nn::TokenInputs& inputs) {
  const double eps = config.rms_norm_eps;
  nn::AttentionConfig attention{.heads = config.num_attention_heads,
                                .kv_heads = config.num_key_value_heads,
                                .head_dim = config.head_dim,
                                .causal = false,
                                .fused_qkv = true,
                                .names = {.output = "Wo", .qkv = "Wqkv"}};
  const ops::Value words = nn::word_embedding(context, "embeddings.tok_embeddings", inputs.ids);
  nn::Residual x(nn::branch_layer_norm(context, "embeddings.norm", eps, words));
  const auto& types = config.own_field<std::vector<std::string>>("layer_types");
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string module = cat("layers.", layer);
    const bool is_local = types[static_cast<std::size_t>(layer)] == kSlidingType;
    // A token sees itself, and so many to both sides.
    attention.window = is_local ? config.own_field<std::int64_t>(kWindow) / 2 + 1 : 0;
    attention.window_right = attention.window;
    attention.rope = is_local ? kLocalRope : nn::kDefaultRope;
    context.begin_layer();
    const nn::Value read = layer == 0 ? nn::stream(context, x) : nn::layer_norm(context, module + ".attn_norm", eps, x);
    x.add(nn::attention(context, module + ".attn", attention, inputs, read));
    const nn::Value fed = nn::layer_norm(context, module + ".mlp_norm", eps, x);
    x.add(nn::fused_gated_mlp(context, module + ".mlp", fed,
                              {.gate_up = "Wi", .down = "Wo", .act = gelu_of(config, kAct)}));
    context.end_layer();
  }
  return nn::layer_norm(context, "final_norm", eps, x);
}

std::vector<ParameterSpec> label_parameters(const C& config) {
  const std::int64_t hidden = config.hidden_size;
  const auto labels = static_cast<std::int64_t>(config.labels.size());
  ParameterList list;
  list.tensor("head.dense.weight", {hidden, hidden}, "cls.weight");
  if (config.own_field<bool>(kLabelBias)) list.tensor("head.dense.bias", {hidden}, "");
  add_norm(list, config, "head.norm", "cls.norm");
  list.tensor("classifier.weight", {labels, hidden}, "cls.output.weight");
  list.tensor("classifier.bias", {labels}, "cls.output.bias");
  return list.take();
}

Pooling label_pooling(const C& config) {
  return config.own_field<std::string>(kLabelPooling) == "mean" ? Pooling::mean : Pooling::cls;
}

ops::Value label_logits(nn::Context& context, const C& config, ops::Value rows) {
  const ops::Value dense = nn::activation(context, nn::linear(context, "head.dense", rows), gelu_of(config, kLabelAct));
  const ops::Value normed = nn::branch_layer_norm(context, "head.norm", config.rms_norm_eps, dense);
  return nn::product(context, normed, context.weight("classifier.weight"), context.weight("classifier.bias"), TERN_F32,
                     context.options().compute);
}

}  // namespace

Architecture modernbert_architecture() {
  return {.name = "ModernBertModel",
          .model_type = "modernbert",
          .gguf = "modern-bert",
          .fields = fields(),
          .gguf_rope_factors = false,
          .parameters = parameters,
          .rope_tables = rope_tables,
          .hidden_states = hidden_states,
          .encoder = Encoder{.prefix = "model.",
                             .other_heads = {"head.", "decoder.", "cls."},
                             .label_parameters = label_parameters,
                             .label_pooling = label_pooling,
                             .label_logits = label_logits}};
}

}  // namespace tern::models
