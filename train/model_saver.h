// Weights on disk: adapters in PEFT's format, full models as Hugging Face directories.
#pragma once

#include <memory>

#include "models/adapter.h"
#include "train/checkpoint.h"

namespace tern::train {

// Both keep references: model and adapter outlive the saver.
[[nodiscard]] std::unique_ptr<ModelSaver> adapter_saver(const models::LoadedModel& model,
                                                        const models::LoadedAdapter& adapter);
// Writes fp32 weights, so that what was trained resumes to the bit (those that were not, as they are stored),
// config.json with the model's dtype, in which the weights are held when they are only read, and the tokenizer's files.
[[nodiscard]] std::unique_ptr<ModelSaver> full_model_saver(const models::LoadedModel& model,
                                                           std::filesystem::path model_path,
                                                           std::uint64_t max_shard_size);
// Fills the store's fp32 masters, which are `trained`, from a checkpoint that full_model_saver wrote; all others are
// the model's own.
void load_full_checkpoint(models::LoadedModel& model, const std::vector<std::string>& trained,
                          const std::filesystem::path& directory);

}  // namespace tern::train
