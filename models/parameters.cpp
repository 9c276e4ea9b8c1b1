#include "models/parameters.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/strings.h"
#include "models/registry.h"
#include "models/rope.h"

namespace tern::models {
namespace {

void add_attention(ParameterList& list, const ModelConfig& config, const DecoderParameters& options,
                   const std::string& module, const std::string& gguf) {
  const std::string attention = module + ".self_attn";
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t q = config.num_attention_heads * config.head_dim;
  const std::int64_t kv = config.num_key_value_heads * config.head_dim;
  const std::int64_t q_pairs = options.gguf_interleaved ? config.num_attention_heads : 0;
  const std::int64_t k_pairs = options.gguf_interleaved ? config.num_key_value_heads : 0;
  list.linear(attention + ".q_proj", gguf + ".attn_q",
              {options.is_gated ? 2 * q : q, hidden, options.qkv_bias, q_pairs, config.rotary_dim});
  list.linear(attention + ".k_proj", gguf + ".attn_k", {kv, hidden, options.qkv_bias, k_pairs, config.rotary_dim});
  list.linear(attention + ".v_proj", gguf + ".attn_v", {kv, hidden, options.qkv_bias});
  list.linear(attention + ".o_proj", gguf + ".attn_output", {hidden, q, options.output_bias});
  if (options.sinks) {
    list.tensor(attention + ".sinks", {config.num_attention_heads}, gguf + ".attn_sinks.weight");
  }
  if (options.qk_norm == nn::QkNorm::none) return;
  const bool whole = options.qk_norm == nn::QkNorm::whole;
  list.norm(attention + ".q_norm", gguf + ".attn_q_norm", whole ? q : config.head_dim, options.gguf_norm_added);
  list.norm(attention + ".k_norm", gguf + ".attn_k_norm", whole ? kv : config.head_dim, options.gguf_norm_added);
}

}  // namespace

std::int64_t TiledHeads::operator()(std::int64_t i) const {
  if (groups == 0 || i < first) return i;
  const std::int64_t head = (i - first) / size;
  return first + (head % of_group * groups + head / of_group) * size + (i - first) % size;
}

std::int64_t HeadParts::operator()(std::int64_t row) const {
  if (heads == 0) return row;
  std::int64_t begin = 0;   // of this part in the parameter
  std::int64_t before = 0;  // rows of a head's earlier parts
  for (const std::int64_t size : sizes) {
    const std::int64_t within = row - begin;
    if (within < heads * size) {
      const std::int64_t of_head = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
      return within / size * of_head + before + within % size;
    }
    begin += heads * size;
    before += size;
  }
  return row;
}

bool is_transposed_in(const ParameterSource& source, std::size_t tensor) {
  return source.is_transposed || (source.is_first_transposed && tensor == 0);
}
bool transposes_any(const ParameterSource& source) { return source.is_transposed || source.is_first_transposed; }

bool same_numbers(const ParameterSource& a, const ParameterSource& b) {
  const bool same_columns = a.tiled_columns.groups == b.tiled_columns.groups;  // of one parameter
  return same_columns && a.woven_columns == b.woven_columns && a.added == b.added && a.is_minus_exp == b.is_minus_exp;
}

ParameterSpec without_added_rows(ParameterSpec spec) {
  spec.shape.front() -= spec.added_rows;
  spec.added_rows = 0;
  return spec;
}

std::string module_of(const ParameterSpec& weight) { return weight.name.substr(0, weight.name.rfind('.')); }

Form form_of(const checkpoint::CheckpointSource& source) {
  return source.gguf() != nullptr ? Form::gguf : Form::hugging_face;
}

const ParameterSource& source_in(const ParameterSpec& spec, Form form) {
  return form == Form::gguf ? spec.gguf : spec.hugging_face;
}

ParameterSpec& ParameterList::tensor(const std::string& name, std::vector<std::int64_t> shape,
                                     const std::string& gguf) {
  return specs_.emplace_back(ParameterSpec{
      .name = name, .shape = std::move(shape), .hugging_face = {.tensors = {name}}, .gguf = {.tensors = {gguf}}});
}

ParameterSpec& ParameterList::embedding(const std::string& module, const std::string& gguf, std::int64_t vocab,
                                        std::int64_t hidden) {
  return tensor(module + ".weight", {vocab, hidden}, gguf + ".weight");
}

ParameterSpec& ParameterList::norm(const std::string& module, const std::string& gguf, std::int64_t width,
                                   float gguf_added) {
  ParameterSpec& spec = tensor(module + ".weight", {width}, gguf + ".weight");
  spec.gguf.added = gguf_added;
  return spec;
}

ParameterSpec& ParameterList::linear(const std::string& module, const std::string& gguf, const Linear& shape) {
  const auto interleave = [&](ParameterSpec& spec) {
    spec.gguf.interleaved_heads = shape.interleaved_heads;
    spec.gguf.rotary_dim = shape.rotary_dim;
  };
  ParameterSpec& weight = tensor(module + ".weight", {shape.out, shape.in}, gguf + ".weight");
  weight.is_linear = true;
  interleave(weight);
  if (!shape.bias) return weight;
  ParameterSpec& bias = tensor(module + ".bias", {shape.out}, gguf + ".bias");
  bias.is_bias = true;
  interleave(bias);
  return *std::prev(specs_.end(), 2);
}

ParameterSpec& ParameterList::head(const std::string& module, const std::string& gguf, std::int64_t vocab,
                                   std::int64_t hidden) {
  return tensor(module + ".weight", {vocab, hidden}, gguf + ".weight");
}

std::vector<ParameterSpec> decoder_parameters(const ModelConfig& config, const DecoderParameters& options) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t wide = config.intermediate_size;
  const float added = options.gguf_norm_added;
  ParameterList list;
  list.embedding("model.embed_tokens", "token_embd", config.vocab_size, hidden);
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string module = cat("model.layers.", layer);
    const std::string gguf = cat("blk.", layer);
    if (options.input_norms) list.norm(module + ".input_layernorm", gguf + ".attn_norm", hidden, added);
    if (!options.mixer || !options.mixer(list, layer, module, gguf)) add_attention(list, config, options, module, gguf);
    if (options.branch_norms) {
      list.norm(module + ".post_attention_layernorm", gguf + ".post_attention_norm", hidden, added);
      if (options.input_norms) list.norm(module + ".pre_feedforward_layernorm", gguf + ".ffn_norm", hidden, added);
      list.norm(module + ".post_feedforward_layernorm", gguf + ".post_ffw_norm", hidden, added);
    } else if (!options.one_norm) {
      list.norm(module + ".post_attention_layernorm", cat(gguf, ".", options.gguf_mlp_norm), hidden, added);
    }
    if (!options.sparse_layers.empty() && options.sparse_layers[static_cast<std::size_t>(layer)]) {
      list.experts(cat(module, ".", options.experts.module), cat(module, ".", options.experts.block), gguf, hidden,
                   options.experts);
      continue;
    }
    const std::string mlp = cat(module, ".", options.mlp);
    list.linear(mlp + ".gate_proj", gguf + ".ffn_gate", {wide, hidden, options.mlp_bias});
    list.linear(mlp + ".up_proj", gguf + ".ffn_up", {wide, hidden, options.mlp_bias});
    list.linear(mlp + ".down_proj", gguf + ".ffn_down", {hidden, wide, options.mlp_bias});
  }
  list.norm("model.norm", "output_norm", hidden, added);
  if (!config.tie_word_embeddings) list.head("lm_head", "output", config.vocab_size, hidden);
  return list.take();
}

bool is_of_prediction_layers(const std::string& tensor, const ModelConfig& config) {
  const bool apart = config.own.contains("mtp_num_hidden_layers");
  if (!apart && !config.own.contains("num_nextn_predict_layers")) return false;
  if (apart && tensor.starts_with("mtp.")) return true;
  for (const std::string_view prefix : {"model.layers.", "blk."}) {
    if (!tensor.starts_with(prefix)) continue;
    std::int64_t layer = -1;
    (void)std::from_chars(tensor.data() + prefix.size(), tensor.data() + tensor.size(), layer);
    return layer >= config.num_hidden_layers;
  }
  return false;
}

bool is_of_shared_layers(const std::string& tensor, const ModelConfig& config) {
  const auto shared = config.own.find("num_kv_shared_layers");
  if (shared == config.own.end()) return false;
  const std::int64_t first = config.num_hidden_layers - std::get<std::int64_t>(shared->second);
  for (const std::string_view prefix : {"model.layers.", "blk."}) {
    if (!tensor.starts_with(prefix)) continue;
    std::int64_t layer = -1;
    const char* end = tensor.data() + tensor.size();
    const auto [rest, error] = std::from_chars(tensor.data() + prefix.size(), end, layer);
    const std::string_view part(rest, static_cast<std::size_t>(end - rest));
    return layer >= first && layer < config.num_hidden_layers &&
           (part == ".self_attn.k_proj.weight" || part == ".self_attn.v_proj.weight" ||
            part == ".self_attn.k_norm.weight" || part == ".attn_k.weight" || part == ".attn_v.weight" ||
            part == ".attn_k_norm.weight");
  }
  return false;
}

bool is_of_other_head(const std::string& tensor, const ModelConfig& config) {
  const auto& encoder = find_architecture(config.architecture)->encoder;
  if (!encoder) return false;
  std::string_view name = tensor;
  const std::string_view prefix = encoder_prefix(config);
  if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  return std::any_of(encoder->other_heads.begin(), encoder->other_heads.end(),
                     [&](const std::string& head) { return name.starts_with(head); });
}

bool is_needless(const checkpoint::CheckpointSource& source, const std::string& tensor, const ModelConfig& config) {
  if (tensor == "rope_freqs.weight" || tensor == kLongFactors || tensor == kShortFactors) return true;
  if (tensor.ends_with(".rotary_emb.inv_freq") || tensor == "embeddings.position_ids") return true;
  if (is_of_other_head(tensor, config)) return true;
  if (config.tie_word_embeddings && tensor == "lm_head.weight") return true;
  if (is_of_prediction_layers(tensor, config) || is_of_shared_layers(tensor, config)) return true;
  const checkpoint::SourceTensor* stored = tensor.ends_with(".bias") ? source.find(tensor) : nullptr;
  return stored != nullptr &&
         std::all_of(stored->bytes.begin(), stored->bytes.end(), [](std::byte each) { return each == std::byte{0}; });
}

}  // namespace tern::models
