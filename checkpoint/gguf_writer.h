// Writing GGUF version 3: metadata and the list of tensors first, then their bytes one after another, so that no more
// than one tensor need be in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/gguf.h"

namespace tern::checkpoint {

class GgufMetadata {
 public:
  // Setting a key again replaces its value and keeps its place.
  void set(const std::string& key, std::string_view value);
  void set(const std::string& key, const char* value) { set(key, std::string_view(value)); }
  void set(const std::string& key, bool value);
  void set(const std::string& key, std::uint32_t value);
  void set(const std::string& key, std::int32_t value);
  void set(const std::string& key, std::uint64_t value);
  void set(const std::string& key, float value);
  void set(const std::string& key, const std::vector<std::string>& values);
  void set(const std::string& key, const std::vector<std::int32_t>& values);
  void set(const std::string& key, const std::vector<bool>& values);
  void set(const std::string& key, const std::vector<float>& values);
  void set(const std::string& key, const GgufValue& value);  // as another file has it
  void remove(const std::string& key);

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::string encode() const;

 private:
  struct Entry {
    std::string key;
    std::string encoded;  // type and value
  };
  void put(const std::string& key, std::string encoded);
  std::vector<Entry> entries_;
};

struct GgufTensorSpec {
  std::string name;
  GgmlType type = GgmlType::f32;
  std::vector<std::int64_t> shape;  // outermost first
};

class GgufWriter {
 public:
  static Result<GgufWriter> create(const std::filesystem::path& path, const GgufMetadata& metadata,
                                   std::vector<GgufTensorSpec> tensors);
  GgufWriter(GgufWriter&&) noexcept;
  GgufWriter& operator=(GgufWriter&&) noexcept;
  ~GgufWriter();

  // The next bytes of the tensor, in any order of tensors. Throws std::logic_error for a tensor not named at the start,
  // and for more bytes than it has.
  [[nodiscard]] Status write(std::string_view name, std::span<const std::byte> bytes);
  // Onto the disk. Throws std::logic_error where a tensor has not had all its bytes.
  [[nodiscard]] Status finish();

 private:
  struct State;
  explicit GgufWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tern::checkpoint
