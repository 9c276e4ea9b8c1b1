// cast_copy: y = x in y's dtype and strides.
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

bool is_float(aclDataType dtype) { return dtype == ACL_FLOAT || dtype == ACL_FLOAT16 || dtype == ACL_BF16; }

// Floats to integers: CANN wraps or leaves open what doesn't fit, where we saturate. Bounds that fp32 holds exactly,
// and the largest one by a choice afterwards.
void to_integer(Composer& c, const View& x, const View& y) {
  struct Range {
    aclDataType dtype;
    double low, high, largest;
  };
  constexpr Range kRanges[] = {{ACL_INT8, -128, 127, 127},
                               {ACL_UINT8, 0, 255, 255},
                               {ACL_INT16, -32768, 32767, 32767},
                               {ACL_INT32, -2147483648.0, 2147483520.0, 2147483647.0}};
  for (const Range& range : kRanges) {
    if (y.dtype != range.dtype) continue;
    const View wide = c.f32(x);
    const View bounded = c.temp(ACL_FLOAT, x.shape);
    c.call(TERN_NPU_OP(Clamp), wide, Number{range.low}, Number{range.high}, bounded);
    // NaN gives 0, and a clamp may leave or lose it.
    const View is_number = c.temp(ACL_BOOL, x.shape);
    const View is_none = c.temp(ACL_BOOL, x.shape);
    c.call(TERN_NPU_OP(EqTensor), wide, wide, is_number);
    c.call(TERN_NPU_OP(LogicalNot), is_number, is_none);
    c.call(TERN_NPU_OP(InplaceMaskedFillScalar), bounded, is_none, Number{0.0});
    if (range.high == range.largest) {
      // Through int32: every chip casts that far, and these small numbers on.
      const View whole = c.cast(bounded, ACL_INT32);
      c.copy(y, whole);
      return;
    }
    const View whole = c.temp(ACL_INT32, x.shape);
    const View beyond = c.temp(ACL_BOOL, x.shape);
    c.copy(whole, bounded);
    c.call(TERN_NPU_OP(GtScalar), wide, Number{range.high}, beyond);
    c.call(TERN_NPU_OP(InplaceMaskedFillScalar), whole, beyond, Number{range.largest, ACL_INT32});
    c.copy(y, whole);
    return;
  }
  c.refuse("y: expected i8, u8, i16, i32 or a float of a float x, found another integer");
}

void compose(Composer& c) {
  const View x = c.arg(TERN_CAST_COPY_X);
  const View y = c.arg(TERN_CAST_COPY_Y);
  if (y.elements() == 0) return;
  if (c.accumulates(TERN_CAST_COPY_Y)) {
    c.store(y, c.f32(x), true);
  } else if (is_float(x.dtype) && !is_float(y.dtype) && y.dtype != ACL_BOOL) {
    to_integer(c, x, y);
  } else if (is_float(x.dtype) && is_float(y.dtype) && x.is16() && y.is16() && x.dtype != y.dtype) {
    c.copy(y, c.f32(x));  // no chip's documentation has the way from one 16-bit float to the other
  } else {
    c.copy(y, x);
  }
}

constexpr KernelEntry kKernels[] = {{TERN_OP_CAST_COPY, "cast", compose, true}};

}  // namespace

KernelList cast_copy_kernels() { return kKernels; }

}  // namespace tern::npu
