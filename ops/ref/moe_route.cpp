#include "ops/ref/moe_route.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/ref/oracle.h"

namespace tern::ops::ref {
namespace {

// The `count` best of `among` by falling value, ties by rising number; `margin` falls to the closest decision.
std::vector<std::int64_t> best(std::vector<std::int64_t> among, std::int64_t count, std::span<const double> value,
                               double& margin) {
  std::sort(among.begin(), among.end(), [&](std::int64_t a, std::int64_t b) {
    const double x = value[static_cast<std::size_t>(a)];
    const double y = value[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  });
  for (std::int64_t i = 0; i < count && i + 1 < static_cast<std::int64_t>(among.size()); ++i) {
    const double gap = value[static_cast<std::size_t>(among[static_cast<std::size_t>(i)])] -
                       value[static_cast<std::size_t>(among[static_cast<std::size_t>(i + 1)])];
    if (gap != 0.0) margin = std::min(margin, gap);
  }
  among.resize(static_cast<std::size_t>(count));
  return among;
}

std::vector<std::int64_t> numbers(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

double largest(std::span<const double> values) {
  double most = -std::numeric_limits<double>::infinity();
  for (const double value : values) most = std::max(most, value);
  return most;
}

}  // namespace

std::vector<double> route_scores(bool sigmoid, std::span<const double> logits) {
  std::vector<double> score(logits.size());
  const double shift = sigmoid ? 0.0 : largest(logits);
  double sum = 0.0;
  for (std::size_t e = 0; e < score.size(); ++e) {
    score[e] = sigmoid ? 1.0 / (1.0 + std::exp(-logits[e])) : std::exp(logits[e] - shift);
    sum += score[e];
  }
  for (double& s : score) s /= sigmoid ? 1.0 : sum;
  return score;
}

RouteRow route_row(const tern_moe_route_attrs& attrs, std::span<const double> logits, std::span<const double> bias,
                   std::int64_t top_k) {
  RouteRow row;
  row.score = route_scores(attrs.sigmoid != 0, logits);
  row.margin = std::numeric_limits<double>::infinity();
  std::vector<double> choice = row.score;
  for (std::size_t e = 0; e < bias.size(); ++e) choice[e] += bias[e];
  for (double& c : choice) c = std::isnan(c) ? -std::numeric_limits<double>::infinity() : c;
  const auto experts = static_cast<std::int64_t>(logits.size());
  const std::int64_t of_group = experts / attrs.groups;
  std::vector<std::int64_t> among = numbers(0, experts);
  if (attrs.groups > 1) {
    std::vector<double> of_groups(static_cast<std::size_t>(attrs.groups));
    double unused = 0.0;  // which of a group's scores count changes the sum by as much as they differ
    for (std::int64_t g = 0; g < attrs.groups; ++g) {
      for (const std::int64_t e : best(numbers(g * of_group, of_group), attrs.group_top, choice, unused)) {
        of_groups[static_cast<std::size_t>(g)] += choice[static_cast<std::size_t>(e)];
      }
    }
    among.clear();
    for (const std::int64_t g : best(numbers(0, attrs.groups), attrs.top_groups, of_groups, row.margin)) {
      const std::vector<std::int64_t> members = numbers(g * of_group, of_group);
      among.insert(among.end(), members.begin(), members.end());
    }
  }
  row.chosen = best(among, top_k, choice, row.margin);
  return row;
}

void moe_route(Call& call) {
  const auto attrs = attrs_of<tern_moe_route_attrs>(call);
  const Tensor& logits = input(call, TERN_MOE_ROUTE_LOGITS);
  const Tensor& bias = input(call, TERN_MOE_ROUTE_BIAS);
  Tensor& experts = call.args[TERN_MOE_ROUTE_EXPERTS];
  Output weights(call, TERN_MOE_ROUTE_WEIGHTS);
  const auto width = static_cast<std::size_t>(logits.size(1));
  const std::int64_t top_k = experts.size(1);
  experts.integer.assign(static_cast<std::size_t>(num_elements(experts.desc)), 0);
  for (std::int64_t r = 0; r < logits.size(0); ++r) {
    const std::span row = std::span(logits.real).subspan(static_cast<std::size_t>(r) * width, width);
    const RouteRow route = route_row(attrs, row, bias.real, top_k);
    double sum = attrs.normalise != 0 ? 0.0 : 1.0;
    for (const std::int64_t e : route.chosen) {
      if (attrs.normalise != 0) sum += route.score[static_cast<std::size_t>(e)];
    }
    for (std::int64_t i = 0; i < top_k; ++i) {
      const auto e = static_cast<std::size_t>(route.chosen[static_cast<std::size_t>(i)]);
      const double value = attrs.scale * route.score[e] / sum;
      const double far =
          attrs.sigmoid != 0 ? 0.0 : largest(row) - row[e];  // what the exponential multiplies roundings by
      experts.integer[static_cast<std::size_t>(r * top_k + i)] = static_cast<std::int64_t>(e);
      weights.add(r * top_k + i, value,
                  {.roundings = std::fabs(value),
                   .terms = logits.size(1),
                   .narrowed = std::fabs(value) * (8.0 + far) * unit_roundoff(TERN_F32)});
    }
  }
}

void moe_route_backward(Call& call) {
  const auto attrs = attrs_of<tern_moe_route_backward_attrs>(call);
  const Tensor& dweights = input(call, TERN_MOE_ROUTE_BACKWARD_DWEIGHTS);
  const Tensor& logits = input(call, TERN_MOE_ROUTE_BACKWARD_LOGITS);
  const Tensor& experts = input(call, TERN_MOE_ROUTE_BACKWARD_EXPERTS);
  Output dlogits(call, TERN_MOE_ROUTE_BACKWARD_DLOGITS);
  const auto width = static_cast<std::size_t>(logits.size(1));
  const auto top_k = static_cast<std::size_t>(experts.size(1));
  for (std::size_t r = 0; r < static_cast<std::size_t>(logits.size(0)); ++r) {
    const std::span row = std::span(logits.real).subspan(r * width, width);
    const std::vector<double> score = route_scores(attrs.sigmoid != 0, row);
    const auto chosen = [&](std::size_t i) { return static_cast<std::size_t>(experts.integer[r * top_k + i]); };
    const auto upstream = [&](std::size_t i) { return attrs.scale * dweights.real[r * top_k + i]; };
    // With respect to the scores of the chosen.
    double sum = attrs.normalise != 0 ? 0.0 : 1.0;
    for (std::size_t i = 0; attrs.normalise != 0 && i < top_k; ++i) sum += score[chosen(i)];
    double mean = 0.0;
    double mean_size = 0.0;
    for (std::size_t i = 0; attrs.normalise != 0 && i < top_k; ++i) {
      mean += upstream(i) * score[chosen(i)] / sum;
      mean_size += std::fabs(upstream(i)) * score[chosen(i)] / sum;
    }
    std::vector<double> dscore(width);
    std::vector<double> size(width);
    for (std::size_t i = 0; i < top_k; ++i) {
      dscore[chosen(i)] += (upstream(i) - mean) / sum;
      size[chosen(i)] += (std::fabs(upstream(i)) + mean_size) / sum;
    }
    double dot = 0.0;
    double dot_size = 0.0;
    for (std::size_t e = 0; attrs.sigmoid == 0 && e < width; ++e) {
      dot += dscore[e] * score[e];
      dot_size += size[e] * score[e];
    }
    // Normalised, the sums of the chosen cancel: nothing is left for the others, in any rounding.
    const bool cancels = attrs.sigmoid == 0 && attrs.normalise != 0;
    std::vector<bool> is_chosen(width);
    for (std::size_t i = 0; i < top_k; ++i) is_chosen[chosen(i)] = true;
    const double top = largest(row);
    for (std::size_t e = 0; e < width; ++e) {
      if (cancels && !is_chosen[e]) continue;
      const double slope = attrs.sigmoid != 0 ? score[e] * (1.0 - score[e]) : score[e];
      const double value = slope * (dscore[e] - (cancels ? 0.0 : dot));
      const double far = 8.0 + (attrs.sigmoid != 0 ? 0.0 : top - row[e]);
      const double terms = (attrs.sigmoid != 0 ? score[e] : slope) * (size[e] + dot_size);
      dlogits.add(static_cast<std::int64_t>(r * width + e), value,
                  {.roundings = terms, .terms = logits.size(1), .narrowed = terms * far * unit_roundoff(TERN_F32)});
    }
  }
}

}  // namespace tern::ops::ref
