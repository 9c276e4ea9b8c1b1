#include <algorithm>
#include <array>

#include "tests/fakes/cann/op/op.h"

namespace fake {
namespace {

struct Kind {
  aclDataType dtype;
  const char* name;
  std::int64_t bits;
  int order;  // of promotion: the later wins; floats are above integers
  numerics::Element element;
};

using numerics::Element;
constexpr std::array<Kind, 11> kKinds = {{
    {ACL_BOOL, "DT_BOOL", 8, 0, Element::kBool},
    {ACL_UINT8, "DT_UINT8", 8, 1, Element::kUint8},
    {ACL_INT8, "DT_INT8", 8, 2, Element::kInt8},
    {ACL_INT16, "DT_INT16", 16, 3, Element::kInt16},
    {ACL_INT32, "DT_INT32", 32, 4, Element::kInt32},
    {ACL_INT64, "DT_INT64", 64, 5, Element::kInt64},
    {ACL_FLOAT16, "DT_FLOAT16", 16, 6, Element::kFloat16},
    {ACL_BF16, "DT_BFLOAT16", 16, 7, Element::kBfloat16},
    {ACL_FLOAT, "DT_FLOAT", 32, 8, Element::kFloat32},
    {ACL_DOUBLE, "DT_DOUBLE", 64, 9, Element::kFloat64},
    {ACL_INT4, "DT_INT4", 4, -1, Element::kInt4},
}};

const Kind* kind_of(aclDataType dtype) {
  const auto* found = std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& kind) { return kind.dtype == dtype; });
  return found != kKinds.end() ? found : nullptr;
}

}  // namespace

std::int64_t bits_of(aclDataType dtype) {
  const Kind* kind = kind_of(dtype);
  if (kind != nullptr) return kind->bits;
  return dtype == ACL_UINT64 ? 64 : dtype == ACL_UINT32 ? 32 : dtype == ACL_UINT16 ? 16 : 0;
}

std::string name_of(aclDataType dtype) {
  const Kind* kind = kind_of(dtype);
  return kind != nullptr ? kind->name : "DT_" + std::to_string(dtype);
}

numerics::Element element_of(aclDataType dtype) {
  const Kind* kind = kind_of(dtype);
  if (kind != nullptr) return kind->element;
  // Scales that are packed into 64 bits are moved as integers.
  if (dtype == ACL_UINT64) return numerics::Element::kInt64;
  if (dtype == ACL_UINT32) return numerics::Element::kInt32;
  if (dtype == ACL_UINT16) return numerics::Element::kInt16;
  refuse(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "There is no kernel for " + name_of(dtype) + ".");
}

std::string text_of(const Dims& dims) {
  std::string text = "[";
  for (const std::int64_t dim : dims) text += (text.size() > 1 ? "," : "") + std::to_string(dim);
  return text + "]";
}

bool is_floating(aclDataType dtype) {
  const Kind* kind = kind_of(dtype);
  return kind != nullptr && kind->order >= 6;
}

aclDataType promoted(aclDataType first, aclDataType second) {
  const Kind* a = kind_of(first);
  const Kind* b = kind_of(second);
  if (a == nullptr || b == nullptr || a->order < 0 || b->order < 0) return ACL_DT_UNDEFINED;
  if (a->order > b->order) std::swap(a, b);
  // Two 16-bit floats of unlike kinds need 32, as do an unsigned and a signed byte 16.
  if (a->dtype == ACL_FLOAT16 && b->dtype == ACL_BF16) return ACL_FLOAT;
  if (a->dtype == ACL_UINT8 && b->dtype == ACL_INT8) return ACL_INT16;
  return b->dtype;
}

std::optional<Dims> broadcast_of(const Dims& first, const Dims& second) {
  Dims both(std::max(first.size(), second.size()), 1);
  for (std::size_t i = 0; i < both.size(); ++i) {
    const std::int64_t a = i < first.size() ? first[first.size() - 1 - i] : 1;
    const std::int64_t b = i < second.size() ? second[second.size() - 1 - i] : 1;
    if (a != b && a != 1 && b != 1) return std::nullopt;
    both[both.size() - 1 - i] = a == 1 ? b : a;
  }
  return both;
}

}  // namespace fake
