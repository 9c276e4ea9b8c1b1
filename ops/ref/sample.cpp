#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "base/philox.h"
#include "ops/ref/oracle.h"

namespace tern::ops::ref {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// A border of the choice nearer than this (relative) may fall either way in fp32: some hundred roundings.
constexpr double kUndecided = 1e-5;

struct Row {
  const Call& call;
  std::int64_t r;
  [[nodiscard]] double real(int arg) const { return input(call, arg).real[static_cast<std::size_t>(r)]; }
  [[nodiscard]] std::int64_t integer(int arg) const { return input(call, arg).integer[static_cast<std::size_t>(r)]; }
};

void penalise(const Row& row, std::vector<double>& z) {
  const Tensor& history = input(row.call, TERN_SAMPLE_HISTORY);
  const double repetition = row.real(TERN_SAMPLE_REPETITION);
  const double presence = row.real(TERN_SAMPLE_PRESENCE);
  const double frequency = row.real(TERN_SAMPLE_FREQUENCY);
  const std::int64_t begin = row.integer(TERN_SAMPLE_OUTPUT_BEGIN);
  std::unordered_map<std::int64_t, int> generated;  // token -> times; 0: only in the prompt
  for (std::int64_t i = 0; i < row.integer(TERN_SAMPLE_HISTORY_LEN); ++i) {
    const std::int64_t token = history.integer.at(static_cast<std::size_t>(row.r * history.size(1) + i));
    if (token < 0 || token >= static_cast<std::int64_t>(z.size())) continue;
    generated[token] += i >= begin ? 1 : 0;
  }
  for (const auto& [token, count] : generated) {
    double& value = z[static_cast<std::size_t>(token)];
    value = value > 0.0 ? value / repetition : value * repetition;
    value -= frequency * count + (count > 0 ? presence : 0.0);
  }
}

void bias_and_mask(const Row& row, std::vector<double>& z) {
  const Tensor& bias = input(row.call, TERN_SAMPLE_BIAS);
  const Tensor& mask = input(row.call, TERN_SAMPLE_MASK);
  const auto vocab = static_cast<std::int64_t>(z.size());
  for (std::int64_t j = 0; j < vocab; ++j) {
    double& value = z[static_cast<std::size_t>(j)];
    if (bias.present()) value += bias.real[static_cast<std::size_t>(row.r * vocab + j)];
    if (mask.present()) {
      const std::int64_t word = mask.integer[static_cast<std::size_t>(row.r * mask.size(1) + j / 32)];
      if ((word >> (j % 32) & 1) == 0) value = kNever;
    }
  }
}

struct Choice {
  std::int64_t id = -1;
  bool decided = true;
};

bool near(double a, double b, double size) { return std::fabs(a - b) <= kUndecided * size; }

Choice draw(const Row& row, std::vector<double> z) {
  const double temperature = row.real(TERN_SAMPLE_TEMPERATURE);
  std::vector<std::int64_t> order(z.size());
  std::iota(order.begin(), order.end(), 0);
  auto at = [&](std::size_t rank) { return z[static_cast<std::size_t>(order[rank])]; };
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return z[static_cast<std::size_t>(a)] > z[static_cast<std::size_t>(b)];
  });
  Choice choice;
  if (order.empty() || at(0) == kNever) return choice;
  std::size_t kept = order.size();
  while (at(kept - 1) == kNever) --kept;
  const double size = std::max(1.0, std::fabs(at(0)));
  if (temperature == 0.0) {
    choice.id = order[0];
    choice.decided = kept < 2 || at(1) == at(0) || !near(at(0), at(1), size);
    return choice;
  }
  const std::int64_t top_k = row.integer(TERN_SAMPLE_TOP_K);
  if (top_k > 0 && static_cast<std::size_t>(top_k) < kept) {
    kept = static_cast<std::size_t>(top_k);
    if (at(kept - 1) != at(kept) && near(at(kept - 1), at(kept), size)) choice.decided = false;
  }
  std::vector<double> p(kept);
  double total = 0.0;
  for (std::size_t i = 0; i < kept; ++i) total += p[i] = std::exp((at(i) - at(0)) / temperature);
  const double top_p = row.real(TERN_SAMPLE_TOP_P);
  if (top_p < 1.0) {
    double before = 0.0;
    std::size_t n = 0;
    while (n < kept && (n == 0 || before < top_p * total)) {
      before += p[n++];
      if (near(before, top_p * total, total)) choice.decided = false;
    }
    kept = n;
  }
  const double min_p = row.real(TERN_SAMPLE_MIN_P);
  while (min_p > 0.0 && kept > 1 && p[kept - 1] < min_p * p[0]) --kept;
  for (std::size_t i = 0; min_p > 0.0 && i < p.size(); ++i) {
    if (near(p[i], min_p * p[0], p[0])) choice.decided = false;
  }
  const double mass = std::accumulate(p.begin(), p.begin() + static_cast<std::ptrdiff_t>(kept), 0.0);
  const auto key = static_cast<std::uint64_t>(row.integer(TERN_SAMPLE_KEYS));
  const double point = static_cast<double>(uniform24(philox(key, {0, 0, 0, 0})[0])) * mass;
  double before = 0.0;
  choice.id = order[kept - 1];
  for (std::size_t i = 0; i < kept; ++i) {
    before += p[i];
    if (i + 1 < kept && near(before, point, mass)) choice.decided = false;
    if (before > point) {
      choice.id = order[i];
      break;
    }
  }
  return choice;
}

}  // namespace

void sample(Call& call) {
  const Tensor& logits = input(call, TERN_SAMPLE_LOGITS);
  const std::int64_t vocab = logits.size(1);
  Tensor& ids = call.args[TERN_SAMPLE_IDS];
  Output logprob(call, TERN_SAMPLE_LOGPROB);
  ids.integer.assign(static_cast<std::size_t>(logits.size(0)), -1);
  ids.magnitude.assign(ids.integer.size(), 0.0);
  for (std::int64_t r = 0; r < logits.size(0); ++r) {
    const double* raw = logits.real.data() + r * vocab;
    const Row row = {call, r};
    std::vector<double> z(raw, raw + vocab);
    penalise(row, z);
    bias_and_mask(row, z);
    const Choice choice = draw(row, z);
    const auto at = static_cast<std::size_t>(r);
    ids.integer[at] = choice.id;
    // An undecided row has an infinite magnitude: any result passes there.
    ids.magnitude[at] = choice.decided ? 0.0 : std::numeric_limits<double>::infinity();
    if (choice.id < 0) {
      logprob.add(r, kNever, 0.0);
      continue;
    }
    const double largest = *std::max_element(raw, raw + vocab);
    double sum = 0.0;
    double error = 0.0;
    for (std::int64_t j = 0; j < vocab; ++j) {
      const double term = std::exp(raw[j] - largest);
      sum += term;
      error += term > 0.0 ? term * (8.0 + std::fabs(raw[j] - largest)) : 0.0;
    }
    const double value = raw[choice.id] - largest - std::log(sum);
    logprob.add(r, value,
                choice.decided ? 4.0 + 2.0 * std::fabs(value) + error / sum + std::fabs(largest)
                               : std::numeric_limits<double>::infinity());
  }
}

}  // namespace tern::ops::ref
