#include "numerics_attention.h"

#include <cmath>
#include <limits>

#include "numerics_matmul.h"
#include "numerics_reduce.h"

namespace fake::numerics {

namespace {

constexpr std::int64_t row_block = 128;

std::int64_t clipped_sum(std::int64_t place, std::int64_t distance, std::int64_t keys) {
  const std::int64_t limit = keys + std::abs(place) + 1;
  return place + std::clamp(distance, -limit, limit);
}

// scores [rows, keys]: scaled, and -infinity where hidden.
std::vector<float> scores_of(const HeadForward& in, std::int64_t start, std::int64_t rows) {
  const std::int64_t keys = in.k.shape[0];
  std::vector<float> scores(static_cast<std::size_t>(rows * keys));
  multiply(narrow(in.q, 0, start, rows), transpose(in.k, 0, 1), scores.data());
  std::vector<std::int64_t> hidden(static_cast<std::size_t>(keys));
  for (std::int64_t row = 0; row < rows; ++row) {
    float* line = scores.data() + row * keys;
    const auto [first, last] = in.visibility.range(start + row, in.q.shape[0], keys);
    for (std::int64_t key = 0; key < keys; ++key) {
      line[key] = key >= first && key < last ? line[key] * in.scale : -std::numeric_limits<float>::infinity();
    }
    if (in.visibility.mask != nullptr) {
      const View mask = select(*in.visibility.mask, 0, start + row);
      load_run(mask, mask.offset, mask.strides[0], keys, hidden.data());
      for (std::int64_t key = 0; key < keys; ++key) {
        if (hidden[static_cast<std::size_t>(key)] != 0) line[key] = -std::numeric_limits<float>::infinity();
      }
    }
  }
  return scores;
}

}  // namespace

Visibility::Range Visibility::range(std::int64_t row, std::int64_t rows, std::int64_t keys) const {
  const std::int64_t shift = keys - rows;
  std::int64_t first = 0;
  std::int64_t last = keys;
  if (sparse_mode == 0 && mask != nullptr) {
    first = clipped_sum(row, before == INT64_MAX ? -keys - row : -before, keys);
    last = clipped_sum(row, after, keys) + 1;
  } else if (sparse_mode == 2) {
    last = row + 1;
  } else if (sparse_mode == 3) {
    last = row + shift + 1;
  } else if (sparse_mode == 4) {
    const std::int64_t place = row + shift;
    first = clipped_sum(place, before == INT64_MAX ? -keys - std::abs(place) : -before, keys);
    last = clipped_sum(place, after, keys) + 1;
  }
  return {std::clamp<std::int64_t>(first, 0, keys), std::clamp<std::int64_t>(last, 0, keys)};
}

bool is_lower_triangle(const View& mask) {
  const std::int64_t size = mask.shape.back();
  View square = mask;
  while (square.shape.size() > 2) square = select(square, 0, 0);
  const auto at = [&](std::int64_t row, std::int64_t column) {
    std::int64_t value = 0;
    load_run(square, square.offset + row * square.strides[0] + column * square.strides[1], 1, 1, &value);
    return value != 0;
  };
  for (std::int64_t row = 0; row < size; ++row) {
    if (at(row, row) || at(row, 0)) return false;
    if (row + 1 < size && (!at(row, row + 1) || !at(row, size - 1))) return false;
  }
  return true;
}

void attend(const HeadForward& in, const View& out, float* maximum, float* sum) {
  const std::int64_t keys = in.k.shape[0];
  const std::int64_t width = in.v.shape[1];
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> results(static_cast<std::size_t>(row_block * width));
  for (std::int64_t start = 0; start < in.q.shape[0]; start += row_block) {
    const std::int64_t rows = std::min(row_block, in.q.shape[0] - start);
    std::vector<float> scores = scores_of(in, start, rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      float* line = scores.data() + row * keys;
      float largest = in.sink != nullptr ? *in.sink : -infinity;
      for (std::int64_t key = 0; key < keys; ++key) largest = std::max(largest, line[key]);
      double total = in.sink != nullptr ? std::exp(static_cast<double>(*in.sink - largest)) : 0;
      for (std::int64_t key = 0; key < keys; ++key) {
        line[key] = largest == -infinity ? 0.0F : std::exp(line[key] - largest);
        total += static_cast<double>(line[key]);
      }
      maximum[start + row] = largest;
      sum[start + row] = static_cast<float>(total);
    }
    multiply(view_of(scores, {rows, keys}), in.v, results.data());
    for (std::int64_t row = 0; row < rows; ++row) {
      const float total = sum[start + row];
      const float blind = in.blind_rows_are_zero || keys == 0 ? 0 : std::numeric_limits<float>::quiet_NaN();
      for (std::int64_t i = 0; i < width; ++i) {
        float& value = results[static_cast<std::size_t>(row * width + i)];
        value = total == 0 ? blind : value / total;  // NaN stays
      }
    }
    store(narrow(out, 0, start, rows), std::span<const float>(results).first(static_cast<std::size_t>(rows * width)));
  }
}

void attend_backward(const HeadBackward& in, const View& dq, float* dk, float* dv) {
  const float infinity = std::numeric_limits<float>::infinity();
  const HeadForward& forward = in.forward;
  const std::int64_t keys = forward.k.shape[0];
  const std::int64_t width = forward.q.shape[1];
  const std::int64_t blocks = (forward.q.shape[0] + row_block - 1) / row_block;
  for (const std::int64_t block : summation_order(blocks, in.shuffle)) {
    const std::int64_t start = block * row_block;
    const std::int64_t rows = std::min(row_block, forward.q.shape[0] - start);
    std::vector<float> weights = scores_of(forward, start, rows);
    std::vector<float> slopes(weights.size());
    const View dy = narrow(in.dy, 0, start, rows);
    multiply(dy, transpose(forward.v, 0, 1), slopes.data());
    const std::vector<float> gradient = load(dy);
    const std::vector<float> result = load(narrow(in.out, 0, start, rows));
    const std::size_t value_width = gradient.size() / static_cast<std::size_t>(rows);
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      double mean = 0;
      for (std::size_t i = row * value_width; i < (row + 1) * value_width; ++i) {
        mean += static_cast<double>(gradient[i]) * static_cast<double>(result[i]);
      }
      const float largest = in.maximum[static_cast<std::size_t>(start) + row];
      const float inverse = 1 / in.sum[static_cast<std::size_t>(start) + row];
      const std::size_t count = static_cast<std::size_t>(keys);
      for (std::size_t i = row * count; i < (row + 1) * count; ++i) {
        weights[i] = weights[i] == -infinity ? 0.0F : std::exp(weights[i] - largest) * inverse;
        slopes[i] = weights[i] * (slopes[i] - static_cast<float>(mean)) * forward.scale;
      }
    }
    const View weighted = view_of(weights, {rows, keys});
    const View sloped = view_of(slopes, {rows, keys});
    multiply(transpose(weighted, 0, 1), dy, dv, true);
    multiply(transpose(sloped, 0, 1), narrow(forward.q, 0, start, rows), dk, true);
    std::vector<float> queries(static_cast<std::size_t>(rows * width));
    multiply(sloped, forward.k, queries.data());
    store(narrow(dq, 0, start, rows), queries);
  }
}

std::vector<float> gathered(const PagedCache& cache, std::int64_t length) {
  const std::int64_t block = cache.blocks.shape[1];
  const std::int64_t width = cache.blocks.shape[2] * cache.blocks.shape[3];
  std::vector<float> values(static_cast<std::size_t>(length * width));
  for (std::int64_t start = 0; start < length; start += block) {
    const std::int64_t rows = std::min(block, length - start);
    const View page = narrow(select(cache.blocks, 0, cache.table[static_cast<std::size_t>(start / block)]), 0, 0, rows);
    const std::vector<float> part = load(page);
    std::copy(part.begin(), part.end(), values.begin() + start * width);
  }
  return values;
}

}  // namespace fake::numerics
