#include "media/resize.h"

#include <algorithm>
#include <cmath>

namespace tern::media {
namespace {

// The weights with which the samples of one axis make those of another length.
struct Weights {
  std::vector<std::int64_t> first;   // [out] the first sample used
  std::vector<std::int64_t> count;   // [out] how many are
  std::vector<std::int32_t> values;  // [out, stride] in units of 2^-precision
  std::int64_t stride = 0;
  int precision = 0;

  [[nodiscard]] std::int32_t rounded(std::int32_t sum) const { return std::clamp(sum >> precision, 0, 255); }
  [[nodiscard]] std::int32_t half() const { return 1 << (precision - 1); }
};

double weight_at(Filter filter, double x) {
  x = std::abs(x);
  if (filter == Filter::bilinear) return x < 1 ? 1 - x : 0;
  constexpr double kA = -0.5;  // Keys' cubic, as Pillow has it
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0;
}

// A half added and the rest cut off, towards zero: below it not what rounding gives, and as PyTorch has it.
std::int64_t from_half_up(double x) {
  x += 0.5;
  return static_cast<std::int64_t>(x);
}

constexpr int kMostPrecision = 22;  // with 8 of a byte, and 2 that sums may take beyond it

// As many bits as keep the largest weight below 2^15.
int precision_of(double largest) {
  int precision = 0;
  while (precision < kMostPrecision && from_half_up(largest * (1 << (precision + 1))) < 1 << 15) ++precision;
  return precision;
}

Weights weights_of(std::int64_t in, std::int64_t out, Filter filter, Arithmetic arithmetic) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double stretch = std::max(scale, 1.0);
  const double support = (filter == Filter::bilinear ? 1 : 2) * stretch;
  Weights weights;
  weights.stride = static_cast<std::int64_t>(std::ceil(support)) * 2 + 1;
  std::vector<double> values(static_cast<std::size_t>(out * weights.stride));
  double largest = 0;
  for (std::int64_t i = 0; i < out; ++i) {
    const double center = scale * (static_cast<double>(i) + 0.5);
    const std::int64_t first = std::max<std::int64_t>(from_half_up(center - support), 0);
    const std::int64_t count =
        std::clamp<std::int64_t>(std::min(from_half_up(center + support), in) - first, 0, weights.stride);
    double* row = values.data() + i * weights.stride;
    double total = 0;
    for (std::int64_t j = 0; j < count; ++j) {
      row[j] = weight_at(filter, (static_cast<double>(j + first) - center + 0.5) / stretch);
      total += row[j];
    }
    for (std::int64_t j = 0; j < count; ++j) {
      if (total != 0) row[j] /= total;
      largest = std::max(largest, row[j]);
    }
    weights.first.push_back(first);
    weights.count.push_back(count);
  }
  weights.precision = arithmetic == Arithmetic::pillow ? kMostPrecision : precision_of(largest);
  for (const double value : values) {
    const std::int64_t size = from_half_up(std::abs(value) * (1 << weights.precision));
    weights.values.push_back(static_cast<std::int32_t>(value < 0 ? -size : size));
  }
  return weights;
}

void resize_row(const std::uint8_t* in, const Weights& weights, std::uint8_t* out) {
  for (std::size_t x = 0; x < weights.first.size(); ++x, out += 3) {
    const std::uint8_t* from = in + weights.first[x] * 3;
    const std::int32_t* weight = weights.values.data() + static_cast<std::int64_t>(x) * weights.stride;
    std::int32_t red = weights.half(), green = red, blue = red;
    for (std::int64_t j = 0; j < weights.count[x]; ++j, from += 3) {
      red += weight[j] * from[0];
      green += weight[j] * from[1];
      blue += weight[j] * from[2];
    }
    out[0] = static_cast<std::uint8_t>(weights.rounded(red));
    out[1] = static_cast<std::uint8_t>(weights.rounded(green));
    out[2] = static_cast<std::uint8_t>(weights.rounded(blue));
  }
}

}  // namespace

// Rows first, then columns. Of the rows only those are kept that an output row still needs, so that a tall picture's
// detour through `width` takes no more memory than the filter is high.
Image resize(const Image& image, std::int64_t width, std::int64_t height, Filter filter, Arithmetic arithmetic) {
  if (width == image.width && height == image.height) return image;
  const Weights across = weights_of(image.width, width, filter, arithmetic);
  const Weights down = weights_of(image.height, height, filter, arithmetic);
  const std::size_t row_size = static_cast<std::size_t>(width) * 3;
  std::vector<std::uint8_t> kept(static_cast<std::size_t>(down.stride) * row_size);
  const auto row = [&](std::int64_t y) { return kept.data() + static_cast<std::size_t>(y % down.stride) * row_size; };
  Image out{width, height, {}};
  out.pixels.resize(static_cast<std::size_t>(height) * row_size);
  std::vector<std::int32_t> sums(row_size);
  std::int64_t next = 0;
  for (std::int64_t y = 0; y < height; ++y) {
    const std::int64_t first = down.first[static_cast<std::size_t>(y)];
    const std::int64_t count = down.count[static_cast<std::size_t>(y)];
    for (next = std::max(next, first); next < first + count; ++next) {
      const std::uint8_t* in = image.pixels.data() + next * image.width * 3;
      if (width == image.width) {
        std::copy_n(in, row_size, row(next));
      } else {
        resize_row(in, across, row(next));
      }
    }
    std::fill(sums.begin(), sums.end(), down.half());
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int32_t weight = down.values[static_cast<std::size_t>(y * down.stride + j)];
      const std::uint8_t* from = row(first + j);
      for (std::size_t i = 0; i < row_size; ++i) sums[i] += weight * from[i];
    }
    std::uint8_t* to = out.pixels.data() + static_cast<std::size_t>(y) * row_size;
    for (std::size_t i = 0; i < row_size; ++i) to[i] = static_cast<std::uint8_t>(down.rounded(sums[i]));
  }
  return out;
}

Image crop(const Image& image, const Box& box) {
  Image out{std::min(box.width, image.width - box.x), std::min(box.height, image.height - box.y), {}};
  out.pixels.reserve(static_cast<std::size_t>(out.width * out.height * 3));
  for (std::int64_t y = 0; y < out.height; ++y) {
    const auto from = image.pixels.begin() + ((box.y + y) * image.width + box.x) * 3;
    out.pixels.insert(out.pixels.end(), from, from + out.width * 3);
  }
  return out;
}

}  // namespace tern::media
