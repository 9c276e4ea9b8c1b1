#include "models/lfm2.h"

#include <algorithm>

#include "base/strings.h"
#include "models/lfm2_layers.h"

namespace tern::models {
namespace {

using Texts = std::vector<std::string>;
using Layers = std::vector<std::int64_t>;
using C = ModelConfig;

constexpr const char* kConv = "conv";
constexpr const char* kFull = "full_attention";
constexpr const char* kAttending = "full_attn_idxs";
constexpr const char* kWidth = "intermediate_size";
constexpr const char* kAdjust = "block_auto_adjust_ff_dim";
constexpr const char* kMultiplier = "block_ffn_dim_multiplier";
constexpr const char* kMultiple = "block_multiple_of";

// The mlp's width: two thirds of what config.json says, times a factor, up to a multiple of a number. 0, which is no
// size, before those are read and where it would be too large.
FieldValue width(const ModelConfig& config) {
  if (!config.own.contains(kMultiple)) return std::int64_t{0};
  auto size = config.own_field<std::int64_t>(kWidth);
  if (!config.own_field<bool>(kAdjust)) return size;
  size = static_cast<std::int64_t>(static_cast<double>(2 * size) / 3.0);
  const double scaled = config.own_field<double>(kMultiplier) * static_cast<double>(size);
  if (scaled > 0x1p31) return std::int64_t{0};
  size = static_cast<std::int64_t>(scaled);
  const auto multiple = config.own_field<std::int64_t>(kMultiple);
  return (size + multiple - 1) / multiple * multiple;
}
std::string gives_width(const ModelConfig& config, const FieldValue& value) {
  if (!is_size(config, value).empty()) return is_size(config, value);
  return is_size(config, width(config)).empty() ? "" : "what gives the mlp a width from 1 to 2^31";
}
FieldValue known_width(const ModelConfig& config) { return config.intermediate_size; }

FieldValue by_indices(const ModelConfig& config) {
  const auto& indices = config.own_field<Layers>(kAttending);
  Texts types;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const bool attends = indices.empty() || std::find(indices.begin(), indices.end(), layer) != indices.end();
    types.emplace_back(attends ? kFull : kConv);
  }
  return types;
}

std::vector<Field> fields() {
  const auto count = [](std::int64_t value) { return FieldValue(value); };
  const FieldValue none = Layers();
  Field raw = {kWidth, kImplied, count(0), Default{count(12288), {}, known_width, false}, is_size};
  raw.also = "block_ff_dim";
  return lfm2_fields({
      {kAttending, kImplied, none, otherwise(none, none)},
      lfm2_types(otherwise(by_indices)),
      // A GGUF has the width itself.
      {"", "feed_forward_length", &C::intermediate_size, otherwise(width)},
      std::move(raw),
      {kAdjust, kImplied, FieldValue(false), Default{FieldValue(true), {}, FieldValue(false), false}},
      {kMultiplier, kImplied, FieldValue(1.0), otherwise(FieldValue(1.0), FieldValue(1.0)), is_positive},
      {kMultiple, kImplied, count(0), otherwise(count(256)), gives_width},
      {"", kImplied, &C::intermediate_size, otherwise(width)},
  });
}

std::vector<ParameterSpec> parameters(const ModelConfig& config) { return lfm2_parameters(config, lfm2_mlp(config)); }
nn::Value hidden_states(nn::Context& context, const ModelConfig& config, const nn::TokenInputs& inputs) {
  return lfm2_hidden_states(context, config, inputs, lfm2_mlp(config));
}

}  // namespace

Architecture lfm2_architecture() {
  Architecture made = lfm2_layers_architecture("Lfm2ForCausalLM", "lfm2", "lfm2");
  made.fields = fields();
  made.parameters = parameters;
  made.hidden_states = hidden_states;
  return made;
}

}  // namespace tern::models
