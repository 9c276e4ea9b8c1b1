// Low-rank adapters where each row has its own: cl/lora_segmented.cl. What a[s] x gives lies in the workspace as fp32.
#include "backends/opencl/rows.h"

namespace tern::opencl {
namespace {

constexpr int kX = TERN_LORA_SEGMENTED_X, kA = TERN_LORA_SEGMENTED_A, kB = TERN_LORA_SEGMENTED_B;
constexpr int kSlots = TERN_LORA_SEGMENTED_SLOTS, kY = TERN_LORA_SEGMENTED_Y;

// As in cl/lora_segmented.cl.
struct Segmented {
  std::int64_t x[2], a[3], b[3], y[2];
  std::int64_t slot;
  std::int64_t rows, out;
  std::int32_t in, rank, slots;
};

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &x = desc.arg(kX), &a = desc.arg(kA), &b = desc.arg(kB);
  return Check(desc, reason)
      .floats({kX, kA, kB, kY})
      .dtype(kSlots, TERN_I32)
      .rank(kX, 2)
      .rank(kA, 3)
      .rank(kB, 3)
      .rank(kSlots, 1)
      .rank(kY, 2)
      .dim(kA, 2, x.shape[1])
      .dim(kB, 0, a.shape[0])
      .dim(kB, 2, a.shape[1])
      .dim(kSlots, 0, x.shape[0])
      .dim(kY, 0, x.shape[0])
      .dim(kY, 1, b.shape[1])
      .that(a.shape[0] < INT32_MAX && a.shape[1] < INT32_MAX && a.shape[2] < INT32_MAX, "a is too large")
      .ok();
}

std::uint64_t workspace(const PlanDesc& desc) {
  return static_cast<std::uint64_t>(desc.arg(kX).shape[0] * desc.arg(kA).shape[1]) * sizeof(float);
}

std::int64_t columns_of(const Facts& device) { return device.cpu ? 64 : 1; }  // of a work-item

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.set("GROUP", reducing_group(desc.device)).set("COLUMNS", columns_of(desc.device));
  defines.tensor("x", desc, kX).tensor("a", desc, kA).tensor("b", desc, kB).tensor("y", desc, kY).adds("y", desc, kY);
  return {{"lora_segmented", "shrink", defines.text()}, {"lora_segmented", "expand", defines.text()}};
}

void run(const Launch& launch) {
  const TensorView &x = launch[kX], &a = launch[kA], &b = launch[kB], &slots = launch[kSlots], &y = launch[kY];
  Segmented s{};
  take_strides(x, s.x);
  take_strides(a, s.a);
  take_strides(b, s.b);
  take_strides(y, s.y);
  s.slot = slots.stride(0);
  s.rows = x.dim(0);
  s.out = y.dim(1);
  s.in = static_cast<std::int32_t>(x.dim(1));
  s.rank = static_cast<std::int32_t>(a.dim(1));
  s.slots = static_cast<std::int32_t>(a.dim(0));
  const Facts& device = launch.device();
  const std::int64_t group = reducing_group(device);
  const Place low = launch.workspace();
  launch.call(0).arg(x).arg(a).arg(slots).arg(low).arg(s).run({s.rows * group, s.rank, 1}, {group, 1, 1});
  launch.call(1).arg(low).arg(b).arg(slots).arg(y).arg(s).run({parts_of(s.out, columns_of(device)), s.rows, 1},
                                                              {plain_group(device), 1, 1});
}

constexpr KernelEntry kKernels[] = {{TERN_OP_LORA_SEGMENTED, "lora_segmented", supports, workspace, functions, run}};

}  // namespace

KernelList lora_segmented_kernels() { return kKernels; }

}  // namespace tern::opencl
