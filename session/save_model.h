// Models written as Hugging Face directories, or in another container.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "checkpoint/convert.h"
#include "models/config.h"
#include "models/merge.h"
#include "models/write_quantised.h"

namespace tern::session {

// config.json, generation_config.json and the tokenizer's files of `model_path` into `directory`: copied from a
// Hugging Face directory, made from a GGUF's metadata. Throws Failure where one cannot be read or written.
void write_model_files(const models::ModelConfig& config, const std::filesystem::path& model_path,
                       const std::string& torch_dtype, const std::filesystem::path& directory);

// Looks at a model that was written, at a path of its own, before it gets its name. Throws Failure: then it never does.
using WrittenCheck = std::function<void(const std::filesystem::path& written)>;

struct ConvertModelOptions {
  std::optional<checkpoint::Container> container;  // none: as the target's name says
  // As checkpoint::ConvertOptions; "": as stored, and from GGUF to safetensors or back the plain dtype that most of the
  // model is stored in, the model's own (model_dtype.h) where that is quantised.
  std::string outtype;
  std::uint64_t max_shard_size = 5'000'000'000;
  bool replace = false;
  std::function<bool(std::uint64_t done, std::uint64_t total)> progress;  // bytes read; false stops and leaves nothing
  // Adapters that are folded in on the way, one after another; only into a GGUF file. Of a GGUF model, a tensor that
  // they change keeps its type where that is written here, else it gets the next finer one.
  std::vector<std::filesystem::path> adapters;
  WrittenCheck check;
};

// The model in another container, in another dtype, or both: tensors named and laid out, metadata, configuration and
// vocabulary as the target's kind of file has them. Errors (data): what the target has no words for; (failed): a write.
[[nodiscard]] Result<checkpoint::ConvertReport> convert_model(const std::filesystem::path& model,
                                                              const std::filesystem::path& target,
                                                              const ConvertModelOptions& options);

// Adapters folded into the model's weights, as a directory `target` that is there whole or not at all; one that exists
// is an error unless `replace`. It's written in the model's dtype (model_dtype.h), which `dtype` sets and
// `options.dtype` doesn't. Errors (data): an adapter of another model; (failed): a write.
[[nodiscard]] Status merge_adapters(const std::filesystem::path& model, const models::MergeOptions& options,
                                    std::optional<tern_dtype> dtype, const std::filesystem::path& target, bool replace,
                                    const WrittenCheck& check = {});

struct QuantiseModelOptions {
  models::WriteQuantisedOptions write;          // its dtype is found as merge_adapters finds it
  std::vector<std::filesystem::path> adapters;  // folded in before weights are rounded
  models::RopeOverride rope;
  std::vector<std::string> new_special_tokens;  // as SessionOptions
  std::optional<tern_dtype> dtype;
  bool replace = false;
  WrittenCheck check;
};

// The model quantised, as a directory `target` that is there whole or not at all. Gives what is to be told. Errors as
// merge_adapters.
[[nodiscard]] Result<models::QuantisedReport> quantise_model(const std::filesystem::path& model,
                                                             const std::filesystem::path& target,
                                                             const QuantiseModelOptions& options);

}  // namespace tern::session
