#include <cstring>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/walk.h"
#include "base/dtype.h"

namespace tern::cpu {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto &x = desc.arg(TERN_MOE_PERMUTE_X), &y = desc.arg(TERN_MOE_PERMUTE_Y);
  return Check(desc, reason)
      .floats({TERN_MOE_PERMUTE_X, TERN_MOE_PERMUTE_Y})
      .dtype(TERN_MOE_PERMUTE_Y, x.dtype)
      .dtype(TERN_MOE_PERMUTE_EXPERTS, TERN_I32)
      .dtype(TERN_MOE_PERMUTE_PLACES, TERN_I32)
      .dtype(TERN_MOE_PERMUTE_OFFSETS, TERN_I32)
      .rank(TERN_MOE_PERMUTE_X, 2)
      .rank(TERN_MOE_PERMUTE_Y, 3)
      .rank(TERN_MOE_PERMUTE_EXPERTS, 2)
      .rank(TERN_MOE_PERMUTE_OFFSETS, 1)
      .dim(TERN_MOE_PERMUTE_X, 0, y.shape[0])
      .dim(TERN_MOE_PERMUTE_X, 1, y.shape[2])
      .dim(TERN_MOE_PERMUTE_EXPERTS, 0, y.shape[0])
      .dim(TERN_MOE_PERMUTE_EXPERTS, 1, y.shape[1])
      .same_shape({TERN_MOE_PERMUTE_EXPERTS, TERN_MOE_PERMUTE_PLACES})
      .ok();
}

// A counting sort, which keeps the order of an expert's rows.
void sort_by_expert(const KernelArgs& args) {
  const TensorView &experts = args[TERN_MOE_PERMUTE_EXPERTS], &places = args[TERN_MOE_PERMUTE_PLACES];
  const TensorView& offsets = args[TERN_MOE_PERMUTE_OFFSETS];
  const std::int64_t num_experts = offsets.dim(0) - 1;
  const auto offset = [&](std::int64_t e) -> std::int32_t& {
    return offsets.data<std::int32_t>()[e * offsets.stride(0)];
  };
  const auto for_each_choice = [&](auto&& visit) {
    for (std::int64_t r = 0; r < experts.dim(0); ++r) {
      for (std::int64_t i = 0; i < experts.dim(1); ++i) {
        visit(experts.data<const std::int32_t>()[r * experts.stride(0) + i * experts.stride(1)],
              places.data<std::int32_t>()[r * places.stride(0) + i * places.stride(1)]);
      }
    }
  };
  for (std::int64_t e = 0; e <= num_experts; ++e) offset(e) = 0;
  for_each_choice([&](std::int32_t e, std::int32_t&) {
    require_index(e, num_experts, "moe_permute: experts");
    ++offset(e + 1);
  });
  for (std::int64_t e = 0; e < num_experts; ++e) offset(e + 1) += offset(e);
  // Each begin moves on to its end, which is the next one's begin.
  for_each_choice([&](std::int32_t e, std::int32_t& place) { place = offset(e)++; });
  for (std::int64_t e = num_experts; e > 0; --e) offset(e) = offset(e - 1);
  offset(0) = 0;
}

void run(const KernelArgs& args) {
  sort_by_expert(args);
  const TensorView &x = args[TERN_MOE_PERMUTE_X], &y = args[TERN_MOE_PERMUTE_Y];
  const TensorView& places = args[TERN_MOE_PERMUTE_PLACES];
  const std::int64_t top_k = y.dim(1), width = y.dim(2);
  const auto size = static_cast<std::int64_t>(dtype_bytes(x.dtype()));
  const std::int64_t run = x.stride(1) == 1 && y.stride(2) == 1 ? width : 1;
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelFrom / std::max<std::int64_t>(1, top_k * width));
  args.pool->parallel_for(x.dim(0), grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t i = 0; i < top_k; ++i) {
        const std::int64_t place = places.data<const std::int32_t>()[r * places.stride(0) + i * places.stride(1)];
        const auto* from = x.data<const std::byte>() + r * x.stride(0) * size;
        auto* to = y.data<std::byte>() + (place / top_k * y.stride(0) + place % top_k * y.stride(1)) * size;
        for (std::int64_t c = 0; c < width; c += run) {
          std::memcpy(to + c * y.stride(2) * size, from + c * x.stride(1) * size, static_cast<std::size_t>(run * size));
        }
      }
    }
  });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_MOE_PERMUTE, "moe_permute", supports, nullptr, nullptr, run}};

}  // namespace

KernelList moe_permute_kernels() { return kKernels; }

}  // namespace tern::cpu
