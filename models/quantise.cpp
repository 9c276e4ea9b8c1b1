#include "models/quantise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/nf4.h"
#include "base/thread_pool.h"
#include "checkpoint/fp8.h"
#include "models/quantise_rows.h"

namespace tern::models {
namespace {

constexpr std::int64_t kNf4Block = 64, kF8Block = 128;
constexpr std::int64_t kGrain = 1 << 16;  // elements that are worth a thread
constexpr float kLargestF8 = 448.0F;
constexpr float kNothing = 1e-30F;  // smaller magnitudes are 0: what they are divided by would not be finite

using Levels = std::array<float, static_cast<std::size_t>(kNf4ScaleLevels)>;

// Tim Dettmers' dynamic numbers of 8 bits (arXiv 1511.04561): seven decades, each with twice as many steps as the one
// below it. All in fp32, as PyTorch computes them.
Levels scale_levels() {
  Levels levels{};
  std::size_t at = 0;
  levels[at++] = 0.0F;
  levels[at++] = 1.0F;
  for (int decade = 0; decade < 7; ++decade) {
    const int steps = 1 << decade;
    const float step = (1.0F - 0.1F) / static_cast<float>(steps);
    const auto border = [&](int i) {  // torch.linspace(0.1, 1, steps + 1): from the nearer end, rounded once
      return i < (steps + 1) / 2 ? std::fma(step, static_cast<float>(i), 0.1F)
                                 : std::fma(-step, static_cast<float>(steps - i), 1.0F);
    };
    const auto unit = static_cast<float>(std::pow(10.0, decade - 6));
    for (int i = 0; i < steps; ++i) {
      const float mean = unit * ((border(i) + border(i + 1)) / 2.0F);
      levels[at++] = mean;
      levels[at++] = -mean;
    }
  }
  std::sort(levels.begin(), levels.end());
  return levels;
}

// The number of the nearest level; of two as near the lower.
std::uint8_t nearest(std::span<const float> levels, float value) {
  std::size_t low = 0, high = levels.size() - 1;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if ((levels[middle] + levels[middle + 1]) / 2.0F < value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return static_cast<std::uint8_t>(low);
}

// Codes of blocks of values as the nearest of the levels times the largest magnitude.
void quantise_blocks(std::span<const float> levels, std::int64_t block, std::span<const float> values,
                     std::span<std::uint8_t> codes, std::span<float> scales) {
  ThreadPool pool;
  const auto count = static_cast<std::int64_t>(values.size());
  pool.parallel_for(static_cast<std::int64_t>(scales.size()), kGrain / block,
                    [&](std::int64_t begin, std::int64_t end, int) {
                      for (std::int64_t b = begin; b < end; ++b) {
                        const std::int64_t first = b * block, n = std::min(block, count - first);
                        float most = 0.0F;
                        for (std::int64_t i = first; i < first + n; ++i)
                          most = std::max(most, std::fabs(values[static_cast<std::size_t>(i)]));
                        scales[static_cast<std::size_t>(b)] = most;
                        const float by = 1.0F / std::max(most, 1e-38F);
                        for (std::int64_t i = first; i < first + n; ++i) {
                          const float scaled = values[static_cast<std::size_t>(i)] * by;
                          codes[static_cast<std::size_t>(i)] = nearest(levels, std::clamp(scaled, -1.0F, 1.0F));
                        }
                      }
                    });
}

template <typename T>
void append(std::span<const T> numbers, std::vector<std::byte>& out) {
  const auto bytes = std::as_bytes(numbers);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// A part of a weight: its plane of codes, and its scales.
struct Part {
  std::vector<std::byte> codes;
  std::vector<float> scales;
};

Part nf4(std::span<const float> values) {
  const auto count = values.size();
  std::vector<std::uint8_t> codes(count + count % 2, 7);  // the level 0, where the last has no other half
  Part part;
  part.scales.resize((count + kNf4Block - 1) / kNf4Block);
  quantise_blocks(kNf4Levels, kNf4Block, values, std::span(codes).first(count), part.scales);
  part.codes.reserve(codes.size() / 2);
  for (std::size_t i = 0; i < codes.size(); i += 2)
    part.codes.push_back(static_cast<std::byte>(codes[i] << 4 | codes[i + 1]));
  return part;
}

// The scales in 8 bits, and what they count from and in.
void append_double_quantised(std::vector<float> scales, std::vector<std::byte>& out) {
  double sum = 0.0;
  for (const float scale : scales) sum += scale;
  const auto mean = static_cast<float>(sum / static_cast<double>(scales.size()));
  for (float& scale : scales) scale -= mean;
  static const Levels levels = scale_levels();
  std::vector<std::uint8_t> scale_codes(scales.size());
  std::vector<float> of((scales.size() + kNf4ScaleLevels - 1) / kNf4ScaleLevels);
  quantise_blocks(levels, kNf4ScaleLevels, scales, scale_codes, of);
  append<std::uint8_t>(scale_codes, out);
  append<float>(levels, out);
  append<float>(std::span(&mean, 1), out);
  append<float>(of, out);
}

// Of one byte an element.
Part with_scales(std::span<const std::uint8_t> codes, std::vector<float> scales) {
  Part part{{}, std::move(scales)};
  append(codes, part.codes);
  return part;
}

Part int8(std::int64_t rows, std::int64_t columns, std::span<const float> values) {
  std::vector<std::uint8_t> codes(values.size());
  std::vector<float> scales(static_cast<std::size_t>(rows));
  ThreadPool pool;
  pool.parallel_for(rows, std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(columns, 1)),
                    [&](std::int64_t begin, std::int64_t end, int) {
                      for (std::int64_t r = begin; r < end; ++r) {
                        const auto row =
                            values.subspan(static_cast<std::size_t>(r * columns), static_cast<std::size_t>(columns));
                        float most = 0.0F;
                        for (const float value : row) most = std::max(most, std::fabs(value));
                        scales[static_cast<std::size_t>(r)] = most / 127.0F;
                        const float by = most > kNothing ? 1.0F / most * 127.0F : 0.0F;
                        for (std::int64_t c = 0; c < columns; ++c) {
                          const float code = std::nearbyint(row[static_cast<std::size_t>(c)] * by);
                          codes[static_cast<std::size_t>(r * columns + c)] =
                              static_cast<std::uint8_t>(static_cast<std::int8_t>(code));
                        }
                      }
                    });
  return with_scales(codes, std::move(scales));
}

Part fp8(std::int64_t block_rows, std::int64_t rows, std::int64_t columns, std::span<const float> values) {
  const std::int64_t across = (columns + kF8Block - 1) / kF8Block, down = (rows + block_rows - 1) / block_rows;
  std::vector<std::uint8_t> codes(values.size());
  std::vector<float> scales(static_cast<std::size_t>(down * across));
  ThreadPool pool;
  pool.parallel_for(down * across, 4, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t row = b / across * block_rows, column = b % across * kF8Block;
      const auto each = [&](auto&& action) {
        for (std::int64_t r = row; r < std::min(row + block_rows, rows); ++r) {
          for (std::int64_t c = column; c < std::min(column + kF8Block, columns); ++c)
            action(static_cast<std::size_t>(r * columns + c));
        }
      };
      float most = 0.0F;
      each([&](std::size_t i) { most = std::max(most, std::fabs(values[i])); });
      const float by = most > kNothing ? 1.0F / most * kLargestF8 : 1.0F;  // PyTorch's order
      scales[static_cast<std::size_t>(b)] = 1.0F / by;
      each([&](std::size_t i) {
        codes[i] = checkpoint::float_to_f8_e4m3(std::clamp(values[i] * by, -kLargestF8, kLargestF8));
      });
    }
  });
  return with_scales(codes, std::move(scales));
}

Part quantised_part(const QuantiseOptions& options, const TensorDesc& desc, std::int64_t rows,
                    std::span<const float> values) {
  switch (options.method) {
    case QuantiseMethod::int8:
      return int8(rows, desc.shape[1], values);
    case QuantiseMethod::fp8:
      return fp8(desc.scheme.group_rows, rows, desc.shape[1], values);
    default:
      return nf4(values);
  }
}

}  // namespace

TensorDesc quantised_desc(const QuantiseOptions& options, std::int64_t rows, std::int64_t columns) {
  const auto scheme = [&]() -> tern_scheme {
    switch (options.method) {
      case QuantiseMethod::int8:
        return {TERN_PACK_ROW_INT8, 8, 1, static_cast<std::int32_t>(columns), TERN_F32, 0};
      case QuantiseMethod::fp8:
        return {TERN_PACK_F8_BLOCK, 8, kF8Block, kF8Block, TERN_F32, 0};
      default:
        return {TERN_PACK_NF4,
                4,
                1,
                kNf4Block,
                options.double_quant ? TERN_U8 : TERN_F32,
                options.double_quant ? TERN_SCHEME_DOUBLE_QUANT : 0};
    }
  };
  return make_quantised_desc(TERN_F32, scheme(), rows, columns);
}

TensorDesc quantised_desc_of(const QuantiseOptions& options, std::int64_t matrices, std::int64_t rows,
                             std::int64_t columns) {
  TensorDesc desc = quantised_desc(options, matrices * rows, columns);
  if (options.method == QuantiseMethod::fp8 && matrices > 1)
    desc.scheme.group_rows = static_cast<std::int32_t>(std::gcd(rows, kF8Block));
  return desc;
}

std::vector<std::byte> quantised_planes_of(const QuantiseOptions& options, const TensorDesc& desc,
                                           std::int64_t matrices, const RowValues& values) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;  // elements that are read together, if a matrix hasn't more
  const std::int64_t rows = desc.shape[0], columns = std::max<std::int64_t>(desc.shape[1], 1);
  std::int64_t some = matrices > 1 ? rows / matrices : rows;
  while (some > 0 && (some * columns % kNf4Block != 0 || (some < rows && 2 * some * columns <= kMost))) some *= 2;
  std::vector<std::byte> out;
  out.reserve(total_bytes(desc));
  std::vector<float> scales;
  for (std::int64_t first = 0; first < rows; first += some) {
    const std::int64_t count = std::min(some, rows - first);
    const Part part = quantised_part(options, desc, count, values(first, count));
    out.insert(out.end(), part.codes.begin(), part.codes.end());
    scales.insert(scales.end(), part.scales.begin(), part.scales.end());
  }
  if (options.method == QuantiseMethod::nf4 && options.double_quant) {
    append_double_quantised(std::move(scales), out);
  } else {
    append<float>(scales, out);
  }
  return out;
}

std::vector<std::byte> quantised_planes(const QuantiseOptions& options, std::int64_t rows, std::int64_t columns,
                                        std::span<const float> values) {
  return quantised_planes_of(
      options, quantised_desc(options, rows, columns), 1, [&](std::int64_t first, std::int64_t count) {
        const auto part =
            values.subspan(static_cast<std::size_t>(first * columns), static_cast<std::size_t>(count * columns));
        return std::vector<float>(part.begin(), part.end());
      });
}

}  // namespace tern::models
