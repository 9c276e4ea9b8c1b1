// Matrix products over packed panels: c = a b with every output one chain of products in rising k, so that its bits
// depend neither on the other rows and columns, nor on their number, nor on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/gemm_kernels.h"
#include "backends/cpu/planes.h"
#include "base/thread_pool.h"
#include "tern/accel.h"

namespace tern::cpu {

// One side of a product, addressed by (outer, k): outer is a row of the left side, a column of the right side.
struct GemmOperand {
  enum class Kind {
    strided,     // element (outer, k) at outer * stride_outer + k * stride_k
    rows_k,      // quantised: row `outer` of `rows` lies along k, read in groups of 32
    rows_outer,  // quantised: row k of `rows` lies along outer
    panels,      // right side only: what pack.cpp made for the same target, `stride_outer` 32-bit words each
  };
  Kind kind = Kind::strided;
  const void* data = nullptr;
  tern_dtype dtype = TERN_F32;
  std::int64_t stride_outer = 0;  // elements
  std::int64_t stride_k = 0;
  QuantisedRows rows = {};
};

struct GemmOutput {
  void* data = nullptr;  // [m, n]
  tern_dtype dtype = TERN_F32;
  std::int64_t stride_m = 0;  // elements
  std::int64_t stride_n = 1;
  bool accumulate = false;
  const void* bias = nullptr;  // [n], may be null
  tern_dtype bias_dtype = TERN_F32;
  std::int64_t bias_stride = 1;
};

struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  tern_dtype compute = TERN_F32;  // f32, bf16 or f16: what both sides are rounded to
  float alpha = 1.0F;             // times a b
  GemmOperand a, b;
  GemmOutput out;
};

// How values of a compute dtype lie in panels on a target.
struct PanelFormat {
  Target target;
  const GemmKernels* kernels;
  tern_dtype compute;
  bool pairs;            // bf16 pairs; else floats rounded to `compute`
  bool by_rows = false;  // of the left side: its rows lie by themselves, for GemmKernels::multiply_rows_bf16
  int parts = 1;         // of bf16, that a float of the left side becomes where its rows lie by themselves
  bool turned = false;   // rows of the right side lie by themselves, for GemmKernels::multiply_turned_bf16

  [[nodiscard]] std::int64_t steps(std::int64_t k) const { return pairs ? (k + 1) / 2 : k; }
  // Whether the operand's panels can be multiplied as they lie.
  [[nodiscard]] bool reads(const GemmOperand& b) const {
    return b.kind == GemmOperand::Kind::panels &&
           (pairs ? b.dtype == TERN_BF16 : b.dtype == TERN_F32 && compute == TERN_F32);
  }
  // Whether GemmKernels::pack_blocks_bf16 makes the operand's panels.
  [[nodiscard]] bool packs_blocks(const GemmOperand& b) const {
    const tern_packing packing = b.rows.scheme.packing;
    return pairs && b.kind == GemmOperand::Kind::rows_k &&
           (packing == TERN_PACK_GGUF_Q4_0 || packing == TERN_PACK_GGUF_Q4_1 || packing == TERN_PACK_GGUF_Q8_0);
  }
  // Whether few rows are multiplied by some of the operand's rows at a time, once these are expanded.
  [[nodiscard]] static bool expands_rows(const GemmOperand& b) { return b.kind == GemmOperand::Kind::rows_k; }
  // Whether few rows can be multiplied by the operand as it is stored: rounding would change nothing.
  [[nodiscard]] bool reads_plain(const GemmOperand& b) const {
    return b.kind == GemmOperand::Kind::strided && b.stride_k == 1 &&
           (pairs ? b.dtype == TERN_BF16 && b.stride_outer % 2 == 0 : b.dtype == TERN_F32 && compute == TERN_F32);
  }
  void multiply_plain(const PlainTile& tile) const {
    (pairs ? kernels->multiply_plain_bf16 : kernels->multiply_plain)(tile);
  }
  void multiply(const Tile& tile) const { (pairs ? kernels->multiply_bf16 : kernels->multiply)(tile); }
};
[[nodiscard]] PanelFormat panel_format(Target target, tern_dtype compute);

// Bytes of workspace for products of at most these sizes.
[[nodiscard]] std::uint64_t gemm_workspace(Target target, std::int64_t m, std::int64_t n, std::int64_t k,
                                           tern_dtype compute, int num_threads);
void gemm(Target target, const Gemm& product, std::byte* workspace, ThreadPool& pool);

// Floats of scratch that pack_panels needs.
inline constexpr std::int64_t kPackScratch = 8192;
// Rounds and packs elements [outer0, outer0 + outer_n) x [k0, k0 + kn) into panels of `width` outer elements:
// dst[p * panel_stride + step * width + i]. Missing outer elements of the last panel and the odd half of a last pair
// are 0. rows_k: k0 is a multiple of 32; rows_outer: outer0 and width are such that each panel group begins on a
// group of 32.
void pack_panels(const PanelFormat& format, const GemmOperand& from, std::int64_t outer0, std::int64_t outer_n,
                 std::int64_t k0, std::int64_t kn, std::int64_t width, std::uint32_t* dst, std::int64_t panel_stride,
                 float* scratch);
// The same as rows of pairs, in tiles that have room for `room` pairs of each row, a multiple of 16. The last tile of a
// row is filled up with 0.
void pack_rows(const PanelFormat& format, const GemmOperand& from, std::int64_t outer0, std::int64_t outer_n,
               std::int64_t k0, std::int64_t kn, std::uint32_t* dst, std::int64_t room, float* scratch);

}  // namespace tern::cpu
