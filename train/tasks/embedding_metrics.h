// How close vectors of held-out texts are where they should be, as ms-swift measures it.
#pragma once

#include <vector>

#include "train/tasks/pooled_loss.h"
#include "train/tasks/unit_vectors.h"

namespace tern::train {

// margin, mean_neg, mean_pos over groups of an anchor, a positive and negatives.
[[nodiscard]] Metrics infonce_metrics(const UnitVectors& vectors, const std::vector<std::size_t>& cu_groups,
                                      bool use_batch);
// pearson_* and spearman_* of `labels`, one a pair, with cosine, euclidean, manhattan and dot_product.
[[nodiscard]] Metrics pair_metrics(const UnitVectors& vectors, const std::vector<std::size_t>& cu_groups,
                                   const std::vector<double>& labels);

}  // namespace tern::train
