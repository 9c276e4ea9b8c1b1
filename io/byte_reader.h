// Little-endian values read one after another from foreign bytes; a read past the end throws a Failure that names
// the file, what was wanted and where.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/strings.h"

namespace tern::io {

static_assert(std::endian::native == std::endian::little, "files are read in place, as little-endian values");

template <typename T>
[[nodiscard]] T load_as(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// The mend of a file that breaks its own format.
inline constexpr const char* kCorruptFile = "the file is corrupt: fetch it again";

class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  [[nodiscard]] std::size_t offset() const { return offset_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - offset_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  std::span<const std::byte> take(std::uint64_t size, std::string_view what) {
    if (size > left()) {
      throw Failure(data_error(name_, cat(what, " of ", size, " bytes at offset ", offset_),
                               cat("the end of the file after ", left()),
                               "the file is truncated or corrupt: fetch it again"));
    }
    const auto part = bytes_.subspan(offset_, static_cast<std::size_t>(size));
    offset_ += static_cast<std::size_t>(size);
    return part;
  }

  template <typename T>
  T value(std::string_view what) {
    return load_as<T>(take(sizeof(T), what).data());
  }

  // A length of 64 bits and as many bytes.
  std::string_view text(std::string_view what) {
    const auto part = take(value<std::uint64_t>(what), what);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& name_;
  std::size_t offset_ = 0;
};

}  // namespace tern::io
