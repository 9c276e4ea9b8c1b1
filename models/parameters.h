// The parameters of an architecture: one list that loading, saving, converting, adapters and planning read alike.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/config.h"

namespace tern::models {

// How a GGUF keeps a parameter.
struct GgufSource {
  std::string name;
  // llama.cpp's converter of Llama stores the first `rotary_dim` rows of each head in pairs (2i, 2i + 1), which are
  // (i, i + rotary_dim / 2) here; 0 heads: rows are as they are.
  std::int64_t interleaved_heads = 0;
  std::int64_t rotary_dim = 0;
};

struct ParameterSpec {
  std::string name;  // as Hugging Face names it
  std::vector<std::int64_t> shape;
  GgufSource gguf;
  bool is_linear = false;  // weight of a linear layer that an adapter can sit on: what `all-linear` means
};

// Makes the list as a model's file reads: module by module.
class ParameterList {
 public:
  // "<module>.weight" [vocab, hidden].
  void embedding(const std::string& module, const std::string& gguf, std::int64_t vocab, std::int64_t hidden);
  // "<module>.weight" [width].
  void norm(const std::string& module, const std::string& gguf, std::int64_t width);
  struct Linear {
    std::int64_t out = 0;
    std::int64_t in = 0;
    bool bias = false;
    std::int64_t interleaved_heads = 0;  // in a GGUF; with rotary_dim
    std::int64_t rotary_dim = 0;
  };
  // "<module>.weight" [out, in] and, with a bias, "<module>.bias" [out].
  void linear(const std::string& module, const std::string& gguf, const Linear& shape);
  // The output projection, "<module>.weight" [vocab, hidden]; no adapter sits on it.
  void head(const std::string& module, const std::string& gguf, std::int64_t vocab, std::int64_t hidden);

  [[nodiscard]] std::vector<ParameterSpec> take() { return std::move(specs_); }

 private:
  std::vector<ParameterSpec> specs_;
};

// What differs between decoders of Llama's kind.
struct DecoderParameters {
  bool qkv_bias = false;
  bool output_bias = false;  // of o_proj
  bool mlp_bias = false;
  bool qk_norm = false;           // q_norm and k_norm over each head
  bool gguf_interleaved = false;  // rows of q_proj and k_proj, as above
};
// embed_tokens; layers of input_layernorm, self_attn, post_attention_layernorm and a gated mlp; norm; an untied
// lm_head.
[[nodiscard]] std::vector<ParameterSpec> decoder_parameters(const ModelConfig& config,
                                                            const DecoderParameters& options);

// The parameter's name in a source of that kind.
[[nodiscard]] const std::string& stored_name(const checkpoint::CheckpointSource& source, const ParameterSpec& spec);
// Which row of the GGUF is row r of the parameter, one entry a row; empty: they are the same.
[[nodiscard]] std::vector<std::int64_t> gguf_rows(const ParameterSpec& spec);
// The way back: which row of the parameter is row r of the GGUF.
[[nodiscard]] std::vector<std::int64_t> rows_for_gguf(const ParameterSpec& spec);

// Tensors that some exporters write and no computation reads: what the configuration was read from, a tied head's copy,
// a bias of nothing but zeros (AutoGPTQ writes them) where the architecture has none.
[[nodiscard]] bool is_needless(const checkpoint::CheckpointSource& source, const std::string& tensor,
                               const ModelConfig& config);

}  // namespace tern::models
