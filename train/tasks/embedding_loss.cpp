#include "train/tasks/embedding_loss.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/strings.h"
#include "train/tasks/embedding_metrics.h"
#include "train/tasks/unit_vectors.h"

namespace tern::train {
namespace {

constexpr double kMargin = 0.5;  // of the contrastive losses, as sentence-transformers has it

constexpr std::array<std::pair<std::string_view, EmbeddingLossType>, 4> kTypes = {
    {{"infonce", EmbeddingLossType::infonce},
     {"cosine_similarity", EmbeddingLossType::cosine_similarity},
     {"contrastive", EmbeddingLossType::contrastive},
     {"online_contrastive", EmbeddingLossType::online_contrastive}}};

// A loss of unit vectors, with its gradient by them.
struct UnitLoss {
  double loss = 0;
  std::vector<double> gradient;  // [texts, width]
};

// One term of InfoNCE's denominator.
struct Candidate {
  std::size_t from = 0;  // the text that is compared,
  std::size_t to = 0;    // and with which
  double score = 0;
};

class InfoNce {
 public:
  InfoNce(const EmbeddingLossOptions& options, const UnitVectors& vectors, const std::vector<std::size_t>& cu_groups)
      : options_(options), vectors_(vectors), cu_groups_(cu_groups), groups_(cu_groups.size() - 1) {
    for (std::size_t group = 0; group < groups_; ++group) documents_.push_back(documents_of(group));
  }

  [[nodiscard]] UnitLoss loss() const {
    UnitLoss out;
    out.gradient.resize(vectors_.values.size());
    for (std::size_t group = 0; group < groups_; ++group) add(group, out);
    return out;
  }

 private:
  // The positive first.
  [[nodiscard]] std::vector<std::size_t> documents_of(std::size_t group) const {
    std::vector<std::size_t> out;
    for (std::size_t text = cu_groups_[group] + 1; text < cu_groups_[group + 1]; ++text) out.push_back(text);
    const std::size_t negatives = out.size() - 1;
    if (!options_.hard_negatives || negatives == 0) return out;
    const auto wanted = static_cast<std::size_t>(*options_.hard_negatives);
    const std::vector<std::size_t> all = out;
    out.resize(1);
    for (std::size_t i = 0; i < wanted; ++i) out.push_back(all[1 + i % negatives]);
    return out;
  }

  // The positive first.
  [[nodiscard]] std::vector<Candidate> candidates_of(std::size_t group) const {
    const std::size_t anchor = cu_groups_[group];
    const std::size_t positive = documents_[group].front();
    const double threshold = vectors_.product(anchor, positive) + options_.fake_negative_margin;
    std::vector<Candidate> out;
    const auto add = [&](std::size_t from, std::size_t to, bool may_be_fake) {
      const double score = vectors_.product(from, to);
      if (may_be_fake && options_.use_batch && options_.mask_fake_negatives && score > threshold) return;
      out.push_back({from, to, score});
    };
    add(anchor, positive, false);
    for (std::size_t other = 0; other < groups_; ++other) {
      if (!options_.use_batch && other != group) continue;
      for (std::size_t i = other == group ? 1 : 0; i < documents_[other].size(); ++i)
        add(anchor, documents_[other][i], true);
    }
    if (!options_.use_batch) return out;
    for (std::size_t other = 0; other < groups_; ++other) {
      if (options_.include_anchors && other != group) add(anchor, cu_groups_[other], true);
      if (!options_.include_positives) continue;
      for (std::size_t i = other == group ? 1 : 0; i < documents_[other].size(); ++i)
        add(positive, documents_[other][i], false);
    }
    return out;
  }

  // The cross entropy of the positive among the candidates.
  void add(std::size_t group, UnitLoss& out) const {
    const std::vector<Candidate> candidates = candidates_of(group);
    double most = -std::numeric_limits<double>::infinity();
    for (const Candidate& one : candidates) most = std::max(most, one.score);
    double sum = 0;
    for (const Candidate& one : candidates) sum += std::exp((one.score - most) / options_.temperature);
    const auto groups = static_cast<double>(groups_);
    out.loss += ((most - candidates.front().score) / options_.temperature + std::log(sum)) / groups;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Candidate& one = candidates[i];
      const double share = std::exp((one.score - most) / options_.temperature) / sum - (i == 0 ? 1.0 : 0.0);
      vectors_.add_product_gradient(one.from, one.to, share / (options_.temperature * groups), out.gradient);
    }
  }

  const EmbeddingLossOptions& options_;
  const UnitVectors& vectors_;
  const std::vector<std::size_t>& cu_groups_;
  std::size_t groups_;
  std::vector<std::vector<std::size_t>> documents_;  // [groups]
};

// Losses of pairs, from the cosine and the label of each: their loss, and `slopes`, its derivatives by the cosines.
double pair_loss(EmbeddingLossType type, const std::vector<double>& cosines, const std::vector<double>& labels,
                 std::vector<double>& slopes) {
  const auto pairs = static_cast<double>(cosines.size());
  slopes.assign(cosines.size(), 0.0);
  double loss = 0;
  // sentence-transformers' OnlineContrastiveLoss looks at the pairs that are hard in the batch alone.
  double furthest_positive = 0, nearest_negative = 0, positives = 0, negatives = 0;
  if (type == EmbeddingLossType::online_contrastive) {
    double positive_sum = 0, negative_sum = 0;
    furthest_positive = -std::numeric_limits<double>::infinity();
    nearest_negative = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < cosines.size(); ++i) {
      const double distance = 1 - cosines[i];
      if (labels[i] == 1) {
        ++positives;
        positive_sum += distance;
        furthest_positive = std::max(furthest_positive, distance);
      } else if (labels[i] == 0) {
        ++negatives;
        negative_sum += distance;
        nearest_negative = std::min(nearest_negative, distance);
      }
    }
    if (positives <= 1) furthest_positive = negatives > 0 ? negative_sum / negatives : 0;
    if (negatives <= 1) nearest_negative = positives > 0 ? positive_sum / positives : 0;
  }
  for (std::size_t i = 0; i < cosines.size(); ++i) {
    const double distance = 1 - cosines[i];
    const double gap = std::max(0.0, kMargin - distance);
    switch (type) {
      case EmbeddingLossType::cosine_similarity: {
        const double difference = cosines[i] - labels[i];
        loss += difference * difference / pairs;
        slopes[i] = 2 * difference / pairs;
        break;
      }
      case EmbeddingLossType::contrastive:
        loss += 0.5 * (labels[i] * distance * distance + (1 - labels[i]) * gap * gap) / pairs;
        slopes[i] = (-labels[i] * distance + (1 - labels[i]) * gap) / pairs;
        break;
      case EmbeddingLossType::online_contrastive:
        if (labels[i] == 0 && distance < furthest_positive) {
          loss += gap * gap;
          slopes[i] = 2 * gap;
        } else if (labels[i] == 1 && distance > nearest_negative) {
          loss += distance * distance;
          slopes[i] = -2 * distance;
        }
        break;
      case EmbeddingLossType::infonce:
        break;
    }
  }
  return loss;
}

class Embedding final : public PooledLoss {
 public:
  explicit Embedding(const EmbeddingLossOptions& options) : options_(options) {}

  [[nodiscard]] PooledLossValue value(const PooledTexts& texts) const override {
    PooledLossValue out;
    out.units = static_cast<double>(texts.groups());
    out.gradient.resize(texts.outputs.size());
    const auto all = static_cast<std::int64_t>(texts.width);
    const std::vector<std::pair<std::int64_t, double>> whole = {{all, 1.0}};
    for (const auto& [dimension, weight] : options_.dimensions.empty() ? whole : options_.dimensions) {
      if (dimension > all) continue;
      const UnitVectors vectors(texts.outputs, texts.width, static_cast<std::size_t>(dimension));
      const UnitLoss loss = unit_loss(vectors, texts);
      out.loss += weight * loss.loss;
      vectors.add_gradient(loss.gradient, weight, out.gradient);
    }
    return out;
  }

  [[nodiscard]] Metrics metrics(const PooledTexts& texts) const override {
    const UnitVectors vectors(texts.outputs, texts.width, texts.width);
    return options_.type == EmbeddingLossType::infonce ? infonce_metrics(vectors, texts.cu_groups, options_.use_batch)
                                                       : pair_metrics(vectors, texts.cu_groups, labels_of(texts));
  }

  [[nodiscard]] data::Settings settings() const override {
    std::string_view type;
    for (const auto& [name, known] : kTypes) type = known == options_.type ? name : type;
    std::string dimensions;
    for (const auto& [dimension, weight] : options_.dimensions) dimensions += cat(dimension, ":", weight, " ");
    data::Settings out = {{"loss_type", std::string(type)}, {"mrl_dims", dimensions}};
    if (options_.type != EmbeddingLossType::infonce) return out;
    out.emplace_back("INFONCE_TEMPERATURE", cat(options_.temperature));
    out.emplace_back("INFONCE_USE_BATCH", cat(options_.use_batch));
    out.emplace_back("INFONCE_HARD_NEGATIVES", options_.hard_negatives ? cat(*options_.hard_negatives) : std::string());
    out.emplace_back("INFONCE_MASK_FAKE_NEGATIVE",
                     options_.mask_fake_negatives ? cat(options_.fake_negative_margin) : std::string());
    out.emplace_back("INFONCE_INCLUDE_QQ", cat(options_.include_anchors));
    out.emplace_back("INFONCE_INCLUDE_DD", cat(options_.include_positives));
    return out;
  }

 private:
  static std::vector<double> labels_of(const PooledTexts& texts) {
    std::vector<double> out;
    for (std::size_t group = 0; group < texts.groups(); ++group) {
      const std::vector<float>& label = texts.labels[texts.cu_groups[group]];
      out.push_back(label.empty() ? 1.0 : static_cast<double>(label.front()));
    }
    return out;
  }

  [[nodiscard]] UnitLoss unit_loss(const UnitVectors& vectors, const PooledTexts& texts) const {
    if (options_.type == EmbeddingLossType::infonce) return InfoNce(options_, vectors, texts.cu_groups).loss();
    std::vector<double> cosines;
    for (std::size_t group = 0; group < texts.groups(); ++group)
      cosines.push_back(vectors.product(texts.cu_groups[group], texts.cu_groups[group] + 1));
    UnitLoss out;
    out.gradient.resize(vectors.values.size());
    std::vector<double> slopes;
    out.loss = pair_loss(options_.type, cosines, labels_of(texts), slopes);
    for (std::size_t group = 0; group < texts.groups(); ++group) {
      const std::size_t anchor = texts.cu_groups[group];
      vectors.add_product_gradient(anchor, anchor + 1, slopes[group], out.gradient);
    }
    return out;
  }

  EmbeddingLossOptions options_;
};

}  // namespace

Result<EmbeddingLossType> parse_embedding_loss(std::string_view name) {
  for (const auto& [known, type] : kTypes) {
    if (known == name) return type;
  }
  return usage_error(cat("--loss_type ", name, " is no loss of embeddings"),
                     "choose infonce, cosine_similarity, contrastive or online_contrastive");
}

std::unique_ptr<const PooledLoss> embedding_loss(const EmbeddingLossOptions& options) {
  return std::make_unique<Embedding>(options);
}

}  // namespace tern::train
