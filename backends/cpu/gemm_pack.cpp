// Rounding and packing one side of a product into panels.
#include <algorithm>
#include <cstring>

#include "backends/cpu/gemm.h"
#include "base/dtype.h"
#include "base/half.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kStripK = 128;      // elements of k that are turned at once: their rows stay in the first cache
constexpr std::int64_t kStripOuter = 512;  // elements of a row that are spread over panels at once
static_assert(kPackScratch >= 32 * kStripK + 32 * kStripK / 2);
static_assert(kPackScratch >= 3 * kStripOuter);

constexpr std::int64_t kRowsAhead = 24;

std::int64_t element_bytes(tern_dtype dtype) { return dtype == TERN_F32 ? 4 : 2; }

float element(const GemmOperand& from, std::int64_t index) {
  switch (from.dtype) {
    case TERN_F32:
      return static_cast<const float*>(from.data)[index];
    case TERN_BF16:
      return bf16_to_float(static_cast<const std::uint16_t*>(from.data)[index]);
    default:
      return fp16_to_float(static_cast<const std::uint16_t*>(from.data)[index]);
  }
}

// n values from element `index` on, `stride` apart, as floats: in place where they already are, else in `buffer`.
const float* floats(const GemmKernels& kernels, const GemmOperand& from, std::int64_t index, std::int64_t stride,
                    std::int64_t n, float* buffer) {
  if (stride != 1) {
    for (std::int64_t i = 0; i < n; ++i) buffer[i] = element(from, index + i * stride);
    return buffer;
  }
  if (from.dtype == TERN_F32) return static_cast<const float*>(from.data) + index;
  kernels.widen(from.dtype, static_cast<const std::byte*>(from.data) + index * 2, buffer, n);
  return buffer;
}

// One panel whose source has neighbouring k next to each other: rows are converted, then turned.
void pack_turned(const PanelFormat& format, const GemmOperand& from, std::int64_t outer0, int rows, std::int64_t k0,
                 std::int64_t kn, std::int64_t width, std::uint32_t* dst, float* scratch) {
  const GemmKernels& kernels = *format.kernels;
  const bool quantised = from.kind == GemmOperand::Kind::rows_k;
  const std::int64_t first = outer0 * from.stride_outer + k0 * from.stride_k;
  const bool plain = !quantised && from.stride_k == 1;
  if (plain && !format.pairs && from.dtype == TERN_F32 && format.compute == TERN_F32) {
    kernels.transpose(static_cast<const std::uint32_t*>(from.data) + first, from.stride_outer, rows, kn, dst, width);
    return;
  }
  if (plain && format.pairs && from.dtype == TERN_BF16 && from.stride_outer % 2 == 0 && kn % 2 == 0) {
    const auto* pairs = reinterpret_cast<const std::uint32_t*>(static_cast<const std::uint16_t*>(from.data) + first);
    kernels.transpose(pairs, from.stride_outer / 2, rows, kn / 2, dst, width);
    return;
  }
  RowExpander expander(format.target, from.rows);
  float* wide = scratch;
  auto* narrow = reinterpret_cast<std::uint16_t*>(scratch + 32 * kStripK);
  for (std::int64_t k = 0; k < kn; k += kStripK) {
    const std::int64_t n = std::min(kStripK, kn - k);
    for (int r = 0; r < rows; ++r) {
      if (quantised) {  // the next panel's row: too far for the processor to guess
        const auto [next, count] = from.rows.bytes(outer0 + r + rows, k0 + k, n);
        for (std::int64_t i = 0; i < count; i += 64) __builtin_prefetch(next + i, 0, 2);
      }
      if (quantised && format.pairs) {
        expander.expand(outer0 + r, k0 + k, n, narrow + r * kStripK);
        continue;
      }
      float* buffer = wide + r * kStripK;
      const float* row = buffer;
      if (quantised) {
        expander.expand(outer0 + r, k0 + k, n, buffer);
      } else {
        row = floats(kernels, from, first + r * from.stride_outer + k * from.stride_k, from.stride_k, n, buffer);
      }
      if (format.pairs) {
        kernels.narrow(TERN_BF16, row, narrow + r * kStripK, n);
        if (n % 2 != 0) narrow[r * kStripK + n] = 0;
      } else {
        if (row != buffer) std::memcpy(buffer, row, static_cast<std::size_t>(n) * sizeof(float));
        kernels.round(format.compute, buffer, n);
      }
    }
    if (format.pairs) {
      kernels.transpose(reinterpret_cast<const std::uint32_t*>(narrow), kStripK / 2, rows, (n + 1) / 2,
                        dst + k / 2 * width, width);
    } else {
      kernels.transpose(reinterpret_cast<const std::uint32_t*>(wide), kStripK, rows, n, dst + k * width, width);
    }
  }
}

// Panels whose source has neighbouring outer elements next to each other: each k is a row spread over the panels.
void pack_spread(const PanelFormat& format, const GemmOperand& from, std::int64_t outer0, std::int64_t outer_n,
                 std::int64_t k0, std::int64_t kn, std::int64_t width, std::uint32_t* dst, std::int64_t panel_stride,
                 float* scratch) {
  const GemmKernels& kernels = *format.kernels;
  const bool quantised = from.kind == GemmOperand::Kind::rows_outer;
  RowExpander expander(format.target, from.rows);
  const auto row = [&](std::int64_t k, float* buffer) -> const float* {
    if (!quantised) {
      return floats(kernels, from, outer0 * from.stride_outer + (k0 + k) * from.stride_k, from.stride_outer, outer_n,
                    buffer);
    }
    expander.expand(k0 + k, outer0, outer_n, buffer);
    return buffer;
  };
  auto* low = reinterpret_cast<std::uint16_t*>(scratch + kStripOuter);
  std::uint16_t* high = low + kStripOuter;
  const auto half_row = [&](std::int64_t k, std::uint16_t* to) -> const std::uint16_t* {
    if (k >= kn) {
      std::fill_n(to, outer_n, std::uint16_t{0});
    } else if (quantised) {
      expander.expand(k0 + k, outer0, outer_n, to);
    } else if (from.dtype == TERN_BF16 && from.stride_outer == 1) {
      return static_cast<const std::uint16_t*>(from.data) + outer0 + (k0 + k) * from.stride_k;
    } else {
      kernels.narrow(TERN_BF16, row(k, scratch), to, outer_n);
    }
    return to;
  };
  const std::int64_t step = format.pairs ? 2 : 1;
  // Neighbouring k lie a row of the whole matrix apart: the lines are asked for some rows early.
  const auto fetch = [&](std::int64_t k) {
    QuantisedRows::Bytes line{static_cast<const std::uint8_t*>(from.data) +
                                  (outer0 * from.stride_outer + k * from.stride_k) * element_bytes(from.dtype),
                              outer_n * element_bytes(from.dtype)};
    if (quantised) line = from.rows.bytes(k, outer0, outer_n);
    for (std::int64_t i = 0; i < line.count; i += 64) __builtin_prefetch(line.at + i);
  };
  for (std::int64_t k = 0; k < kn; k += step) {
    for (std::int64_t ahead = k + kRowsAhead; ahead < k + kRowsAhead + step; ++ahead) fetch(k0 + ahead);
    const float* values = nullptr;
    const std::uint16_t* even = nullptr;
    const std::uint16_t* odd = nullptr;
    if (format.pairs) {
      even = half_row(k, low);
      odd = half_row(k + 1, high);
    } else {
      values = row(k, scratch);
    }
    if (!format.pairs && format.compute != TERN_F32) {
      if (values != scratch) std::memcpy(scratch, values, static_cast<std::size_t>(outer_n) * sizeof(float));
      kernels.round(format.compute, scratch, outer_n);
      values = scratch;
    }
    std::uint32_t* line = dst + k / step * width;
    for (std::int64_t i = 0; i < outer_n; i += width, line += panel_stride) {
      const std::int64_t n = std::min(width, outer_n - i);
      if (format.pairs) {
        kernels.zip(even + i, odd + i, line, n);
      } else {
        std::memcpy(line, values + i, static_cast<std::size_t>(n) * sizeof(float));
      }
      std::fill(line + n, line + width, 0U);
    }
  }
}

// Panels of a weight in another dtype than the product's (pack.cpp made them): k by k, as they lie.
void pack_panelled(const PanelFormat& format, const GemmOperand& from, std::int64_t outer0, std::int64_t outer_n,
                   std::int64_t k0, std::int64_t kn, std::int64_t width, std::uint32_t* dst, std::int64_t panel_stride,
                   float* scratch) {
  const GemmKernels& kernels = *format.kernels;
  auto* halves = reinterpret_cast<std::uint16_t*>(scratch + kStripOuter);
  for (std::int64_t i = 0; i < outer_n; i += width, dst += panel_stride) {
    const auto* panel = static_cast<const std::uint32_t*>(from.data) + (outer0 + i) / width * from.stride_outer;
    const auto row = [&](std::int64_t k, float* to) {  // `width` floats, rounded to the product's dtype
      if (from.dtype == TERN_F32) {
        std::memcpy(to, panel + k * width, static_cast<std::size_t>(width) * sizeof(float));
      } else {
        const std::uint32_t* words = panel + k / 2 * width;
        for (std::int64_t j = 0; j < width; ++j) halves[j] = static_cast<std::uint16_t>(words[j] >> (k % 2 * 16));
        kernels.widen(from.dtype, halves, to, width);
      }
      kernels.round(format.compute, to, width);
    };
    for (std::int64_t k = 0; k < kn; ++k) {
      if (!format.pairs) {
        row(k0 + k, reinterpret_cast<float*>(dst + k * width));
        continue;
      }
      row(k0 + k, scratch);
      auto* pairs = reinterpret_cast<std::uint16_t*>(dst + k / 2 * width);
      for (std::int64_t j = 0; j < width; ++j) {
        pairs[2 * j + k % 2] = float_to_bf16(scratch[j]);
        if (k % 2 == 0) pairs[2 * j + 1] = 0;
      }
    }
  }
}

// One row of floats or halves that lie side by side, as halves: where they lie or in `buffer`.
const std::uint16_t* halves(const GemmKernels& kernels, const GemmOperand& from, std::int64_t first, std::int64_t kn,
                            std::uint16_t* buffer) {
  if (from.dtype == TERN_BF16) return static_cast<const std::uint16_t*>(from.data) + first;
  if (from.dtype == TERN_F32) {
    kernels.narrow(TERN_BF16, static_cast<const float*>(from.data) + first, buffer, kn);
    return buffer;
  }
  constexpr std::int64_t kSome = 256;
  float wide[kSome];
  for (std::int64_t k = 0; k < kn; k += kSome) {
    const std::int64_t n = std::min(kSome, kn - k);
    kernels.narrow(TERN_BF16, floats(kernels, from, first + k, 1, n, wide), buffer + k, n);
  }
  return buffer;
}

// kn halves of a row, from its first pair on, to their places in tiles.
void spread_row(const std::uint16_t* from, std::int64_t kn, std::uint32_t* dst) {
  constexpr std::int64_t kLine = 2 * kTilePairs;
  std::int64_t k = 0;
  for (; kn - k >= kLine; k += kLine, dst += kTileRows * kTilePairs) std::memcpy(dst, from + k, 2 * kLine);
  if (k == kn) return;
  std::uint16_t last[kLine] = {};
  std::memcpy(last, from + k, static_cast<std::size_t>(kn - k) * 2);
  std::memcpy(dst, last, sizeof last);
}

}  // namespace

PanelFormat panel_format(Target target, tern_dtype compute) {
  const GemmKernels& kernels = gemm_kernels(target);
  return {target, &kernels, compute, compute == TERN_BF16 && kernels.multiply_bf16 != nullptr};
}

void pack_panels(const PanelFormat& format, const GemmOperand& from, std::int64_t outer0, std::int64_t outer_n,
                 std::int64_t k0, std::int64_t kn, std::int64_t width, std::uint32_t* dst, std::int64_t panel_stride,
                 float* scratch) {
  if (from.kind == GemmOperand::Kind::panels) {
    return pack_panelled(format, from, outer0, outer_n, k0, kn, width, dst, panel_stride, scratch);
  }
  const bool spread = from.kind == GemmOperand::Kind::rows_outer ||
                      (from.kind == GemmOperand::Kind::strided && from.stride_outer == 1 && from.stride_k != 1);
  if (!spread) {
    for (std::int64_t i = 0; i < outer_n; i += width, dst += panel_stride) {
      const int rows = static_cast<int>(std::min(width, outer_n - i));
      pack_turned(format, from, outer0 + i, rows, k0, kn, width, dst, scratch);
    }
    return;
  }
  const std::int64_t strip = kStripOuter / width * width;
  for (std::int64_t i = 0; i < outer_n; i += strip, dst += strip / width * panel_stride) {
    pack_spread(format, from, outer0 + i, std::min(strip, outer_n - i), k0, kn, width, dst, panel_stride, scratch);
  }
}

void pack_rows(const PanelFormat& format, const GemmOperand& from, std::int64_t outer0, std::int64_t outer_n,
               std::int64_t k0, std::int64_t kn, std::uint32_t* dst, std::int64_t room, float* scratch) {
  const GemmKernels& kernels = *format.kernels;
  const RowsOrder order = rows_in_tiles(room);
  if (from.kind == GemmOperand::Kind::strided && from.stride_k == 1 && from.dtype == TERN_F32) {
    const float* first = static_cast<const float*>(from.data) + outer0 * from.stride_outer + k0;
    return kernels.split_rows(
        {.from = first, .ld = from.stride_outer, .rows = outer_n, .k = kn, .to = dst, .pairs = room, .parts = 1});
  }
  const bool quantised = from.kind == GemmOperand::Kind::rows_k;
  if (quantised || (from.kind == GemmOperand::Kind::strided && from.stride_k == 1)) {
    auto* buffer = reinterpret_cast<std::uint16_t*>(scratch);
    RowExpander expander(format.target, from.rows);
    for (std::int64_t i = 0; i < outer_n; ++i) {
      for (std::int64_t k = 0; k < kn; k += kPackScratch) {
        const std::int64_t n = std::min(kPackScratch, kn - k);
        const std::uint16_t* row = buffer;
        if (quantised) {
          expander.expand(outer0 + i, k0 + k, n, buffer);
        } else {
          row = halves(kernels, from, (outer0 + i) * from.stride_outer + k0 + k, n, buffer);
        }
        spread_row(row, n, dst + order.at(i, k / 2));
      }
    }
    return;
  }
  constexpr std::int64_t kSteps = kStripK / 2;
  std::uint32_t panel[kSteps * kTileRows], rows[kTileRows * kSteps];
  for (std::int64_t i = 0; i < outer_n; i += kTileRows) {
    const std::int64_t n = std::min<std::int64_t>(kTileRows, outer_n - i);
    for (std::int64_t k = 0; k < kn; k += kStripK) {
      const std::int64_t some = std::min(kStripK, kn - k), steps = (some + 1) / 2;
      pack_panels(format, from, outer0 + i, n, k0 + k, some, kTileRows, panel, kSteps * kTileRows, scratch);
      kernels.transpose(panel, kTileRows, static_cast<int>(steps), kTileRows, rows, kSteps);
      for (std::int64_t r = 0; r < n; ++r) {
        spread_row(reinterpret_cast<const std::uint16_t*>(rows + r * kSteps), 2 * steps, dst + order.at(i + r, k / 2));
      }
    }
  }
}

}  // namespace tern::cpu
