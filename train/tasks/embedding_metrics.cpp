#include "train/tasks/embedding_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

namespace tern::train {
namespace {

// 0 where one of both never changes.
double pearson(const std::vector<double>& a, const std::vector<double>& b) {
  const auto count = static_cast<double>(a.size());
  if (a.empty()) return 0;
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / count;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / count;
  double both = 0, squares_a = 0, squares_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean_a) * (b[i] - mean_b);
    squares_a += (a[i] - mean_a) * (a[i] - mean_a);
    squares_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  const double scale = std::sqrt(squares_a * squares_b);
  return scale > 0 ? both / scale : 0;
}

// Places in ascending order from 1; equal numbers share the mean of theirs.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> out(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double shared = static_cast<double>(begin + end + 1) / 2;
    for (; begin < end; ++begin) out[order[begin]] = shared;
  }
  return out;
}

}  // namespace

Metrics infonce_metrics(const UnitVectors& vectors, const std::vector<std::size_t>& cu_groups, bool use_batch) {
  double margins = 0, positives = 0, negatives = 0, negative_count = 0, margin_count = 0;
  const std::size_t groups = cu_groups.size() - 1;
  for (std::size_t group = 0; group < groups; ++group) {
    const std::size_t anchor = cu_groups[group];
    const double positive = vectors.product(anchor, anchor + 1);
    double best = -std::numeric_limits<double>::infinity();
    for (std::size_t other = 0; other < groups; ++other) {
      if (!use_batch && other != group) continue;
      for (std::size_t text = cu_groups[other] + (other == group ? 2 : 1); text < cu_groups[other + 1]; ++text) {
        const double score = vectors.product(anchor, text);
        best = std::max(best, score);
        negatives += score;
        ++negative_count;
      }
    }
    positives += positive;
    if (std::isfinite(best)) {
      margins += positive - best;
      ++margin_count;
    }
  }
  return {{"margin", margins / std::max(1.0, margin_count)},
          {"mean_neg", negatives / std::max(1.0, negative_count)},
          {"mean_pos", positives / std::max(1.0, static_cast<double>(groups))}};
}

Metrics pair_metrics(const UnitVectors& vectors, const std::vector<std::size_t>& cu_groups,
                     const std::vector<double>& labels) {
  std::array<std::vector<double>, 4> closeness;  // cosine, euclidean, manhattan, dot product
  for (std::size_t group = 0; group + 1 < cu_groups.size(); ++group) {
    const auto a = vectors.text(cu_groups[group]);
    const auto b = vectors.text(cu_groups[group] + 1);
    double squares = 0, sizes = 0;
    for (std::size_t c = 0; c < a.size(); ++c) {
      squares += (a[c] - b[c]) * (a[c] - b[c]);
      sizes += std::abs(a[c] - b[c]);
    }
    const double cosine = vectors.product(cu_groups[group], cu_groups[group] + 1);
    closeness[0].push_back(cosine);
    closeness[1].push_back(-std::sqrt(squares));
    closeness[2].push_back(-sizes);
    closeness[3].push_back(cosine);
  }
  constexpr std::array<const char*, 4> kNames = {"cosine", "euclidean", "manhattan", "dot_product"};
  Metrics out;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    out.emplace_back(std::string("pearson_") + kNames[i], pearson(labels, closeness[i]));
  for (std::size_t i = 0; i < kNames.size(); ++i)
    out.emplace_back(std::string("spearman_") + kNames[i], pearson(ranks(labels), ranks(closeness[i])));
  return out;
}

}  // namespace tern::train
