// Products of 8-bit activations by quantised weights: the compute kind int8 (ops/matmul_q.h).
//
// A row of x is held as whole numbers q of 7 bits and a sign beside one scale a block of 32. A weight's codes become
// bytes in a panel, `offset` more than they are; a block's dot product is exact in int32, and begins at
// minus offset times the sum of q, which takes the offset out again. One fp32 FMA scales it, another adds the block's
// minimum times the sum of x. Each output is one chain over the blocks, whatever the number of rows and threads.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/cpu/target.h"
#include "tern/accel.h"

namespace tern::cpu {

inline constexpr std::int64_t kInt8Block = 32;
inline constexpr float kInt8Largest = 127.0F;
inline constexpr float kInt8Smallest = 0x1p-100F;  // a block whose numbers are all below it counts as 0
inline constexpr int kInt8Columns = 32;            // of a panel

// Rows of x as whole numbers: x = scale q in each block of 32; q [rows][32 groups], scales [rows][groups]. A weight has
// one scale for a block or, where `parts` is 2, one for each half: sums and starts are [rows][groups][parts].
struct Int8Rows {
  std::int8_t* q;
  float* scales;         // NaN where the block held no finite numbers
  float* sums;           // the scale times the sum of q
  std::int32_t* starts;  // minus the weight's offset times the sum of q
  std::int64_t groups;
  int parts;

  [[nodiscard]] Int8Rows from(std::int64_t row) const {
    const std::int64_t at = row * groups;
    return {q + at * kInt8Block, scales + at, sums + at * parts, starts + at * parts, groups, parts};
  }
};

// kInt8Columns rows of a weight: codes [groups][8][columns][4], scales and minima [groups][parts][columns].
struct Int8Panel {
  std::uint8_t* codes;
  float* scales;
  float* minima;  // of packings that have them
};

// What lies in a panel's place: rows of blocks of a packing.
struct Int8Source {
  tern_packing packing;
  int offset;
  const std::uint8_t* rows;
  std::int64_t row_bytes;
  int n;  // rows, at most kInt8Columns; what the panel's columns beyond have doesn't count
  std::int64_t groups;
};

// y[r ld + c] (+)= row r of x by column c of the panel, + bias[c]: for r < rows, c < columns.
struct Int8Tile {
  Int8Rows x;
  std::int64_t rows;
  Int8Panel w;
  bool minima;        // are added
  const float* bias;  // kInt8Columns of them, or null
  bool accumulate;
  float* y;
  std::int64_t ld;
  int columns;
};

struct Int8Kernels {
  int offset;  // of codes with a sign: 128 makes them bytes without one, 0 leaves them as they are
  // `groups` blocks of a row: q, the scales, and the sums of q of each half.
  void (*quantise)(const float* x, std::int64_t groups, std::int8_t* q, float* scales, std::int32_t* sums);
  void (*pack)(const Int8Source& from, const Int8Panel& to);
  // Where codes have no more than four bits, and for all others.
  void (*multiply_nibbles)(const Int8Tile& tile);
  void (*multiply_bytes)(const Int8Tile& tile);
};

// How a packing is multiplied: what makes its codes bytes without a sign, and what it has beside them. Of int8 the
// codes alone lie in rows: who has their scales puts them into the panel.
struct Int8Packing {
  int bits;    // of a code without a sign; 8: any
  int offset;  // of nibbles: how much more they are than the codes
  int parts;   // of a block of 32, with a scale each
  bool minima;

  [[nodiscard]] bool is_nibbles() const { return bits <= 4; }
  [[nodiscard]] int offset_for(const Int8Kernels& kernels) const { return is_nibbles() ? offset : kernels.offset; }
};
// None: it isn't multiplied so.
[[nodiscard]] std::optional<Int8Packing> int8_packing(tern_packing packing);
// Null where the target has no dot products of bytes.
[[nodiscard]] const Int8Kernels* int8_kernels(Target target);

// One table per file; null where the compiler's machine has no such target.
[[nodiscard]] const Int8Kernels* int8_kernels_avx2();
[[nodiscard]] const Int8Kernels* int8_kernels_avx512_vnni();

}  // namespace tern::cpu
