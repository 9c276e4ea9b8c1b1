// Losses of what a model makes of whole texts: vectors, or logits of labels. They are computed on the host in fp64,
// over all texts of an optimizer step at once, and give their gradient by each number.
//
// So no split of a step into micro-batches changes a gradient (law 4): a loss's weights are fixed by the step, and
// texts that are negatives of each other are those of the whole step, wherever its micro-batches were cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/micro_batch.h"
#include "data/steps.h"

namespace tern::train {

// Texts in the order of their samples, those of a group side by side (data/column.h).
struct PooledTexts {
  std::size_t width = 0;
  std::vector<double> outputs;               // [texts, width]
  std::vector<std::size_t> cu_groups = {0};  // [groups + 1] in texts
  std::vector<std::vector<float>> labels;    // [texts] of data::kLabel; one may have none

  // The texts of a micro-batch; `pooled` is [samples, width].
  void append(const data::MicroBatch& batch, std::span<const float> pooled);
  void append(const PooledTexts& more);
  [[nodiscard]] std::size_t size() const { return labels.size(); }
  [[nodiscard]] std::size_t groups() const { return cu_groups.size() - 1; }
  [[nodiscard]] std::span<const double> text(std::size_t index) const {
    return std::span(outputs).subspan(index * width, width);
  }
};

struct PooledLossValue {
  double loss = 0;               // the mean over its units: texts, pairs or groups
  double units = 0;              // how many there are
  std::vector<double> gradient;  // of `loss`, [texts, width]
};

// By the names that ms-swift logs, "acc".
using Metrics = std::vector<std::pair<std::string, double>>;

class PooledLoss {
 public:
  virtual ~PooledLoss() = default;
  [[nodiscard]] virtual PooledLossValue value(const PooledTexts& texts) const = 0;
  // Of all held-out texts.
  [[nodiscard]] virtual Metrics metrics(const PooledTexts& texts) const = 0;
  // What the loss depends on beside the texts, under the names of flags: a run that resumes has the same.
  [[nodiscard]] virtual data::Settings settings() const = 0;
};

}  // namespace tern::train
