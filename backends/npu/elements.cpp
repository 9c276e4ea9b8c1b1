// Ops that treat each element by itself: mul, scale, dropout, softcap, fill, shard_index.
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

void mul(Composer& c) {
  const View out = c.arg(TERN_MUL_OUT);
  const View x = c.arg_like(TERN_MUL_X, out);
  const View y = c.arg_like(TERN_MUL_Y, out);
  if (x.dtype == out.dtype && y.dtype == out.dtype && !c.accumulates(TERN_MUL_OUT)) {
    c.mul(x, y, out);  // one rounding
    return;
  }
  const View product = c.result(TERN_MUL_OUT);
  c.mul(c.f32(x), c.f32(y), product);
  c.finish(TERN_MUL_OUT, product);
}

void scale(Composer& c) {
  const View y = c.result(TERN_SCALE_Y);
  c.mul(c.f32(c.arg(TERN_SCALE_X)), c.arg(TERN_SCALE_FACTOR), y);
  c.finish(TERN_SCALE_Y, y);
}

void dropout(Composer& c) {
  if (!c.present(TERN_DROPOUT_MASK)) {
    c.refuse("this device draws no random bits of the contract's kind; it needs a ready mask");
  }
  const View x = c.f32(c.arg(TERN_DROPOUT_X));
  const View y = c.result(TERN_DROPOUT_Y);
  if (y.elements() == 0) return;
  const View dropped = c.temp(ACL_BOOL, y.shape);
  c.call(TERN_NPU_OP(EqScalar), c.arg(TERN_DROPOUT_MASK), Number{0, ACL_INT32}, dropped);
  c.muls(x, 1.0 / (1.0 - static_cast<double>(c.attrs<tern_dropout_attrs>().rate)), y);
  c.call(TERN_NPU_OP(InplaceMaskedFillScalar), y, dropped, Number{0.0});
  c.finish(TERN_DROPOUT_Y, y);
}

void softcap(Composer& c) {
  const double cap = c.attrs<tern_softcap_attrs>().cap;
  const View x = c.f32(c.arg(TERN_SOFTCAP_X));
  const View y = c.result(TERN_SOFTCAP_Y);
  if (y.elements() == 0) return;
  c.muls(x, 1.0 / cap, y);
  c.call(TERN_NPU_OP(Tanh), y, y);
  c.muls(y, cap, y);
  c.finish(TERN_SOFTCAP_Y, y);
}

void fill(Composer& c) { c.fill(c.arg(TERN_FILL_Y), c.attrs<tern_fill_attrs>().value); }

void shard_index(Composer& c) {
  const auto& attrs = c.attrs<tern_shard_index_attrs>();
  const View ids = c.arg(TERN_SHARD_INDEX_IDS);
  const View y = c.arg(TERN_SHARD_INDEX_Y);
  if (y.elements() == 0) return;
  const auto whole = [](double value) { return Number{value, ACL_INT32}; };
  const View below = c.temp(ACL_BOOL, y.shape);
  const View beyond = c.temp(ACL_BOOL, y.shape);
  const View outside = c.temp(ACL_BOOL, y.shape);
  // Compared before the difference, which may overflow.
  c.call(TERN_NPU_OP(LtScalar), ids, whole(attrs.first), below);
  c.call(TERN_NPU_OP(GeScalar), ids, whole(static_cast<double>(attrs.first) + attrs.count), beyond);
  c.call(TERN_NPU_OP(LogicalOr), below, beyond, outside);
  c.call(TERN_NPU_OP(Subs), ids, whole(attrs.first), whole(1), y);
  c.call(TERN_NPU_OP(InplaceMaskedFillScalar), y, outside, whole(-1));
}

constexpr KernelEntry kKernels[] = {
    {TERN_OP_MUL, "mul", mul, true},          {TERN_OP_SCALE, "mul", scale, true},
    {TERN_OP_DROPOUT, "mask", dropout, true}, {TERN_OP_SOFTCAP, "tanh", softcap, true},
    {TERN_OP_FILL, "fill", fill, true},       {TERN_OP_SHARD_INDEX, "compare", shard_index, true},
};

}  // namespace

KernelList elements_kernels() { return kKernels; }

}  // namespace tern::npu
