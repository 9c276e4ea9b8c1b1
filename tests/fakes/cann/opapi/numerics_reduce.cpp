#include "numerics_reduce.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace fake::numerics {

namespace {

// The view with `dimension` last: lines along it are the rows of what load() gives.
View lined(const View& view, std::int64_t dimension) {
  if (view.shape.empty()) return unsqueeze(view, 0);
  View result = view;
  const std::int64_t at = wrap_dimension(dimension, view.shape.size());
  result.shape.erase(result.shape.begin() + at);
  result.strides.erase(result.strides.begin() + at);
  result.shape.push_back(view.shape[static_cast<std::size_t>(at)]);
  result.strides.push_back(view.strides[static_cast<std::size_t>(at)]);
  return result;
}

double reduced(std::span<const double> line, Reduction reduction) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto larger = [](double a, double b) { return std::isnan(a) || a > b ? a : b; };
  const auto smaller = [](double a, double b) { return std::isnan(a) || a < b ? a : b; };
  switch (reduction) {
    case Reduction::kMax:
      return std::accumulate(line.begin(), line.end(), -infinity, larger);
    case Reduction::kMin:
      return std::accumulate(line.begin(), line.end(), infinity, smaller);
    case Reduction::kProduct:
      return std::accumulate(line.begin(), line.end(), 1.0, std::multiplies<>());
    case Reduction::kAll:
      return std::all_of(line.begin(), line.end(), [](double x) { return x != 0; }) ? 1 : 0;
    case Reduction::kAny:
      return std::any_of(line.begin(), line.end(), [](double x) { return x != 0; }) ? 1 : 0;
    case Reduction::kLogSumExp: {
      const double largest = std::accumulate(line.begin(), line.end(), -infinity, larger);
      if (std::isinf(largest)) return largest;
      double sum = 0;
      for (const double x : line) sum += std::exp(x - largest);
      return largest + std::log(sum);
    }
    default:
      throw std::logic_error("this reduction is read in pieces");
  }
}

// Calls function(line number, the view's elements of the line) with doubles of each line.
template <typename Function>
void for_each_line(const View& view, Function function) {
  const auto length = static_cast<std::size_t>(view.shape.back());
  View rows = view;
  rows.shape.pop_back();
  rows.strides.pop_back();
  std::vector<double> line(length);
  const std::array<const View*, 1> views = {&rows};
  std::size_t number = 0;
  for (Walk walk(views); !walk.done(); walk.next()) {
    for (std::int64_t i = 0; i < walk.length(); ++i, ++number) {
      load_run(view, walk.offset(0) + i * walk.stride(0), view.strides.back(), view.shape.back(), line.data());
      function(number, std::span<double>(line));
    }
  }
}

// Sums of a whole model's gradients are read in pieces.
double streamed_sum(const View& view, bool squares) {
  constexpr std::int64_t piece = 4096;
  std::array<double, piece> values;
  double sum = 0;
  const std::array<const View*, 1> views = {&view};
  for (Walk walk(views); !walk.done(); walk.next()) {
    for (std::int64_t start = 0; start < walk.length(); start += piece) {
      const std::int64_t length = std::min(piece, walk.length() - start);
      load_run(view, walk.offset(0) + start * walk.stride(0), walk.stride(0), length, values.data());
      for (const double value : std::span(values).first(static_cast<std::size_t>(length))) {
        sum += squares ? value * value : value;
      }
    }
  }
  return sum;
}

double reduced(const View& view, Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return streamed_sum(view, false);
    case Reduction::kSquares:
      return streamed_sum(view, true);
    case Reduction::kMean:
      return streamed_sum(view, false) / static_cast<double>(count_of(view));
    default:
      return reduced(load_doubles(view), reduction);
  }
}

}  // namespace

std::vector<std::int64_t> summation_order(std::int64_t count, std::uint64_t shuffle) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  if (shuffle == 0 || count < 2) return order;
  std::rotate(order.begin(), order.begin() + static_cast<std::int64_t>(shuffle % static_cast<std::uint64_t>(count)),
              order.end());
  if (shuffle % 2 == 1) std::reverse(order.begin(), order.end());
  return order;
}

void reduce(const View& x, const Shape& dimensions, Reduction reduction, const View& out) {
  View kept = x;
  kept.shape.clear();
  kept.strides.clear();
  View gone = kept;
  std::vector<bool> summed(x.shape.size(), dimensions.empty());
  for (const std::int64_t dimension : dimensions) {
    summed[static_cast<std::size_t>(wrap_dimension(dimension, x.shape.size()))] = true;
  }
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    View& part = summed[i] ? gone : kept;
    part.shape.push_back(x.shape[i]);
    part.strides.push_back(x.strides[i]);
  }
  std::vector<double> results;
  View line = gone;
  const std::array<const View*, 1> views = {&kept};
  for (Walk walk(views); !walk.done(); walk.next()) {
    for (std::int64_t i = 0; i < walk.length(); ++i) {
      line.offset = walk.offset(0) + i * walk.stride(0);
      results.push_back(reduced(line, reduction));
    }
  }
  store(out, results);
}

void softmax(const View& x, std::int64_t dimension, bool logarithm, const View& out) {
  std::vector<double> results(static_cast<std::size_t>(count_of(x)));
  for_each_line(lined(x, dimension), [&](std::size_t number, std::span<double> line) {
    const double sum = reduced(line, Reduction::kLogSumExp);
    double* to = results.data() + number * line.size();
    for (std::size_t i = 0; i < line.size(); ++i) to[i] = logarithm ? line[i] - sum : std::exp(line[i] - sum);
  });
  store(lined(out, dimension), results);
}

void softmax_backward(const View& dy, const View& y, std::int64_t dimension, bool logarithm, const View& out) {
  const std::vector<double> gradients = load_doubles(lined(dy, dimension));
  std::vector<double> results(gradients.size());
  for_each_line(lined(y, dimension), [&](std::size_t number, std::span<double> line) {
    const double* gradient = gradients.data() + number * line.size();
    double* to = results.data() + number * line.size();
    double sum = 0;
    for (std::size_t i = 0; i < line.size(); ++i) sum += logarithm ? gradient[i] : gradient[i] * line[i];
    for (std::size_t i = 0; i < line.size(); ++i) {
      to[i] = logarithm ? gradient[i] - std::exp(line[i]) * sum : line[i] * (gradient[i] - sum);
    }
  });
  store(lined(out, dimension), results);
}

void cumulative_sum(const View& x, std::int64_t dimension, bool exclusive, bool reverse, const View& out) {
  std::vector<double> results(static_cast<std::size_t>(count_of(x)));
  for_each_line(lined(x, dimension), [&](std::size_t number, std::span<double> line) {
    double* to = results.data() + number * line.size();
    double sum = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::size_t at = reverse ? line.size() - 1 - i : i;
      if (exclusive) to[at] = sum;
      sum += line[at];
      if (!exclusive) to[at] = sum;
    }
  });
  store(lined(out, dimension), results);
}

void top(const View& x, std::int64_t k, std::int64_t dimension, bool largest, const View* values, const View& indices) {
  std::vector<double> chosen;
  std::vector<std::int64_t> places;
  std::vector<std::int64_t> order;
  for_each_line(lined(x, dimension), [&](std::size_t, std::span<double> line) {
    const auto before = [&](std::int64_t a, std::int64_t b) {
      const double one = line[static_cast<std::size_t>(a)];
      const double two = line[static_cast<std::size_t>(b)];
      if (std::isnan(one) || std::isnan(two)) {
        if (std::isnan(one) != std::isnan(two)) return std::isnan(one) == largest;
        return a < b;
      }
      if (one != two) return largest ? one > two : one < two;
      return a < b;
    };
    order.resize(line.size());
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
    for (std::int64_t i = 0; i < k; ++i) {
      places.push_back(order[static_cast<std::size_t>(i)]);
      chosen.push_back(line[static_cast<std::size_t>(places.back())]);
    }
  });
  if (values != nullptr) store(lined(*values, dimension), chosen);
  store(lined(indices, dimension), places);
}

void arg_extreme(const View& x, std::int64_t dimension, bool largest, const View* values, const View& indices) {
  std::vector<double> chosen;
  std::vector<std::int64_t> places;
  for_each_line(lined(x, dimension), [&](std::size_t, std::span<double> line) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < line.size() && !std::isnan(line[best]); ++i) {
      if (std::isnan(line[i]) || (largest ? line[i] > line[best] : line[i] < line[best])) best = i;
    }
    places.push_back(static_cast<std::int64_t>(best));
    chosen.push_back(line[best]);
  });
  if (values != nullptr) store(*values, chosen);
  store(indices, places);
}

void take(const View& x, std::int64_t dimension, const std::vector<std::int64_t>& index, const View& out) {
  const std::int64_t at = wrap_dimension(dimension, x.shape.size());
  // The index's dimensions of `out` as one: they're written one by one, so their strides needn't be regular.
  const auto rank = static_cast<std::int64_t>(out.shape.size() - (x.shape.size() - 1));
  Shape counts(out.shape.begin() + at, out.shape.begin() + at + rank);
  for (std::size_t i = 0; i < index.size(); ++i) {
    View to = out;
    auto rest = static_cast<std::int64_t>(i);
    for (std::int64_t j = rank; j-- > 0;) {
      const std::int64_t size = counts[static_cast<std::size_t>(j)];
      to = select(to, at + j, rest % size);
      rest /= size;
    }
    copy(to, select(x, at, index[i]));
  }
}

void put(const View& y, std::int64_t dimension, const std::vector<std::int64_t>& index, const View& source,
         bool accumulate, double alpha, std::uint64_t shuffle) {
  if (!accumulate) {
    for (std::size_t i = 0; i < index.size(); ++i) {
      copy(select(y, dimension, index[i]), select(source, dimension, static_cast<std::int64_t>(i)));
    }
    return;
  }
  // Sums are kept in fp32 and rounded once, as the constraints say of EmbeddingDenseBackward.
  std::vector<float> sums = load(y);
  const View total = view_of(sums, y.shape);
  for (const std::int64_t i : summation_order(static_cast<std::int64_t>(index.size()), shuffle)) {
    const View to = select(total, dimension, index[static_cast<std::size_t>(i)]);
    map(
        to, [alpha](double sum, double value) { return sum + alpha * value; }, to, select(source, dimension, i));
  }
  store(y, sums);
}

void gather(const View& x, std::int64_t dimension, const View& index, const View& out) {
  View region = x;
  const auto at = static_cast<std::size_t>(wrap_dimension(dimension, x.shape.size()));
  region.shape = index.shape;
  const std::int64_t step = x.strides[at];
  region.strides[at] = 0;
  const std::array<const View*, 3> views = {&region, &index, &out};
  std::vector<std::int64_t> places;
  for (Walk walk(views); !walk.done(); walk.next()) {
    places.resize(static_cast<std::size_t>(walk.length()));
    load_run(index, walk.offset(1), walk.stride(1), walk.length(), places.data());
    for (std::int64_t i = 0; i < walk.length(); ++i) {
      View from = x;
      View to = out;
      from.offset = walk.offset(0) + i * walk.stride(0) + places[static_cast<std::size_t>(i)] * step;
      to.offset = walk.offset(2) + i * walk.stride(2);
      from.shape = to.shape = {};
      from.strides = to.strides = {};
      copy(to, from);
    }
  }
}

void scatter(const View& y, std::int64_t dimension, const View& index, const View& source, bool accumulate) {
  View region = y;
  const auto at = static_cast<std::size_t>(wrap_dimension(dimension, y.shape.size()));
  region.shape = index.shape;
  const std::int64_t step = y.strides[at];
  region.strides[at] = 0;
  View read = source;
  read.shape = index.shape;
  const std::array<const View*, 3> views = {&region, &index, &read};
  std::vector<std::int64_t> places;
  for (Walk walk(views); !walk.done(); walk.next()) {
    places.resize(static_cast<std::size_t>(walk.length()));
    load_run(index, walk.offset(1), walk.stride(1), walk.length(), places.data());
    for (std::int64_t i = 0; i < walk.length(); ++i) {
      View from = source;
      View to = y;
      to.offset = walk.offset(0) + i * walk.stride(0) + places[static_cast<std::size_t>(i)] * step;
      from.offset = walk.offset(2) + i * walk.stride(2);
      from.shape = to.shape = {};
      from.strides = to.strides = {};
      if (accumulate) {
        map(
            to, [](double sum, double value) { return sum + value; }, to, from);
      } else {
        copy(to, from);
      }
    }
  }
}

}  // namespace fake::numerics
