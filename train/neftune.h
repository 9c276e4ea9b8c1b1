// NEFTune (Jain et al., "Noisy Embeddings Improve Instruction Finetuning", 2023): uniform noise on what stands for a
// sample's tokens while it is trained on, in [-m, m) with m = alpha / sqrt(length hidden).
#pragma once

#include <cstdint>
#include <vector>

#include "data/micro_batch.h"
#include "train/micro_batch.h"

namespace tern::train {

// [tokens, hidden] The noise of a token depends on its sample, its place there and the epoch, never on the batch or the
// pack that it lies in. transformers takes the length of the padded batch; here it is the sample's own.
[[nodiscard]] std::vector<float> embedding_noise(const data::MicroBatch& batch, const MicroBatchInputs& inputs,
                                                 double alpha, std::int64_t hidden);

}  // namespace tern::train
