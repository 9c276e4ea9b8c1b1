// adamw_8bit: a block of 256 elements at a time, whose moments lie in fp32 only in between.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/tile_math.h"
#include "backends/cpu/walk.h"

namespace tern::cpu {
namespace {

constexpr std::int64_t kBlock = 256;
using BlockBuffer = std::array<float, kBlock>;

bool supports(const PlanDesc& desc, std::string& reason) {
  return Check(desc, reason)
      .dtype(TERN_ADAMW_8BIT_PARAM, TERN_F32)
      .dtype(TERN_ADAMW_8BIT_M, TERN_U8)
      .dtype(TERN_ADAMW_8BIT_V, TERN_U8)
      .floats({TERN_ADAMW_8BIT_GRAD})
      .dim(TERN_ADAMW_8BIT_M_CODES, 0, 256)
      .dim(TERN_ADAMW_8BIT_V_CODES, 0, 256)
      .dim(TERN_ADAMW_8BIT_HYPER, 0, 10)
      .same_shape({TERN_ADAMW_8BIT_PARAM, TERN_ADAMW_8BIT_M, TERN_ADAMW_8BIT_V, TERN_ADAMW_8BIT_GRAD})
      .contiguous()
      .ok();
}

// The nearest of 256 rising codes. A number's upper bits say where to begin: its sign, exponent and four bits of its
// fraction, so that few codes are left to pass.
class Quantiser {
 public:
  explicit Quantiser(const float* codes) {
    for (std::size_t i = 0; i + 1 < 256; ++i) middle_[i] = 0.5F * (codes[i] + codes[i + 1]);
    for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
      // Of a negative bucket the end farther from 0 is the smallest.
      const bool negative = bucket >= kBuckets / 2;
      const std::uint32_t bits = (bucket << kShift) | (negative ? (1U << kShift) - 1U : 0U);
      const float smallest = std::bit_cast<float>(bits);
      begin_[bucket] = std::isnan(smallest) ? std::uint8_t{0} : walk(0, smallest);
    }
  }
  [[nodiscard]] std::uint8_t operator()(float x) const {
    return walk(begin_[std::bit_cast<std::uint32_t>(x) >> kShift], x);
  }

 private:
  static constexpr std::uint32_t kShift = 19;
  static constexpr std::uint32_t kBuckets = 1U << (32U - kShift);
  [[nodiscard]] std::uint8_t walk(std::uint32_t code, float x) const {
    while (code < 255 && x > middle_[code]) ++code;
    return static_cast<std::uint8_t>(code);
  }
  std::array<float, 255> middle_{};
  std::array<std::uint8_t, kBuckets> begin_{};
};

struct Moment {
  std::uint8_t* codes;  // [elements]
  float* largest;       // [blocks]
  const float* table;   // [256]
  Quantiser quantiser;

  Moment(const TensorView& codes, const TensorView& largest, const TensorView& table)
      : codes(codes.data<std::uint8_t>()),
        largest(largest.data<float>()),
        table(table.data<const float>()),
        quantiser(this->table) {}
  void read(std::int64_t block, std::int64_t n, float* out) const {
    const float most = largest[block];
    for (std::int64_t i = 0; i < n; ++i) out[i] = table[codes[block * kBlock + i]] * most;
  }
  void write(std::int64_t block, std::int64_t n, const float* values) const {
    float most = 0.0F;
    for (std::int64_t i = 0; i < n; ++i) most = std::max(most, std::fabs(values[i]));
    largest[block] = most;
    for (std::int64_t i = 0; i < n; ++i) {
      codes[block * kBlock + i] = quantiser(most > 0.0F ? values[i] / most : 0.0F);
    }
  }
};

void run(const KernelArgs& args) {
  const TensorView &param = args[TERN_ADAMW_8BIT_PARAM], &grad = args[TERN_ADAMW_8BIT_GRAD];
  const auto* hyper = args[TERN_ADAMW_8BIT_HYPER].data<const float>();
  const AdamwStep step{hyper[0], hyper[1], hyper[2], hyper[3], hyper[4],
                       hyper[5], hyper[6], hyper[7], hyper[8], hyper[9]};
  const Moment m(args[TERN_ADAMW_8BIT_M], args[TERN_ADAMW_8BIT_M_MAX], args[TERN_ADAMW_8BIT_M_CODES]);
  const Moment v(args[TERN_ADAMW_8BIT_V], args[TERN_ADAMW_8BIT_V_MAX], args[TERN_ADAMW_8BIT_V_CODES]);
  const TileIo io(args);
  const TileMath& math = tile_math(args.target);
  const std::int64_t elements = param.elements();
  args.pool->parallel_for((elements + kBlock - 1) / kBlock, kParallelFrom / kBlock,
                          [&](std::int64_t begin, std::int64_t end, int) {
                            alignas(64) TileBuffer buffer;
                            alignas(64) BlockBuffer first;
                            alignas(64) BlockBuffer second;
                            for (std::int64_t block = begin; block < end; ++block) {
                              const std::int64_t n = std::min(kBlock, elements - block * kBlock);
                              const float* g = io.load(grad, block * kBlock, 1, n, buffer.data());
                              m.read(block, n, first.data());
                              v.read(block, n, second.data());
                              math.adamw(step, g, static_cast<std::size_t>(n), param.data<float>() + block * kBlock,
                                         first.data(), second.data());
                              m.write(block, n, first.data());
                              v.write(block, n, second.data());
                            }
                          });
}

constexpr KernelEntry kKernels[] = {{TERN_OP_ADAMW_8BIT, "adamw_8bit", supports, nullptr, nullptr, run}};

}  // namespace

KernelList adamw_8bit_kernels() { return kKernels; }

}  // namespace tern::cpu
