// Attention of one head over one sequence, forward and backward; the ops gather what that is from their layouts.
#pragma once

#include "numerics_view.h"

namespace fake::numerics {

// Which keys a row of queries sees, in CANN's words: sparseMode 0 to 4, preTokens, nextTokens, and the mask, where 1
// hides. The 2048 x 2048 mask of modes 2 to 4 is only looked at by is_lower_triangle.
struct Visibility {
  std::int64_t sparse_mode = 0;
  std::int64_t before = INT64_MAX;
  std::int64_t after = INT64_MAX;
  const View* mask = nullptr;  // [rows, keys] of this sequence and head in modes 0 and 1

  struct Range {
    std::int64_t first, last;  // [first, last)
  };
  [[nodiscard]] Range range(std::int64_t row, std::int64_t rows, std::int64_t keys) const;
};

// Modes 2 to 4 need 0 on and under the diagonal and 1 over it; a wrong mask gives wrong numbers on the device.
[[nodiscard]] bool is_lower_triangle(const View& mask);

struct HeadForward {
  View q, k, v;  // [rows, D], [keys, D], [keys, Dv]
  float scale = 1;
  Visibility visibility;
  bool blind_rows_are_zero = false;  // else they're NaN: what the device gives is nobody's to use
  const float* sink = nullptr;       // joins the sum of every row
};
// out [rows, Dv]; maximum and sum [rows] of the scaled scores (a row that sees nothing: -infinity and 0).
void attend(const HeadForward& in, const View& out, float* maximum, float* sum);

struct HeadBackward {
  HeadForward forward;
  View dy, out;                     // [rows, Dv]
  std::vector<float> maximum, sum;  // [rows]
  std::uint64_t shuffle = 0;
};
// dq [rows, D] is written; dk [keys, D] and dv [keys, Dv] are added to, as heads of queries share them.
void attend_backward(const HeadBackward& in, const View& dq, float* dk, float* dv);

// Keys or values of one sequence by its row of the block table: [length, heads, D] in fp32.
struct PagedCache {
  View blocks;                      // [blocks, block, heads, D], in whatever strides
  std::vector<std::int64_t> table;  // blocks of this sequence
};
[[nodiscard]] std::vector<float> gathered(const PagedCache& cache, std::int64_t length);

}  // namespace fake::numerics
