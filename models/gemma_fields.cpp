#include "models/gemma_fields.h"

#include <cmath>

namespace tern::models {
namespace {

constexpr const char* kGeluTanh = "gelu_pytorch_tanh";

std::string is_gelu_tanh(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<std::string>(value) == kGeluTanh ? "" : "\"gelu_pytorch_tanh\"";
}

}  // namespace

std::vector<Field> gelu_tanh_fields() {
  const FieldValue text = std::string();
  const Default gelu_tanh = otherwise(FieldValue(std::string(kGeluTanh)));
  return {{"hidden_act", "", text, gelu_tanh, is_gelu_tanh}, {"hidden_activation", "", text, gelu_tanh, is_gelu_tanh}};
}

std::vector<Field> gemma_fields(const GemmaDefaults& defaults) {
  using C = ModelConfig;
  const FieldValue no_id = std::int64_t{-1};
  std::vector<Field> all =
      with_fields(decoder_fields({.num_key_value_heads = otherwise(FieldValue(std::int64_t{4}), as_many_as_heads),
                                  .head_dim = otherwise(FieldValue(std::int64_t{256}), hidden_over_heads),
                                  .max_position_embeddings = defaults.max_position_embeddings,
                                  .bos_token_id = std::int64_t{2},
                                  .eos_token_ids = std::vector<std::int64_t>{1}}),
                  {{"pad_token_id", "tokenizer.ggml.padding_token_id", &C::pad_token_id,
                    otherwise(FieldValue(std::int64_t{0}), no_id)},
                   {"query_pre_attn_scalar", "", FieldValue(std::int64_t{0}),
                    Default{FieldValue(std::int64_t{256}), {}, defaults.gguf_scalar, false}, is_size},
                   {"sliding_window", "attention.sliding_window", &C::sliding_window,
                    Default{FieldValue(std::int64_t{4096}), {}, {}, false}, is_size}});
  return with_fields(std::move(all), gelu_tanh_fields());
}

double gemma_attention_scale(const ModelConfig& config) {
  return 1.0 / std::sqrt(static_cast<double>(config.own_field<std::int64_t>("query_pre_attn_scalar")));
}

}  // namespace tern::models
