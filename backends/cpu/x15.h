// Few rows by a quantised weight as it is stored: products of the compute kind x15 (ops/matmul_q.h).
//
// A row of x is held as whole numbers q of 15 bits and a sign beside one scale a block of 32. A weight's codes are
// whole numbers too, so a block's dot product is exact in int32; one fp32 FMA scales it, another adds the block's
// minimum times the sum of x. Each output is one chain over the blocks, the same for any number of threads; `multiply`
// has the same one for any number of rows, which lie side by side where they are more and nobody asked for that.
#pragma once

#include <cstdint>

#include "backends/cpu/target.h"
#include "tern/accel.h"

namespace tern::cpu {

inline constexpr std::int64_t kX15Block = 32;
inline constexpr float kX15Largest = 16256.0F;    // 127 x 128: two int8 hold it, which other devices multiply
inline constexpr float kX15Smallest = 0x1p-100F;  // a block whose numbers are all below it counts as 0

// Rows of x as whole numbers: x = scale q in each block of 32. Arrays are [rows][groups].
struct X15Rows {
  struct alignas(64) Block {
    std::int16_t q[kX15Block];
  };
  Block* blocks;
  float* scales;     // NaN where the block held no finite numbers
  float* sums;       // the scale times the sum of q
  float* halves[2];  // the same of q[0..15] and of q[16..31]
  std::int64_t groups;
  int rows;

  [[nodiscard]] X15Rows from(std::int64_t row, int count) const {
    const std::int64_t at = row * groups;
    return {blocks + at, scales + at, sums + at, {halves[0] + at, halves[1] + at}, groups, count};
  }
};

// The same, where each register holds a number of many rows: no sum is across a register's lanes. `lanes` rows lie side
// by side, then the next ones; in each, arrays are [groups][lanes], pairs [groups][16][lanes] of q[2 i] and q[2 i + 1].
struct X15Lanes {
  std::int32_t* pairs;
  float *scales, *sums, *halves[2];
  std::int64_t groups;
  int rows, padded;  // padded: the next multiple of `lanes`
};
inline constexpr int kX15MostLanes = 16;  // rows at once

struct X15Sideways {
  int lanes = 0;  // 0: none
  // Groups [first, first + groups) of all rows.
  void (*interleave)(const X15Rows& x, std::int64_t first, std::int64_t groups, const X15Lanes& to) = nullptr;
  // As X15Kernels::multiply; a row's sums are added up in another order.
  void (*multiply)(tern_packing packing, const std::uint8_t* w, std::int64_t row_bytes, std::int64_t columns,
                   const X15Lanes& x, float* y, std::int64_t ld) = nullptr;
};

struct X15Kernels {
  // Groups [first, first + groups) of the first of `rows`, from as many times 32 floats.
  void (*quantise)(const float* x, std::int64_t first, std::int64_t groups, const X15Rows& rows);
  // y[r ld + c] = row r of x times row c of the weight, for c < columns; a row of the weight is row_bytes long. Of int8
  // the codes alone are multiplied: who has the scales of its rows multiplies the sums by them.
  void (*multiply)(tern_packing packing, const std::uint8_t* w, std::int64_t row_bytes, std::int64_t columns,
                   const X15Rows& x, float* y, std::int64_t ld);
  // Groups of 32 [first, first + groups) of a row of the weight as floats, each rounded once.
  void (*expand)(tern_packing packing, const std::uint8_t* row, std::int64_t first, std::int64_t groups, float* dst);
  X15Sideways half, full;  // for more than kX15Direct rows; for more than half.lanes
};
inline constexpr int kX15Direct = 4;  // rows that are multiplied one by one

// Whether `multiply` and `expand` know the packing.
[[nodiscard]] bool x15_reads(tern_packing packing);
[[nodiscard]] const X15Kernels& x15_kernels(Target target);

// One table per file; null where the compiler's machine has no such target.
[[nodiscard]] const X15Kernels* x15_kernels_avx2();
[[nodiscard]] const X15Kernels* x15_kernels_avx512_vnni();

}  // namespace tern::cpu
