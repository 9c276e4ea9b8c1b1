#include <cmath>
#include <cstring>
#include <vector>

#include "base/dtype.h"
#include "ops/ref/packing.h"

namespace tern::ops::ref {
namespace {

// Where a block holds its codes, of packings that add a minimum; what is left without them is the minimum.
struct CodeBytes {
  tern_packing packing;
  std::int64_t begin, end;
};
constexpr CodeBytes kCodes[] = {
    {TERN_PACK_GGUF_Q4_1, 4, 20}, {TERN_PACK_GGUF_Q5_1, 4, 24}, {TERN_PACK_GGUF_Q4_K, 16, 144}};

}  // namespace

void expand_parts(const TensorDesc& desc, std::span<const std::span<const std::byte>> planes,
                  std::span<const double> values, std::span<double> parts) {
  for (std::size_t i = 0; i < values.size(); ++i) parts[i] = std::fabs(values[i]);
  for (const CodeBytes& codes : kCodes) {
    if (codes.packing != desc.scheme.packing) continue;
    std::vector<std::byte> bare(planes[0].begin(), planes[0].end());
    const auto block = static_cast<std::size_t>(packing_block(codes.packing).bytes);
    for (std::size_t at = 0; at + block <= bare.size(); at += block) {
      std::memset(bare.data() + at + codes.begin, 0, static_cast<std::size_t>(codes.end - codes.begin));
    }
    std::vector<double> minima(values.size());
    const std::span<const std::byte> plane[] = {bare};
    expand_packing(desc, plane, minima);
    for (std::size_t i = 0; i < values.size(); ++i) parts[i] = std::fabs(values[i] - minima[i]) + std::fabs(minima[i]);
  }
}

}  // namespace tern::ops::ref
