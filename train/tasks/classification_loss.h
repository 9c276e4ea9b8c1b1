// What a classification learns from the logits of its labels, as transformers' ...ForSequenceClassification does.
#pragma once

#include <memory>

#include "data/pooled_encoder.h"
#include "train/tasks/pooled_loss.h"

namespace tern::train {

// The mean over texts of the cross entropy of one label, or over texts and labels of the binary cross entropy of each
// label, or of the squared difference of each number. Metrics: acc (share of the texts whose labels are all right) and
// f1 (mean over the labels); of a regression mse, and mae.
[[nodiscard]] std::unique_ptr<const PooledLoss> classification_loss(data::ProblemType type);

}  // namespace tern::train
