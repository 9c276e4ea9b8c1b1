// safetensors files: reading through a mapping, and writing shard by shard.
// Specification: github.com/huggingface/safetensors (format), and the index file of sharded Hugging Face checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "io/mapped_file.h"
#include "tern/accel.h"

namespace tern::checkpoint {

struct SafetensorsDtype {
  std::string_view name;            // "BF16"
  int bits;                         // of an element; 4 and 6 exist
  std::optional<tern_dtype> dtype;  // none where ops have no such dtype (F8_E8M0, F4, C64, ...)
};
[[nodiscard]] std::span<const SafetensorsDtype> safetensors_dtypes();
[[nodiscard]] const SafetensorsDtype* find_safetensors_dtype(std::string_view name);
[[nodiscard]] const SafetensorsDtype& safetensors_dtype(tern_dtype dtype);
// Bytes of a tensor; none on overflow or where the bits do not fill whole bytes.
[[nodiscard]] std::optional<std::uint64_t> safetensors_bytes(const SafetensorsDtype& dtype,
                                                             std::span<const std::int64_t> shape);

struct SafetensorsTensor {
  std::string name;
  const SafetensorsDtype* dtype = nullptr;
  std::vector<std::int64_t> shape;   // outermost first
  std::span<const std::byte> bytes;  // inside the mapping of `file`
  std::size_t file = 0;
};

class Safetensors {
 public:
  // One file. The header's length, JSON, dtypes, shapes and offsets are checked: tensors lie end to end and fill the
  // file, as the specification asks.
  static Result<Safetensors> open(const std::filesystem::path& path);
  // `<stem>.safetensors` in the directory, or the shards that `<stem>.safetensors.index.json` names. Each name of the
  // index must be in its shard; a shard outside the directory is refused.
  static Result<Safetensors> open_directory(const std::filesystem::path& directory, const std::string& stem = "model");

  [[nodiscard]] const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }  // in file order
  [[nodiscard]] const SafetensorsTensor* tensor(std::string_view name) const;
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  [[nodiscard]] const std::vector<std::shared_ptr<const io::MappedFile>>& files() const { return files_; }
  [[nodiscard]] Status intact() const;

 private:
  friend class SafetensorsParser;
  std::vector<std::shared_ptr<const io::MappedFile>> files_;
  std::vector<SafetensorsTensor> tensors_;
  std::map<std::string, std::string> metadata_;
  std::unordered_map<std::string, std::size_t> index_;
};

struct TensorSpec {
  std::string name;
  std::string dtype;  // safetensors' name: "BF16"
  std::vector<std::int64_t> shape;
};

struct SafetensorsWriteOptions {
  std::string stem = "model";  // model.safetensors, or model-00001-of-00003.safetensors
  std::uint64_t max_shard_size = std::uint64_t{5} * 1000 * 1000 * 1000;  // as Hugging Face counts: "5GB"
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
};

// Writes a checkpoint whose tensors are known beforehand, so that no tensor is ever held in memory for its file.
// Tensors go into shards in the order given; inside a shard the widest dtype comes first, so each is aligned.
class SafetensorsWriter {
 public:
  // Makes the files (preallocated to size: a full disk shows here) and their headers in an existing directory.
  static Result<SafetensorsWriter> create(const std::filesystem::path& directory, std::vector<TensorSpec> tensors,
                                          const SafetensorsWriteOptions& options = {});
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;
  ~SafetensorsWriter();

  // The whole tensor, or its next bytes, in any order of tensors. Throws std::logic_error for a tensor not named at the
  // start, and for more bytes than it has.
  [[nodiscard]] Status write(std::string_view name, std::span<const std::byte> bytes);
  // Flushes every file to the disk and writes the index of a sharded set; the names of the files made. Throws
  // std::logic_error where a tensor has not had all its bytes.
  [[nodiscard]] Result<std::vector<std::string>> finish();

 private:
  struct State;
  explicit SafetensorsWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// "5GB", "500MB", "2GiB", "123456": bytes, decimal units as Hugging Face reads max_shard_size.
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text);

}  // namespace tern::checkpoint
