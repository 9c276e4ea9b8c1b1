// What ops that go row by row share: which threads have a row together (cu/rows.cuh), whether 16 bytes can be moved at
// a time (cu/vectors.cuh), and sums over rows.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "backends/cuda/kernels.h"

namespace tern::cuda {

inline constexpr std::int64_t kVector = 8;  // elements: W of cu/vectors.cuh

// The team of threads that has a row: a warp of a block, or a whole block.
struct RowTile {
  std::int64_t team = 32;  // threads
  std::int64_t teams = 4;  // of a block
  bool kept = true;        // a row fits in `vectors` vectors of each thread
  [[nodiscard]] Dim3 threads() const { return {team * teams, 1, 1}; }
  [[nodiscard]] Dim3 blocks(std::int64_t items) const { return {parts_of(items, teams), 1, 1}; }
};
// By the width alone: a row's bits depend on no other row.
[[nodiscard]] inline RowTile row_tile(std::int64_t width, std::int64_t vectors) {
  for (const std::int64_t team : {32, 128, 256, 512}) {
    if (width <= team * vectors * kVector) return {team, team == 32 ? 4 : 1, true};
  }
  return {512, 1, false};
}

// Whether each vector of a tensor's rows is whole, dense, and begins at a multiple of 16 bytes. True of absent ones.
[[nodiscard]] inline bool is_wide(const TensorView& tensor) {
  if (!tensor.present()) return true;
  const int last = tensor.desc.rank - 1;
  bool wide = tensor.planes[0] % 16 == 0 && tensor.dim(last) % kVector == 0 && tensor.stride(last) == 1;
  for (int d = 0; d < last; ++d) wide = wide && (tensor.dim(d) == 1 || tensor.stride(d) % kVector == 0);
  return wide;
}
[[nodiscard]] inline bool are_wide(std::initializer_list<const TensorView*> tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const TensorView* tensor) { return is_wide(*tensor); });
}
// The dtype that those of the arguments which are present have in common; -1: they differ.
[[nodiscard]] inline int common_dtype(const tern_op_desc& op, std::initializer_list<int> args) {
  int dtype = -1;
  for (const int i : args) {
    if (op.args[i].rank == 0) continue;
    if (dtype >= 0 && dtype != static_cast<int>(op.args[i].dtype)) return -1;
    dtype = static_cast<int>(op.args[i].dtype);
  }
  return dtype;
}
// The instance of a kernel for a small float's dtype: rms_norm_bf16.
[[nodiscard]] inline std::string instance_of(const char* kernel, int dtype) {
  return std::string(kernel) + (dtype == TERN_F32 ? "_f32" : dtype == TERN_F16 ? "_f16" : "_bf16");
}
// <kernel>_any, which takes whatever there is; then `others`; then, where tensors have a dtype in common, the instance
// for it of <kernel>, or of `wide` if that is named, for rows that are wide.
[[nodiscard]] inline Functions with_any(const char* kernel, int dtype, std::initializer_list<const char*> others = {},
                                        const char* wide = nullptr) {
  Functions list = {std::string(kernel) + "_any"};
  list.insert(list.end(), others.begin(), others.end());
  if (dtype >= 0) list.push_back(instance_of(wide != nullptr ? wide : kernel, dtype));
  return list;
}

// Rows are summed over columns, for gradients of weights, in two steps: teams sum some rows each, and column_sum adds
// what they found. As many rows each as keep the teams to kMostTeams, and kSummedRows at least.
inline constexpr std::int64_t kMostTeams = 1024;
inline constexpr std::int64_t kSummedRows = 8;
[[nodiscard]] constexpr std::int64_t summed_rows(std::int64_t rows) {
  return std::max(kSummedRows, parts_of(rows, kMostTeams));
}
// Bytes of partial [teams, width] f32 for so many rows, or fewer.
[[nodiscard]] constexpr std::uint64_t partial_bytes(std::int64_t rows, std::int64_t width) {
  const std::int64_t teams = std::min(kMostTeams, parts_of(rows, kSummedRows));
  return static_cast<std::uint64_t>(teams * width) * sizeof(float);
}
// Calls column_sum: out [width] f32, whose elements lie `stride` apart, (+)= the sums of partial [teams, width].
inline void sum_columns(Call call, const DeviceTensor& out, std::int64_t width, std::int64_t stride, Place partial,
                        std::int64_t teams) {
  constexpr std::int64_t kColumns = 32, kThreads = 512;  // of a block
  call.arg(partial).arg(out).arg(teams).arg(width).arg(stride);
  call.overlapped().run({parts_of(width, kColumns), 1, 1}, {kThreads, 1, 1});
}
inline void sum_columns(Call call, const TensorView& out, Place partial, std::int64_t teams) {
  sum_columns(std::move(call), out.plane(0), out.dim(0), out.stride(0), partial, teams);
}

}  // namespace tern::cuda
