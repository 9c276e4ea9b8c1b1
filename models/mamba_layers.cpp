#include "models/mamba_layers.h"

#include "base/strings.h"

namespace tern::models {
namespace {

constexpr const char* kHeads = "mamba_n_heads";
constexpr const char* kGroups = "mamba_n_groups";
constexpr const char* kStateSize = "mamba_d_state";
constexpr const char* kKernel = "mamba_d_conv";
constexpr const char* kExpand = "mamba_expand";
constexpr const char* kHeadDim = "mamba_d_head";
constexpr const char* kConvBias = "mamba_conv_bias";
constexpr const char* kProjBias = "mamba_proj_bias";
constexpr const char* kInner = "ssm.inner_size";
constexpr const char* kOwnWidth = "mamba_d_ssm";

std::int64_t number(const ModelConfig& config, const char* key) { return config.own_field<std::int64_t>(key); }

// All heads' features. config.json may say them in parts, which are read after a GGUF's own number: 0 before that.
FieldValue inner(const ModelConfig& config) {
  return config.own.contains(kHeadDim) ? number(config, kHeads) * number(config, kHeadDim) : std::int64_t{0};
}
// A model with a width of its own has no use for it.
FieldValue times_hidden(const ModelConfig& config) {
  return config.own.contains(kInner) ? number(config, kInner) / config.hidden_size : std::int64_t{2};
}
FieldValue expanded(const ModelConfig& config) { return number(config, kExpand) * config.hidden_size; }
// What the heads share: as config.json says it under one key or the other.
std::int64_t width(const ModelConfig& config) {
  return config.own.contains(kOwnWidth) ? number(config, kOwnWidth) : std::get<std::int64_t>(expanded(config));
}
FieldValue shared_by_heads(const ModelConfig& config) { return width(config) / number(config, kHeads); }

std::string divides_mamba_heads(const ModelConfig& config, const FieldValue& value) {
  if (!is_size(config, value).empty()) return is_size(config, value);
  const std::int64_t heads = number(config, kHeads);
  return heads % std::get<std::int64_t>(value) == 0 ? "" : cat("a divisor of ", heads, " heads");
}

std::string fills_width(const ModelConfig& config, const FieldValue& value) {
  const std::int64_t heads = number(config, kHeads);
  const bool are_sizes = is_size(config, value).empty() && is_size(config, width(config)).empty();
  return are_sizes && heads * std::get<std::int64_t>(value) == width(config)
             ? ""
             : cat("what makes ", width(config), " features of ", heads, " heads");
}

std::string is_inner(const ModelConfig& config, const FieldValue& value) {
  const bool is_known = config.own.contains(kHeadDim);
  return !is_known || value == inner(config) ? "" : cat(value_text(inner(config)), ", a multiple of hidden_size");
}

}  // namespace

std::vector<Field> mamba_fields(Width says) {
  const auto count = [](std::int64_t value) { return FieldValue(value); };
  const FieldValue size = std::int64_t{0};
  const bool is_own = says == Width::own;
  const Field whole = {"", kInner, size, otherwise(inner), is_inner};
  std::vector<Field> fields;
  if (!is_own) fields.push_back(whole);  // as a GGUF has it
  fields.push_back({kExpand, kImplied, size, Default{count(2), count(2), times_hidden, false}, is_size});
  if (is_own) fields.push_back({kOwnWidth, kInner, size, Default{count(1024), expanded, {}, false}, is_size});
  fields.insert(fields.end(), {{kHeads, "ssm.time_step_rank", size, required_in_gguf(count(128)), is_size},
                               {kGroups, "ssm.group_count", size, required_in_gguf(count(1)), divides_mamba_heads},
                               {kStateSize, "ssm.state_size", size, required_in_gguf(count(256)), is_size},
                               {kKernel, "ssm.conv_kernel", size, required_in_gguf(count(4)), is_kernel},
                               {kHeadDim, kImplied, size, otherwise(shared_by_heads), fills_width},
                               {kConvBias, "", FieldValue(true), otherwise(FieldValue(true))},
                               {kProjBias, "", FieldValue(false), otherwise(FieldValue(false))}});
  if (!is_own) fields.push_back(whole);  // as config.json's fields make it
  return fields;
}

nn::Mamba2Config mamba_config(const ModelConfig& config) {
  return {.heads = number(config, kHeads),
          .head_dim = number(config, kHeadDim),
          .groups = number(config, kGroups),
          .state_size = number(config, kStateSize),
          .kernel = number(config, kKernel),
          .eps = config.rms_norm_eps};
}

void add_mamba(ParameterList& list, const ModelConfig& config, const std::string& module, const std::string& gguf,
               const MambaParameters& options) {
  const nn::Mamba2Config mamba = mamba_config(config);
  const std::int64_t hidden = config.hidden_size;
  const bool bias = config.own_field<bool>(kProjBias);
  list.linear(module + ".in_proj", gguf + ".ssm_in", {mamba.inner() + mamba.channels() + mamba.heads, hidden, bias});
  list.tensor(module + ".conv1d.weight", {mamba.channels(), mamba.kernel}, gguf + ".ssm_conv1d.weight")
      .hugging_face.is_depthwise = true;
  if (config.own_field<bool>(kConvBias)) {
    list.tensor(module + ".conv1d.bias", {mamba.channels()}, gguf + ".ssm_conv1d.bias").is_bias = true;
  }
  list.tensor(module + ".dt_bias", {mamba.heads}, gguf + ".ssm_dt.bias");
  ParameterSpec& rate = list.tensor(module + ".A_log", {mamba.heads}, gguf + ".ssm_a");
  rate.gguf.is_minus_exp = true;
  rate.gguf.vector_columns = 1;
  list.tensor(module + ".D", {mamba.heads}, gguf + ".ssm_d").gguf.vector_columns = 1;
  if (options.norm) {
    list.norm(module + ".norm", gguf + ".ssm_norm", mamba.inner()).gguf.vector_columns = mamba.inner() / mamba.groups;
  }
  list.linear(module + ".out_proj", gguf + ".ssm_out", {hidden, mamba.inner(), options.out_bias}).is_linear =
      options.out_adapters;
}

}  // namespace tern::models
