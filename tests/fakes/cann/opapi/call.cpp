#include "call.h"

namespace fake {

bool Argument::contiguous() const {
  const Shape dense = numerics::contiguous_strides(shape);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1 && strides[i] != dense[i]) return false;
  }
  return true;
}

bool Argument::is(Types types) const { return std::find(types.begin(), types.end(), element) != types.end(); }

std::string text_of(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

const char* name_of(Element element) {
  switch (element) {
    case Element::kFloat32:
      return "DT_FLOAT";
    case Element::kFloat16:
      return "DT_FLOAT16";
    case Element::kBfloat16:
      return "DT_BFLOAT16";
    case Element::kFloat64:
      return "DT_DOUBLE";
    case Element::kInt8:
      return "DT_INT8";
    case Element::kUint8:
      return "DT_UINT8";
    case Element::kInt16:
      return "DT_INT16";
    case Element::kInt32:
      return "DT_INT32";
    case Element::kInt64:
      return "DT_INT64";
    case Element::kBool:
      return "DT_BOOL";
    case Element::kInt4:
      return "DT_INT4";
  }
  return "DT_UNDEFINED";
}

Element promoted(Element one, Element other) {
  if (one == other) return one;
  const auto rank = [](Element element) {
    switch (element) {
      case Element::kFloat64:
        return 10;
      case Element::kFloat32:
        return 9;
      case Element::kBfloat16:
      case Element::kFloat16:
        return 8;
      case Element::kInt64:
        return 5;
      case Element::kInt32:
        return 4;
      case Element::kInt16:
        return 3;
      case Element::kUint8:
      case Element::kInt8:
        return 2;
      default:
        return 1;
    }
  };
  if (rank(one) == 8 && rank(other) == 8) return Element::kFloat32;  // fp16 with bf16
  if (rank(one) == 2 && rank(other) == 2) return Element::kInt16;    // uint8 with int8
  return rank(one) > rank(other) ? one : other;
}

Shape broadcast_shape(Call& call, const Shape& one, const Shape& other) {
  Shape result(std::max(one.size(), other.size()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t a = i < one.size() ? one[one.size() - 1 - i] : 1;
    const std::int64_t b = i < other.size() ? other[other.size() - 1 - i] : 1;
    call.require(a == b || a == 1 || b == 1, "shapes " + text_of(one) + " and " + text_of(other) + " do not broadcast");
    result[result.size() - 1 - i] = a == 1 ? b : a;
  }
  return result;
}

void Call::absent(const char* name, const void* given) {
  if (given != nullptr) refuse(ACLNN_ERR_INNER, std::string(name) + " is nothing that the fake computes");
}

void Call::require(bool holds, const std::string& what) {
  if (!holds) refuse(kind_ == Kind::kGenerated ? ACLNN_ERR_INNER_TILING_ERROR : ACLNN_ERR_PARAM_INVALID, what);
}

void Call::require_shape(const Argument& argument, const Shape& shape) {
  require(argument.shape == shape,
          "shape of " + argument.name + " should be " + text_of(shape) + ", but got " + text_of(argument.shape));
}

void Call::require_same_type(const Argument& one, const Argument& other) {
  if (one.element != other.element) {
    refuse(ACLNN_ERR_PARAM_INVALID, "dtype of " + one.name + " " + name_of(one.element) + " and of " + other.name +
                                        " " + name_of(other.element) + " should be the same");
  }
}

void Call::require_contiguous(const Argument& argument) {
  if (!argument.contiguous()) {
    refuse(ACLNN_ERR_PARAM_INVALID, argument.name + " should be contiguous");
  }
}

void Call::require_dimension(std::int64_t dimension, std::int64_t rank) {
  const std::int64_t limit = std::max<std::int64_t>(rank, 1);
  if (dimension < -limit || dimension >= limit) {
    refuse(ACLNN_ERR_PARAM_INVALID, "dim " + std::to_string(dimension) + " must be in [" + std::to_string(-limit) +
                                        ", " + std::to_string(limit - 1) + "]");
  }
}

}  // namespace fake
