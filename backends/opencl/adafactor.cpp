// adafactor: what its sums need is gathered by rows and by columns, then the parameter is changed in one last pass. No copy
// of the gradient is made.
#include <algorithm>

#include "backends/opencl/kernels.h"

namespace tern::opencl {
namespace {

constexpr std::int64_t kRow = 1024;  // elements of a row, where the parameter is no matrix

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .dtype(TERN_ADAFACTOR_PARAM, TERN_F32)
      .floats({TERN_ADAFACTOR_GRAD})
      .dim(TERN_ADAFACTOR_HYPER, 0, 11)
      .same_shape({TERN_ADAFACTOR_PARAM, TERN_ADAFACTOR_V, TERN_ADAFACTOR_M, TERN_ADAFACTOR_GRAD})
      .contiguous()
      .ok();
}

// As cl/adafactor.cl defines it.
struct Sizes {
  std::int64_t elements, matrices, rows, columns;
  [[nodiscard]] std::int64_t all_rows() const { return matrices * rows; }
};

Sizes sizes_of(const tern_tensor_desc& param, bool is_matrix) {
  std::int64_t elements = 1;
  for (int d = 0; d < static_cast<int>(param.rank); ++d) elements *= param.shape[d];
  if (!is_matrix) return {elements, 1, parts_of(elements, kRow), kRow};
  const std::int64_t rows = param.shape[param.rank - 2], columns = param.shape[param.rank - 1];
  return {elements, elements / std::max<std::int64_t>(rows * columns, 1), rows, columns};
}

// Floats: of each row the squares of param and of the step, and 1 / sqrt(row / mean); of each column 1 / sqrt(col); and
// the two factors of the step.
std::uint64_t workspace(const PlanDesc& desc) {
  const Sizes sizes = sizes_of(desc.arg(TERN_ADAFACTOR_PARAM), desc.present(TERN_ADAFACTOR_ROW));
  return static_cast<std::uint64_t>(3 * sizes.all_rows() + sizes.matrices * sizes.columns + 2) * sizeof(float);
}

enum Step : std::size_t { kGatherRows, kScaleRows, kGatherColumns, kMeasureRows, kScale, kChange };

std::vector<Function> functions(const PlanDesc& desc) {
  Defines defines;
  defines.set("GROUP", reducing_group(desc.device))
      .tensor("grad", desc, TERN_ADAFACTOR_GRAD)
      .tensor("row", desc, TERN_ADAFACTOR_ROW)
      .tensor("m", desc, TERN_ADAFACTOR_M);
  std::vector<Function> out;
  for (const char* name : {"gather_rows", "scale_rows", "gather_columns", "measure_rows", "scale_step", "change"}) {
    out.push_back({"adafactor", name, defines.text()});
  }
  return out;
}

void run(const Launch& launch) {
  const TensorView &param = launch[TERN_ADAFACTOR_PARAM], &grad = launch[TERN_ADAFACTOR_GRAD];
  const TensorView &row = launch[TERN_ADAFACTOR_ROW], &col = launch[TERN_ADAFACTOR_COL], &v = launch[TERN_ADAFACTOR_V];
  const TensorView &m = launch[TERN_ADAFACTOR_M], &hyper = launch[TERN_ADAFACTOR_HYPER];
  const Sizes sizes = sizes_of(param.desc, row.present());
  if (sizes.elements == 0) return;
  const std::int64_t group = reducing_group(launch.device()), plain = plain_group(launch.device());
  const auto floats = [&](std::int64_t from) {
    return launch.workspace(static_cast<std::uint64_t>(from) * sizeof(float));
  };
  const std::int64_t all = sizes.all_rows();
  const Place param_squares = floats(0), step_squares = floats(all), row_factor = floats(2 * all);
  const Place col_factor = floats(3 * all), factors = floats(3 * all + sizes.matrices * sizes.columns);
  launch.call(kGatherRows).arg(param).arg(grad).arg(hyper).arg(row).arg(v).arg(param_squares).arg(sizes).run(all * group,
                                                                                                            group);
  if (row.present()) {
    launch.call(kScaleRows).arg(row).arg(row_factor).arg(sizes).run(sizes.matrices * group, group);
    launch.call(kGatherColumns).arg(grad).arg(hyper).arg(col).arg(col_factor).arg(sizes).run(
        sizes.matrices * sizes.columns, plain);
  }
  launch.call(kMeasureRows)
      .arg(grad)
      .arg(hyper)
      .arg(v)
      .arg(row_factor)
      .arg(col_factor)
      .arg(step_squares)
      .arg(sizes)
      .run(all * group, group);
  launch.call(kScale).arg(hyper).arg(param_squares).arg(step_squares).arg(factors).arg(sizes).run(group, group);
  launch.call(kChange)
      .arg(param)
      .arg(grad)
      .arg(hyper)
      .arg(v)
      .arg(m)
      .arg(row_factor)
      .arg(col_factor)
      .arg(factors)
      .arg(sizes)
      .run(all * group, group);
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ADAFACTOR, "adafactor", supports, workspace, functions, run}};

}  // namespace

KernelList adafactor_kernels() { return kKernels; }

}  // namespace tern::opencl
