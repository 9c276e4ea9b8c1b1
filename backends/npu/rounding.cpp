#include "backends/npu/rounding.h"

namespace tern::npu {

aclDataType compute_dtype(const Composer& composer, std::int32_t compute) {
  switch (compute) {
    case TERN_COMPUTE_F32:
      return ACL_FLOAT;
    case TERN_COMPUTE_F16:
      return ACL_FLOAT16;
    case TERN_COMPUTE_BF16:
      if (!composer.chip().has_bf16()) composer.refuse("this chip knows no bf16");
      return ACL_BF16;
    default:
      composer.refuse("products round to f32, f16 or bf16 here");
  }
}

View rounded_f32(Composer& composer, const View& view, std::int32_t compute) {
  const aclDataType dtype = compute_dtype(composer, compute);
  if (dtype == ACL_FLOAT) return composer.f32(view);
  return composer.f32(composer.cast(view, dtype));
}

}  // namespace tern::npu
