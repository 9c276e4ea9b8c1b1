#include "train/neftune.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"

namespace tern::train {
namespace {

// Word 1 of the counter: no site of dropout, which count up from 0.
constexpr std::uint32_t kSite = 0x4E454654;

}  // namespace

std::vector<float> embedding_noise(const data::MicroBatch& batch, const MicroBatchInputs& inputs, double alpha,
                                   std::int64_t hidden) {
  const auto samples = batch.values<std::uint32_t>(data::kSampleIds);
  std::vector<float> noise;
  noise.reserve(batch.tokens() * static_cast<std::size_t>(hidden));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto length = static_cast<std::uint64_t>(batch.cu_seqlens[i + 1] - batch.cu_seqlens[i]);
    const auto size =
        static_cast<float>(alpha / std::sqrt(static_cast<double>(length) * static_cast<double>(hidden)));
    for (std::uint64_t t = 0; t < length; ++t) {
      const auto key = static_cast<std::uint64_t>(dropout_key(inputs.seed, inputs.epoch, samples[i], t));
      for (std::int64_t f = 0; f < hidden; f += 4) {
        const auto block = philox(key, {static_cast<std::uint32_t>(f / 4), kSite, 0, 0});
        for (std::int64_t k = f; k < std::min(f + 4, hidden); ++k) {
          noise.push_back(size * (2.0F * uniform24(block[static_cast<std::size_t>(k - f)]) - 1.0F));
        }
      }
    }
  }
  return noise;
}

}  // namespace tern::train
