// What vectors of texts learn: InfoNCE, cosine similarity and the contrastive losses, as sentence-transformers and
// ms-swift have them.
//
// A group is an anchor, a positive and any number of negatives, or of the losses of pairs an anchor and the other text,
// with a label at the anchor. Vectors are scaled to length 1 here, in fp64.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "train/tasks/pooled_loss.h"

namespace tern::train {

enum class EmbeddingLossType { infonce, cosine_similarity, contrastive, online_contrastive };
[[nodiscard]] Result<EmbeddingLossType> parse_embedding_loss(std::string_view name);

struct EmbeddingLossOptions {
  EmbeddingLossType type = EmbeddingLossType::infonce;
  // InfoNCE: van den Oord et al., "Representation Learning with Contrastive Predictive Coding", 2018. Scores are
  // divided by the temperature.
  double temperature = 0.1;
  bool use_batch = true;  // the texts of the step's other groups are negatives, too
  std::optional<std::int64_t> hard_negatives;  // of each group so many: the first, or all in turn until there are
  bool mask_fake_negatives = false;            // leaves out what is closer to the anchor than its positive by
  double fake_negative_margin = 0.1;           // more than this
  bool include_anchors = false;                // anchors are each other's negatives (INFONCE_INCLUDE_QQ)
  bool include_positives = false;              // texts are negatives of the positive (INFONCE_INCLUDE_DD)
  // Matryoshka (Kusupati et al., 2022): the loss of the first so many numbers, times a weight, added up; empty: the
  // loss of all numbers.
  std::vector<std::pair<std::int64_t, double>> dimensions;
};

// Metrics of InfoNCE: margin (of the positive's score over the best negative's), mean_neg, mean_pos; of pairs Pearson's
// and Spearman's correlation of the labels with the cosine and three other closenesses.
[[nodiscard]] std::unique_ptr<const PooledLoss> embedding_loss(const EmbeddingLossOptions& options);

}  // namespace tern::train
