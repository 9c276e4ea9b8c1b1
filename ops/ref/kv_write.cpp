#include <algorithm>
#include <limits>

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
  write(input(call, TERN_KV_WRITE_K), slots, call.args[TERN_KV_WRITE_K_CACHE]);
  write(input(call, TERN_KV_WRITE_V), slots, call.args[TERN_KV_WRITE_V_CACHE]);
}

}  // namespace tern::ops::ref
