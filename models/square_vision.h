// What the vision towers of Gemma 3 and LLaVA share: a ViT over images of one size, cut into a square of patches.
#pragma once

#include "models/vision.h"

namespace tern::models {

[[nodiscard]] std::int64_t square_own(const ModelConfig& fields, const char* key);  // an integer of vision_config
[[nodiscard]] std::int64_t square_side(const ModelConfig& fields);                  // patches
[[nodiscard]] std::int64_t square_patches(const VisionConfig& config);
[[nodiscard]] std::int64_t square_patch_dim(const VisionConfig& config);
// A law of num_attention_heads.
[[nodiscard]] std::string divides_width(const ModelConfig& config, const FieldValue& value);
void add_square_patch_embedding(ParameterList& list, const std::string& module, const ModelConfig& fields, bool bias);
// Throws Failure (data) where the image isn't one grid of side x side patches.
void require_square(std::span<const nn::PatchGrid> grids, std::int64_t side);

}  // namespace tern::models
