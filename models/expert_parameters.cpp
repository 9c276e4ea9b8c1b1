// The parameters of mixtures of experts, in each of the ways that files have them.
#include "base/strings.h"
#include "models/parameters.h"

namespace tern::models {
namespace {

// One projection of every expert.
struct Projection {
  const char* name;          // ours
  const std::string* apart;  // what a tensor of one expert calls it
  const char* gguf;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  ParameterSource fused;  // rows of a tensor that has all experts
};

ParameterSource fused_half(const ExpertParameters::Fused& fused, const std::string& tensor, std::int64_t half,
                           std::int64_t inner) {
  return {.tensors = {tensor},
          .first_row = fused.is_interleaved ? half : half * inner,
          .row_step = fused.is_interleaved ? 2 : 1,
          .tensor_rows = 2 * inner};
}

ParameterSource one_each(const std::string& block, const std::string& projection, std::int64_t experts) {
  ParameterSource source{.is_stack = true};
  for (std::int64_t e = 0; e < experts; ++e)
    source.tensors.push_back(cat(block, ".experts.", e, ".", projection, ".weight"));
  return source;
}

// How files have the weights.
void set_sources(ParameterSpec& spec, const std::string& block, const Projection& projection,
                 const ExpertParameters& shape) {
  const ExpertParameters::Fused& fused = shape.fused;
  const bool is_fused = !fused.gate_up.empty();
  if (!is_fused || fused.as_published) spec.hugging_face = one_each(block, *projection.apart, shape.experts);
  if (!is_fused) return;
  if (fused.as_published) {
    spec.published = projection.fused;
    spec.published.is_transposed = fused.is_transposed;
    return;
  }
  spec.hugging_face = projection.fused;
  if (!fused.is_transposed) return;
  spec.published = projection.fused;  // MXFP4, whose blocks lie along the columns
  spec.hugging_face.is_transposed = true;
}

}  // namespace

void ParameterList::experts(const std::string& module, const std::string& block, const std::string& gguf,
                            std::int64_t hidden, const ExpertParameters& shape) {
  const ExpertParameters::Fused& fused = shape.fused;
  const bool is_fused = !fused.gate_up.empty() && !fused.as_published;
  const std::string router = cat(module, ".", shape.router);
  tensor(router + ".weight", {shape.experts, hidden}, gguf + ".ffn_gate_inp.weight").hugging_face.tensors = {
      is_fused ? block + fused.router : block + ".gate.weight"};
  if (shape.bias) {
    ParameterSpec& bias = tensor(router + ".bias", {shape.experts}, gguf + ".ffn_gate_inp.bias");
    bias.hugging_face.tensors = {cat(block, ".", shape.router, ".bias")};
    bias.is_bias = true;
  }
  if (shape.correction_bias) {
    ParameterSpec& bias = tensor(router + ".e_score_correction_bias", {shape.experts}, gguf + ".exp_probs_b.bias");
    bias.hugging_face.tensors = {block + shape.bias_tensor};
    bias.is_buffer = true;
  }
  const std::int64_t inner = shape.inner;
  const std::string both = block + fused.gate_up;
  const Projection projections[] = {
      {"gate_proj", &shape.gate, ".ffn_gate_exps", inner, hidden, fused_half(fused, both, 0, inner)},
      {"up_proj", &shape.up, ".ffn_up_exps", inner, hidden, fused_half(fused, both, 1, inner)},
      {"down_proj", &shape.down, ".ffn_down_exps", hidden, inner, {.tensors = {block + fused.down}}}};
  for (const Projection& each : projections) {
    const std::string name = cat(module, ".experts.", each.name);
    ParameterSpec& weight =
        tensor(name + ".weight", {shape.experts, each.rows, each.columns}, cat(gguf, each.gguf, ".weight"));
    set_sources(weight, block, each, shape);
    if (fused.in_gguf && each.fused.tensor_rows > 0) {
      weight.gguf = each.fused;
      weight.gguf.tensors = {gguf + ".ffn_gate_up_exps.weight"};
    }
    if (!shape.bias) continue;
    ParameterSpec& bias = tensor(name + ".bias", {shape.experts, each.rows}, cat(gguf, each.gguf, ".bias"));
    bias.hugging_face = each.fused;
    bias.hugging_face.tensors.front() += "_bias";
    bias.is_bias = true;
  }
  if (shape.shared_inner == 0) return;
  const std::string shared = module + "." + shape.shared;
  linear(shared + ".gate_proj", gguf + ".ffn_gate_shexp", {shape.shared_inner, hidden});
  linear(shared + ".up_proj", gguf + ".ffn_up_shexp", {shape.shared_inner, hidden});
  linear(shared + ".down_proj", gguf + ".ffn_down_shexp", {hidden, shape.shared_inner});
  if (shape.shared_gated) linear(shared + "_gate", gguf + ".ffn_gate_inp_shexp", {1, hidden});
}

}  // namespace tern::models
