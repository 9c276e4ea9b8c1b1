// Pairs that begin as a part of the weight that they sit on (PiSSA, OLoRA), or as one of its gradient (LoRA-GA). The
// weight is to be without what they began as, which tern leaves in it and takes off beside it: in fp32, whatever the
// weight is stored in.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/loader.h"
#include "models/low_rank.h"
#include "nn/context.h"

namespace tern::models {

// By the words that PEFT has for init_lora_weights.
inline constexpr const char* kPissa = "pissa";
inline constexpr const char* kOlora = "olora";
// By ms-swift's: no weight tells how such a pair began (train/lora_ga.h).
inline constexpr const char* kLoraGa = "lora-ga";

struct PairStart {
  std::string began_as = kPissa;                // or kOlora
  std::optional<std::int64_t> iterations = {};  // of PiSSA's pissa_niter_N; none: to its end
  std::uint64_t seed = 42;                      // of what it iterates from
  std::function<void(std::int64_t)> done = {};  // layers
};
// The pair of one weight. Throws Failure (usage) where its rank is above the smaller side of the weight.
[[nodiscard]] LowRankPair initial_pair(const PairStart& start, const std::string& module, const Matrix& weight,
                                       std::int64_t rank, double scaling);

// A weight of the store in fp32, [out, in].
[[nodiscard]] std::vector<float> weight_values(const LoadedModel& model, const std::string& name);

// Fills each layer's initial_a and initial_b from its weight as it is stored.
void make_initial_pairs(const LoadedModel& model, const std::map<std::string, nn::LoraLayer>& layers,
                        const PairStart& start);

}  // namespace tern::models
