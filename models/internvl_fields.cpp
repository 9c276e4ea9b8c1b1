#include "models/internvl_fields.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "io/json.h"
#include "models/mmproj.h"

namespace tern::models {
namespace {

std::string is_pixels(const ModelConfig& /*config*/, const FieldValue& value) {
  const auto& sizes = std::get<std::vector<std::int64_t>>(value);
  const bool fits = !sizes.empty() && sizes.size() <= 2 && sizes.front() == sizes.back() && sizes.front() > 0 &&
                    sizes.front() <= 8192;
  return fits ? "" : "a size, or the same for height and width, up to 8192";
}

std::string cuts_image(const ModelConfig& config, const FieldValue& value) {
  if (!is_pixels(config, value).empty()) return is_pixels(config, value);
  const std::int64_t patch = std::get<std::vector<std::int64_t>>(value).front();
  const std::int64_t image = internvl_pixels(config, "image_size");
  const bool fits = image % patch == 0 && image / patch % internvl_merge(config) == 0;
  return fits ? ""
              : cat("a size that cuts ", image, " pixels into blocks of ", internvl_merge(config), " patches a side");
}

std::string divides_width(const ModelConfig& config, const FieldValue& value) {
  if (!is_size(config, value).empty()) return is_size(config, value);
  return config.hidden_size % std::get<std::int64_t>(value) == 0 ? "" : cat("a divisor of ", config.hidden_size);
}

std::string is_whole_part(const ModelConfig& /*config*/, const FieldValue& value) {
  const double ratio = std::get<double>(value);
  const bool fits = ratio > 0.01 && ratio <= 1.0 && std::abs(1.0 / ratio - std::round(1.0 / ratio)) < 1e-9;
  return fits ? "" : "one over a whole number";
}

std::string is_gelu(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<std::string>(value) == "gelu" ? "" : "\"gelu\"";
}

std::string is_norm(const ModelConfig& /*config*/, const FieldValue& value) {
  const auto& name = std::get<std::string>(value);
  return name == "layer_norm" || name == "rms_norm" ? "" : "\"layer_norm\" or \"rms_norm\"";
}

std::string is_last(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<std::int64_t>(value) == -1 ? "" : "-1, the last layer";
}

std::string is_default(const ModelConfig& /*config*/, const FieldValue& value) {
  return std::get<std::string>(value) == "default" ? "" : "\"default\", without the token of the class";
}

}  // namespace

std::int64_t internvl_own(const ModelConfig& fields, const char* key) { return fields.own_field<std::int64_t>(key); }
std::int64_t internvl_pixels(const ModelConfig& fields, const char* key) {
  return fields.own_field<std::vector<std::int64_t>>(key).front();
}
std::int64_t internvl_side(const ModelConfig& fields) {
  return internvl_pixels(fields, "image_size") / internvl_pixels(fields, "patch_size");
}
std::int64_t internvl_merge(const ModelConfig& fields) {
  return std::llround(1.0 / fields.own_field<double>("downsample_ratio"));
}
bool is_internvl_centred(const ModelConfig& fields) {
  return fields.own_field<std::string>("norm_type") == "layer_norm";
}

std::vector<Field> internvl_fields() {
  using C = ModelConfig;
  using Sizes = std::vector<std::int64_t>;
  const FieldValue yes = true;
  const FieldValue no = false;
  const FieldValue text = std::string();
  return {{"hidden_size", "", &C::hidden_size, otherwise(FieldValue(std::int64_t{1024})), is_size},
          {"intermediate_size", "", &C::intermediate_size, otherwise(FieldValue(std::int64_t{4096})), is_size},
          {"num_hidden_layers", "", &C::num_hidden_layers, otherwise(FieldValue(std::int64_t{24})), is_layers},
          {"num_attention_heads", "", &C::num_attention_heads, otherwise(FieldValue(std::int64_t{16})), divides_width},
          {"attention_bias", "", &C::attention_bias, otherwise(no)},
          {"use_qk_norm", "", no, otherwise(no)},
          {"hidden_act", "", text, otherwise(FieldValue(std::string("gelu"))), is_gelu},
          {"norm_type", "", text, otherwise(FieldValue(std::string("layer_norm"))), is_norm},
          {"layer_norm_eps", "", &C::rms_norm_eps, otherwise(FieldValue(1e-6)), is_epsilon},
          {"num_channels", "", FieldValue(std::int64_t{0}), otherwise(FieldValue(std::int64_t{3})), is_size},
          {"image_size", "", FieldValue(Sizes{}), otherwise(FieldValue(Sizes{448})), is_pixels},
          {"patch_size", "", FieldValue(Sizes{}), otherwise(FieldValue(Sizes{14})), cuts_image},
          {"use_absolute_position_embeddings", "", yes, otherwise(yes), is_true},
          {"use_mean_pooling", "", yes, otherwise(yes)},
          {"use_mask_token", "", no, otherwise(no), is_false}};
}

std::vector<Field> internvl_fields_of_whole() {
  const FieldValue text = std::string();
  return {{"downsample_ratio", "", FieldValue(0.0), otherwise(FieldValue(0.5)), is_whole_part},
          {"projector_hidden_act", "", text, otherwise(FieldValue(std::string("gelu"))), is_gelu},
          {"vision_feature_layer", "", FieldValue(std::int64_t{0}), otherwise(FieldValue(std::int64_t{-1})), is_last},
          {"vision_feature_select_strategy", "", text, otherwise(FieldValue(std::string("default"))), is_default}};
}

io::Json internvl_from_mmproj(MmprojKeys& keys) {
  io::Json whole;
  whole["downsample_ratio"] =
      1.0 / static_cast<double>(std::max<std::int64_t>(keys.integer("projector.scale_factor"), 1));
  whole["vision_config"] = {{"hidden_size", keys.integer("embedding_length")},
                            {"intermediate_size", keys.mlp_width()},
                            {"num_hidden_layers", keys.integer("block_count")},
                            {"num_attention_heads", keys.integer("attention.head_count")},
                            {"attention_bias", keys.has_tensor("v.blk.0.attn_q.bias")},
                            {"use_qk_norm", keys.has_tensor("v.blk.0.attn_q_norm.weight")},
                            {"norm_type", keys.has_tensor("v.blk.0.ln1.bias") ? "layer_norm" : "rms_norm"},
                            {"layer_norm_eps", keys.number_or("attention.layer_norm_epsilon", 1e-6)},
                            {"image_size", keys.integer("image_size")},
                            {"patch_size", keys.integer("patch_size")},
                            {"use_mean_pooling", !keys.has_tensor("v.post_ln.weight")}};
  return whole;
}

}  // namespace tern::models
