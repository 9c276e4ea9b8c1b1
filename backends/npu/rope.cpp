// rope: pairs of the first `rotary` features turn by the angles of their row.
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

void compose(Composer& c) {
  const auto& attrs = c.attrs<tern_rope_attrs>();
  const View x = c.f32(c.arg(TERN_ROPE_X));
  const View y = c.result(TERN_ROPE_Y);
  if (y.elements() == 0) return;
  const std::int64_t half = c.desc(TERN_ROPE_COS).shape[1];
  const std::int64_t rotary = 2 * half;
  const View positions = c.arg(TERN_ROPE_POSITIONS);
  const Dims angles = {x.dim(0), half};
  const auto gather = [&](int arg) {
    const View rows = c.temp(ACL_FLOAT, angles);
    c.call(TERN_NPU_OP(GatherV2), c.arg(arg), std::int64_t{0}, positions, rows);
    return rows.unsqueezed(1);
  };
  const auto part = [&](const View& of, int which) {
    return attrs.interleaved != 0 ? of.slice(2, which, half, 2) : of.slice(2, which * half, half);
  };
  if (half > 0) {
    const View cos = gather(TERN_ROPE_COS);
    const View sin = gather(TERN_ROPE_SIN);
    const double turn = attrs.inverse != 0 ? -1.0 : 1.0;
    const Dims shape = {x.dim(0), x.dim(1), half};
    const View kept[2] = {c.temp(ACL_FLOAT, shape), c.temp(ACL_FLOAT, shape)};
    const View crossed[2] = {c.temp(ACL_FLOAT, shape), c.temp(ACL_FLOAT, shape)};
    for (int i = 0; i < 2; ++i) {
      c.mul(part(x, i), cos, kept[i]);
      c.mul(part(x, 1 - i), sin, crossed[i]);
    }
    c.add(kept[0], crossed[0], part(y, 0), -turn);
    c.add(kept[1], crossed[1], part(y, 1), turn);
  }
  const std::int64_t rest = x.dim(2) - rotary;
  if (rest > 0) c.copy(y.slice(2, rotary, rest), x.slice(2, rotary, rest));
  c.finish(TERN_ROPE_Y, y);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ROPE, "elements", compose, true}};

}  // namespace

KernelList rope_kernels() { return kKernels; }

}  // namespace tern::npu
