// Private layouts of dense weights: panels as gemm.h reads them, in the weight's own dtype, so that nothing is rounded
// and unpack gives back every bit. 16-bit elements lie in pairs of neighbouring k.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "backends/cpu/matmul_operand.h"
#include "base/dtype.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

struct Panels {
  std::int64_t outer, k, nr, steps;
  int outer_dim, k_dim;
  [[nodiscard]] std::int64_t count() const { return (outer + nr - 1) / nr; }
};

Panels panels_of(const tern_tensor_desc& weight, std::uint32_t use, Target target) {
  const bool forward = use == TERN_USE_FORWARD;
  Panels p{};
  p.outer_dim = forward ? 0 : 1;
  p.k_dim = forward ? 1 : 0;
  p.outer = weight.shape[p.outer_dim];
  p.k = weight.shape[p.k_dim];
  p.nr = gemm_kernels(target).nr;
  p.steps = weight.dtype == TERN_F32 ? p.k : (p.k + 1) / 2;
  return p;
}

// Calls fn(32-bit word, half, element of the strided weight) for each element of one panel.
template <typename Fn>
void for_panel(const Panels& p, std::int64_t panel, bool halves, const TensorView& weight, Fn&& fn) {
  const std::int64_t outer_n = std::min(p.nr, p.outer - panel * p.nr);
  for (std::int64_t i = 0; i < outer_n; ++i) {
    const std::int64_t row = (panel * p.nr + i) * weight.stride(p.outer_dim);
    for (std::int64_t k = 0; k < p.k; ++k) {
      const std::int64_t word = (panel * p.steps + (halves ? k / 2 : k)) * p.nr + i;
      fn(word, halves ? k % 2 : 0, row + k * weight.stride(p.k_dim));
    }
  }
}

// The weight as a side of a product whose panels are those of the layout, bit for bit; none where rounding or gaps are
// in the way. Halves travel as bf16, whatever they are: pairs of them are only moved.
std::optional<GemmOperand> moved_whole(const Panels& p, const TensorView& weight) {
  GemmOperand from = dense_operand(weight, weight.planes[0], p.outer_dim, p.k_dim);
  if (weight.dtype() == TERN_F32) return from;
  from.dtype = TERN_BF16;
  const bool turned = from.stride_k == 1 && from.stride_outer % 2 == 0 && p.k % 2 == 0;
  const bool spread = from.stride_outer == 1 && from.stride_k != 1;
  return turned || spread ? std::optional(from) : std::nullopt;
}

}  // namespace

bool packed_info(const tern_tensor_desc& weight, std::uint32_t uses, Target target, tern_packed_info& info,
                 std::string& reason) {
  if (weight.layout != 0 || weight.scheme.packing != TERN_PACK_NONE || !is_product_dtype(weight.dtype) ||
      weight.rank != 2) {
    reason = "only dense matrices of f32, bf16 or f16 have a private layout here";
    return false;
  }
  if (uses != TERN_USE_FORWARD && uses != TERN_USE_INPUT_GRAD) {
    reason = "a private layout here serves one use: both would keep the weight twice, and the plain layout serves both";
    return false;
  }
  tern_tensor_desc packed = weight;
  packed.layout = panel_layout(target, uses);
  info.layout = packed.layout;
  info.bytes = packed_bytes(packed, target);
  return true;
}

std::uint64_t packed_bytes(const tern_tensor_desc& packed, Target target) {
  for (const std::uint32_t use : {TERN_USE_FORWARD, TERN_USE_INPUT_GRAD}) {
    if (packed.layout != panel_layout(target, use)) continue;
    const Panels p = panels_of(packed, use, target);
    return static_cast<std::uint64_t>(p.count() * p.steps * p.nr) * 4;
  }
  return 0;
}

void pack(const TensorView& packed, const TensorView& weight, std::uint32_t uses, Target target, ThreadPool& pool) {
  const Panels p = panels_of(weight.desc, uses, target);
  const bool halves = weight.dtype() != TERN_F32;
  if (const auto from = moved_whole(p, weight); from) {
    const PanelFormat format{target, &gemm_kernels(target), halves ? TERN_BF16 : TERN_F32, halves};
    pool.parallel_for(p.count(), 1, [&](std::int64_t begin, std::int64_t end, int) {
      std::vector<float> scratch(kPackScratch);
      const std::int64_t n = std::min(end * p.nr, p.outer) - begin * p.nr;
      pack_panels(format, *from, begin * p.nr, n, 0, p.k, p.nr, packed.data<std::uint32_t>() + begin * p.steps * p.nr,
                  p.steps * p.nr, scratch.data());
    });
    return;
  }
  pool.parallel_for(p.count(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    std::memset(packed.data<std::uint32_t>() + begin * p.steps * p.nr, 0,
                static_cast<std::size_t>((end - begin) * p.steps * p.nr) * 4);
    for (std::int64_t panel = begin; panel < end; ++panel) {
      if (halves) {
        for_panel(p, panel, true, weight, [&](std::int64_t word, std::int64_t half, std::int64_t element) {
          packed.data<std::uint16_t>()[2 * word + half] = weight.data<std::uint16_t>()[element];
        });
      } else {
        for_panel(p, panel, false, weight, [&](std::int64_t word, std::int64_t, std::int64_t element) {
          packed.data<std::uint32_t>()[word] = weight.data<std::uint32_t>()[element];
        });
      }
    }
  });
}

void unpack(const TensorView& weight, const TensorView& packed, std::uint32_t uses, Target target, ThreadPool& pool) {
  const Panels p = panels_of(weight.desc, uses, target);
  const bool halves = weight.dtype() != TERN_F32;
  pool.parallel_for(p.count(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      if (halves) {
        for_panel(p, panel, true, weight, [&](std::int64_t word, std::int64_t half, std::int64_t element) {
          weight.data<std::uint16_t>()[element] = packed.data<std::uint16_t>()[2 * word + half];
        });
      } else {
        for_panel(p, panel, false, weight, [&](std::int64_t word, std::int64_t, std::int64_t element) {
          weight.data<std::uint32_t>()[element] = packed.data<std::uint32_t>()[word];
        });
      }
    }
  });
}

}  // namespace tern::cpu
