// The fields of InternVL's vision tower, and what its file reads of them.
#pragma once

#include "models/config_fields.h"

namespace tern::models {

class MmprojKeys;

[[nodiscard]] std::vector<Field> internvl_fields();           // of vision_config
[[nodiscard]] std::vector<Field> internvl_fields_of_whole();  // of what stands around it

[[nodiscard]] std::int64_t internvl_own(const ModelConfig& fields, const char* key);
// image_size and patch_size are a number, or the same for height and width.
[[nodiscard]] std::int64_t internvl_pixels(const ModelConfig& fields, const char* key);
[[nodiscard]] std::int64_t internvl_side(const ModelConfig& fields);   // of a tile, in patches
[[nodiscard]] std::int64_t internvl_merge(const ModelConfig& fields);  // patches of a side of what becomes one feature
[[nodiscard]] bool is_internvl_centred(const ModelConfig& fields);     // norms are layer norms

// Its tensors say what kind of norms, biases and means it has.
[[nodiscard]] io::Json internvl_from_mmproj(MmprojKeys& keys);

}  // namespace tern::models
