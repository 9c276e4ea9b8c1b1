#include "numerics_norm.h"

#include <cmath>
#include <numbers>

#include "numerics_reduce.h"

namespace fake::numerics {

namespace {

std::size_t width_of(const View& matrix) { return static_cast<std::size_t>(matrix.shape[1]); }

std::vector<double> row_of(const View& matrix, std::int64_t row) { return load_doubles(select(matrix, 0, row)); }

}  // namespace

void rms_norm(const View& x, const View& gamma, double epsilon, bool unit_offset, const View& y, const View* rstd) {
  const std::vector<double> factors = load_doubles(gamma);
  std::vector<double> inverses;
  for (std::int64_t row = 0; row < x.shape[0]; ++row) {
    std::vector<double> line = row_of(x, row);
    double squares = 0;
    for (const double value : line) squares += value * value;
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(line.size()) + epsilon);
    for (std::size_t i = 0; i < line.size(); ++i) line[i] *= inverse * (factors[i] + (unit_offset ? 1 : 0));
    store(select(y, 0, row), line);
    inverses.push_back(inverse);
  }
  if (rstd != nullptr) store(*rstd, inverses);
}

void rms_norm_gradient(const RmsNormGradient& in, const View& dx, const View& dgamma) {
  const std::size_t width = width_of(in.x);
  const std::vector<double> factors = load_doubles(in.gamma);
  const std::vector<double> inverses = load_doubles(in.rstd);
  std::vector<float> sums(width);
  for (const std::int64_t row : summation_order(in.x.shape[0], in.shuffle)) {
    const std::vector<double> gradient = row_of(in.dy, row);
    const std::vector<double> line = row_of(in.x, row);
    const double inverse = inverses[static_cast<std::size_t>(row)];
    double product = 0;
    for (std::size_t i = 0; i < width; ++i) product += gradient[i] * factors[i] * line[i];
    product *= inverse * inverse / static_cast<double>(width);
    std::vector<double> result(width);
    for (std::size_t i = 0; i < width; ++i) {
      result[i] = inverse * (gradient[i] * factors[i] - line[i] * product);
      sums[i] += static_cast<float>(gradient[i] * line[i] * inverse);
    }
    store(select(dx, 0, row), result);
  }
  store(dgamma, sums);
}

void layer_norm(const View& x, const View* weight, const View* bias, double epsilon, const View& y, const View* mean,
                const View* rstd) {
  const std::size_t width = width_of(x);
  const std::vector<double> factors = weight != nullptr ? load_doubles(*weight) : std::vector<double>(width, 1);
  const std::vector<double> shifts = bias != nullptr ? load_doubles(*bias) : std::vector<double>(width, 0);
  std::vector<double> means;
  std::vector<double> inverses;
  for (std::int64_t row = 0; row < x.shape[0]; ++row) {
    std::vector<double> line = row_of(x, row);
    double center = 0;
    for (const double value : line) center += value;
    center /= static_cast<double>(width);
    double squares = 0;
    for (const double value : line) squares += (value - center) * (value - center);
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(width) + epsilon);
    for (std::size_t i = 0; i < width; ++i) line[i] = (line[i] - center) * inverse * factors[i] + shifts[i];
    store(select(y, 0, row), line);
    means.push_back(center);
    inverses.push_back(inverse);
  }
  if (mean != nullptr) store(*mean, means);
  if (rstd != nullptr) store(*rstd, inverses);
}

void layer_norm_gradient(const LayerNormGradient& in, const View* dx, const View* dweight, const View* dbias) {
  const std::size_t width = width_of(in.x);
  const std::vector<double> factors = in.weight != nullptr ? load_doubles(*in.weight) : std::vector<double>(width, 1);
  const std::vector<double> means = load_doubles(in.mean);
  const std::vector<double> inverses = load_doubles(in.rstd);
  std::vector<float> weight_sums(width);
  std::vector<float> bias_sums(width);
  for (const std::int64_t row : summation_order(in.x.shape[0], in.shuffle)) {
    const std::vector<double> gradient = row_of(in.dy, row);
    std::vector<double> line = row_of(in.x, row);
    const double inverse = inverses[static_cast<std::size_t>(row)];
    double plain = 0;
    double product = 0;
    for (std::size_t i = 0; i < width; ++i) {
      line[i] = (line[i] - means[static_cast<std::size_t>(row)]) * inverse;
      plain += gradient[i] * factors[i];
      product += gradient[i] * factors[i] * line[i];
    }
    std::vector<double> result(width);
    for (std::size_t i = 0; i < width; ++i) {
      result[i] = inverse * (gradient[i] * factors[i] - (plain + line[i] * product) / static_cast<double>(width));
      weight_sums[i] += static_cast<float>(gradient[i] * line[i]);
      bias_sums[i] += static_cast<float>(gradient[i]);
    }
    if (dx != nullptr) store(select(*dx, 0, row), result);
  }
  if (dweight != nullptr) store(*dweight, weight_sums);
  if (dbias != nullptr) store(*dbias, bias_sums);
}

namespace {

// Where feature i takes its partner from, and with which sign.
std::pair<std::size_t, double> partner(std::size_t i, std::size_t width, bool interleaved) {
  if (interleaved) return i % 2 == 0 ? std::pair{i + 1, -1.0} : std::pair{i - 1, 1.0};
  return i < width / 2 ? std::pair{i + width / 2, -1.0} : std::pair{i - width / 2, 1.0};
}

// Calls function(line of each view's last dimension...) for each row of `out`, and writes what it returns.
template <typename Function>
void by_rows(const View& out, const std::vector<View>& inputs, Function function) {
  std::vector<View> rows;
  std::vector<const View*> views;
  for (const View& input : inputs) rows.push_back(broadcast(input, out.shape));
  rows.push_back(out);
  const std::vector<View> whole = rows;
  for (View& view : rows) {
    view.shape.pop_back();
    view.strides.pop_back();
  }
  for (const View& view : rows) views.push_back(&view);
  std::vector<std::vector<double>> lines(inputs.size(),
                                         std::vector<double>(static_cast<std::size_t>(out.shape.back())));
  for (Walk walk(views); !walk.done(); walk.next()) {
    for (std::int64_t i = 0; i < walk.length(); ++i) {
      for (std::size_t v = 0; v < inputs.size(); ++v) {
        load_run(whole[v], walk.offset(v) + i * walk.stride(v), whole[v].strides.back(), out.shape.back(),
                 lines[v].data());
      }
      const std::vector<double> result = function(lines);
      const std::size_t last = inputs.size();
      store_run(out, walk.offset(last) + i * walk.stride(last), out.strides.back(), out.shape.back(), result.data());
    }
  }
}

}  // namespace

void rotate(const View& x, const View& cos, const View& sin, bool interleaved, const View& y) {
  by_rows(y, {x, cos, sin}, [interleaved](const std::vector<std::vector<double>>& lines) {
    const std::size_t width = lines[0].size();
    std::vector<double> result(width);
    for (std::size_t i = 0; i < width; ++i) {
      const auto [other, sign] = partner(i, width, interleaved);
      result[i] = lines[0][i] * lines[1][i] + sign * lines[0][other] * lines[2][i];
    }
    return result;
  });
}

void rotate_gradient(const View& dy, const View& cos, const View& sin, bool interleaved, const View& dx) {
  by_rows(dx, {dy, cos, sin}, [interleaved](const std::vector<std::vector<double>>& lines) {
    const std::size_t width = lines[0].size();
    std::vector<double> result(width, 0.0);
    for (std::size_t i = 0; i < width; ++i) {
      const auto [other, sign] = partner(i, width, interleaved);
      result[i] += lines[0][i] * lines[1][i];
      result[other] += sign * lines[0][i] * lines[2][i];
    }
    return result;
  });
}

void rotate_table_gradient(const View& dy, const View& x, bool interleaved, const View& dcos, const View& dsin) {
  std::vector<double> products(static_cast<std::size_t>(count_of(dy)));
  std::vector<double> turned(products.size());
  map(
      view_of(products, dy.shape), [](double gradient, double value) { return gradient * value; }, dy, x);
  by_rows(view_of(turned, dy.shape), {dy, x}, [interleaved](const std::vector<std::vector<double>>& lines) {
    const std::size_t width = lines[0].size();
    std::vector<double> result(width);
    for (std::size_t i = 0; i < width; ++i) {
      const auto [other, sign] = partner(i, width, interleaved);
      result[i] = lines[0][i] * sign * lines[1][other];
    }
    return result;
  });
  Shape summed;
  for (std::size_t i = 0; i < dcos.shape.size(); ++i) {
    if (dcos.shape[i] != dy.shape[i]) summed.push_back(static_cast<std::int64_t>(i));
  }
  if (summed.empty()) {
    store(dcos, products);
    store(dsin, turned);
  } else {
    reduce(view_of(products, dy.shape), summed, Reduction::kSum, dcos);
    reduce(view_of(turned, dy.shape), summed, Reduction::kSum, dsin);
  }
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double silu_slope(double x) {
  const double gate = sigmoid(x);
  return gate * (1 + x * (1 - gate));
}

double gelu(double x, bool by_tanh) {
  if (by_tanh) return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  return x / 2 * (1 + std::erf(x / std::numbers::sqrt2));
}

double gelu_slope(double x, bool by_tanh) {
  if (!by_tanh) {
    return (1 + std::erf(x / std::numbers::sqrt2)) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  }
  const double factor = std::sqrt(2 / std::numbers::pi);
  const double inner = std::tanh(factor * (x + 0.044715 * x * x * x));
  return (1 + inner) / 2 + x / 2 * (1 - inner * inner) * factor * (1 + 3 * 0.044715 * x * x);
}

void swish_gate(const View& x, std::int64_t dimension, const View& out) {
  const std::int64_t half = x.shape[static_cast<std::size_t>(wrap_dimension(dimension, x.shape.size()))] / 2;
  map(
      out, [](double gate, double up) { return gate * sigmoid(gate) * up; }, narrow(x, dimension, 0, half),
      narrow(x, dimension, half, half));
}

void swish_gate_gradient(const View& dy, const View& x, std::int64_t dimension, const View& dx) {
  const std::int64_t half = x.shape[static_cast<std::size_t>(wrap_dimension(dimension, x.shape.size()))] / 2;
  const View gate = narrow(x, dimension, 0, half);
  const View up = narrow(x, dimension, half, half);
  map(
      narrow(dx, dimension, 0, half), [](double g, double a, double b) { return g * silu_slope(a) * b; }, dy, gate, up);
  map(
      narrow(dx, dimension, half, half), [](double g, double a) { return g * a * sigmoid(a); }, dy, gate);
}

}  // namespace fake::numerics
