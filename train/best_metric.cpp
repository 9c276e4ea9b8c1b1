#include "train/best_metric.h"

namespace tern::train {

std::optional<double> BestMetric::of(const HeldOutReport& report) const {
  const auto share = [](std::int64_t right, std::int64_t all) -> std::optional<double> {
    if (all == 0) return std::nullopt;
    return static_cast<double>(right) / static_cast<double>(all);
  };
  switch (metric) {
    case Metric::loss:
      return report.loss;
    case Metric::token_accuracy:
      return share(report.hits.right_tokens, report.hits.tokens);
    case Metric::sample_accuracy:
      return share(report.hits.right_samples, report.hits.samples);
  }
  return std::nullopt;
}

std::string_view metric_name(Metric metric) {
  switch (metric) {
    case Metric::loss:
      return "held-out loss";
    case Metric::token_accuracy:
      return "token_acc";
    case Metric::sample_accuracy:
      return "seq_acc";
  }
  return {};
}

}  // namespace tern::train
