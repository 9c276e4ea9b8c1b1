#include "numerics_misc.h"

#include <cmath>
#include <numbers>

#include "base/philox.h"

namespace fake::numerics {

namespace {

std::vector<double> class_weights(const ClassLoss& loss, std::int64_t classes) {
  if (loss.weight != nullptr) return load_doubles(*loss.weight);
  return std::vector<double>(static_cast<std::size_t>(classes), 1.0);
}

double counted_weight(const ClassLoss& loss, const std::vector<double>& weights) {
  double total = 0;
  for (const std::int64_t target : loss.targets) {
    if (target != loss.ignored) total += weights[static_cast<std::size_t>(target)];
  }
  return total;
}

}  // namespace

void class_loss(const View& log_probabilities, const ClassLoss& loss, const View& out, double* total) {
  const std::int64_t classes = log_probabilities.shape[1];
  const std::vector<double> weights = class_weights(loss, classes);
  std::vector<double> losses(loss.targets.size());
  double sum = 0;
  for (std::size_t row = 0; row < losses.size(); ++row) {
    const std::int64_t target = loss.targets[row];
    if (target == loss.ignored) continue;
    const std::vector<double> line = load_doubles(select(log_probabilities, 0, static_cast<std::int64_t>(row)));
    double value =
        -(1 - loss.smoothing) * weights[static_cast<std::size_t>(target)] * line[static_cast<std::size_t>(target)];
    if (loss.smoothing > 0) {
      for (std::size_t i = 0; i < line.size(); ++i) {
        value -= loss.smoothing / static_cast<double>(classes) * weights[i] * line[i];
      }
    }
    losses[row] = value;
    sum += value;
  }
  const double counted = counted_weight(loss, weights);
  if (total != nullptr) *total = counted;
  if (loss.over == ClassLoss::Over::kNone) {
    store(out, losses);
  } else {
    fill(out, loss.over == ClassLoss::Over::kMean ? sum / counted : sum);
  }
}

void class_loss_gradient(const View& gradient, const View& log_probabilities, const ClassLoss& loss, bool of_logits,
                         const View& out) {
  const std::int64_t classes = log_probabilities.shape[1];
  const std::vector<double> weights = class_weights(loss, classes);
  const std::vector<double> incoming = load_doubles(broadcast(gradient, {log_probabilities.shape[0]}));
  const double counted = loss.over == ClassLoss::Over::kMean ? counted_weight(loss, weights) : 1;
  for (std::size_t row = 0; row < loss.targets.size(); ++row) {
    const View line = select(log_probabilities, 0, static_cast<std::int64_t>(row));
    std::vector<double> result(static_cast<std::size_t>(classes), 0.0);
    const std::int64_t target = loss.targets[row];
    if (target != loss.ignored) {
      double sum = 0;
      for (std::size_t i = 0; i < result.size(); ++i) {
        const double share = loss.smoothing / static_cast<double>(classes) +
                             (static_cast<std::int64_t>(i) == target ? 1 - loss.smoothing : 0);
        result[i] = -share * weights[i] * incoming[row] / counted;
        sum += result[i];
      }
      if (of_logits) {
        const std::vector<double> logarithms = load_doubles(line);
        for (std::size_t i = 0; i < result.size(); ++i) result[i] -= std::exp(logarithms[i]) * sum;
      }
    }
    store(select(out, 0, static_cast<std::int64_t>(row)), result);
  }
}

std::vector<double> uniform_draws(std::int64_t count, std::uint64_t seed, std::uint64_t offset) {
  std::vector<double> draws(static_cast<std::size_t>(count));
  // Another key than the host's own draws have: who takes the device's bits for those must be found out.
  const std::uint64_t key = tern::mix_key(seed, 0xacce1);
  for (std::size_t i = 0; i < draws.size(); i += 4) {
    const std::uint64_t place = offset + i / 4;
    const auto words =
        tern::philox(key, {static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(place >> 32), 0, 0});
    for (std::size_t j = 0; j < 4 && i + j < draws.size(); ++j) draws[i + j] = (words[j] >> 8) * 0x1p-24;
  }
  return draws;
}

std::vector<double> normal_draws(std::int64_t count, std::uint64_t seed, std::uint64_t offset) {
  const std::vector<double> uniform = uniform_draws(count + count % 2, seed, offset);
  std::vector<double> draws(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < draws.size(); i += 2) {  // Box and Muller, 1958
    const double radius = std::sqrt(-2 * std::log(1 - uniform[i]));
    draws[i] = radius * std::cos(2 * std::numbers::pi * uniform[i + 1]);
    if (i + 1 < draws.size()) draws[i + 1] = radius * std::sin(2 * std::numbers::pi * uniform[i + 1]);
  }
  return draws;
}

void adam(const View& weight, const View& first, const View& second, const View* largest, const View& gradient,
          const AdamStep& step) {
  const double sign = step.maximize ? -1 : 1;
  const double first_correction = 1 - std::pow(step.beta1, step.step);
  const double second_correction = 1 - std::pow(step.beta2, step.step);
  map(
      first, [&](double m, double g) { return step.beta1 * m + (1 - step.beta1) * sign * g; }, first, gradient);
  map(
      second, [&](double v, double g) { return step.beta2 * v + (1 - step.beta2) * g * g; }, second, gradient);
  if (largest != nullptr)
    map(
        *largest, [](double a, double b) { return std::max(a, b); }, *largest, second);
  map(
      weight,
      [&](double w, double m, double v) {
        const double size = std::sqrt(v / second_correction) + step.epsilon;
        return w * (1 - step.rate * step.decay) - step.rate * m / first_correction / size;
      },
      weight, first, largest != nullptr ? *largest : second);
}

void dynamic_quantise(const View& x, const View* smooth, double limit, const View& y, const View& scale) {
  const std::int64_t width = x.shape.back();
  std::vector<double> values = load_doubles(x);
  const std::vector<double> factors =
      smooth != nullptr ? load_doubles(*smooth) : std::vector<double>(static_cast<std::size_t>(width), 1.0);
  std::vector<double> scales;
  for (std::size_t start = 0; start < values.size(); start += static_cast<std::size_t>(width)) {
    double largest = 0;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      values[start + i] *= factors[i];
      largest = std::max(largest, std::fabs(values[start + i]));
    }
    scales.push_back(largest / limit);
    for (std::size_t i = 0; i < factors.size(); ++i) {
      values[start + i] = largest > 0 ? std::nearbyint(values[start + i] / scales.back()) : 0;
    }
  }
  store(y, values);
  store(scale, scales);
}

namespace {

// Calls function(batch, out channel, in channel of the group, place in out, place in the kernel, place in x).
template <typename Function>
void for_each_product(const Shape& x, const Shape& weight, const Shape& out, const Convolution& shape,
                      Function function) {
  const std::int64_t per_group = out[1] / shape.groups;
  for (std::int64_t batch = 0; batch < out[0]; ++batch) {
    for (std::int64_t channel = 0; channel < out[1]; ++channel) {
      for (std::int64_t row = 0; row < out[2]; ++row) {
        for (std::int64_t column = 0; column < out[3]; ++column) {
          const std::int64_t to = ((batch * out[1] + channel) * out[2] + row) * out[3] + column;
          for (std::int64_t inner = 0; inner < weight[1]; ++inner) {
            const std::int64_t from_channel = channel / per_group * weight[1] + inner;
            for (std::int64_t i = 0; i < weight[2] * weight[3]; ++i) {
              const std::int64_t y = row * shape.stride[0] - shape.padding[0] + i / weight[3] * shape.dilation[0];
              const std::int64_t at = column * shape.stride[1] - shape.padding[1] + i % weight[3] * shape.dilation[1];
              if (y < 0 || y >= x[2] || at < 0 || at >= x[3]) continue;
              function(static_cast<std::size_t>(to),
                       static_cast<std::size_t>((channel * weight[1] + inner) * weight[2] * weight[3] + i),
                       static_cast<std::size_t>(((batch * x[1] + from_channel) * x[2] + y) * x[3] + at));
            }
          }
        }
      }
    }
  }
}

}  // namespace

void convolve(const View& x, const View& weight, const View* bias, const Convolution& shape, const View& out) {
  const std::vector<float> values = load(x);
  const std::vector<float> kernel = load(weight);
  std::vector<float> sums(static_cast<std::size_t>(count_of(out)));
  for_each_product(x.shape, weight.shape, out.shape, shape,
                   [&](std::size_t to, std::size_t tap, std::size_t from) { sums[to] += kernel[tap] * values[from]; });
  if (bias != nullptr) {
    const std::vector<float> shifts = load(*bias);
    const auto area = static_cast<std::size_t>(out.shape[2] * out.shape[3]);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += shifts[i / area % shifts.size()];
  }
  store(out, sums);
}

void convolve_gradient(const View& dy, const View& x, const View& weight, const Convolution& shape, const View* dx,
                       const View* dweight, const View* dbias) {
  const std::vector<float> gradients = load(dy);
  const std::vector<float> values = load(x);
  const std::vector<float> kernel = load(weight);
  std::vector<float> inputs(values.size());
  std::vector<float> taps(kernel.size());
  for_each_product(x.shape, weight.shape, dy.shape, shape, [&](std::size_t to, std::size_t tap, std::size_t from) {
    inputs[from] += gradients[to] * kernel[tap];
    taps[tap] += gradients[to] * values[from];
  });
  if (dx != nullptr) store(*dx, inputs);
  if (dweight != nullptr) store(*dweight, taps);
  if (dbias == nullptr) return;
  std::vector<float> sums(static_cast<std::size_t>(dy.shape[1]));
  const auto area = static_cast<std::size_t>(dy.shape[2] * dy.shape[3]);
  for (std::size_t i = 0; i < gradients.size(); ++i) sums[i / area % sums.size()] += gradients[i];
  store(*dbias, sums);
}

}  // namespace fake::numerics
