// The sequences of ops that carry a state through each of them.
#pragma once

#include "backends/cuda/cu/common.cuh"

struct Sequence {
  long number;  // -1: rows outside of every sequence
  long begin, end;
};

// The sequence of a row: `bounds` rise, [sequences + 1].
DEVICE Sequence sequence_of(long row, const int* bounds, long sequences) {
  if (sequences <= 0 || row >= bounds[sequences]) return {-1, 0, 0};
  long low = 0, high = sequences;  // the first whose begin lies behind the row is in (low, high]
  while (high - low > 1) {
    const long middle = (low + high) / 2;
    (bounds[middle] <= row ? low : high) = middle;
  }
  return {low, bounds[low], bounds[low + 1]};
}
// The same, where the sequence of a row before it is known.
DEVICE Sequence next_sequence_of(const Sequence& earlier, long row, const int* bounds, long sequences) {
  return earlier.number >= 0 && row < earlier.end ? earlier : sequence_of(row, bounds, sequences);
}
