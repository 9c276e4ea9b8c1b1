// What the products of few rows of x by a quantised weight [n, k] share. The weight's numbers are expanded where
// they're multiplied, so that it's read once and as it is stored. Which lane adds what depends on n and k alone: a
// row's bits are the same whatever there is beside it.
#pragma once

#include "backends/cuda/cu/packing.cuh"

// As in few_rows.cpp.
struct FewRows {
  long x_row, x_sub, x_col;
  long y_row, y_sub, y_col;
  long bias_step, bias_expert;
  const int* tiles;  // of experts' rows: first, end, expert (-1: none), 0; null: one weight has all rows
  int m, n, k;       // n: of one expert
  int parts;         // rows are [m / parts, parts]
  int x_is_plain;    // x has the dtype that products are computed in, and rows of whole 16 bytes
  int reserved;
};
#define FEW_ARGUMENTS Weight w, Tensor x, Tensor bias, Tensor y, FewRows p
#define FEW_WARPS 8
#define FEW_OUTPUTS 16  // of a block

struct Rows {
  int first, end, expert;
};
template <int rows>
DEVICE Rows rows_of_block(const FewRows& p) {
  const int i = static_cast<int>(blockIdx.x);
  if (p.tiles == nullptr) return {i * rows, min(i * rows + rows, p.m), 0};
  return {p.tiles[4 * i], p.tiles[4 * i + 1], p.tiles[4 * i + 2]};
}
DEVICE long x_at(const FewRows& p, int row) {
  return p.parts == 1 ? row * p.x_row : row / p.parts * p.x_row + row % p.parts * p.x_sub;
}
DEVICE void finish(const Tensor& bias, const Tensor& y, const FewRows& p, const Rows& rows, int row, int column,
                   float sum) {
  if (row >= rows.end || column >= p.n) return;
  const long at = (p.parts == 1 ? row * p.y_row : row / p.parts * p.y_row + row % p.parts * p.y_sub) + column * p.y_col;
  if (rows.expert < 0) {
    if (y.adds == 0) put(y, at, 0.0f);
    return;
  }
  if (bias.here()) sum += get(bias, rows.expert * p.bias_expert + column * p.bias_step);
  put_or_add(y, at, sum);
}

// Of two rows of the weight what a unit holds, brought ahead of its arithmetic where its bytes lie together.
template <int packing>
struct Brought {
  RawUnit raw[2];
  DEVICE_MEMBER void bring(const Weight& w, const long (&row)[2], int unit, int columns) {
    if constexpr (has_raw<packing>()) {
      if (unit * 32 >= columns) return;
      UNROLL for (int r = 0; r < 2; ++r) bring_unit<packing>(w, row[r], unit, raw[r]);
    }
  }
  DEVICE_MEMBER void half(const Weight& w, const long (&row)[2], int r, int unit, int h, float (&values)[16]) const {
    if constexpr (has_raw<packing>()) {
      expand_unit<packing>(raw[r], unit, h, values);
    } else {
      weight_16<packing>(w, row[r], column_of<packing>(unit, h), values);
    }
  }
};
