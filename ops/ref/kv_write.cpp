#include <limits>

#include "ops/ref/oracle.h"

namespace tern::ops::ref {
namespace {

void write(const Tensor& from, const Tensor& slots, Tensor& cache) {
  if (!from.present()) return;
  const std::int64_t width = from.size(1) * from.size(2);
  for (std::int64_t r = 0; r < from.size(0); ++r) {
    const std::int64_t slot = slots.integer[static_cast<std::size_t>(r)];
    for (std::int64_t c = 0; c < width; ++c) {
      cache.real.at(static_cast<std::size_t>(slot * width + c)) = from.real[static_cast<std::size_t>(r * width + c)];
    }
  }
  // What block 0 holds is open, and different from both before and after, so that who reads it is found.
  constexpr double kNobodys = 12345.0;
  const auto block = static_cast<std::ptrdiff_t>(cache.size(0) > 0 ? cache.size(1) * width : 0);
  std::fill(cache.real.begin(), cache.real.begin() + block, kNobodys);
  cache.slack.assign(cache.real.size(), 0.0);
  std::fill(cache.slack.begin(), cache.slack.begin() + block, std::numeric_limits<double>::infinity());
}

}  // namespace

void kv_write(Call& call) {
  const Tensor& slots = input(call, TERN_KV_WRITE_SLOTS);
  write(input(call, TERN_KV_WRITE_K), slots, call.args[TERN_KV_WRITE_K_CACHE]);
  write(input(call, TERN_KV_WRITE_V), slots, call.args[TERN_KV_WRITE_V_CACHE]);
}

}  // namespace tern::ops::ref
