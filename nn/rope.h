// Rotary positions (Su et al., "RoFormer", 2021), by tables of cosines and sines that outlive a run.
#pragma once

#include <span>
#include <string>

#include "nn/context.h"

namespace tern::nn {

// The table that layers read unless their model has several kinds of layers.
inline constexpr const char* kDefaultRope = "default";

// Puts "rope.<kind>.cos" and "rope.<kind>.sin" [rows, frequencies.size()] f32 into the store: of position x frequency
// (radians a position) times the position's amplitude [rows], in fp64 before rounding, so that the phase of position
// 100,000 keeps its digits.
void add_rope_table(graph::TensorStore& store, const std::string& kind, std::span<const double> frequencies,
                    std::span<const double> amplitudes);

// From here on layers of this graph read these in place of the stored table: [rows, pairs] f32 each.
void use_rope_table(Context& context, const std::string& kind, Value cosines, Value sines);

// Turns the pairs (i, i + n) of each head's first 2n features, n being the table's width, or the pairs (2i, 2i + 1) of
// them where they are interleaved: x [tokens, heads, head_dim] -> the same, by positions [tokens].
Value rope(Context& context, Value x, Value positions, const std::string& kind, bool interleaved = false);

// The norm over each head before that: of "<module>.weight" [head_dim], to which weight_offset is added.
struct HeadNorm {
  std::string module;  // empty: there is no weight, and the offset alone is the factor
  double eps = 1e-6;
  float weight_offset = 0.0F;
};
// The same after such a norm, as Qwen3 has it.
Value norm_rope(Context& context, const HeadNorm& norm, Value x, Value positions, const std::string& kind);
// The norm alone.
Value norm_heads(Context& context, const HeadNorm& norm, Value x);
// The same without a weight.
Value norm_heads(Context& context, Value x, double eps);
// Each head over its length: x / sqrt(sum(x^2) + eps), [tokens, heads, head_dim] -> the same.
Value unit_heads(Context& context, Value x, double eps);

}  // namespace tern::nn
