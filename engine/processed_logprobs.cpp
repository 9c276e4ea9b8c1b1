#include "engine/processed_logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "engine/step_inputs.h"

namespace tern::engine {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

std::int32_t token_at(const Sequence& sequence, std::int64_t at) {
  return at < sequence.length() ? sequence.tokens[static_cast<std::size_t>(at)]
                                : sequence.drafts[static_cast<std::size_t>(at - sequence.length())];
}

void penalise(const Sequence& sequence, std::int64_t length, std::vector<double>& z) {
  const SamplingParams& p = sequence.params;
  std::unordered_map<std::int32_t, int> generated;  // token -> times; 0: only in the prompt
  for (std::int64_t i = 0; i < length; ++i) generated[token_at(sequence, i)] += i >= sequence.prompt_length ? 1 : 0;
  for (const auto& [token, count] : generated) {
    if (token < 0 || token >= static_cast<std::int64_t>(z.size())) continue;
    double& value = z[static_cast<std::size_t>(token)];
    value = value > 0.0 ? value / p.repetition_penalty : value * p.repetition_penalty;
    value -= static_cast<double>(p.frequency_penalty) * count + (count > 0 ? p.presence_penalty : 0.0);
  }
}

void bias_and_mask(const Sequence& sequence, std::int64_t length, std::vector<double>& z) {
  for (const auto& [token, bias] : sequence.params.logit_bias) z[static_cast<std::size_t>(token)] += bias;
  if (is_unmasked(sequence, length)) return;
  std::vector<std::uint32_t> words((z.size() + 31) / 32, ~std::uint32_t{0});
  fill_mask(sequence, length, words);
  for (std::size_t token = 0; token < z.size(); ++token) {
    if ((words[token / 32] >> (token % 32) & 1U) == 0) z[token] = kNever;
  }
}

// The tokens that filters keep, in order of rank where any of them ranks.
std::vector<std::int32_t> kept_tokens(const SamplingParams& p, const std::vector<double>& z) {
  std::vector<std::int32_t> ids(z.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::erase_if(ids, [&](std::int32_t id) { return z[static_cast<std::size_t>(id)] == kNever; });
  if (ids.empty() || p.temperature == 0.0F) return ids;
  const auto value = [&](std::int32_t id) { return z[static_cast<std::size_t>(id)]; };
  const double most =
      value(*std::max_element(ids.begin(), ids.end(), [&](auto a, auto b) { return value(a) < value(b); }));
  if (p.min_p > 0.0F) {
    const double least = most + std::log(std::min(1.0, static_cast<double>(p.min_p))) * p.temperature;
    std::erase_if(ids, [&](std::int32_t id) { return value(id) < least; });
  }
  const auto before = [&](std::int32_t a, std::int32_t b) {
    return value(a) != value(b) ? value(a) > value(b) : a < b;
  };
  const auto k = static_cast<std::size_t>(std::max(0, p.top_k));
  if (k > 0 && k < ids.size()) {
    std::nth_element(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(k) - 1, ids.end(), before);
    ids.resize(k);
  }
  if (p.top_p >= 1.0F) return ids;
  std::sort(ids.begin(), ids.end(), before);
  double total = 0;
  for (const std::int32_t id : ids) total += std::exp((value(id) - most) / p.temperature);
  double sum = 0;
  std::size_t n = 0;
  while (n < ids.size() && (n == 0 || sum < p.top_p * total)) sum += std::exp((value(ids[n++]) - most) / p.temperature);
  ids.resize(n);
  return ids;
}

}  // namespace

bool processes_logits(const ScheduledSequence& part) {
  const SamplingParams& p = part.sequence->params;
  if (has_penalties(p) || !p.logit_bias.empty()) return true;
  if (!is_unmasked(*part.sequence, part.begin + part.count - part.drafts)) return true;
  if (p.temperature == 0.0F) return false;
  return p.temperature != 1.0F || p.top_k > 0 || p.top_p < 1.0F || p.min_p > 0.0F;
}

ProcessedLogprobs processed_logprobs(const ScheduledSequence& part, std::int64_t behind, std::span<const float> logits,
                                     std::int32_t drawn, std::int64_t tops) {
  const Sequence& sequence = *part.sequence;
  const SamplingParams& p = sequence.params;
  const std::int64_t length = part.begin + part.count - behind;
  std::vector<double> z(logits.begin(), logits.end());
  if (has_penalties(p)) penalise(sequence, length, z);
  bias_and_mask(sequence, length, z);
  std::vector<std::int32_t> kept = kept_tokens(p, z);
  const double temperature = p.temperature == 0.0F ? 1.0 : p.temperature;
  double most = kNever;
  for (const std::int32_t id : kept) most = std::max(most, z[static_cast<std::size_t>(id)]);
  double sum = 0;
  for (const std::int32_t id : kept) sum += std::exp((z[static_cast<std::size_t>(id)] - most) / temperature);
  const double log_sum = std::log(sum);
  const auto logprob = [&](std::int32_t id) {
    return static_cast<float>((z[static_cast<std::size_t>(id)] - most) / temperature - log_sum);
  };
  ProcessedLogprobs out;
  // A token at a filter's border that the device kept and fp64 would not has its share all the same.
  out.logprob = drawn < 0 || kept.empty() ? static_cast<float>(kNever) : std::min(0.0F, logprob(drawn));
  const auto count = std::min(kept.size(), static_cast<std::size_t>(std::max<std::int64_t>(0, tops)));
  std::partial_sort(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(count), kept.end(), [&](auto a, auto b) {
    const double left = z[static_cast<std::size_t>(a)], right = z[static_cast<std::size_t>(b)];
    return left != right ? left > right : a < b;
  });
  for (std::size_t i = 0; i < count; ++i) out.tops.push_back({kept[i], logprob(kept[i])});
  return out;
}

}  // namespace tern::engine
