// The innermost loops of matrix products, one table a target. Panels hold 32-bit elements: a float, or (where a target
// multiplies bf16 pairs) two bf16 of neighbouring k, the lower k in the low half.
#pragma once

#include <cstdint>

#include "backends/cpu/target.h"
#include "tern/accel.h"

namespace tern::cpu {

// c[m, n] = from + a b over k elements of 32 bits, each output one chain in rising k: the bits of c depend neither on
// m, n nor on how k is cut into calls.
struct Tile {
  std::int64_t k;          // 32-bit elements: pairs count once
  const std::uint32_t* a;  // [k][a_stride], of which the first m count
  std::int64_t a_stride;
  const std::uint32_t* b;       // panels of [k][nr]
  std::int64_t b_panel_stride;  // elements from a panel to the next
  const float* from;            // [m, n]: the sums so far, or null for none; may be c
  std::int64_t ld_from;
  float* c;  // [m, n]
  std::int64_t ldc;
  int m;  // 1 .. mr
  int n;  // any; the last panel may be partial
};

// Few rows by a right side that lies as it is stored, each column's k side by side: turned in registers on the way, so
// that nothing is packed. The sums are those of Tile, to the bit.
struct PlainTile {
  std::int64_t k;          // 32-bit elements: pairs count once
  bool half;               // the last pair has only its lower k: the other counts as 0
  const std::uint32_t* a;  // [k][a_stride], of which the first m count
  std::int64_t a_stride;
  const std::uint32_t* b;  // [n][b_stride], of which the first k count
  std::int64_t b_stride;   // elements from a column to the next
  const float* from;       // [m, n]: the sums so far, or null for none; may be c
  std::int64_t ld_from;
  float* c;  // [m, n]
  std::int64_t ldc;
  int m;  // 1 .. kPlainRows
  int n;  // any
};
inline constexpr int kPlainRows = 6;

inline constexpr int kTileRows = 16;   // of a register of tiles
inline constexpr int kTilePairs = 16;  // of k
inline constexpr int kTurnedRows = 2 * kTileRows;

// How rows of pairs lie for matrix instructions: pair p of row r is `(r / 16) block + (p / 16) group + (r % 16) row + p
// % 16`, in 32-bit elements.
struct RowsOrder {
  std::int64_t row, group, block;

  [[nodiscard]] std::int64_t at(std::int64_t r, std::int64_t pair) const {
    return r / kTileRows * block + pair / kTilePairs * group + r % kTileRows * row + pair % kTilePairs;
  }
};
// One after the other, `stride` apart.
[[nodiscard]] constexpr RowsOrder rows_in_order(std::int64_t stride) {
  return {stride, kTilePairs, kTileRows * stride};
}
// Tiles of 16 rows by 16 pairs, each in one piece, so that the processor reads ahead by itself. `pairs` is the room for
// those of a row, a multiple of 16.
[[nodiscard]] constexpr RowsOrder rows_in_tiles(std::int64_t pairs) {
  return {kTilePairs, kTileRows * kTilePairs, kTileRows * pairs};
}

// With matrix instructions, rows of a lie by themselves and m is any number. Of each 16 pairs of k the products of
// their first halves and those of their second ones are a chain from 0 each; the sum of both is added to c. Subnormals
// count as 0. So a multiple of 16 pairs is a place to cut k.
struct RowsTile {
  std::int64_t k;          // pairs
  const std::uint32_t* a;  // m rows, of which the first k pairs count
  RowsOrder a_order;
  int parts = 1;                // that a is the sum of, one after the other
  std::int64_t a_part = 0;      // elements from a part to the next
  const std::uint32_t* b;       // panels of [k][nr]
  std::int64_t b_panel_stride;  // elements from a panel to the next
  const float* from;            // as Tile has them
  std::int64_t ld_from;
  float* c;
  std::int64_t ldc;
  std::int64_t m;
  int n;  // any; the last panel may be partial
};
// Rows of floats as parts of bf16: what each is rounded to, then what that left.
struct SplitRows {
  const float* from;  // [rows][ld]
  std::int64_t ld;
  std::int64_t rows;
  std::int64_t k;     // floats of a row
  std::uint32_t* to;  // in tiles that have room for `pairs` of a row; the last tile is filled up with 0
  std::int64_t pairs;
  int parts;          // 1 or 2
  std::int64_t part;  // elements from a part to the next
};

// Rows of blocks of 32 weights as a panel of pairs of bf16.
struct BlockPanel {
  tern_packing packing;      // Q4_0, Q4_1 or Q8_0
  const std::uint8_t* rows;  // the first block of the first row
  std::int64_t row_bytes;
  int n;  // rows, at most nr; columns of the panel beyond are 0
  std::int64_t blocks;
  std::uint32_t* to;   // [16 blocks][nr]
  std::int64_t ahead;  // bytes from a row to one that is packed later: it is asked for
};

struct GemmKernels {
  int mr;
  int nr;
  void (*multiply)(const Tile& tile);
  void (*multiply_bf16)(const Tile& tile);  // pairs of bf16; null where the target has no such instruction
  void (*multiply_plain)(const PlainTile& tile);
  // Null where multiply_bf16 is. Its sums are those of multiply_rows_bf16 where there is one.
  void (*multiply_plain_bf16)(const PlainTile& tile);

  // Conversions of n neighbouring elements; `dtype` is f32, bf16 or f16.
  void (*widen)(tern_dtype dtype, const void* src, float* dst, std::int64_t n);
  void (*narrow)(tern_dtype dtype, const float* src, void* dst, std::int64_t n);
  void (*round)(tern_dtype dtype, float* x, std::int64_t n);  // to the nearest value of dtype, in place
  // `blocks` blocks of 32 elements of Q4_0, Q4_1 or Q8_0, which have loops of their own; the others are x15.h's.
  void (*expand)(tern_packing packing, const std::uint8_t* src, std::int64_t blocks, float* dst);
  // The same, rounded to bf16.
  void (*expand_bf16)(tern_packing packing, const std::uint8_t* src, std::int64_t blocks, std::uint16_t* dst);

  // dst[c * ld_dst + r] = src[r * ld_src + c] for r < rows, c < columns; 0 for rows <= r < ld_dst.
  void (*transpose)(const std::uint32_t* src, std::int64_t ld_src, int rows, std::int64_t columns, std::uint32_t* dst,
                    std::int64_t ld_dst);
  // dst[i] = low[i] | high[i] << 16
  void (*zip)(const std::uint16_t* low, const std::uint16_t* high, std::uint32_t* dst, std::int64_t n);
  void (*add)(const float* x, float* y, std::int64_t n);       // y += x
  void (*multiply_rows_bf16)(const RowsTile& tile) = nullptr;  // where there are matrix instructions
  void (*split_rows)(const SplitRows& rows) = nullptr;
  // The same sums where a is the right side's rows and b panels of [k][kTileRows] of the left side's, few of them: c
  // and from are [n, m], n at most kTurnedRows. So the right side need not be turned. Null where multiply_rows_bf16 is.
  void (*multiply_turned_bf16)(const RowsTile& tile) = nullptr;
  // What expand_bf16 and transpose make, without the way through memory. Null where multiply_bf16 is.
  void (*pack_blocks_bf16)(const BlockPanel& panel) = nullptr;
};

[[nodiscard]] const GemmKernels& gemm_kernels(Target target);

// One table per file; null where the compiler's machine has no such target.
[[nodiscard]] const GemmKernels* gemm_kernels_baseline();
[[nodiscard]] const GemmKernels* gemm_kernels_avx2();
[[nodiscard]] const GemmKernels* gemm_kernels_avx512();
[[nodiscard]] const GemmKernels* gemm_kernels_avx512_bf16();
[[nodiscard]] const GemmKernels* gemm_kernels_amx_bf16();

}  // namespace tern::cpu
