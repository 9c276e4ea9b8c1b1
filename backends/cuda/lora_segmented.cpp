// Low-rank adapters where each row has its own: cu/lora_segmented.cu. What a[s] x gives lies in the workspace as fp32.
#include "backends/cuda/kernels.h"

namespace tern::cuda {
namespace {

constexpr int kX = TERN_LORA_SEGMENTED_X, kA = TERN_LORA_SEGMENTED_A, kB = TERN_LORA_SEGMENTED_B;
constexpr int kSlots = TERN_LORA_SEGMENTED_SLOTS, kY = TERN_LORA_SEGMENTED_Y;

constexpr std::int64_t kVector = 8, kThreads = 128;
constexpr std::int64_t kRanks = 2, kRows = 4;  // of a block, as RANKS and ROWS there
constexpr std::int64_t kManyRows = 64;         // from which on a block has several: there are enough blocks

// As in cu/lora_segmented.cu.
struct Segmented {
  std::int64_t x[2], a[3], b[3], y[2];
  std::int64_t slot;
  std::int64_t rows, in, out;
  std::int32_t rank, pitch;
  std::int32_t num_slots;
};

bool has_many_rows(const tern_op_desc& op) { return op.args[kX].shape[0] >= kManyRows; }

std::int64_t pitch_of(std::int64_t rank) { return round_up(rank, kVector); }

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
      .that(a.shape[0] < INT32_MAX, "there are too many slots")
      .that(pitch_of(a.shape[1]) / kRanks <= 65535, "the rank is too large")
      .that(parts_of(b.shape[1], kThreads) <= 65535, "there are too many outputs")
      .ok();
}

std::uint64_t workspace(const PlanDesc& desc) {
  return static_cast<std::uint64_t>(desc.arg(kX).shape[0] * pitch_of(desc.arg(kA).shape[1])) * 4;
}

Functions functions(const PlanDesc& desc) {
  if (has_many_rows(desc.op)) return {"lora_segmented_shrink_rows", "lora_segmented_expand_rows"};
  return {"lora_segmented_shrink", "lora_segmented_expand"};
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
  s.in = x.dim(1);
  s.out = y.dim(1);
  s.rank = static_cast<std::int32_t>(a.dim(1));
  s.pitch = static_cast<std::int32_t>(pitch_of(a.dim(1)));
  s.num_slots = static_cast<std::int32_t>(a.dim(0));
  const Place low = launch.workspace();
  const std::int64_t blocks = has_many_rows(launch.planned()) ? parts_of(s.rows, kRows) : s.rows;
  launch.call(0)
      .arg(x)
      .arg(a)
      .arg(slots.planes[0])
      .arg(low)
      .arg(s)
      .overlapped()
      .run({blocks, s.pitch / kRanks, 1}, {kThreads, 1, 1});
  launch.call(1)
      .arg(low)
      .arg(b)
      .arg(slots.planes[0])
      .arg(y)
      .arg(s)
      .overlapped()
      .run({blocks, parts_of(s.out, kThreads), 1}, {kThreads, 1, 1});
}

constexpr KernelEntry kKernels[] = {{TERN_OP_LORA_SEGMENTED, "lora_segmented", supports, workspace, functions, run}};

}  // namespace

KernelList lora_segmented_kernels() { return kKernels; }

}  // namespace tern::cuda
