#include <algorithm>
#include <limits>

#include "ops/ref/cache_codes.h"
#include "ops/ref/oracle.h"

namespace tern::ops::ref {
namespace {

template <typename T>
void copy_rows(const std::vector<T>& from, const Tensor& slots, std::int64_t width, std::vector<T>& cache) {
  for (std::size_t r = 0; r < slots.integer.size(); ++r) {
    const auto row = from.begin() + static_cast<std::ptrdiff_t>(r) * width;
    const std::int64_t begin = slots.integer[r] * width;
    for (std::int64_t c = 0; c < width; ++c) cache.at(static_cast<std::size_t>(begin + c)) = row[c];
  }
}

// Rows of floats as codes, and the scales of each row's heads.
struct Coded {
  Tensor codes, scales;
};
Coded coded(const Tensor& from, const TensorDesc& cache) {
  const auto dim = static_cast<std::size_t>(from.size(2));
  Coded out{from, from};
  out.codes.desc.dtype = cache.dtype;
  out.codes.real.clear();
  out.scales.desc = make_desc(TERN_F32, {from.size(0), from.size(1), 1});
  out.scales.real.clear();
  for (std::size_t at = 0; at < from.real.size(); at += dim) {
    const std::span row(from.real.data() + at, dim);
    const double scale = row_scale(cache.dtype, row);
    out.scales.real.push_back(scale);
    for (const double x : row) {
      const double code = row_code(cache.dtype, x, scale);
      if (cache.dtype == TERN_I8) out.codes.integer.push_back(static_cast<std::int64_t>(code));
      if (cache.dtype != TERN_I8) out.codes.real.push_back(code);
    }
  }
  return out;
}

void write(const Tensor& from, const Tensor& slots, Tensor& cache) {
  if (!from.present()) return;
  const std::int64_t width = from.size(1) * from.size(2);
  // What block 0 holds is open, and different from both before and after, so that who reads it is found.
  constexpr std::int64_t kNobodys = 12345;
  const auto block = static_cast<std::ptrdiff_t>(cache.size(0) > 0 ? cache.size(1) * width : 0);
  const std::size_t count = std::max(cache.real.size(), cache.integer.size());
  if (cache.real.empty()) {
    copy_rows(from.integer, slots, width, cache.integer);
    std::fill(cache.integer.begin(), cache.integer.begin() + block, kNobodys);
  } else {
    copy_rows(from.real, slots, width, cache.real);
    std::fill(cache.real.begin(), cache.real.begin() + block, static_cast<double>(kNobodys));
  }
  cache.slack.assign(count, 0.0);
  std::fill(cache.slack.begin(), cache.slack.begin() + block, std::numeric_limits<double>::infinity());
}

}  // namespace

void kv_write(Call& call) {
  const Tensor& slots = input(call, TERN_KV_WRITE_SLOTS);
  const auto write_rows = [&](int rows, int cache, int scale) {
    const Tensor& from = input(call, rows);
    Tensor& to = call.args[static_cast<std::size_t>(cache)];
    Tensor& scales = call.args[static_cast<std::size_t>(scale)];
    if (!scales.present()) return write(from, slots, to);
    const Coded rows_of = coded(from, to.desc);
    write(rows_of.codes, slots, to);
    write(rows_of.scales, slots, scales);
  };
  write_rows(TERN_KV_WRITE_K, TERN_KV_WRITE_K_CACHE, TERN_KV_WRITE_K_SCALE);
  write_rows(TERN_KV_WRITE_V, TERN_KV_WRITE_V_CACHE, TERN_KV_WRITE_V_SCALE);
}

}  // namespace tern::ops::ref
