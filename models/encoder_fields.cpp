#include "models/encoder_fields.h"

#include <algorithm>
#include <iterator>

#include "base/strings.h"

namespace tern::models {
namespace {

std::string is_gelu(const ModelConfig& /*config*/, const FieldValue& value) {
  const auto& name = std::get<std::string>(value);
  return name == "gelu" || name == "gelu_new" || name == "gelu_pytorch_tanh"
             ? ""
             : R"("gelu", "gelu_new" or "gelu_pytorch_tanh")";
}

std::string divides_hidden(const ModelConfig& config, const FieldValue& value) {
  if (!is_size(config, value).empty()) return is_size(config, value);
  return config.hidden_size % std::get<std::int64_t>(value) == 0
             ? ""
             : cat("a divisor of hidden_size, ", config.hidden_size);
}

std::string is_absolute(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<std::string>(value) == "absolute" ? "" : "\"absolute\": learned positions";
}

}  // namespace

Field gelu_field(const char* key, const char* gguf) {
  const FieldValue gelu = std::string("gelu");
  return {key, gguf, gelu, otherwise(gelu), is_gelu};
}

Field learned_positions_field() {
  const FieldValue absolute = std::string("absolute");
  return {"position_embedding_type", kImplied, absolute, otherwise(absolute), is_absolute};
}

tern_act gelu_of(const ModelConfig& config, const char* key) {
  return config.own_field<std::string>(key) == "gelu" ? TERN_ACT_GELU_ERF : TERN_ACT_GELU_TANH;
}

std::vector<Field> encoder_fields(std::vector<Field> more, const std::vector<const char*>& dropped) {
  using C = ModelConfig;
  std::vector<Field> out = {
      {"vocab_size", "", &C::vocab_size, required(), is_size, {GgufTensorSays::What::rows, "token_embd.weight"}},
      {"hidden_size", "embedding_length", &C::hidden_size, required(), is_size},
      {"intermediate_size", "feed_forward_length", &C::intermediate_size, required(), is_size},
      {"num_hidden_layers", "block_count", &C::num_hidden_layers, required(), is_layers},
      {"num_attention_heads", "attention.head_count", &C::num_attention_heads, required(), divides_hidden},
      {"", kImplied, &C::num_key_value_heads, otherwise(as_many_as_heads)},
      {"", kImplied, &C::head_dim, otherwise(hidden_over_heads)},
  };
  std::move(more.begin(), more.end(), std::back_inserter(out));
  for (const char* key : dropped) out.push_back(idle_field(key, 0.0));
  return out;
}

Field idle_field(const char* key, FieldValue like) { return {key, kImplied, like, otherwise(like)}; }

}  // namespace tern::models
