#include "data/interleave.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/strings.h"

namespace tern::data {

Status check_interleave(const Interleave& options, std::size_t datasets) {
  const auto& p = options.probabilities;
  if (!options.on()) return Unit{};
  if (p.size() != datasets) {
    return usage_error(
        cat("--interleave_prob has ", p.size(), " numbers, and --dataset names ", datasets, " data sets"),
        "give one number for each data set");
  }
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  constexpr double kRounding = 1.5e-8;  // numpy's
  if (*std::min_element(p.begin(), p.end()) < 0 || !(std::fabs(sum - 1) <= kRounding)) {
    return usage_error(cat("--interleave_prob has the sum ", sum, ", or a number below 0"),
                       "give probabilities, which add up to 1");
  }
  if (options.stopping == StoppingStrategy::all_exhausted && *std::min_element(p.begin(), p.end()) == 0) {
    return usage_error("--stopping_strategy all_exhausted never ends where --interleave_prob has a 0",
                       "leave that data set out, or give it a number above 0");
  }
  return Unit{};
}

std::string_view name(StoppingStrategy strategy) {
  return strategy == StoppingStrategy::first_exhausted ? "first_exhausted" : "all_exhausted";
}

Mixture::Mixture(const Interleave& options, std::uint64_t seed)
    : stopping_(options.stopping),
      choice_(options.probabilities, seed),
      exhausted_(options.probabilities.size(), false) {}

void Mixture::exhausted(std::size_t dataset) {
  exhausted_[dataset] = true;
  ended_ = stopping_ == StoppingStrategy::first_exhausted ||
           std::all_of(exhausted_.begin(), exhausted_.end(), [](bool one) { return one; });
}

std::vector<std::pair<std::uint32_t, std::uint32_t>> interleaved(std::span<const std::uint32_t> rows,
                                                                 const Interleave& options, std::uint64_t seed) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> out;
  std::vector<std::uint32_t> at(rows.size(), 0);
  for (Mixture mixture(options, seed); !mixture.ended();) {
    const auto dataset = static_cast<std::uint32_t>(mixture.next());
    out.emplace_back(dataset, at[dataset]++);
    if (at[dataset] < rows[dataset]) continue;
    at[dataset] = 0;
    mixture.exhausted(dataset);
  }
  return out;
}

}  // namespace tern::data
