// GGUF files, versions 2 and 3, whole or split (`name-00001-of-00003.gguf`), as views into the mapped file.
// Specification: github.com/ggml-org/ggml/blob/master/docs/gguf.md. Big-endian files are refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "checkpoint/ggml_types.h"
#include "io/mapped_file.h"

namespace tern::checkpoint {

enum class GgufValueType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};
[[nodiscard]] std::string_view gguf_value_type_name(GgufValueType type);
[[nodiscard]] std::size_t gguf_scalar_bytes(GgufValueType type);  // 0 for strings and arrays

// One metadata value; its text and array elements stay in the mapping.
struct GgufValue {
  GgufValueType type = GgufValueType::u8;
  GgufValueType element = GgufValueType::u8;  // of an array
  std::uint64_t count = 1;                    // elements of an array
  std::span<const std::byte> raw;             // a scalar's or string's bytes, or all elements of an array

  [[nodiscard]] bool is_array() const { return type == GgufValueType::array; }
  // Conversions; none where the value is of another kind. Integers of every width and signedness convert where the
  // value fits; `number` takes floats and integers.
  [[nodiscard]] std::optional<std::int64_t> integer() const;
  [[nodiscard]] std::optional<double> number() const;
  [[nodiscard]] std::optional<bool> boolean() const;
  [[nodiscard]] std::optional<std::string_view> text() const;
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers() const;
  [[nodiscard]] std::optional<std::vector<double>> numbers() const;
  [[nodiscard]] std::optional<std::vector<std::string_view>> texts() const;
};

struct GgufTensor {
  std::string name;
  GgmlType type = GgmlType::f32;
  std::vector<std::int64_t> shape;   // outermost first: the reverse of the order in the file
  std::span<const std::byte> bytes;  // inside the mapping of `file`
  std::size_t file = 0;              // index of the split file that holds it
};

class Gguf {
 public:
  // The first file of a split set brings the others in. Every offset, length, count, name and type is checked; the
  // error names the file and the key or tensor.
  static Result<Gguf> open(const std::filesystem::path& path);

  [[nodiscard]] const std::string& path() const { return files_.front()->path(); }
  [[nodiscard]] std::uint32_t version() const { return version_; }
  [[nodiscard]] const std::vector<std::pair<std::string, GgufValue>>& metadata() const { return metadata_; }
  [[nodiscard]] const GgufValue* find(std::string_view key) const;
  [[nodiscard]] const std::vector<GgufTensor>& tensors() const { return tensors_; }
  [[nodiscard]] const GgufTensor* tensor(std::string_view name) const;
  [[nodiscard]] const std::vector<std::shared_ptr<const io::MappedFile>>& files() const { return files_; }

  // A key that must be there with that kind of value; the error says which file lacks it or what it holds instead.
  [[nodiscard]] Result<std::int64_t> integer(std::string_view key) const;
  [[nodiscard]] Result<double> number(std::string_view key) const;
  [[nodiscard]] Result<bool> boolean(std::string_view key) const;
  [[nodiscard]] Result<std::string> text(std::string_view key) const;
  [[nodiscard]] Result<std::vector<std::string_view>> texts(std::string_view key) const;
  // The same with a default for an absent key; a value of another kind is still an error.
  [[nodiscard]] Result<std::int64_t> integer_or(std::string_view key, std::int64_t otherwise) const;
  [[nodiscard]] Result<double> number_or(std::string_view key, double otherwise) const;
  [[nodiscard]] Result<bool> boolean_or(std::string_view key, bool otherwise) const;
  [[nodiscard]] Result<std::string> text_or(std::string_view key, std::string otherwise) const;

  // An Error where a file shrank while it was mapped: ask after reading tensors in bulk.
  [[nodiscard]] Status intact() const;

 private:
  friend class GgufParser;
  std::uint32_t version_ = 3;
  std::vector<std::shared_ptr<const io::MappedFile>> files_;
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string, std::size_t> key_index_;
  std::unordered_map<std::string, std::size_t> tensor_index_;
};

}  // namespace tern::checkpoint
