// Between the two ways of keeping a model: Hugging Face's names and config.json, GGUF's names and metadata. Both ways
// follow llama.cpp's own converter, so that files serve either program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint_source.h"
#include "checkpoint/convert.h"
#include "models/config.h"
#include "models/merge.h"
#include "models/parameters.h"

namespace tern::models {

// The last layer of a head that ranks or classifies, [labels, hidden].
inline constexpr const char* kGgufLabels = "cls.output.weight";

// The options refer to the source, which must outlive them.

// The tensors that a file of that form has of the parameters, made of the source's.
// Errors (data): a tensor that is absent or of another shape.
[[nodiscard]] Result<std::vector<checkpoint::TargetTensor>> tensors_in_form(const checkpoint::CheckpointSource& source,
                                                                            std::vector<ParameterSpec> specs,
                                                                            Form form);

// Sets the tensors to write, those that are added, and the general.* and <architecture>.* metadata (never the
// tokenizer's) by which convert_checkpoint writes a Hugging Face source as GGUF. `name` becomes general.name. Errors
// (data): a tensor that the architecture lacks or does not know, and a field that GGUF has no word for.
// With `merged`, of the same source, the numbers are its.
[[nodiscard]] Status set_gguf_form(const checkpoint::CheckpointSource& source, const ModelConfig& config,
                                   const std::string& name, checkpoint::ConvertOptions& options,
                                   const std::shared_ptr<MergedWeights>& merged = nullptr);

// Sets the tensors by which convert_checkpoint writes a GGUF source as it is, but with the numbers of `merged` in the
// tensors that its adapters change.
[[nodiscard]] Status set_merged_gguf(const checkpoint::CheckpointSource& source,
                                     const std::shared_ptr<MergedWeights>& merged,
                                     checkpoint::ConvertOptions& options);

// Sets the tensors by which convert_checkpoint writes a GGUF source with Hugging Face's names, and gives the
// configuration to write beside it.
// Errors (data): the same, and rope factors that no scaling of config.json expresses.
[[nodiscard]] Result<ModelConfig> set_hugging_face_form(const checkpoint::CheckpointSource& source,
                                                        const ModelConfig& config, checkpoint::ConvertOptions& options);

}  // namespace tern::models
