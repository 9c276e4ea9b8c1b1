// What a reranker learns from one logit a pair of a query and a document, as ms-swift has it.
//
// A group is a query's positive document, then its negative ones.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/status.h"
#include "train/tasks/pooled_loss.h"

namespace tern::train {

enum class RerankerLossType { pointwise, listwise };
[[nodiscard]] Result<RerankerLossType> parse_reranker_loss(std::string_view name);

struct RerankerLossOptions {
  RerankerLossType type = RerankerLossType::pointwise;
  double temperature = 1.0;         // of listwise
  std::int64_t min_group_size = 2;  // of listwise: smaller groups teach nothing
};

// Pointwise: the mean over pairs of the binary cross entropy of whether the document is a positive one. Listwise: the
// mean over groups of the cross entropy of the positive one among all of its group. Metrics: mrr (1 / the place of the
// positive one in its group) and ndcg, means over the groups of two pairs or more.
[[nodiscard]] std::unique_ptr<const PooledLoss> reranker_loss(const RerankerLossOptions& options);

}  // namespace tern::train
