// A vision tower in a GGUF of its own beside its language model's: what llama.cpp calls an mmproj file. Its keys and
// tensors have the names that llama.cpp's converter gives them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/checkpoint_source.h"
#include "models/vision.h"

namespace tern::models {

[[nodiscard]] bool is_mmproj(const checkpoint::Gguf& gguf);

// The tower of such a file, for the language model `text`, all but VisionConfig::image_token_id and mrope_section.
// Errors (data): another kind of GGUF, a tower that is not served, one of another width than the language model, a key
// that is absent, damaged or unknown. `language` is the general.architecture of the language model's file: some towers
// of one kind of file differ by it.
[[nodiscard]] Result<VisionConfig> read_mmproj(std::shared_ptr<checkpoint::CheckpointSource> file,
                                               const ModelConfig& text, const std::string& language = {});

// What the language model's own file says of images: VisionConfig::mrope_section. Errors (data): a tower of another
// family than `gguf`.
[[nodiscard]] Status join_language_model(VisionConfig& vision, const checkpoint::Gguf& gguf, const ModelConfig& text);

// For towers' files: the keys clip.vision.* of a file. A key that no call asks for is an error in the end.
class MmprojKeys {
 public:
  explicit MmprojKeys(const checkpoint::CheckpointSource& file);

  // Of "clip.vision.<key>". They throw Failure (data) where it is of another type, the first where it is absent.
  [[nodiscard]] std::int64_t integer(const std::string& key);
  [[nodiscard]] std::int64_t integer_or(const std::string& key, std::int64_t otherwise);
  [[nodiscard]] double number_or(const std::string& key, double otherwise);
  // Of a list of a truth for each layer, the layers that are true; none where it is absent.
  [[nodiscard]] std::vector<std::int64_t> true_layers(const std::string& key);
  [[nodiscard]] std::int64_t layers();  // block_count, at most 8192
  [[nodiscard]] bool has_tensor(const std::string& name) const;
  [[nodiscard]] std::int64_t rows(const std::string& tensor) const;  // all but the last dimension; 0: there is none
  // Features between the two layers of a block, which older files' keys don't say.
  [[nodiscard]] std::int64_t mlp_width();

  void require_all_known() const;  // throws Failure (data)

 private:
  [[nodiscard]] std::string full(const std::string& key);

  const checkpoint::CheckpointSource& file_;
  const checkpoint::Gguf& gguf_;
  std::set<std::string> asked_;
};

// The names that tensors have here; empty for those of other parts. Older files have a block's two layers under each
// other's names.
[[nodiscard]] std::function<std::string(const std::string& tensor)> mmproj_names(
    const checkpoint::CheckpointSource& file);

}  // namespace tern::models
