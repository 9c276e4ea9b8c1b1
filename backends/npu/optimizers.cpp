// sgd, lion and adafactor over fp32 masters. Their numbers lie on the device, so that one captured program serves every
// step.
#include "backends/npu/kernel.h"

namespace tern::npu {
namespace {

View number(const View& hyper, int which) { return hyper.slice(0, which, 1); }

void sgd(Composer& c) {
  enum { kLr, kKeep, kMomentum, kRest, kDecay, kTakeGrad, kTakeBuf, kGradScale };
  const View param = c.arg(TERN_SGD_PARAM);
  if (param.elements() == 0) return;
  const View hyper = c.arg(TERN_SGD_HYPER);
  const View g = c.temp(ACL_FLOAT, param.shape);
  const View t = c.temp(ACL_FLOAT, param.shape);
  c.mul(c.f32(c.arg(TERN_SGD_GRAD)), number(hyper, kGradScale), g);
  c.mul(param, number(hyper, kDecay), t);
  c.add(g, t, g);
  if (c.present(TERN_SGD_BUF)) {
    const View buf = c.arg(TERN_SGD_BUF);
    c.mul(buf, number(hyper, kMomentum), buf);
    c.mul(g, number(hyper, kRest), t);
    c.add(buf, t, buf);
    c.mul(buf, number(hyper, kTakeBuf), t);
  }
  c.mul(g, number(hyper, kTakeGrad), g);
  if (c.present(TERN_SGD_BUF)) c.add(g, t, g);
  c.mul(g, number(hyper, kLr), g);
  c.mul(param, number(hyper, kKeep), param);
  c.add(param, g, param, -1.0);
}

void lion(Composer& c) {
  enum { kLr, kKeep, kBeta1, kRest1, kBeta2, kRest2, kGradScale };
  const View param = c.arg(TERN_LION_PARAM);
  if (param.elements() == 0) return;
  const View m = c.arg(TERN_LION_M);
  const View hyper = c.arg(TERN_LION_HYPER);
  const View g = c.temp(ACL_FLOAT, param.shape);
  const View t = c.temp(ACL_FLOAT, param.shape);
  const View sum = c.temp(ACL_FLOAT, param.shape);
  c.mul(c.f32(c.arg(TERN_LION_GRAD)), number(hyper, kGradScale), g);
  c.mul(m, number(hyper, kBeta1), sum);
  c.mul(g, number(hyper, kRest1), t);
  c.add(sum, t, sum);
  c.call(TERN_NPU_OP(Sign), sum, t);
  c.mul(t, number(hyper, kLr), t);
  c.mul(param, number(hyper, kKeep), param);
  c.add(param, t, param, -1.0);
  c.mul(m, number(hyper, kBeta2), m);
  c.mul(g, number(hyper, kRest2), g);
  c.add(m, g, m);
}

class Adafactor {
 public:
  explicit Adafactor(Composer& c) : c_(c), hyper_(c.arg(TERN_ADAFACTOR_HYPER)), whole_(c.arg(TERN_ADAFACTOR_PARAM)) {}

  void run() {
    if (whole_.elements() == 0) return;
    const bool is_matrix = c_.present(TERN_ADAFACTOR_ROW);
    const std::int64_t columns = is_matrix ? whole_.dim(-1) : whole_.elements();
    const std::int64_t rows = is_matrix ? whole_.dim(-2) : 1;
    shape_ = {whole_.elements() / (rows * columns), rows, columns};
    const View param = whole_.reshaped(shape_);
    step_ = c_.temp(ACL_FLOAT, shape_);
    work_ = c_.temp(ACL_FLOAT, shape_);
    c_.mul(c_.f32(c_.arg(TERN_ADAFACTOR_GRAD).reshaped(shape_)), of(kGradScale), step_);
    c_.mul(step_, step_, work_);
    c_.add(work_, of(kEps1), work_);
    is_matrix ? divide_by_factors() : divide_by_whole();
    // a = lr (scale_parameter max(eps2, rms(param)) + 1 - scale_parameter); step a / max(1, rms(step) / clip)
    const View a = rms(param);
    const View clip = rms(step_);
    c_.call(TERN_NPU_OP(Maximum), a, of(kEps2), a);
    c_.adds(a, -1.0, a);
    c_.mul(a, of(kScaleParameter), a);
    c_.adds(a, 1.0, a);
    c_.mul(a, of(kLr), a);
    c_.call(TERN_NPU_OP(Div), clip, of(kClip), clip);
    c_.call(TERN_NPU_OP(ClampMin), clip, Number{1.0}, clip);
    c_.call(TERN_NPU_OP(Div), a, clip, clip);
    c_.mul(step_, clip, step_);
    if (c_.present(TERN_ADAFACTOR_M)) {
      const View m = c_.arg(TERN_ADAFACTOR_M).reshaped(shape_);
      move(m, kBeta1, kRest1, step_, work_);
      step_ = m;
    }
    c_.mul(a, of(kWeightDecay), a);
    c_.muls(a, -1.0, a);
    c_.adds(a, 1.0, a);
    c_.mul(param, a, param);
    c_.add(param, step_, param, -1.0);
  }

 private:
  enum Hyper {
    kLr, kBeta2, kRest2, kEps1, kEps2, kClip, kBeta1, kRest1, kWeightDecay, kScaleParameter, kGradScale
  };
  [[nodiscard]] View of(Hyper which) const { return number(hyper_, which); }

  // mean = beta mean + rest value; `room` is overwritten.
  void move(const View& mean, Hyper beta, Hyper rest, const View& value, const View& room) {
    c_.mul(mean, of(beta), mean);
    c_.mul(value, of(rest), room);
    c_.add(mean, room, mean);
  }

  // The running mean of the squares in `work_` over one dimension.
  void gather(const View& state, int dim) {
    const View sum = c_.temp(ACL_FLOAT, state.shape);
    c_.reduce_sum(work_, {dim}, sum);
    c_.muls(sum, 1.0 / static_cast<double>(shape_[dim]), sum);
    move(state, kBeta2, kRest2, sum, sum);
  }

  void divide_by_factors() {
    const View row = c_.arg(TERN_ADAFACTOR_ROW).reshaped({shape_[0], shape_[1]});
    const View col = c_.arg(TERN_ADAFACTOR_COL).reshaped({shape_[0], shape_[2]});
    gather(row, 2);
    gather(col, 1);
    const View mean = c_.temp(ACL_FLOAT, {shape_[0]});
    c_.reduce_sum(row, {1}, mean);
    c_.muls(mean, 1.0 / static_cast<double>(shape_[1]), mean);
    const View of_rows = c_.temp(ACL_FLOAT, row.shape);
    c_.call(TERN_NPU_OP(Div), row, mean.reshaped({shape_[0], 1}), of_rows);
    c_.call(TERN_NPU_OP(Sqrt), of_rows, of_rows);
    c_.call(TERN_NPU_OP(Div), step_, of_rows.reshaped({shape_[0], shape_[1], 1}), step_);
    const View of_columns = c_.temp(ACL_FLOAT, col.shape);
    c_.call(TERN_NPU_OP(Sqrt), col, of_columns);
    c_.call(TERN_NPU_OP(Div), step_, of_columns.reshaped({shape_[0], 1, shape_[2]}), step_);
  }

  void divide_by_whole() {
    const View v = c_.arg(TERN_ADAFACTOR_V).reshaped(shape_);
    move(v, kBeta2, kRest2, work_, work_);
    c_.call(TERN_NPU_OP(Sqrt), v, work_);
    c_.call(TERN_NPU_OP(Div), step_, work_, step_);
  }

  View rms(const View& x) {
    const View out = c_.temp(ACL_FLOAT, {1});
    c_.mul(x, x, work_);
    c_.reduce_sum(work_, {0, 1, 2}, out.reshaped({}));
    c_.muls(out, 1.0 / static_cast<double>(x.elements()), out);
    c_.call(TERN_NPU_OP(Sqrt), out, out);
    return out;
  }

  Composer& c_;
  View hyper_;
  View whole_;  // the parameter
  Dims shape_;  // [matrices, rows, columns]
  View step_;
  View work_;
};

void adafactor(Composer& c) { Adafactor(c).run(); }

constexpr KernelEntry kKernels[] = {{TERN_OP_SGD, "elements", sgd, true},
                                    {TERN_OP_LION, "elements", lion, true},
                                    {TERN_OP_ADAFACTOR, "elements", adafactor, true}};

}  // namespace

KernelList optimizers_kernels() { return kKernels; }

}  // namespace tern::npu
