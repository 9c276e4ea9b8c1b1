// The vision tower of a GGUF, which is a file of its own (models/mmproj.h): which one goes with a model, and how its
// images are prepared.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/status.h"
#include "checkpoint/checkpoint_source.h"
#include "models/vision.h"
#include "session/image_config.h"
#include "session/model_names.h"
#include "tokenizer/tokenizer.h"

namespace tern::session {

// The mmproj file in the folder or repository that `model` named, of which `path` is the GGUF, as llama.cpp chooses
// among several (hub::choose_mmproj); "" where `model` is a file, or there is none.
[[nodiscard]] std::string mmproj_beside(const std::string& model, const std::filesystem::path& path);

// The tower in `file` for the language model in `text`. Errors (data): as read_mmproj and join_language_model; a
// tokenizer without a token for images.
[[nodiscard]] Result<std::shared_ptr<const models::VisionConfig>> open_mmproj(const std::filesystem::path& file,
                                                                              const checkpoint::CheckpointSource& text,
                                                                              const models::ModelConfig& config,
                                                                              const tokenizer::Tokenizer& tokenizer);

// How images are prepared for a tower of such a file: as transformers' processor of its family does it. Errors (data):
// a key that is absent or damaged.
[[nodiscard]] Result<ImageConfig> mmproj_image_config(const models::VisionConfig& vision);
// That where the tower comes from such a file, else the checkpoint's own (read_image_config).
[[nodiscard]] Result<ImageConfig> model_image_config(const std::filesystem::path& model,
                                                     const std::shared_ptr<const models::VisionConfig>& vision);

}  // namespace tern::session
