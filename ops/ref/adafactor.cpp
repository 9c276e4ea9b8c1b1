#include <algorithm>

#include "ops/ref/oracle.h"
#include "ops/tolerance.h"

namespace tern::ops::ref {
namespace {

struct Hyper {
  double lr, beta2, rest2, eps1, eps2, clip, beta1, rest1, weight_decay, scale_parameter, grad_scale;
};

double rms(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum / static_cast<double>(std::max<std::size_t>(values.size(), 1)));
}

// The mean of squares joins what there is; all of it is positive.
void join(Tensor& state, std::size_t at, double mean, std::int64_t terms, const Hyper& hyper) {
  state.real[at] = hyper.beta2 * state.real[at] + hyper.rest2 * mean;
  state.slack[at] = slack_of(3.0 * std::fabs(state.real[at]), terms);
}

std::vector<double> factored(const std::vector<double>& grad, const Tensor& param, Tensor& row, Tensor& col,
                             const Hyper& hyper) {
  const auto columns = static_cast<std::size_t>(param.size(param.desc.rank - 1));
  const auto rows = static_cast<std::size_t>(param.size(param.desc.rank - 2));
  std::vector<double> out(grad.size());
  row.slack.assign(row.real.size(), 0.0);
  col.slack.assign(col.real.size(), 0.0);
  for (std::size_t matrix = 0; rows * columns > 0 && matrix < grad.size() / (rows * columns); ++matrix) {
    const auto at = [&](std::size_t i, std::size_t j) { return (matrix * rows + i) * columns + j; };
    const auto square = [&](std::size_t i, std::size_t j) { return grad[at(i, j)] * grad[at(i, j)] + hyper.eps1; };
    double row_mean = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < columns; ++j) sum += square(i, j);
      join(row, matrix * rows + i, sum / static_cast<double>(columns), static_cast<std::int64_t>(columns), hyper);
      row_mean += row.real[matrix * rows + i] / static_cast<double>(rows);
    }
    for (std::size_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (std::size_t i = 0; i < rows; ++i) sum += square(i, j);
      join(col, matrix * columns + j, sum / static_cast<double>(rows), static_cast<std::int64_t>(rows), hyper);
    }
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        out[at(i, j)] = grad[at(i, j)] / std::sqrt(row.real[matrix * rows + i] / row_mean) /
                        std::sqrt(col.real[matrix * columns + j]);
      }
    }
  }
  return out;
}

}  // namespace

// Shazeer and Stern, ICML 2018, algorithms 4 and 5, in the order of transformers.optimization.Adafactor.
void adafactor(Call& call) {
  Tensor& param = call.args[TERN_ADAFACTOR_PARAM];
  Tensor& v = call.args[TERN_ADAFACTOR_V];
  Tensor& m = call.args[TERN_ADAFACTOR_M];
  const std::vector<double>& h = input(call, TERN_ADAFACTOR_HYPER).real;
  const Hyper hyper{h.at(0), h.at(1), h.at(2), h.at(3), h.at(4), h.at(5), h.at(6), h.at(7), h.at(8), h.at(9), h.at(10)};
  std::vector<double> step = input(call, TERN_ADAFACTOR_GRAD).real;
  for (double& g : step) g *= hyper.grad_scale;
  if (v.present()) {
    v.slack.assign(v.real.size(), 0.0);
    for (std::size_t i = 0; i < step.size(); ++i) {
      join(v, i, step[i] * step[i] + hyper.eps1, 1, hyper);
      step[i] /= std::sqrt(v.real[i]);
    }
  } else {
    step = factored(step, param, call.args[TERN_ADAFACTOR_ROW], call.args[TERN_ADAFACTOR_COL], hyper);
  }
  const double scale = hyper.scale_parameter != 0 ? std::max(hyper.eps2, rms(param.real)) : 1.0;
  const double a = hyper.lr * scale;
  const double factor = a / std::max(1.0, rms(step) / hyper.clip);
  const auto elements = static_cast<std::int64_t>(step.size());
  param.slack.assign(param.real.size(), 0.0);
  if (m.present()) m.slack.assign(m.real.size(), 0.0);
  for (std::size_t i = 0; i < step.size(); ++i) {
    double u = step[i] * factor;
    double slack = slack_of(6.0 * std::fabs(u), elements);
    if (m.present()) {
      slack = hyper.rest1 * slack + slack_of(std::fabs(hyper.beta1 * m.real[i]) + 2.0 * std::fabs(hyper.rest1 * u), 1);
      u = m.real[i] = hyper.beta1 * m.real[i] + hyper.rest1 * u;
      m.slack[i] = slack;
    }
    const double decayed = std::fabs(param.real[i] * hyper.weight_decay * a);
    param.slack[i] = slack + slack_of(3.0 * decayed, elements) + slack_of(std::fabs(param.real[i]) + std::fabs(u), 1);
    param.real[i] = param.real[i] * (1.0 - hyper.weight_decay * a) - u;
  }
}

}  // namespace tern::ops::ref
