// Words that the operators of this folder share: lists of dtypes and of chips, and shapes side by side.
#pragma once

#include "tests/fakes/cann/op/op.h"

namespace fake {

using numerics::Element;
using numerics::Shape;
using numerics::View;

// What a chip doesn't have is refused before these are looked at.
inline const Dtypes floats = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
inline const Dtypes halves = {ACL_FLOAT16, ACL_BF16};
inline const Dtypes wide_floats = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE};
inline const Dtypes fp32 = {ACL_FLOAT};
inline const Dtypes int32 = {ACL_INT32};
inline const Dtypes int64 = {ACL_INT64};
inline const Dtypes indices = {ACL_INT32, ACL_INT64};
inline const Dtypes truths = {ACL_BOOL};
inline const Dtypes bytes_or_truths = {ACL_BOOL, ACL_UINT8};
inline const Dtypes integers = {ACL_INT8, ACL_UINT8, ACL_INT16, ACL_INT32, ACL_INT64};
inline const Dtypes numbers = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16,  ACL_DOUBLE, ACL_INT8,
                               ACL_UINT8, ACL_INT16,   ACL_INT32, ACL_INT64};
inline const Dtypes anything = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16,  ACL_DOUBLE, ACL_INT8,
                                ACL_UINT8, ACL_INT16,   ACL_INT32, ACL_INT64,  ACL_BOOL};

// The workspace of operators that need one of their own: the device's are megabytes, which here would be filled anew at
// each launch.
inline constexpr std::uint64_t scratch = std::uint64_t{64} << 10;

using Families = std::initializer_list<Family>;
inline constexpr Families not_310p = {Family::kA2, Family::kA3, Family::kA5, Family::k910};
inline constexpr Families a2_a3_a5 = {Family::kA2, Family::kA3, Family::kA5};
inline constexpr Families not_910 = {Family::kA2, Family::kA3, Family::kA5, Family::k310P};
[[nodiscard]] inline bool on(const Op& op, Families families) {
  return std::any_of(families.begin(), families.end(), [&](Family family) { return op.on(family); });
}

// The shape that both broadcast to, or a refusal.
[[nodiscard]] Shape broadcast_shape(Op& op, const Shape& one, const Shape& other);
// Floats don't go into integers, nor anything but bool into bool.
void require_castable(Op& op, aclDataType from, const Tensor& to);
// An option of CANN's that the fake doesn't compute.
void absent(const char* name, const void* given);

[[nodiscard]] inline std::optional<View> view_if(const Run& run, const Tensor& tensor) {
  return run.has(tensor) ? std::optional(run.view(tensor)) : std::nullopt;
}

}  // namespace fake
