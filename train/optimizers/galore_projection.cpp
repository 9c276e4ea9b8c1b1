#include "train/optimizers/galore_projection.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "base/strings.h"
#include "ops/dequantize.h"

namespace tern::train {
namespace {

constexpr std::int64_t kRowsTogether = 32;     // whose zero points fill whole words, whatever their bits; groups, too
constexpr std::int64_t kLargestGap = 1 << 24;  // that fp32 counts exactly

struct Group {
  float scale = 0;
  std::uint32_t zero = 0;
};

// As q-galore-torch's _quantize, in fp32; halves are rounded to even.
Group group_of_values(std::span<const float> values, float largest_code) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  Group out;
  out.scale = std::max(*most - *least, 1e-5F) / largest_code;
  out.zero = static_cast<std::uint32_t>(std::clamp(-std::nearbyint(*least / out.scale), 0.0F, largest_code));
  return out;
}

// Bits `at` to `at` + `bits` of words that are `stride` apart.
void put(std::span<std::uint32_t> words, std::int64_t stride, std::int64_t first, std::int64_t at, int bits,
         std::uint32_t code) {
  const auto word = static_cast<std::size_t>(first + at / 32 * stride);
  const auto shift = static_cast<int>(at % 32);
  words[word] |= code << shift;
  if (shift + bits > 32) words[word + static_cast<std::size_t>(stride)] |= code >> (32 - shift);
}

template <typename T>
void append(std::vector<std::byte>& bytes, const std::vector<T>& values) {
  const auto added = std::as_bytes(std::span(values));
  bytes.insert(bytes.end(), added.begin(), added.end());
}

}  // namespace

TensorDesc projection_desc(const std::string& parameter, std::int64_t rows, std::int64_t columns,
                           const GaloreOptions& options) {
  if (!options.quantised || !options.quantised->projections) return make_desc(TERN_F32, {rows, columns});
  const std::int64_t group = options.quantised->group_size;
  if (group % kRowsTogether != 0) {
    throw Failure(usage_error(cat("--galore_proj_group_size ", group, " is no multiple of ", kRowsTogether),
                              "give 64, 128 or 256"));
  }
  if (rows * columns % group != 0) {
    throw Failure(usage_error(cat("--galore_proj_group_size ", group, " does not go into the ", rows, " x ", columns,
                                  " numbers of the projection of ", parameter),
                              "give a number that does, or another --galore_rank"));
  }
  tern_scheme scheme{};
  scheme.packing = TERN_PACK_GPTQ_INT4;
  scheme.bits = static_cast<std::int32_t>(options.quantised->bits);
  scheme.group_rows = 1;
  scheme.group_cols = static_cast<std::int32_t>(group);
  scheme.scale_dtype = TERN_F32;
  scheme.flags = TERN_SCHEME_IN_ORDER;
  const std::int64_t groups = rows * columns / group;
  return make_quantised_desc(TERN_F32, scheme, (groups + kRowsTogether - 1) / kRowsTogether * kRowsTogether, group);
}

std::vector<std::byte> projection_bytes(std::span<const float> values, const TensorDesc& desc) {
  if (!is_quantised(desc)) {
    const auto bytes = std::as_bytes(values);
    return {bytes.begin(), bytes.end()};
  }
  const int bits = desc.scheme.bits;
  const std::int64_t rows = desc.shape[0], group = desc.shape[1];
  const auto largest = static_cast<float>((1 << bits) - 1);
  std::vector<std::uint32_t> codes(static_cast<std::size_t>(rows * group * bits / 32), 0);
  std::vector<float> scales(static_cast<std::size_t>(rows), 0.0F);
  std::vector<std::uint32_t> zeros(static_cast<std::size_t>(rows * bits / 32), 0);
  for (std::int64_t row = 0; row * group < static_cast<std::int64_t>(values.size()); ++row) {
    const auto own = values.subspan(static_cast<std::size_t>(row * group), static_cast<std::size_t>(group));
    const Group of = group_of_values(own, largest);
    scales[static_cast<std::size_t>(row)] = of.scale;
    put(zeros, 1, 0, row * bits, bits, of.zero);
    for (std::int64_t i = 0; i < group; ++i) {
      const float code = std::nearbyint(own[static_cast<std::size_t>(i)] / of.scale) + static_cast<float>(of.zero);
      put(codes, rows, row, i * bits, bits, static_cast<std::uint32_t>(std::clamp(code, 0.0F, largest)));
    }
  }
  std::vector<std::byte> bytes;
  append(bytes, codes);
  append(bytes, scales);
  append(bytes, zeros);
  return bytes;
}

ops::Value projection_value(graph::Graph& graph, ops::Value kept, std::int64_t rows, std::int64_t columns) {
  if (!is_quantised(graph.desc(kept))) return kept;
  const ops::Value expanded = ops::dequantize(graph, kept, TERN_F32, TERN_NEED_DETERMINISTIC);
  return graph.view(expanded, make_desc(TERN_F32, {rows, columns}), 0);
}

AdaptiveGap::AdaptiveGap(const GaloreOptions& options, std::int64_t size)
    : options_(options.quantised.value_or(QGaloreOptions{})), size_(size), gap_(options.update_proj_gap) {}

void AdaptiveGap::observe(std::span<const float> leading) {
  if (!last_.empty()) {
    double product = 0, a = 0, b = 0;
    for (std::size_t i = 0; i < leading.size(); ++i) {
      product += static_cast<double>(leading[i]) * last_[i];
      a += static_cast<double>(leading[i]) * leading[i];
      b += static_cast<double>(last_[i]) * last_[i];
    }
    const auto size = static_cast<std::size_t>(options_.queue_size);
    if (cosines_.size() == size) cosines_.erase(cosines_.begin());
    cosines_.push_back(static_cast<float>(product / (std::max(std::sqrt(a), 1e-8) * std::max(std::sqrt(b), 1e-8))));
    double sum = 0;
    for (const float cosine : cosines_) sum += cosine;
    if (cosines_.size() == size && sum / static_cast<double>(size) >= options_.cos_threshold) {
      gap_ = std::min(kLargestGap, gap_ * options_.gamma);
    }
  }
  last_.assign(leading.begin(), leading.end());
}

std::int64_t AdaptiveGap::state_size(const GaloreOptions& options, std::int64_t size) {
  return 2 + options.quantised->queue_size + size;
}

std::vector<float> AdaptiveGap::state() const {
  std::vector<float> out = {static_cast<float>(gap_), last_.empty() ? -1.0F : static_cast<float>(cosines_.size())};
  out.insert(out.end(), cosines_.begin(), cosines_.end());
  out.resize(static_cast<std::size_t>(2 + options_.queue_size), 0.0F);
  out.insert(out.end(), last_.begin(), last_.end());
  out.resize(static_cast<std::size_t>(2 + options_.queue_size + size_), 0.0F);
  return out;
}

void AdaptiveGap::restore(std::span<const float> state) {
  if (state[0] < 1.0F) return;
  gap_ = static_cast<std::int64_t>(state[0]);
  cosines_.clear();
  last_.clear();
  if (state[1] < 0.0F) return;
  cosines_.assign(state.begin() + 2, state.begin() + 2 + static_cast<std::ptrdiff_t>(state[1]));
  last_.assign(state.end() - static_cast<std::ptrdiff_t>(size_), state.end());
}

}  // namespace tern::train
