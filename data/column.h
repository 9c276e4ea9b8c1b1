// Named columns of samples and of micro-batches: what a loss reads beside the tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "base/dtype.h"

namespace tern::data {

// What a column has one entry for. A group is what a loss looks at together: a preference pair, the answers to a
// prompt. Where nothing says otherwise, each sample is a group of its own.
enum class Per { token, sample, group };

struct ColumnSpec {
  static constexpr std::uint32_t kAnyNumber = 0;

  std::string name;
  Per per = Per::token;
  tern_dtype dtype = TERN_F32;  // f32, i32, u32 or i64
  std::uint32_t width = 1;      // values an entry: 3 for positions of three axes; kAnyNumber: as many as it has
  double padding = 0;           // the value of an entry whose sample lacks the column
  friend bool operator==(const ColumnSpec&, const ColumnSpec&) = default;
};

template <typename T>
[[nodiscard]] constexpr tern_dtype dtype_of() {
  if constexpr (std::is_same_v<T, float>) return TERN_F32;
  if constexpr (std::is_same_v<T, std::int32_t>) return TERN_I32;
  if constexpr (std::is_same_v<T, std::uint32_t>) return TERN_U32;
  if constexpr (std::is_same_v<T, std::int64_t>) return TERN_I64;
}

// A column's values over a micro-batch.
struct BatchColumn {
  ColumnSpec spec;
  std::vector<std::byte> bytes;        // [entries, width], or entry after entry
  std::vector<std::uint32_t> offsets;  // [entries + 1] into the values, of a column of any number; else empty

  // Throws std::logic_error where T isn't the column's dtype.
  template <typename T>
  [[nodiscard]] std::span<const T> values() const {
    if (dtype_of<T>() != spec.dtype) throw std::logic_error("column " + spec.name + " read as another dtype");
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <typename T>
  [[nodiscard]] std::span<T> values() {
    const auto constant = std::as_const(*this).values<T>();
    return {const_cast<T*>(constant.data()), constant.size()};
  }
  // The values of entry `entry`.
  template <typename T>
  [[nodiscard]] std::span<const T> entry(std::size_t entry) const {
    if (spec.width == ColumnSpec::kAnyNumber)
      return values<T>().subspan(offsets.at(entry), offsets.at(entry + 1) - offsets[entry]);
    return values<T>().subspan(entry * spec.width, spec.width);
  }
};

template <typename T>
[[nodiscard]] std::vector<std::byte> column_bytes(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace tern::data
