#include "train/tasks/reranker_loss.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"

namespace tern::train {
namespace {

class Reranker final : public PooledLoss {
 public:
  explicit Reranker(const RerankerLossOptions& options) : options_(options) {}

  [[nodiscard]] PooledLossValue value(const PooledTexts& texts) const override {
    return options_.type == RerankerLossType::pointwise ? pointwise(texts) : listwise(texts);
  }

  [[nodiscard]] Metrics metrics(const PooledTexts& texts) const override {
    double reciprocals = 0, gains = 0, groups = 0;
    for (std::size_t group = 0; group < texts.groups(); ++group) {
      const std::size_t begin = texts.cu_groups[group];
      const std::size_t end = texts.cu_groups[group + 1];
      if (end - begin < 2) continue;
      double place = 1;
      for (std::size_t i = begin + 1; i < end; ++i) place += texts.outputs[i] > texts.outputs[begin] ? 1 : 0;
      reciprocals += 1 / place;
      gains += 1 / std::log2(place + 1);  // the best order's is 1
      ++groups;
    }
    return {{"mrr", reciprocals / std::max(1.0, groups)}, {"ndcg", gains / std::max(1.0, groups)}};
  }

  [[nodiscard]] data::Settings settings() const override {
    if (options_.type == RerankerLossType::pointwise) return {{"loss_type", "pointwise_reranker"}};
    return {{"loss_type", "listwise_reranker"},
            {"LISTWISE_RERANKER_TEMPERATURE", cat(options_.temperature)},
            {"LISTWISE_RERANKER_MIN_GROUP_SIZE", cat(options_.min_group_size)}};
  }

 private:
  [[nodiscard]] static PooledLossValue pointwise(const PooledTexts& texts) {
    PooledLossValue out;
    out.units = static_cast<double>(texts.size());
    for (std::size_t group = 0; group < texts.groups(); ++group) {
      for (std::size_t i = texts.cu_groups[group]; i < texts.cu_groups[group + 1]; ++i) {
        const double logit = texts.outputs[i];
        const double target = i == texts.cu_groups[group] ? 1.0 : 0.0;
        out.loss += (std::max(logit, 0.0) - logit * target + std::log1p(std::exp(-std::abs(logit)))) / out.units;
        out.gradient.push_back((1.0 / (1.0 + std::exp(-logit)) - target) / out.units);
      }
    }
    return out;
  }

  [[nodiscard]] PooledLossValue listwise(const PooledTexts& texts) const {
    PooledLossValue out;
    out.gradient.resize(texts.outputs.size());
    const auto is_large = [&](std::size_t group) {
      return static_cast<std::int64_t>(texts.cu_groups[group + 1] - texts.cu_groups[group]) >= options_.min_group_size;
    };
    for (std::size_t group = 0; group < texts.groups(); ++group) out.units += is_large(group) ? 1 : 0;
    for (std::size_t group = 0; group < texts.groups(); ++group) {
      if (!is_large(group)) continue;
      const std::size_t begin = texts.cu_groups[group];
      const std::size_t end = texts.cu_groups[group + 1];
      double most = texts.outputs[begin];
      for (std::size_t i = begin; i < end; ++i) most = std::max(most, texts.outputs[i]);
      const auto power = [&](std::size_t i) { return std::exp((texts.outputs[i] - most) / options_.temperature); };
      double sum = 0;
      for (std::size_t i = begin; i < end; ++i) sum += power(i);
      out.loss += ((most - texts.outputs[begin]) / options_.temperature + std::log(sum)) / out.units;
      for (std::size_t i = begin; i < end; ++i) {
        const double share = power(i) / sum - (i == begin ? 1.0 : 0.0);
        out.gradient[i] = share / (options_.temperature * out.units);
      }
    }
    return out;
  }

  RerankerLossOptions options_;
};

}  // namespace

Result<RerankerLossType> parse_reranker_loss(std::string_view name) {
  if (name == "pointwise_reranker") return RerankerLossType::pointwise;
  if (name == "listwise_reranker") return RerankerLossType::listwise;
  return usage_error(cat("--loss_type ", name, " is no loss of rerankers"),
                     "choose pointwise_reranker or listwise_reranker");
}

std::unique_ptr<const PooledLoss> reranker_loss(const RerankerLossOptions& options) {
  return std::make_unique<Reranker>(options);
}

}  // namespace tern::train
