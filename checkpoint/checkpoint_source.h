// One view over any checkpoint: a GGUF file (or split set), a Hugging Face directory, or a single safetensors file.
// Names and metadata stay as the file has them: mapping them to a model is models/'s work.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "checkpoint/gguf.h"
#include "checkpoint/safetensors.h"
#include "io/json_fwd.h"

namespace tern::checkpoint {

// How a tensor's elements are stored: a plain dtype, or a GGUF block type; neither for dtypes that ops do not have.
struct Storage {
  std::optional<tern_dtype> dtype;
  std::optional<GgmlType> block;
  std::string name;  // "BF16", "Q4_1": as the file names it
};

struct SourceTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // outermost first, as Hugging Face has it: a linear weight is [out, in]
  Storage storage;
  std::span<const std::byte> bytes;  // valid while the source lives
};

class CheckpointSource {
 public:
  enum class Kind { gguf, hugging_face, safetensors };

  // A .gguf file, a directory (model.safetensors or its index, adapter_model.safetensors, or one .gguf file), or a
  // .safetensors file.
  static Result<CheckpointSource> open(const std::filesystem::path& path);
  // As open, yet of a directory with a config.json that alone: tensors() is empty.
  static Result<CheckpointSource> open_config(const std::filesystem::path& path);
  // Gives a source of a config alone the tensors of its weights. Their bytes are the caller's to keep; those without
  // any are counted only: they have a size and can't be read, as reading one ends the process.
  void describe(std::vector<SourceTensor> tensors);
  CheckpointSource(CheckpointSource&&) noexcept;
  CheckpointSource& operator=(CheckpointSource&&) noexcept;
  ~CheckpointSource();

  [[nodiscard]] Kind kind() const;
  [[nodiscard]] const std::filesystem::path& path() const;
  [[nodiscard]] const std::filesystem::path& directory() const;  // where config and tokenizer files would be
  [[nodiscard]] const std::vector<SourceTensor>& tensors() const;
  [[nodiscard]] const SourceTensor* find(std::string_view name) const;
  // The tensor, or an Error that names the file and the nearest name that it has.
  [[nodiscard]] Result<const SourceTensor*> require(std::string_view name) const;

  [[nodiscard]] const Gguf* gguf() const;        // null unless kind() is gguf
  [[nodiscard]] const io::Json* config() const;  // config.json, null where there is none
  [[nodiscard]] const std::map<std::string, std::string>& safetensors_metadata() const;

  [[nodiscard]] const std::vector<std::shared_ptr<const io::MappedFile>>& files() const;

  // Expands a tensor to fp32: floating dtypes and every GGUF type that `dequantize` serves; values.size() is
  // the tensor's count (else std::logic_error).
  [[nodiscard]] Status read_f32(const SourceTensor& tensor, std::span<float> values) const;
  // Starts reading a tensor ahead of its use; gives its pages back after.
  void will_need(const SourceTensor& tensor) const;
  void done_with(const SourceTensor& tensor) const;
  // An Error where a file shrank meanwhile: ask after reading tensors in bulk.
  [[nodiscard]] Status intact() const;

 private:
  struct State;
  static Result<CheckpointSource> open_with(const std::filesystem::path& path, bool weights);
  explicit CheckpointSource(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Elements of a plain dtype to fp32; floats of every width, fp8 and integers. values.size() elements are read.
[[nodiscard]] Status to_f32(tern_dtype dtype, std::span<const std::byte> bytes, std::span<float> values);

}  // namespace tern::checkpoint
