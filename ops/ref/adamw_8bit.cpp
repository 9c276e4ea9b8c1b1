#include <algorithm>

#include "ops/adamw_8bit.h"
#include "ops/ref/oracle.h"
#include "ops/tolerance.h"

namespace tern::ops::ref {
namespace {

// What a moment's block becomes, with the codes that rounding may as well choose.
void quantise(const std::vector<double>& values, const std::vector<double>& slack, std::size_t begin,
              const std::vector<double>& codes, Tensor& out, Tensor& largest) {
  const auto block = begin / static_cast<std::size_t>(kAdamw8bitBlock);
  double most = 0;
  double most_slack = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i]) || std::fabs(values[i]) > most) most = std::fabs(values[i]);
    most_slack = std::max(most_slack, slack[i]);
  }
  largest.real[block] = most;
  largest.slack[block] = most_slack;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double share = most > 0 ? values[i] / most : 0.0;
    const double unsure = most > 0 ? (slack[i] + most_slack) / most + slack_of(2.0, 1) : 0.0;
    const auto code_of = [&](double x) {
      std::size_t code = 0;
      while (code + 1 < codes.size() && x > 0.5 * (codes[code] + codes[code + 1])) ++code;
      return code;
    };
    const std::size_t low = code_of(share - unsure);
    const std::size_t high = code_of(share + unsure);
    out.integer[begin + i] = static_cast<std::int64_t>(code_of(share));
    for (std::size_t other = low; other <= high; ++other) {
      out.others[begin + i].push_back(static_cast<double>(other));
    }
  }
}

}  // namespace

// Dettmers et al., "8-bit Optimizers via Block-wise Quantization", ICLR 2022.
void adamw_8bit(Call& call) {
  Tensor& param = call.args[TERN_ADAMW_8BIT_PARAM];
  Tensor& m = call.args[TERN_ADAMW_8BIT_M];
  Tensor& v = call.args[TERN_ADAMW_8BIT_V];
  Tensor& m_max = call.args[TERN_ADAMW_8BIT_M_MAX];
  Tensor& v_max = call.args[TERN_ADAMW_8BIT_V_MAX];
  const Tensor& grad = input(call, TERN_ADAMW_8BIT_GRAD);
  const std::vector<double>& m_codes = input(call, TERN_ADAMW_8BIT_M_CODES).real;
  const std::vector<double>& v_codes = input(call, TERN_ADAMW_8BIT_V_CODES).real;
  const std::vector<double>& hyper = input(call, TERN_ADAMW_8BIT_HYPER).real;
  const double lr = hyper.at(0);
  const double decay = hyper.at(6);
  param.slack.assign(param.real.size(), 0.0);
  for (Tensor* largest : {&m_max, &v_max}) largest->slack.assign(largest->real.size(), 0.0);
  for (Tensor* moment : {&m, &v}) moment->others.assign(moment->integer.size(), {});
  for (std::size_t begin = 0; begin < param.real.size(); begin += kAdamw8bitBlock) {
    const std::size_t block = begin / kAdamw8bitBlock;
    const std::size_t count = std::min<std::size_t>(kAdamw8bitBlock, param.real.size() - begin);
    std::vector<double> first(count), second(count), first_slack(count), second_slack(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = begin + i;
      const double g = grad.real[at] * hyper.at(9);
      const double m_was = m_codes.at(static_cast<std::size_t>(m.integer[at])) * m_max.real[block];
      const double v_was = v_codes.at(static_cast<std::size_t>(v.integer[at])) * v_max.real[block];
      const double m_roundings = 2.0 * std::fabs(hyper.at(1) * m_was) + 2.0 * std::fabs(hyper.at(3) * g);
      first[i] = hyper.at(1) * m_was + hyper.at(3) * g;
      second[i] = hyper.at(2) * v_was + hyper.at(4) * g * g;
      first_slack[i] = slack_of(m_roundings, 1);
      second_slack[i] = slack_of(3.0 * std::fabs(second[i]), 1);
      const double denominator = std::sqrt(second[i] / hyper.at(8)) + hyper.at(5);
      const double step = lr * (first[i] / hyper.at(7)) / denominator;
      const double step_roundings = 7.0 * std::fabs(step) + std::fabs(lr / hyper.at(7) / denominator) * m_roundings;
      param.slack[at] =
          slack_of(std::fabs(param.real[at]) * (1.0 + 2.0 * std::fabs(lr * decay)) + step_roundings, 1);
      param.real[at] = param.real[at] * (1.0 - lr * decay) - step;
    }
    quantise(first, first_slack, begin, m_codes, m, m_max);
    quantise(second, second_slack, begin, v_codes, v, v_max);
  }
}

}  // namespace tern::ops::ref
