// The parameters of an architecture: one list that loading, saving, converting, adapters and planners read alike.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/config.h"
#include "nn/attention.h"

namespace tern::models {

// Rows or columns in heads, of which several share one head of keys. Those of a group stand together in the parameter,
// [groups, of_group]; a file has the first of each group, then the second of each: [of_group, groups].
struct TiledHeads {
  std::int64_t groups = 0;  // 0: nothing is tiled
  std::int64_t of_group = 1;
  std::int64_t size = 1;   // rows or columns of a head
  std::int64_t first = 0;  // where the heads begin

  // Where row or column `i` of the parameter is in the file.
  [[nodiscard]] std::int64_t operator()(std::int64_t i) const;
};

// Rows that are several parts of each head: the parameter has all heads' first part, then all heads' second; a file
// goes head by head, each with all its parts.
struct HeadParts {
  std::int64_t heads = 0;                // 0: rows are as they are
  std::vector<std::int64_t> sizes = {};  // rows of each part of one head

  // Where row `row` of the parameter is in the file.
  [[nodiscard]] std::int64_t operator()(std::int64_t row) const;
};

// How one kind of file keeps a parameter: in which tensors, and what was done to it there.
struct ParameterSource {
  // One tensor; or, of a stack, the tensors whose i-th is parameter[i]: an expert each, say.
  std::vector<std::string> tensors;
  bool is_stack = false;
  std::vector<std::int64_t> joined = {};  // rows of each tensor, where the parameter is all of them, one after another
  // A slice: row r of the parameter is row first_row + r * row_step of the tensor's `tensor_rows`, which others share;
  // 0 tensor_rows: the tensor has no other rows. Rows are what the last dimension but one counts, elements of a vector.
  std::int64_t first_row = 0;
  std::int64_t row_step = 1;
  std::int64_t tensor_rows = 0;
  std::int64_t vector_columns = 0;  // a vector stands there as a matrix of so many columns; 0: as a vector
  // Interleaved: the first `rotary_dim` rows of each head stand in pairs (2i, 2i + 1), as llama.cpp's converter of
  // Llama stores them, which are (i, i + rotary_dim / 2) here. 0 heads: rows are as they are.
  std::int64_t interleaved_heads = 0;
  std::int64_t rotary_dim = 0;
  TiledHeads tiled_rows;  // as llama.cpp's converter of Qwen3.5 stores heads of values
  TiledHeads tiled_columns;
  HeadParts parts;                   // as Qwen3-Next joins projections
  bool is_transposed = false;        // rows and columns, the last two dimensions, change places in the file
  bool is_first_transposed = false;  // so they do in the first of the tensors that are joined
  // Columns of the tensors take turns: so many of the first one's, as many of the second one's, and so on, as llama.cpp
  // cuts a convolution over time; 0: they don't.
  std::int64_t woven_columns = 0;
  bool is_depthwise = false;  // a dimension of one stands before the last: PyTorch's convolution of each channel
  std::vector<std::int64_t> shape = {};  // the file's, where only that differs: a convolution's [out, c, kh, kw]
  float added = 0;  // parameter = file + added: -1 where norms multiply by 1 + weight, and the file has that sum
  bool is_minus_exp = false;  // file = -exp(parameter)
};
[[nodiscard]] bool is_transposed_in(const ParameterSource& source, std::size_t tensor);
[[nodiscard]] bool transposes_any(const ParameterSource& source);
// Whether rows have the same numbers in both, in the same columns.
[[nodiscard]] bool same_numbers(const ParameterSource& a, const ParameterSource& b);

struct ParameterSpec {
  std::string name;  // as Hugging Face names it; of a stack, as its module holds it
  std::vector<std::int64_t> shape;
  std::int64_t added_rows = 0;  // the last of its rows, which no checkpoint has: of new tokens (new_tokens.h)
  std::int64_t matrices = 0;    // rows are those of so many matrices, which a file may keep apart; 0: as the shape says
  ParameterSource hugging_face;
  ParameterSource gguf;
  ParameterSource published = {};  // a Hugging Face directory's other way, which is read and never written; or none
  bool is_linear = false;          // weight of a linear layer that an adapter can sit on: what `all-linear` means
  bool is_buffer = false;          // held in fp32, and no training changes it
  bool is_frozen = false;          // no gradient reaches it, and no training changes it: it only makes choices
  bool is_bias = false;  // rows are its elements, whatever its rank: the biases of several experts are [experts, rows]
};

// As a checkpoint has it.
[[nodiscard]] ParameterSpec without_added_rows(ParameterSpec spec);

// "<module>" of "<module>.weight": what an adapter's tensors and dropout are named after.
[[nodiscard]] std::string module_of(const ParameterSpec& weight);

// The kinds of files.
enum class Form { hugging_face, gguf };
[[nodiscard]] Form form_of(const checkpoint::CheckpointSource& source);
[[nodiscard]] const ParameterSource& source_in(const ParameterSpec& spec, Form form);

// A mixture of experts in a decoder's layers.
struct ExpertParameters {
  std::int64_t experts = 0;
  std::int64_t inner = 0;                // features of each expert between its products
  std::int64_t shared_inner = 0;         // of the expert that every token goes to; 0: there is none
  std::string shared = "shared_expert";  // what that one is called
  bool shared_gated = false;             // it has a gate of its own
  bool bias = false;                     // the router and the experts' projections have biases; only where fused
  bool correction_bias = false;          // the choice of experts has a bias, "e_score_correction_bias" under the router
  std::string bias_tensor = ".gate.e_score_correction_bias";  // what a directory calls it in the block
  std::string module = "mlp";                                 // what the layer's block is called,
  std::string router = "gate";                                // and its router
  // What a Hugging Face directory calls the block, and each expert's projections.
  std::string block = "mlp";
  std::string gate = "gate_proj";
  std::string up = "up_proj";
  std::string down = "down_proj";
  // Or one tensor for all experts' gates and ups, one over the other, and one for their downs, by these whole names;
  // and the router by its own.
  struct Fused {
    std::string gate_up;  // empty: a tensor for each expert's projection
    std::string down;
    std::string router;
    bool as_published = false;    // only where a model was published so: transformers saves a tensor for each
    bool is_interleaved = false;  // a row of a gate, then one of an up
    bool is_transposed = false;   // rows and columns changed places, but where the weights are MXFP4
    bool in_gguf = false;         // a GGUF joins gates and ups, too
  } fused = {};
};

// Makes the list as a model's file reads: module by module. What differs from the plain case is said of the spec that
// is given back, which the next call moves.
class ParameterList {
 public:
  // "<module>.weight" [vocab, hidden].
  ParameterSpec& embedding(const std::string& module, const std::string& gguf, std::int64_t vocab, std::int64_t hidden);
  // "<module>.weight" [width].
  ParameterSpec& norm(const std::string& module, const std::string& gguf, std::int64_t width, float gguf_added = 0);
  struct Linear {
    std::int64_t out = 0;
    std::int64_t in = 0;
    bool bias = false;
    std::int64_t interleaved_heads = 0;  // in a GGUF; with rotary_dim
    std::int64_t rotary_dim = 0;
  };
  // "<module>.weight" [out, in] and, with a bias, "<module>.bias" [out]. Gives the weight's.
  ParameterSpec& linear(const std::string& module, const std::string& gguf, const Linear& shape);
  // Any other tensor, by its whole names.
  ParameterSpec& tensor(const std::string& name, std::vector<std::int64_t> shape, const std::string& gguf);
  // A router and its experts (nn/moe.h) under `module`, whose tensors a Hugging Face directory has under `block`, and a
  // GGUF all experts' of a kind in one.
  void experts(const std::string& module, const std::string& block, const std::string& gguf, std::int64_t hidden,
               const ExpertParameters& shape);
  // The output projection, "<module>.weight" [vocab, hidden]; no adapter sits on it.
  ParameterSpec& head(const std::string& module, const std::string& gguf, std::int64_t vocab, std::int64_t hidden);

  [[nodiscard]] std::vector<ParameterSpec> take() { return std::move(specs_); }

 private:
  std::vector<ParameterSpec> specs_;
};

// What differs between decoders of Llama's kind.
struct DecoderParameters {
  bool qkv_bias = false;
  bool output_bias = false;  // of o_proj
  bool mlp_bias = false;
  nn::QkNorm qk_norm = nn::QkNorm::none;   // q_norm and k_norm
  bool sinks = false;                      // each head has a logit without a value, self_attn.sinks
  bool branch_norms = false;               // a norm after attention and one after the mlp, too
  bool input_norms = true;                 // norms before attention and the mlp
  bool one_norm = false;                   // the one before attention is the mlp's, too: they stand side by side
  bool gguf_interleaved = false;           // rows of q_proj and k_proj, as above
  float gguf_norm_added = 0;               // ParameterSource::added of every norm in a GGUF
  std::string gguf_mlp_norm = "ffn_norm";  // the norm before the mlp in a GGUF
  std::string mlp = "mlp";                 // what the gated mlp is called
  bool is_gated = false;                   // q_proj has a gate for each head's output, too (nn/attention.h)
  // Adds what a layer has in place of attention, and says whether it has; none: each layer has attention.
  std::function<bool(ParameterList& list, std::int64_t layer, const std::string& module, const std::string& gguf)>
      mixer = nullptr;
  std::vector<bool> sparse_layers = {};  // which layers have experts in place of the mlp; empty: none
  ExpertParameters experts = {};
};
// embed_tokens; layers of input_layernorm, self_attn, post_attention_layernorm and a gated mlp; norm; an untied
// lm_head. With norms of the branches, post_attention_layernorm is attention's own, and pre_feedforward_layernorm and
// post_feedforward_layernorm stand before and after the mlp; without input norms, those after the two branches alone.
[[nodiscard]] std::vector<ParameterSpec> decoder_parameters(const ModelConfig& config,
                                                            const DecoderParameters& options);

// A tensor of layers beyond the model's own, which predict further tokens for speculation (DeepSeek-V3's multi-token
// prediction): "model.layers.<n>." or "blk.<n>." of an architecture that has the field num_nextn_predict_layers; "mtp."
// of one that has mtp_num_hidden_layers, which is "blk.<n>." in a GGUF.
[[nodiscard]] bool is_of_prediction_layers(const std::string& tensor, const ModelConfig& config);

// Keys and values of a layer that reads those of an earlier one, by num_kv_shared_layers.
[[nodiscard]] bool is_of_shared_layers(const std::string& tensor, const ModelConfig& config);

// A tensor of a head of an encoder that is not served, under the name that the whole class gives it or without the
// prefix of its encoder.
[[nodiscard]] bool is_of_other_head(const std::string& tensor, const ModelConfig& config);

// Tensors that some exporters write and no computation reads: what the configuration was read from, a tied head's copy,
// the numbers of positions, heads that are not served,
// a bias of nothing but zeros (AutoGPTQ writes them) where the architecture has none; layers of prediction; keys
// and values of layers that read others'.
[[nodiscard]] bool is_needless(const checkpoint::CheckpointSource& source, const std::string& tensor,
                               const ModelConfig& config);

}  // namespace tern::models
