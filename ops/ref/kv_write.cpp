#include "ops/ref/oracle.h"

namespace tern::ops::ref {
namespace {

void write(const Tensor& from, const Tensor& slots, Tensor& cache) {
  const std::int64_t width = from.size(1) * from.size(2);
  for (std::int64_t r = 0; r < from.size(0); ++r) {
    const std::int64_t slot = slots.integer[static_cast<std::size_t>(r)];
    for (std::int64_t c = 0; slot >= 0 && c < width; ++c) {
      cache.real.at(static_cast<std::size_t>(slot * width + c)) = from.real[static_cast<std::size_t>(r * width + c)];
    }
  }
}

}  // namespace

void kv_write(Call& call) {
  const Tensor& slots = input(call, TERN_KV_WRITE_SLOTS);
  write(input(call, TERN_KV_WRITE_K), slots, call.args[TERN_KV_WRITE_K_CACHE]);
  write(input(call, TERN_KV_WRITE_V), slots, call.args[TERN_KV_WRITE_V_CACHE]);
}

}  // namespace tern::ops::ref
