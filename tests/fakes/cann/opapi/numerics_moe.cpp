#include "numerics_moe.h"

#include <numeric>

#include "numerics_reduce.h"

namespace fake::numerics {

Routing route(const std::vector<std::int64_t>& experts, std::int64_t expert_number) {
  Routing routing;
  routing.sources.resize(experts.size());
  std::iota(routing.sources.begin(), routing.sources.end(), 0);
  std::stable_sort(routing.sources.begin(), routing.sources.end(), [&](std::int64_t a, std::int64_t b) {
    return experts[static_cast<std::size_t>(a)] < experts[static_cast<std::size_t>(b)];
  });
  routing.places.resize(experts.size());
  routing.counts.resize(static_cast<std::size_t>(std::max<std::int64_t>(expert_number, 0)));
  for (std::size_t place = 0; place < experts.size(); ++place) {
    routing.places[static_cast<std::size_t>(routing.sources[place])] = static_cast<std::int64_t>(place);
  }
  for (const std::int64_t expert : experts) {
    if (expert >= 0 && expert < expert_number) ++routing.counts[static_cast<std::size_t>(expert)];
  }
  return routing;
}

void permute_tokens(const View& tokens, const Routing& routing, std::int64_t k, const View& permuted) {
  const std::int64_t rows =
      std::min<std::int64_t>(permuted.shape[0], static_cast<std::int64_t>(routing.sources.size()));
  for (std::int64_t place = 0; place < rows; ++place) {
    copy(select(permuted, 0, place), select(tokens, 0, routing.sources[static_cast<std::size_t>(place)] / k));
  }
}

namespace {

std::int64_t place_of(const Gathering& gathering, std::int64_t rows, std::int64_t row, std::int64_t choice) {
  const std::int64_t at = gathering.by_choice ? choice * rows + row : row * gathering.k + choice;
  return gathering.places[static_cast<std::size_t>(at)];
}

}  // namespace

void combine_tokens(const View& permuted, const Gathering& gathering, const View& out) {
  const std::int64_t rows = out.shape[0];
  const auto width = static_cast<std::size_t>(out.shape[1]);
  const std::vector<double> scales =
      gathering.scales != nullptr ? load_doubles(*gathering.scales) : std::vector<double>{};
  const std::vector<std::int64_t> experts =
      gathering.expert_ids != nullptr ? load_integers(*gathering.expert_ids) : std::vector<std::int64_t>{};
  std::vector<double> sums(width);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::fill(sums.begin(), sums.end(), 0.0);
    const View total = view_of(sums, {out.shape[1]});
    for (const View* addend : gathering.addends) {
      map(
          total, [](double sum, double value) { return sum + value; }, total, select(*addend, 0, row));
    }
    for (std::int64_t choice = 0; choice < gathering.k; ++choice) {
      const std::int64_t place = place_of(gathering, rows, row, choice);
      const auto at = static_cast<std::size_t>(row * gathering.k + choice);
      const double scale = scales.empty() ? 1 : scales[at];
      if (gathering.bias != nullptr) {
        map(
            total, [scale](double sum, double value) { return sum + scale * value; }, total,
            select(*gathering.bias, 0, experts[at]));
      }
      if (place < 0 || place >= permuted.shape[0]) continue;
      map(
          total, [scale](double sum, double value) { return sum + scale * value; }, total, select(permuted, 0, place));
    }
    store(select(out, 0, row), sums);
  }
}

void combine_gradient(const View& dout, const View* permuted, const Gathering& gathering, const View& dpermuted,
                      const View* dscales) {
  const std::int64_t rows = dout.shape[0];
  const std::vector<double> scales =
      gathering.scales != nullptr ? load_doubles(*gathering.scales) : std::vector<double>{};
  const std::vector<std::int64_t> experts =
      gathering.expert_ids != nullptr ? load_integers(*gathering.expert_ids) : std::vector<std::int64_t>{};
  std::vector<double> scale_gradients(static_cast<std::size_t>(rows * gathering.k));
  fill(dpermuted, 0);
  for (std::int64_t row = 0; row < rows; ++row) {
    const View gradient = select(dout, 0, row);
    const std::vector<double> line = load_doubles(gradient);
    for (std::int64_t choice = 0; choice < gathering.k; ++choice) {
      const std::int64_t place = place_of(gathering, rows, row, choice);
      if (place < 0 || place >= dpermuted.shape[0]) continue;
      const auto at = static_cast<std::size_t>(row * gathering.k + choice);
      const double scale = scales.empty() ? 1 : scales[at];
      map(
          select(dpermuted, 0, place), [scale](double value) { return scale * value; }, gradient);
      if (dscales == nullptr || permuted == nullptr) continue;
      std::vector<double> expanded = load_doubles(select(*permuted, 0, place));
      if (gathering.bias != nullptr) {
        const std::vector<double> shift = load_doubles(select(*gathering.bias, 0, experts[at]));
        for (std::size_t i = 0; i < expanded.size(); ++i) expanded[i] += shift[i];
      }
      scale_gradients[at] = std::inner_product(line.begin(), line.end(), expanded.begin(), 0.0);
    }
  }
  if (dscales != nullptr) store(*dscales, scale_gradients);
}

void gate(const View& logits, const View* finished, const Gating& gating, const View& weights, const View& experts,
          const View* rows, const View* softmaxed) {
  std::vector<double> shares(static_cast<std::size_t>(count_of(logits)));
  const View share = view_of(shares, logits.shape);
  const std::int64_t number = logits.shape.back();
  std::vector<double> chosen(static_cast<std::size_t>(count_of(weights)));
  const View choice = view_of(chosen, weights.shape);
  if (gating.renormalise) {
    top(logits, gating.k, -1, true, &choice, experts);
    softmax(choice, -1, false, weights);
  } else {
    softmax(logits, -1, false, share);
    top(share, gating.k, -1, true, &weights, experts);
    if (softmaxed != nullptr) store(*softmaxed, shares);
  }
  const std::int64_t tokens = count_of(logits) / number;
  if (finished != nullptr) {
    // A finished row is nobody's: the docs give it expert number `experts`, which no expert has.
    const std::vector<std::int64_t> done = load_integers(*finished);
    std::vector<std::int64_t> ids = load_integers(experts);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (done[i / static_cast<std::size_t>(gating.k)] != 0) ids[i] = number;
    }
    store(experts, ids);
  }
  if (rows == nullptr) return;
  std::vector<std::int64_t> numbers(chosen.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    numbers[i] = at % gating.k * tokens + at / gating.k;
  }
  store(*rows, numbers);
}

}  // namespace fake::numerics
