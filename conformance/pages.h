// Host memory that a backend may read during one call and never afterwards: each piece lies at the end of pages of its
// own, with a page behind it that nobody may read. After `take_away` a late reader crashes; nothing else gets the
// addresses as long as this lives.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tern::conformance {

class Pages {
 public:
  Pages() = default;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages();

  // A copy of `from`; null if it's empty.
  template <typename T>
  T* put(std::span<const T> from) {
    return static_cast<T*>(put_bytes(std::as_bytes(from)));
  }
  template <typename T>
  T* put(const std::vector<T>& from) {
    return put(std::span<const T>(from));
  }
  template <typename T>
  T* put_one(const T& from) {
    return put(std::span<const T>(&from, 1));
  }
  const char* put_text(const std::string& text) { return put(std::span<const char>(text.c_str(), text.size() + 1)); }
  void take_away();

 private:
  void* put_bytes(std::span<const std::byte> from);
  std::vector<std::pair<void*, std::size_t>> pieces_;
};

}  // namespace tern::conformance
