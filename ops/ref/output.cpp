#include "ops/ref/oracle.h"
#include "ops/tolerance.h"

namespace tern::ops::ref {

Output::Output(Call& call, int arg, Kind kind)
    : tensor_(call.args[static_cast<std::size_t>(arg)]), kind_(kind), accumulate_((call.accumulate >> arg & 1U) != 0) {
  if (!present()) return;
  const auto count = static_cast<std::size_t>(num_elements(tensor_.desc));
  if (!accumulate_) tensor_.real.assign(count, 0.0);
  tensor_.real.resize(count);
  sums_.resize(count);
  for (std::size_t i = 0; accumulate_ && i < count; ++i) sums_[i] = {std::fabs(tensor_.real[i]), 0.0, 1, 1};
}

Output::~Output() {
  if (!present() || (kind_ == Kind::copies && !accumulate_)) return;
  tensor_.slack.resize(sums_.size());
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const Sum& sum = sums_[i];
    tensor_.slack[i] = sum.calls == 0 ? 0.0 : slack_of(sum.roundings, std::max(sum.calls, sum.terms), sum.narrowed);
  }
}

void Output::add(std::int64_t i, double value, const Error& error) {
  if (!present()) return;
  const auto at = static_cast<std::size_t>(i);
  Sum& sum = sums_[at];
  tensor_.real[at] = sum.calls == 0 ? value : tensor_.real[at] + value;
  sum.roundings += error.roundings;
  sum.narrowed += error.narrowed;
  sum.terms = std::max(sum.terms, error.terms);
  ++sum.calls;
}

void Output::fill(double value) {
  std::fill(tensor_.real.begin(), tensor_.real.end(), value);
  std::fill(sums_.begin(), sums_.end(), Sum{});
}

}  // namespace tern::ops::ref
