#include "numerics_matmul.h"

#include <bit>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace fake::numerics {

namespace {

constexpr std::int64_t panel_width = 16;
constexpr std::int64_t depth_block = 512;
constexpr int registers = 4;  // of four floats each: what every CPU of 64 bits has
using Lanes = float __attribute__((vector_size(16)));

// packed[k][16] from columns [column, column + width) and rows [start, start + depth) of b; absent columns are 0.
void pack(const View& b, std::int64_t start, std::int64_t depth, std::int64_t column, std::int64_t width,
          float* packed) {
  const std::int64_t origin = b.offset + start * b.strides[0] + column * b.strides[1];
  if (width < panel_width) std::fill_n(packed, depth * panel_width, 0.0F);
  if (std::abs(b.strides[1]) <= std::abs(b.strides[0])) {
    for (std::int64_t row = 0; row < depth; ++row) {
      load_run(b, origin + row * b.strides[0], b.strides[1], width, packed + row * panel_width);
    }
    return;
  }
  std::array<float, depth_block> line;
  for (std::int64_t i = 0; i < width; ++i) {
    load_run(b, origin + i * b.strides[1], b.strides[0], depth, line.data());
    for (std::int64_t row = 0; row < depth; ++row) packed[row * panel_width + i] = line[static_cast<std::size_t>(row)];
  }
}

template <int Rows>
void micro(const float* a, std::int64_t lead, const float* packed, std::int64_t depth, float* sums) {
  Lanes total[Rows][registers] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    Lanes column[registers];
    __builtin_memcpy(column, packed + k * panel_width, sizeof column);
    for (int row = 0; row < Rows; ++row) {
      const float factor = a[row * lead + k];
      for (int i = 0; i < registers; ++i) total[row][i] += factor * column[i];
    }
  }
  __builtin_memcpy(sums, total, sizeof total);
}

struct Columns {
  std::int64_t rows, columns, depth, first, last;
};

void multiply_columns(const float* a, const View& b, const Columns& part, float* result) {
  std::vector<float> packed(depth_block * panel_width);
  std::array<float, 2 * panel_width> sums;
  for (std::int64_t start = 0; start < part.depth; start += depth_block) {
    const std::int64_t depth = std::min(depth_block, part.depth - start);
    for (std::int64_t column = part.first; column < part.last; column += panel_width) {
      const std::int64_t width = std::min(panel_width, part.last - column);
      pack(b, start, depth, column, width, packed.data());
      for (std::int64_t row = 0; row < part.rows; row += 2) {
        const std::int64_t height = std::min<std::int64_t>(2, part.rows - row);
        const float* from = a + row * part.depth + start;
        if (height == 2) {
          micro<2>(from, part.depth, packed.data(), depth, sums.data());
        } else {
          micro<1>(from, part.depth, packed.data(), depth, sums.data());
        }
        for (std::int64_t i = 0; i < height; ++i) {
          float* to = result + (row + i) * part.columns + column;
          const float* line = sums.data() + i * panel_width;
          for (std::int64_t j = 0; j < width; ++j) to[j] += line[j];
        }
      }
    }
  }
}

float before_product(float value, Rounding rounding) {
  if (rounding == Rounding::kFloat16) return rounded(value, Element::kFloat16);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (rounding == Rounding::kNone || (bits & 0x7f800000U) == 0x7f800000U) return value;
  return std::bit_cast<float>((bits + 0x7ffU + ((bits >> 12) & 1U)) & ~0xfffU);
}

Shape batch_of(const View& a, const View& b) {
  const std::size_t rank = std::max(a.shape.size(), b.shape.size()) - 2;
  Shape batch(rank, 1);
  for (const View* view : {&a, &b}) {
    const std::size_t lead = rank - (view->shape.size() - 2);
    for (std::size_t i = 0; i + 2 < view->shape.size(); ++i) {
      if (view->shape[i] != 1) batch[lead + i] = view->shape[i];
    }
  }
  return batch;
}

View widened(const View& view, const Shape& batch) {
  Shape shape = batch;
  shape.insert(shape.end(), view.shape.end() - 2, view.shape.end());
  return broadcast(view, shape);
}

View leading(View view, std::span<const std::int64_t> index) {
  for (const std::int64_t i : index) view = select(view, 0, i);
  return view;
}

bool advance(Shape& index, const Shape& shape) {
  for (std::size_t i = index.size(); i-- > 0;) {
    if (++index[i] < shape[i]) return true;
    index[i] = 0;
  }
  return false;
}

}  // namespace

void multiply(const View& a, const View& b, float* result, bool accumulate) {
  const std::int64_t rows = a.shape[0];
  const std::int64_t depth = a.shape[1];
  const std::int64_t columns = b.shape[1];
  if (depth != b.shape[0]) throw std::logic_error("phase 1 of this op lets inner sizes through that differ");
  if (!accumulate) std::fill_n(result, rows * columns, 0.0F);
  const std::vector<float> left = load(a);
  if (rows * columns * depth < (1 << 24) || columns < 4 * panel_width) {
    multiply_columns(left.data(), b, {rows, columns, depth, 0, columns}, result);
    return;
  }
  const std::int64_t middle = columns / 2 / panel_width * panel_width;
  std::thread other([&] { multiply_columns(left.data(), b, {rows, columns, depth, middle, columns}, result); });
  multiply_columns(left.data(), b, {rows, columns, depth, 0, middle}, result);
  other.join();
}

void matmul(const View& a, const View& b, const View& out, const Product& product) {
  const Shape batch = batch_of(a, b);
  Shape shape = batch;
  shape.push_back(a.shape[a.shape.size() - 2]);
  shape.push_back(b.shape.back());
  if (count_of(shape) == 0) return;
  const View left = widened(a, batch);
  const View right = widened(b, batch);
  const View target = broadcast(out, shape);
  const View addend = product.addend != nullptr ? broadcast(*product.addend, shape) : View{};
  std::vector<float> sums(static_cast<std::size_t>(shape[shape.size() - 2] * shape.back()));
  Shape index(batch.size(), 0);
  do {
    View one = leading(left, index);
    View two = leading(right, index);
    std::vector<float> narrow_one;
    std::vector<float> narrow_two;
    if (product.rounding != Rounding::kNone) {
      narrow_one = load(one);
      narrow_two = load(two);
      for (float& value : narrow_one) value = before_product(value, product.rounding);
      for (float& value : narrow_two) value = before_product(value, product.rounding);
      one = view_of(narrow_one, one.shape);
      two = view_of(narrow_two, two.shape);
    }
    multiply(one, two, sums.data());
    const View result = view_of(sums, {shape[shape.size() - 2], shape.back()});
    if (product.addend != nullptr) {
      map(
          leading(target, index), [&](double sum, double other) { return product.alpha * sum + product.beta * other; },
          result, leading(addend, index));
    } else if (product.alpha != 1) {
      map(
          leading(target, index), [&](double sum) { return product.alpha * sum; }, result);
    } else {
      store(leading(target, index), sums);
    }
  } while (advance(index, batch));
}

void grouped_matmul(const View& x, const GroupedProduct& groups, const View& out) {
  for (std::size_t group = 0; group + 1 < groups.starts.size(); ++group) {
    const std::int64_t start = groups.starts[group];
    const std::int64_t rows = groups.starts[group + 1] - start;
    if (rows <= 0) continue;
    Product product;
    if (!groups.biases.empty()) {
      product.beta = 1;
      product.addend = &groups.biases[group];
    }
    matmul(narrow(x, 0, start, rows), groups.weights[group], narrow(out, 0, start, rows), product);
  }
}

void grouped_outer(const View& x, const View& dy, const std::vector<std::int64_t>& starts, const View& out) {
  for (std::size_t group = 0; group + 1 < starts.size(); ++group) {
    const std::int64_t rows = starts[group + 1] - starts[group];
    const View target = select(out, 0, static_cast<std::int64_t>(group));
    if (rows <= 0) {
      fill(target, 0);
    } else {
      matmul(narrow(x, 1, starts[group], rows), narrow(dy, 0, starts[group], rows), target);
    }
  }
}

std::vector<float> dequantized(const View& weight, const View& scale, const View* offset, std::int64_t group_size,
                               Element element) {
  const std::int64_t depth = weight.shape[0];
  const auto columns = static_cast<std::size_t>(weight.shape[1]);
  const Shape table = {scale.shape.size() == 2 ? scale.shape[0] : 1, weight.shape[1]};
  const std::vector<float> scales = load(broadcast(scale, table));
  const std::vector<float> offsets = offset != nullptr ? load(broadcast(*offset, table)) : std::vector<float>{};
  std::vector<float> values = load(weight);
  for (std::int64_t row = 0; row < depth; ++row) {
    const auto group = static_cast<std::size_t>(group_size > 0 ? row / group_size : 0);
    float* line = values.data() + static_cast<std::size_t>(row) * columns;
    for (std::size_t i = 0; i < columns; ++i) {
      const float shift = offsets.empty() ? 0.0F : offsets[group * columns + i];
      line[i] = rounded((line[i] + shift) * scales[group * columns + i], element);
    }
  }
  return values;
}

}  // namespace fake::numerics
