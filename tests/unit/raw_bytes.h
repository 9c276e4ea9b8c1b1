// Files that no writer would make, put together by a test.
#pragma once

#include <cstdint>
#include <string>

namespace tern::test {

// Bytes laid end to end, for files that no writer would make.
class Raw {
 public:
  template <typename T>
  Raw& put(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  Raw& text(const std::string& value) {
    put<std::uint64_t>(value.size());
    bytes += value;
    return *this;
  }
  Raw& pad(std::size_t alignment, std::size_t more = 0) {
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment + more);
    return *this;
  }
  std::string bytes;
};

}  // namespace tern::test
