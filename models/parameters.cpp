#include "models/parameters.h"

#include <algorithm>
#include <numeric>

#include "base/strings.h"

namespace tern::models {

void ParameterList::embedding(const std::string& module, const std::string& gguf, std::int64_t vocab,
                              std::int64_t hidden) {
  specs_.push_back({module + ".weight", {vocab, hidden}, {gguf + ".weight"}, false});
}

void ParameterList::norm(const std::string& module, const std::string& gguf, std::int64_t width) {
  specs_.push_back({module + ".weight", {width}, {gguf + ".weight"}, false});
}

void ParameterList::linear(const std::string& module, const std::string& gguf, const Linear& shape) {
  specs_.push_back(
      {module + ".weight", {shape.out, shape.in}, {gguf + ".weight", shape.interleaved_heads, shape.rotary_dim}, true});
  if (!shape.bias) return;
  specs_.push_back({module + ".bias", {shape.out}, {gguf + ".bias", shape.interleaved_heads, shape.rotary_dim}, false});
}

void ParameterList::head(const std::string& module, const std::string& gguf, std::int64_t vocab, std::int64_t hidden) {
  specs_.push_back({module + ".weight", {vocab, hidden}, {gguf + ".weight"}, false});
}

std::vector<ParameterSpec> decoder_parameters(const ModelConfig& config, const DecoderParameters& options) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t q = config.num_attention_heads * config.head_dim;
  const std::int64_t kv = config.num_key_value_heads * config.head_dim;
  const std::int64_t q_pairs = options.gguf_interleaved ? config.num_attention_heads : 0;
  const std::int64_t k_pairs = options.gguf_interleaved ? config.num_key_value_heads : 0;
  const std::int64_t wide = config.intermediate_size;
  ParameterList list;
  list.embedding("model.embed_tokens", "token_embd", config.vocab_size, hidden);
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string module = cat("model.layers.", layer);
    const std::string gguf = cat("blk.", layer);
    const std::string attention = module + ".self_attn";
    list.norm(module + ".input_layernorm", gguf + ".attn_norm", hidden);
    list.linear(attention + ".q_proj", gguf + ".attn_q", {q, hidden, options.qkv_bias, q_pairs, config.rotary_dim});
    list.linear(attention + ".k_proj", gguf + ".attn_k", {kv, hidden, options.qkv_bias, k_pairs, config.rotary_dim});
    list.linear(attention + ".v_proj", gguf + ".attn_v", {kv, hidden, options.qkv_bias});
    list.linear(attention + ".o_proj", gguf + ".attn_output", {hidden, q, options.output_bias});
    if (options.qk_norm) {
      list.norm(attention + ".q_norm", gguf + ".attn_q_norm", config.head_dim);
      list.norm(attention + ".k_norm", gguf + ".attn_k_norm", config.head_dim);
    }
    list.norm(module + ".post_attention_layernorm", gguf + ".ffn_norm", hidden);
    list.linear(module + ".mlp.gate_proj", gguf + ".ffn_gate", {wide, hidden, options.mlp_bias});
    list.linear(module + ".mlp.up_proj", gguf + ".ffn_up", {wide, hidden, options.mlp_bias});
    list.linear(module + ".mlp.down_proj", gguf + ".ffn_down", {hidden, wide, options.mlp_bias});
  }
  list.norm("model.norm", "output_norm", hidden);
  if (!config.tie_word_embeddings) list.head("lm_head", "output", config.vocab_size, hidden);
  return list.take();
}

const std::string& stored_name(const checkpoint::CheckpointSource& source, const ParameterSpec& spec) {
  return source.gguf() != nullptr ? spec.gguf.name : spec.name;
}

std::vector<std::int64_t> gguf_rows(const ParameterSpec& spec) {
  if (spec.gguf.interleaved_heads == 0) return {};
  const std::int64_t per_head = spec.shape[0] / spec.gguf.interleaved_heads;
  const std::int64_t half = spec.gguf.rotary_dim / 2;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(spec.shape[0]));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  for (std::int64_t head = 0; head < spec.shape[0]; head += per_head) {
    for (std::int64_t i = 0; i < half; ++i) {
      rows[static_cast<std::size_t>(head + i)] = head + 2 * i;
      rows[static_cast<std::size_t>(head + half + i)] = head + 2 * i + 1;
    }
  }
  return rows;
}

std::vector<std::int64_t> rows_for_gguf(const ParameterSpec& spec) {
  const auto rows = gguf_rows(spec);
  std::vector<std::int64_t> back(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    back[static_cast<std::size_t>(rows[i])] = static_cast<std::int64_t>(i);
  }
  return back;
}

bool is_needless(const checkpoint::CheckpointSource& source, const std::string& tensor, const ModelConfig& config) {
  if (tensor == "rope_freqs.weight" || tensor.ends_with(".rotary_emb.inv_freq")) return true;
  if (config.tie_word_embeddings && tensor == "lm_head.weight") return true;
  const checkpoint::SourceTensor* stored = tensor.ends_with(".bias") ? source.find(tensor) : nullptr;
  return stored != nullptr &&
         std::all_of(stored->bytes.begin(), stored->bytes.end(), [](std::byte each) { return each == std::byte{0}; });
}

}  // namespace tern::models
