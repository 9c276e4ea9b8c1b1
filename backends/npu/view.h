// A tensor of an aclnn call before addresses are known: where it lies, and how.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "backends/npu/cann/types.h"
#include "tern/accel.h"

namespace tern::npu {

inline constexpr int kMaxRank = 8;  // aclnn's own limit
// Places: plane p of the argument a is a * TERN_MAX_PLANES + p; then the workspace and the device's constants.
inline constexpr std::int32_t kAbsent = -1;
inline constexpr std::int32_t kWorkspace = 1 << 16;
inline constexpr std::int32_t kFirstConstant = 1 << 17;

[[nodiscard]] aclDataType acl_dtype(tern_dtype dtype);  // throws tern_plugin::Error where CANN has none
[[nodiscard]] std::int64_t acl_bytes(aclDataType dtype);

// Up to kMaxRank numbers.
struct Dims {
  std::int32_t rank = 0;
  std::array<std::int64_t, kMaxRank> values{};
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> list) {
    for (std::int64_t value : list) push(value);
  }
  explicit Dims(std::span<const std::int64_t> list) {
    for (std::int64_t value : list) push(value);
  }
  void push(std::int64_t value) { values[static_cast<std::size_t>(rank++)] = value; }
  [[nodiscard]] std::int64_t& operator[](int i) { return values[static_cast<std::size_t>(i)]; }
  [[nodiscard]] std::int64_t operator[](int i) const { return values[static_cast<std::size_t>(i)]; }
  [[nodiscard]] std::span<const std::int64_t> span() const { return {values.data(), static_cast<std::size_t>(rank)}; }
  [[nodiscard]] std::int64_t product() const;
};

struct View {
  std::int32_t place = kAbsent;
  std::int64_t offset = 0;  // bytes from the place's begin
  aclDataType dtype = ACL_FLOAT;
  aclFormat format = ACL_FORMAT_ND;
  Dims shape;
  Dims strides;  // elements
  Dims storage;  // of a private format, else empty: one dimension as far as the strides reach

  [[nodiscard]] bool present() const { return place != kAbsent; }
  [[nodiscard]] int rank() const { return shape.rank; }
  [[nodiscard]] std::int64_t dim(int i) const { return shape[i < 0 ? shape.rank + i : i]; }
  [[nodiscard]] std::int64_t elements() const { return present() ? shape.product() : 0; }
  [[nodiscard]] bool contiguous() const;
  [[nodiscard]] bool is16() const { return dtype == ACL_FLOAT16 || dtype == ACL_BF16; }

  // Views of the same memory.
  [[nodiscard]] View transposed(int a, int b) const;
  [[nodiscard]] View slice(int dim, std::int64_t from, std::int64_t count, std::int64_t step = 1) const;
  [[nodiscard]] View unsqueezed(int dim) const;                    // a dimension of 1 before `dim`
  [[nodiscard]] View expanded(int dim, std::int64_t count) const;  // a dimension of 1 repeated, by a stride of 0
  // Another shape of as many elements: of a contiguous view, or one whose dimensions only split.
  [[nodiscard]] View reshaped(const Dims& to) const;
  [[nodiscard]] View as(aclDataType other) const;  // the same bytes as another dtype of the same size
};

[[nodiscard]] View contiguous_view(std::int32_t place, std::int64_t offset, aclDataType dtype, const Dims& shape);

}  // namespace tern::npu
