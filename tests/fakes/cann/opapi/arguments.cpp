#include "arguments.h"

namespace fake {

Shape broadcast_shape(Op& op, const Shape& one, const Shape& other) {
  std::optional<Dims> both = broadcast_of(one, other);
  if (!both) op.no("The shapes " + text_of(one) + " and " + text_of(other) + " don't broadcast.");
  return *both;
}

void require_castable(Op& op, aclDataType from, const Tensor& to) {
  op.need(from != ACL_DT_UNDEFINED, "The dtypes aren't promoted to one.");
  const bool lossy = is_floating(from) && !is_floating(to.dtype());
  const bool truth = to.dtype() == ACL_BOOL && from != ACL_BOOL;
  if (lossy || truth) {
    refuse(ACLNN_ERR_PARAM_INVALID,
           name_of(from) + " can't be cast to the dtype of " + to.name + ", " + name_of(to.dtype()) + ".");
  }
}

void absent(const char* name, const void* given) {
  if (given != nullptr) refuse(ACLNN_ERR_INNER, std::string(name) + " is nothing that the fake computes.");
}

}  // namespace fake
