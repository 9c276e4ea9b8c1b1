// adafactor: what its sums need is gathered by rows and by columns, then the parameter is changed in one last pass. No
// copy of the gradient is made.
#include <algorithm>

#include "backends/cuda/kernels.h"

namespace tern::cuda {
namespace {

constexpr std::int64_t kRow = 1024;  // elements of a row, where the parameter is no matrix

constexpr std::int64_t kMostMatrices = 65535;  // blocks' third dimension

std::int64_t matrices_of(const PlanDesc& desc) {
  const auto& param = desc.arg(TERN_ADAFACTOR_PARAM);
  std::int64_t matrices = 1;
  for (int d = 0; desc.present(TERN_ADAFACTOR_ROW) && d < param.rank - 2; ++d) matrices *= param.shape[d];
  return matrices;
}

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .dtype(TERN_ADAFACTOR_PARAM, TERN_F32)
      .floats({TERN_ADAFACTOR_GRAD})
      .dim(TERN_ADAFACTOR_HYPER, 0, 11)
      .same_shape({TERN_ADAFACTOR_PARAM, TERN_ADAFACTOR_V, TERN_ADAFACTOR_M, TERN_ADAFACTOR_GRAD})
      .contiguous()
      .that(matrices_of(desc) <= kMostMatrices, "a stack of more than 65,535 matrices")
      .ok();
}

struct Sizes {
  std::int64_t elements, matrices, rows, columns;
  [[nodiscard]] std::int64_t all_rows() const { return matrices * rows; }
  [[nodiscard]] std::int64_t all_columns() const { return matrices * columns; }
  // Columns are summed over parts of the rows.
  [[nodiscard]] std::int64_t rows_of_part() const { return std::max<std::int64_t>(64, parts_of(rows, 64)); }
  [[nodiscard]] std::int64_t parts() const { return parts_of(rows, rows_of_part()); }
};

// The struct Adafactor of cu/adafactor.cu.
struct Arguments {
  Place param, row, col, v, m;
  DeviceTensor grad;
  Place hyper;
  std::int64_t elements, matrices, rows, columns;
  std::int64_t rows_of_part;
  Place param_squares, step_squares, row_factor, col_factor, factors, partial;
};

Sizes sizes_of(const tern_tensor_desc& param, bool is_matrix) {
  std::int64_t elements = 1;
  for (int d = 0; d < static_cast<int>(param.rank); ++d) elements *= param.shape[d];
  if (!is_matrix) return {elements, 1, parts_of(elements, kRow), kRow};
  const std::int64_t rows = param.shape[param.rank - 2], columns = param.shape[param.rank - 1];
  return {elements, elements / std::max<std::int64_t>(rows * columns, 1), rows, columns};
}

std::uint64_t workspace(const PlanDesc& desc) {
  const bool is_matrix = desc.present(TERN_ADAFACTOR_ROW);
  const Sizes sizes = sizes_of(desc.arg(TERN_ADAFACTOR_PARAM), is_matrix);
  std::int64_t floats = 3 * sizes.all_rows() + sizes.all_columns() + 2;
  if (is_matrix) floats += sizes.parts() * sizes.all_columns();
  return static_cast<std::uint64_t>(floats) * sizeof(float);
}

enum Step : std::size_t { kRows, kScaleRows, kPartOfColumns, kColumns, kMeasure, kScale, kChange };

Functions functions(const PlanDesc& /*desc*/) {
  return {"adafactor_rows",    "adafactor_scale_rows", "adafactor_part_of_columns", "adafactor_columns",
          "adafactor_measure", "adafactor_scale",      "adafactor_change"};
}

Arguments arguments_of(const Launch& launch, const Sizes& sizes) {
  const auto place = [&](int arg) { return launch[arg].planes[0]; };
  const auto floats = [&](std::int64_t from) {
    return launch.workspace(static_cast<std::uint64_t>(from) * sizeof(float));
  };
  const std::int64_t rows = sizes.all_rows(), columns = sizes.all_columns();
  return {place(TERN_ADAFACTOR_PARAM),
          place(TERN_ADAFACTOR_ROW),
          place(TERN_ADAFACTOR_COL),
          place(TERN_ADAFACTOR_V),
          place(TERN_ADAFACTOR_M),
          launch[TERN_ADAFACTOR_GRAD].plane(0),
          place(TERN_ADAFACTOR_HYPER),
          sizes.elements,
          sizes.matrices,
          sizes.rows,
          sizes.columns,
          sizes.rows_of_part(),
          floats(0),
          floats(rows),
          floats(2 * rows),
          floats(3 * rows),
          floats(3 * rows + columns),
          floats(3 * rows + columns + 2)};
}

void run(const Launch& launch) {
  const bool is_matrix = launch[TERN_ADAFACTOR_ROW].present();
  const Sizes sizes = sizes_of(launch[TERN_ADAFACTOR_PARAM].desc, is_matrix);
  if (sizes.elements == 0) return;
  const Arguments a = arguments_of(launch, sizes);
  const Dim3 of_row{sizes.all_rows(), 1, 1}, row_threads{kGroup, 1, 1};
  launch.call(kRows).arg(a).run(of_row, row_threads);
  if (is_matrix) {
    launch.call(kScaleRows).arg(a).run({sizes.matrices, 1, 1}, {256, 1, 1});
    launch.call(kPartOfColumns).arg(a).run({parts_of(sizes.columns, 256), sizes.parts(), sizes.matrices}, {256, 1, 1});
    launch.call(kColumns).arg(a).arg(sizes.parts()).run(sizes.all_columns(), kPlainThreads);
  }
  launch.call(kMeasure).arg(a).run(of_row, row_threads);
  launch.call(kScale).arg(a).run({1, 1, 1}, {1024, 1, 1});
  launch.call(kChange).arg(a).run(of_row, row_threads);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ADAFACTOR, "adafactor", supports, workspace, functions, run}};

}  // namespace

KernelList adafactor_kernels() { return kKernels; }

}  // namespace tern::cuda
