// adafactor: what its sums need is gathered row by row and column by column, each by one thread in a fixed order; then the
// parameter is changed in one last pass. No copy of the gradient is made.
#include <algorithm>
#include <array>
#include <cmath>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

struct Hyper {
  float lr, beta2, rest2, eps1, eps2, clip, beta1, rest1, weight_decay, scale_parameter, grad_scale;
};

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .dtype(TERN_ADAFACTOR_PARAM, TERN_F32)
      .floats({TERN_ADAFACTOR_GRAD})
      .dim(TERN_ADAFACTOR_HYPER, 0, 11)
      .same_shape({TERN_ADAFACTOR_PARAM, TERN_ADAFACTOR_V, TERN_ADAFACTOR_M, TERN_ADAFACTOR_GRAD})
      .contiguous()
      .ok();
}

// A parameter without row and col is seen as rows of one tile.
struct Sizes {
  std::int64_t matrices, rows, columns;
  [[nodiscard]] std::int64_t all_rows() const { return matrices * rows; }
};

Sizes sizes_of(const tern_tensor_desc& param, bool is_matrix) {
  std::int64_t elements = 1;
  for (int d = 0; d < static_cast<int>(param.rank); ++d) elements *= param.shape[d];
  if (!is_matrix) return {1, (elements + kTile - 1) / kTile, kTile};
  const std::int64_t columns = param.shape[param.rank - 1];
  const std::int64_t rows = param.shape[param.rank - 2];
  return {elements / std::max<std::int64_t>(rows * columns, 1), rows, columns};
}

// Doubles: of each row the squares of param and of the step; floats: 1 / sqrt(row / mean), 1 / sqrt(col).
std::uint64_t workspace(const PlanDesc& desc) {
  const Sizes sizes = sizes_of(desc.arg(TERN_ADAFACTOR_PARAM), desc.present(TERN_ADAFACTOR_ROW));
  return static_cast<std::uint64_t>(sizes.all_rows()) * (2 * sizeof(double) + sizeof(float)) +
         static_cast<std::uint64_t>(sizes.matrices * sizes.columns) * sizeof(float);
}

class Step {
 public:
  explicit Step(const KernelArgs& args)
      : args_(args),
        io_(args),
        is_matrix_(args[TERN_ADAFACTOR_ROW].present()),
        sizes_(sizes_of(args[TERN_ADAFACTOR_PARAM].desc, is_matrix_)),
        elements_(args[TERN_ADAFACTOR_PARAM].elements()),
        param_(args[TERN_ADAFACTOR_PARAM].data<float>()),
        m_(args[TERN_ADAFACTOR_M].data<float>()),
        v_(args[TERN_ADAFACTOR_V].data<float>()) {
    const auto* h = args[TERN_ADAFACTOR_HYPER].data<const float>();
    hyper_ = {h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7], h[8], h[9], h[10]};
    param_squares_ = reinterpret_cast<double*>(args.workspace);
    step_squares_ = param_squares_ + sizes_.all_rows();
    row_factor_ = reinterpret_cast<float*>(step_squares_ + sizes_.all_rows());
    col_factor_ = row_factor_ + sizes_.all_rows();
  }

  void run() {
    each_row([&](std::int64_t row) { gather_row(row); });
    if (is_matrix_) {
      for (std::int64_t matrix = 0; matrix < sizes_.matrices; ++matrix) scale_rows(matrix);
      gather_columns();
    }
    each_row([&](std::int64_t row) { measure_row(row); });
    const double n = static_cast<double>(std::max<std::int64_t>(elements_, 1));
    const auto rms = [&](const double* squares) {
      double sum = 0;
      for (std::int64_t row = 0; row < sizes_.all_rows(); ++row) sum += squares[row];
      return static_cast<float>(std::sqrt(sum / n));
    };
    scale_ = hyper_.lr * (hyper_.scale_parameter != 0.0F ? std::max(hyper_.eps2, rms(param_squares_)) : 1.0F);
    factor_ = scale_ / std::max(1.0F, rms(step_squares_) / hyper_.clip);
    each_row([&](std::int64_t row) { change_row(row); });
  }

 private:
  template <typename Fn>
  void each_row(Fn&& fn) {
    args_.pool->parallel_for(sizes_.all_rows(), 1 + kParallelFrom / std::max<std::int64_t>(sizes_.columns, 1),
                             [&](std::int64_t begin, std::int64_t end, int) {
                               for (std::int64_t row = begin; row < end; ++row) fn(row);
                             });
  }

  // fn(first element, its column, count, gradients) for the tiles of a row.
  template <typename Fn>
  void tiles(std::int64_t row, Fn&& fn) {
    alignas(64) TileBuffer buffer;
    const std::int64_t begin = row * sizes_.columns;
    const std::int64_t end = std::min(elements_, begin + sizes_.columns);
    for (std::int64_t at = begin; at < end; at += kTile) {
      const std::int64_t n = std::min(kTile, end - at);
      fn(at, at - begin, n, io_.load(args_[TERN_ADAFACTOR_GRAD], at, 1, n, buffer.data()));
    }
  }

  [[nodiscard]] float square(float grad) const {
    const float g = grad * hyper_.grad_scale;
    return g * g + hyper_.eps1;
  }

  void gather_row(std::int64_t row) {
    double squares = 0;
    double param_squares = 0;
    tiles(row, [&](std::int64_t at, std::int64_t, std::int64_t n, const float* grad) {
      for (std::int64_t i = 0; i < n; ++i) {
        const double p = param_[at + i];
        param_squares += p * p;
        if (is_matrix_) {
          squares += square(grad[i]);
        } else {
          v_[at + i] = hyper_.beta2 * v_[at + i] + hyper_.rest2 * square(grad[i]);
        }
      }
    });
    param_squares_[row] = param_squares;
    if (!is_matrix_) return;
    float& state = args_[TERN_ADAFACTOR_ROW].data<float>()[row];
    state = hyper_.beta2 * state + hyper_.rest2 * static_cast<float>(squares / static_cast<double>(sizes_.columns));
  }

  void scale_rows(std::int64_t matrix) {
    const float* row = args_[TERN_ADAFACTOR_ROW].data<float>() + matrix * sizes_.rows;
    double sum = 0;
    for (std::int64_t i = 0; i < sizes_.rows; ++i) sum += row[i];
    const auto mean = static_cast<float>(sum / static_cast<double>(sizes_.rows));
    for (std::int64_t i = 0; i < sizes_.rows; ++i) row_factor_[matrix * sizes_.rows + i] = 1.0F / std::sqrt(row[i] / mean);
  }

  // A thread takes some columns of one matrix through all of its rows.
  void gather_columns() {
    constexpr std::int64_t kColumns = 64;
    const std::int64_t parts = (sizes_.columns + kColumns - 1) / kColumns;
    args_.pool->parallel_for(sizes_.matrices * parts, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t part = begin; part < end; ++part) {
        const std::int64_t first = part % parts * kColumns;
        gather_columns(part / parts, first, std::min(kColumns, sizes_.columns - first));
      }
    });
  }

  void gather_columns(std::int64_t matrix, std::int64_t first, std::int64_t n) {
    std::array<double, 64> sums{};
    std::array<float, 64> buffer;
    for (std::int64_t i = 0; i < sizes_.rows; ++i) {
      const std::int64_t at = (matrix * sizes_.rows + i) * sizes_.columns + first;
      const float* grad = io_.load(args_[TERN_ADAFACTOR_GRAD], at, 1, n, buffer.data());
      for (std::int64_t j = 0; j < n; ++j) sums[static_cast<std::size_t>(j)] += square(grad[j]);
    }
    float* state = args_[TERN_ADAFACTOR_COL].data<float>() + matrix * sizes_.columns + first;
    for (std::int64_t j = 0; j < n; ++j) {
      const auto mean = static_cast<float>(sums[static_cast<std::size_t>(j)] / static_cast<double>(sizes_.rows));
      state[j] = hyper_.beta2 * state[j] + hyper_.rest2 * mean;
      col_factor_[matrix * sizes_.columns + first + j] = 1.0F / std::sqrt(state[j]);
    }
  }

  // The step before it is clipped and scaled.
  [[nodiscard]] float step(std::int64_t row, std::int64_t at, std::int64_t column, float grad) const {
    const float g = grad * hyper_.grad_scale;
    if (!is_matrix_) return g / std::sqrt(v_[at]);
    return g * row_factor_[row] * col_factor_[row / sizes_.rows * sizes_.columns + column];
  }

  void measure_row(std::int64_t row) {
    double squares = 0;
    tiles(row, [&](std::int64_t at, std::int64_t column, std::int64_t n, const float* grad) {
      for (std::int64_t i = 0; i < n; ++i) {
        const double u = step(row, at + i, column + i, grad[i]);
        squares += u * u;
      }
    });
    step_squares_[row] = squares;
  }

  void change_row(std::int64_t row) {
    const float keep = 1.0F - hyper_.weight_decay * scale_;
    tiles(row, [&](std::int64_t at, std::int64_t column, std::int64_t n, const float* grad) {
      for (std::int64_t i = 0; i < n; ++i) {
        float u = factor_ * step(row, at + i, column + i, grad[i]);
        if (m_ != nullptr) u = m_[at + i] = hyper_.beta1 * m_[at + i] + hyper_.rest1 * u;
        param_[at + i] = keep * param_[at + i] - u;
      }
    });
  }

  const KernelArgs& args_;
  TileIo io_;
  bool is_matrix_;
  Sizes sizes_;
  std::int64_t elements_;
  float* param_;
  float* m_;
  float* v_;
  Hyper hyper_{};
  double* param_squares_ = nullptr;  // [matrices rows]
  double* step_squares_ = nullptr;   // [matrices rows]
  float* row_factor_ = nullptr;      // [matrices rows]
  float* col_factor_ = nullptr;      // [matrices columns]
  float scale_ = 0;
  float factor_ = 0;
};

void run(const KernelArgs& args) { Step(args).run(); }

constexpr KernelEntry kKernels[] = {{TERN_OP_ADAFACTOR, "adafactor", supports, workspace, nullptr, run}};

}  // namespace

KernelList adafactor_kernels() { return kKernels; }

}  // namespace tern::cpu
