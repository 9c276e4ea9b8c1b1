// Ba, Kiros and Hinton, "Layer Normalization", 2016.
#include <cmath>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/norm.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_LAYER_NORM_X);
  return Check(desc, reason)
      .floats({TERN_LAYER_NORM_X, TERN_LAYER_NORM_RESIDUAL, TERN_LAYER_NORM_WEIGHT, TERN_LAYER_NORM_BIAS,
               TERN_LAYER_NORM_Y, TERN_LAYER_NORM_SUM})
      .dtype(TERN_LAYER_NORM_MEAN, TERN_F32)
      .dtype(TERN_LAYER_NORM_RSTD, TERN_F32)
      .rank(TERN_LAYER_NORM_X, 2)
      .same_shape({TERN_LAYER_NORM_X, TERN_LAYER_NORM_RESIDUAL, TERN_LAYER_NORM_Y, TERN_LAYER_NORM_SUM})
      .dim(TERN_LAYER_NORM_WEIGHT, 0, x.shape[1])
      .dim(TERN_LAYER_NORM_BIAS, 0, x.shape[1])
      .dim(TERN_LAYER_NORM_MEAN, 0, x.shape[0])
      .dim(TERN_LAYER_NORM_RSTD, 0, x.shape[0])
      .that(desc.present(TERN_LAYER_NORM_SUM) == desc.present(TERN_LAYER_NORM_RESIDUAL),
            "sum must be present iff residual is")
      .that(desc.present(TERN_LAYER_NORM_MEAN) == desc.present(TERN_LAYER_NORM_RSTD),
            "mean must be present iff rstd is")
      .ok();
}

// The weight, the bias or zeros, and a row for each thread.
std::uint64_t workspace(const PlanDesc& desc) {
  return float_rows(desc.arg(TERN_LAYER_NORM_X).shape[1], 2 + desc.num_threads);
}

// Tiles are added in double.
float mean_of(const TileMath& math, const float* s, std::int64_t width) {
  double sum = 0.0;
  for (std::int64_t first = 0; first < width; first += kTile) {
    sum += static_cast<double>(math.sum(s + first, static_cast<std::size_t>(std::min(kTile, width - first))));
  }
  return static_cast<float>(sum / static_cast<double>(width));
}

void add_number(const float* x, float number, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] + number;
}

const float* bias_row(const KernelArgs& args, const TileIo& io, const TensorView& bias, std::int64_t width) {
  float* row = float_row(args, width, 1);
  if (bias.present()) return io.load(bias, 0, bias.stride(0), width, row);
  std::fill_n(row, width, 0.0F);
  return row;
}

void run(const KernelArgs& args) {
  const TensorView &x = args[TERN_LAYER_NORM_X], &y = args[TERN_LAYER_NORM_Y];
  const TensorView &means = args[TERN_LAYER_NORM_MEAN], &rstds = args[TERN_LAYER_NORM_RSTD];
  const std::int64_t width = x.dim(1);
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  const float* weight = offset_weight(args, io, args[TERN_LAYER_NORM_WEIGHT], 0.0F, width);
  const float* bias = bias_row(args, io, args[TERN_LAYER_NORM_BIAS], width);
  const NormInput in{x, args[TERN_LAYER_NORM_RESIDUAL], args[TERN_LAYER_NORM_SUM]};
  args.pool->parallel_for(x.dim(0), norm_grain(width), [&](std::int64_t begin, std::int64_t end, int thread) {
    float* row = float_row(args, width, 2 + thread);
    alignas(64) TileBuffer by;
    for (std::int64_t r = begin; r < end; ++r) {
      const float* s = summed_row(args, io, in, r, row);
      const float mean = mean_of(math, s, width);
      add_number(s, -mean, width, row);
      const float rstd = reciprocal_rms(math, row, width, args.attr<tern_layer_norm_attrs>().eps);
      if (rstds.present()) {
        means.data<float>()[r * means.stride(0)] = mean;
        rstds.data<float>()[r * rstds.stride(0)] = rstd;
      }
      for (std::int64_t first = 0; first < width; first += kTile) {
        const std::int64_t n = std::min(kTile, width - first);
        const auto count = static_cast<std::size_t>(n);
        const std::int64_t at = r * y.stride(0) + first * y.stride(1);
        float* py = TileIo::place(y, at, y.stride(1), false, by.data());
        math.norm(row + first, rstd, weight + first, count, py);
        math.add(py, bias + first, count, py);
        io.store(y, at, y.stride(1), n, false, py);
      }
    }
  });
}

bool supports_backward(const PlanDesc& desc, std::string& reason) {
  const auto& x = desc.arg(TERN_LAYER_NORM_BACKWARD_X);
  return Check(desc, reason)
      .floats({TERN_LAYER_NORM_BACKWARD_DY, TERN_LAYER_NORM_BACKWARD_X, TERN_LAYER_NORM_BACKWARD_WEIGHT,
               TERN_LAYER_NORM_BACKWARD_DSUM, TERN_LAYER_NORM_BACKWARD_DX})
      .dtype(TERN_LAYER_NORM_BACKWARD_MEAN, TERN_F32)
      .dtype(TERN_LAYER_NORM_BACKWARD_RSTD, TERN_F32)
      .dtype(TERN_LAYER_NORM_BACKWARD_DWEIGHT, TERN_F32)
      .dtype(TERN_LAYER_NORM_BACKWARD_DBIAS, TERN_F32)
      .rank(TERN_LAYER_NORM_BACKWARD_X, 2)
      .same_shape({TERN_LAYER_NORM_BACKWARD_X, TERN_LAYER_NORM_BACKWARD_DY, TERN_LAYER_NORM_BACKWARD_DSUM,
                   TERN_LAYER_NORM_BACKWARD_DX})
      .dim(TERN_LAYER_NORM_BACKWARD_WEIGHT, 0, x.shape[1])
      .dim(TERN_LAYER_NORM_BACKWARD_MEAN, 0, x.shape[0])
      .dim(TERN_LAYER_NORM_BACKWARD_RSTD, 0, x.shape[0])
      .dim(TERN_LAYER_NORM_BACKWARD_DWEIGHT, 0, x.shape[1])
      .dim(TERN_LAYER_NORM_BACKWARD_DBIAS, 0, x.shape[1])
      .ok();
}

// The weight, four rows for each thread, and the sums of dweight and of dbias over each block of rows.
std::uint64_t workspace_backward(const PlanDesc& desc) {
  const auto& x = desc.arg(TERN_LAYER_NORM_BACKWARD_X);
  const std::int64_t sums =
      (desc.present(TERN_LAYER_NORM_BACKWARD_DWEIGHT) ? 1 : 0) + (desc.present(TERN_LAYER_NORM_BACKWARD_DBIAS) ? 1 : 0);
  return float_rows(x.shape[1], 1 + 4 * desc.num_threads + sums * norm_blocks(x.shape[0]));
}

class Backward {
 public:
  explicit Backward(const KernelArgs& args)
      : args_(args),
        width_(args[TERN_LAYER_NORM_BACKWARD_X].dim(1)),
        io_(args),
        math_(tile_math(args.target)),
        weight_(offset_weight(args, io_, args[TERN_LAYER_NORM_BACKWARD_WEIGHT], 0.0F, width_)) {}

  void run() {
    const std::int64_t rows = args_[TERN_LAYER_NORM_BACKWARD_X].dim(0), blocks = norm_blocks(rows);
    const TensorView &dweight = args_[TERN_LAYER_NORM_BACKWARD_DWEIGHT], &dbias = args_[TERN_LAYER_NORM_BACKWARD_DBIAS];
    const std::int64_t first_sum = 1 + 4 * args_.pool->num_threads();
    const std::int64_t first_bias = first_sum + (dweight.present() ? blocks : 0);
    args_.pool->parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t block = begin; block < end; ++block) {
        float* weight_sums = dweight.present() ? zero_row(first_sum + block) : nullptr;
        float* bias_sums = dbias.present() ? zero_row(first_bias + block) : nullptr;
        for (std::int64_t r = block * kNormRows; r < std::min(rows, (block + 1) * kNormRows); ++r)
          row(r, 1 + 4 * thread, weight_sums, bias_sums);
      }
    });
    if (dweight.present()) add_sums(first_sum, blocks, TERN_LAYER_NORM_BACKWARD_DWEIGHT);
    if (dbias.present()) add_sums(first_bias, blocks, TERN_LAYER_NORM_BACKWARD_DBIAS);
  }

 private:
  // Row r, in the four rows of the workspace from `mine` on; sums may be null.
  void row(std::int64_t r, std::int64_t mine, float* weight_sums, float* bias_sums) {
    const TensorView &dsum = args_[TERN_LAYER_NORM_BACKWARD_DSUM], &dx = args_[TERN_LAYER_NORM_BACKWARD_DX];
    const auto count = static_cast<std::size_t>(width_);
    const float* dy = load(TERN_LAYER_NORM_BACKWARD_DY, r, mine);
    const float* carried = dsum.present() ? load(TERN_LAYER_NORM_BACKWARD_DSUM, r, mine + 2) : nullptr;
    float* centred = float_row(args_, width_, mine + 1);
    const float rstd = number(TERN_LAYER_NORM_BACKWARD_RSTD, r);
    add_number(load(TERN_LAYER_NORM_BACKWARD_X, r, mine + 1), -number(TERN_LAYER_NORM_BACKWARD_MEAN, r), width_,
               centred);
    if (weight_sums != nullptr) math_.mul_add(rstd, dy, centred, count, weight_sums);
    if (bias_sums != nullptr) math_.add(bias_sums, dy, count, bias_sums);
    const auto divisor = static_cast<float>(width_);
    const float product = math_.dot3(dy, weight_, centred, count) / divisor;
    const float mean = math_.dot(dy, weight_, count) / divisor;
    const std::int64_t at = r * dx.stride(0);
    float* out = TileIo::place(dx, at, dx.stride(1), false, float_row(args_, width_, mine + 3));
    math_.norm_backward(dy, weight_, centred, rstd, rstd * rstd * product, carried, count, out);
    add_number(out, -rstd * mean, width_, out);
    io_.store(dx, at, dx.stride(1), width_, false, out);
  }

  [[nodiscard]] const float* load(int arg, std::int64_t r, std::int64_t at) const {
    const TensorView& tensor = args_[arg];
    return io_.load(tensor, r * tensor.stride(0), tensor.stride(1), width_, float_row(args_, width_, at));
  }
  [[nodiscard]] float number(int arg, std::int64_t r) const {
    return args_[arg].data<const float>()[r * args_[arg].stride(0)];
  }
  [[nodiscard]] float* zero_row(std::int64_t at) const {
    float* row = float_row(args_, width_, at);
    std::fill_n(row, width_, 0.0F);
    return row;
  }
  void add_sums(std::int64_t first, std::int64_t blocks, int arg) const {
    add_blocks(args_, float_row(args_, width_, first), blocks, args_[arg], args_.accumulates(arg));
  }

  const KernelArgs& args_;
  std::int64_t width_;
  TileIo io_;
  const TileMath& math_;
  const float* weight_;
};

void run_backward(const KernelArgs& args) { Backward(args).run(); }

constexpr KernelEntry kKernels[] = {
    {TERN_OP_LAYER_NORM, "layer_norm", supports, workspace, nullptr, run},
    {TERN_OP_LAYER_NORM_BACKWARD, "layer_norm_backward", supports_backward, workspace_backward, nullptr, run_backward}};

}  // namespace

KernelList layer_norm_kernels() { return kKernels; }

}  // namespace tern::cpu
