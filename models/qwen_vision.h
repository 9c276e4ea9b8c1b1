// What the vision towers of Qwen2-VL, Qwen2.5-VL and Qwen3-VL share: one grid an image, positions of two dimensions,
// and blocks of merge x merge patches that become one feature.
#pragma once

#include "models/vision.h"
#include "models/vision_grid.h"
#include "nn/norm.h"
#include "nn/vision.h"

namespace tern::models {

// Rows of vision_config: the tower's width is called `width`, and the language model's `out`.
[[nodiscard]] std::vector<Field> qwen_vision_fields(const char* width, const char* out);

[[nodiscard]] std::int64_t qwen_merge(const VisionConfig& config);       // spatial_merge_size
[[nodiscard]] std::int64_t qwen_merge_unit(const VisionConfig& config);  // patches of a feature
[[nodiscard]] std::int64_t qwen_patch_dim(const VisionConfig& config);
[[nodiscard]] nn::VisionAttentionConfig qwen_vision_attention(const VisionConfig& config);
void add_qwen_patch_embedding(ParameterList& list, const VisionConfig& config, bool bias);
// A block's names in a directory and in a GGUF, which may have q, k and v apart.
struct QwenBlock {
  std::string module, gguf;
  bool gguf_fuses = false;
};
[[nodiscard]] QwenBlock qwen_block_names(std::int64_t layer, bool gguf_fuses = false);
// qkv and proj of a block's attention.
void add_qwen_attention(ParameterList& list, const QwenBlock& block, const VisionConfig& config);
// A block of layer norms, attention and an mlp without a gate, whose width is `inner` and whose layers are in `mlp`.
void add_qwen_block(ParameterList& list, const QwenBlock& block, const VisionConfig& config, std::int64_t inner,
                    const nn::VisionMlpConfig& mlp);
void qwen_block(nn::Context& context, const std::string& module, const VisionConfig& config,
                const nn::VisionSequences& sequences, const nn::VisionMlpConfig& mlp, nn::Residual& x);
inline constexpr double kQwenVisionEps = 1e-6;  // of all norms

// "rows", "cos", "sin" and "cu_seqlens", with the counts of patches and features: `places` in the order of the tower.
[[nodiscard]] VisionColumns qwen_vision_columns(const VisionConfig& config, const nn::PatchGrid& grid,
                                                const std::vector<PatchPlace>& places);
// Declares them.
[[nodiscard]] nn::VisionSequences qwen_sequences(nn::Context& context, const VisionConfig& config,
                                                 std::int64_t patches);

// What all of them have in an mmproj file: {"vision_config": {...}}; `width` and `out` as above.
[[nodiscard]] io::Json qwen_from_mmproj(MmprojKeys& keys, const char* width, const char* out);

// With all but fields, parameters, columns and features; without deepstack, of positions as Qwen2-VL has them. In a
// GGUF its name is `projector`, and its language model's `language`.
[[nodiscard]] VisionTower qwen_tower(std::string whole, std::string projector, std::string language);

}  // namespace tern::models
