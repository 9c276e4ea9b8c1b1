// What decides which checkpoint is the best, and when a run has stopped getting better.
#pragma once

#include <optional>
#include <string_view>

#include "train/reporting/reporter.h"

namespace tern::train {

enum class Metric { loss, token_accuracy, sample_accuracy };

struct BestMetric {
  Metric metric = Metric::loss;
  bool greater_is_better = false;

  // None where the device doesn't tell how often the model is right.
  [[nodiscard]] std::optional<double> of(const HeldOutReport& report) const;
  [[nodiscard]] bool is_better(double value, double than) const {
    return greater_is_better ? value > than : value < than;
  }
};

// "held-out loss", "token_acc", "seq_acc"
[[nodiscard]] std::string_view metric_name(Metric metric);

}  // namespace tern::train
