#include "nn/heads.h"

#include "ops/build.h"

namespace tern::nn {

Value heads_of(Context& context, Value x, std::int64_t first, std::int64_t heads, std::int64_t head_dim) {
  const TensorDesc& flat = context.graph().desc(x);
  TensorDesc part = ops::rows_like(make_desc(flat.dtype, {flat.shape[0], heads, head_dim}), flat);
  part.strides[0] = flat.strides[0];
  return context.graph().view(x, part, first);
}

}  // namespace tern::nn
