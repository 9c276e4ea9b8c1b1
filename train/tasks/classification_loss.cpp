#include "train/tasks/classification_loss.h"

#include <algorithm>
#include <cmath>

namespace tern::train {
namespace {

// Right and wrong answers to one label's question.
struct LabelCounts {
  double right = 0;
  double missed = 0;
  double false_alarms = 0;
};

// 2 right / (2 right + false alarms + missed), the mean over the labels that occur or were found.
double mean_f1(const std::vector<LabelCounts>& counts) {
  double sum = 0;
  double labels = 0;
  for (const LabelCounts& one : counts) {
    const double all = 2 * one.right + one.false_alarms + one.missed;
    if (all == 0) continue;
    sum += 2 * one.right / all;
    ++labels;
  }
  return labels > 0 ? sum / labels : 0;
}

std::size_t best_label(std::span<const double> logits) {
  return static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

bool has_label(const std::vector<float>& labels, std::size_t label) {
  return std::find(labels.begin(), labels.end(), static_cast<float>(label)) != labels.end();
}

// One output's part of a loss, and its slope there.
struct Term {
  double loss;
  double slope;
};
// The mean of `term(text, output)` over all outputs.
template <typename Function>
PooledLossValue mean_of_outputs(const PooledTexts& texts, Function&& term) {
  PooledLossValue out;
  out.units = static_cast<double>(texts.size());
  out.gradient.resize(texts.outputs.size());
  const double all = static_cast<double>(texts.outputs.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (std::size_t at = 0; at < texts.width; ++at) {
      const Term one = term(i, at);
      out.loss += one.loss / all;
      out.gradient[i * texts.width + at] = one.slope / all;
    }
  }
  return out;
}

class Classification : public PooledLoss {
 public:
  explicit Classification(data::ProblemType type) : type_(type) {}
  [[nodiscard]] data::Settings settings() const override {
    return {{"problem_type", std::string(data::problem_type_name(type_))}};
  }

 private:
  data::ProblemType type_;
};

class OneLabel final : public Classification {
 public:
  OneLabel() : Classification(data::ProblemType::single_label_classification) {}

  [[nodiscard]] PooledLossValue value(const PooledTexts& texts) const override {
    PooledLossValue out;
    out.units = static_cast<double>(texts.size());
    out.gradient.resize(texts.outputs.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto logits = texts.text(i);
      const auto target = static_cast<std::size_t>(texts.labels[i].at(0));
      const double most = *std::max_element(logits.begin(), logits.end());
      double sum = 0;
      for (const double logit : logits) sum += std::exp(logit - most);
      out.loss += (most + std::log(sum) - logits[target]) / out.units;
      for (std::size_t label = 0; label < texts.width; ++label) {
        const double share = std::exp(logits[label] - most) / sum;
        out.gradient[i * texts.width + label] = (share - (label == target ? 1.0 : 0.0)) / out.units;
      }
    }
    return out;
  }

  [[nodiscard]] Metrics metrics(const PooledTexts& texts) const override {
    std::vector<LabelCounts> counts(texts.width);
    double right = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::size_t found = best_label(texts.text(i));
      const auto target = static_cast<std::size_t>(texts.labels[i].at(0));
      if (found == target) {
        ++right;
        ++counts[found].right;
      } else {
        ++counts[found].false_alarms;
        ++counts[target].missed;
      }
    }
    return {{"acc", right / std::max(1.0, static_cast<double>(texts.size()))}, {"f1", mean_f1(counts)}};
  }
};

class SeveralLabels final : public Classification {
 public:
  SeveralLabels() : Classification(data::ProblemType::multi_label_classification) {}

  [[nodiscard]] PooledLossValue value(const PooledTexts& texts) const override {
    return mean_of_outputs(texts, [&](std::size_t i, std::size_t label) -> Term {
      const double logit = texts.text(i)[label];
      const double target = has_label(texts.labels[i], label) ? 1.0 : 0.0;
      // -y log s(x) - (1 - y) log(1 - s(x)), without an exponential that overflows.
      return {std::max(logit, 0.0) - logit * target + std::log1p(std::exp(-std::abs(logit))),
              1.0 / (1.0 + std::exp(-logit)) - target};
    });
  }

  [[nodiscard]] Metrics metrics(const PooledTexts& texts) const override {
    std::vector<LabelCounts> counts(texts.width);
    double right = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      bool all_right = true;
      for (std::size_t label = 0; label < texts.width; ++label) {
        const bool found = texts.text(i)[label] > 0;
        const bool target = has_label(texts.labels[i], label);
        if (found && target) ++counts[label].right;
        if (found && !target) ++counts[label].false_alarms;
        if (!found && target) ++counts[label].missed;
        all_right = all_right && found == target;
      }
      right += all_right ? 1 : 0;
    }
    return {{"acc", right / std::max(1.0, static_cast<double>(texts.size()))}, {"f1", mean_f1(counts)}};
  }
};

class Regression final : public Classification {
 public:
  Regression() : Classification(data::ProblemType::regression) {}

  [[nodiscard]] PooledLossValue value(const PooledTexts& texts) const override {
    return mean_of_outputs(texts, [&](std::size_t i, std::size_t at) -> Term {
      const double difference = texts.text(i)[at] - static_cast<double>(texts.labels[i].at(at));
      return {difference * difference, 2 * difference};
    });
  }

  [[nodiscard]] Metrics metrics(const PooledTexts& texts) const override {
    double squares = 0;
    double sizes = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      for (std::size_t at = 0; at < texts.width; ++at) {
        const double difference = texts.text(i)[at] - static_cast<double>(texts.labels[i].at(at));
        squares += difference * difference;
        sizes += std::abs(difference);
      }
    }
    const double all = std::max(1.0, static_cast<double>(texts.outputs.size()));
    return {{"mse", squares / all}, {"mae", sizes / all}};
  }
};

}  // namespace

std::unique_ptr<const PooledLoss> classification_loss(data::ProblemType type) {
  if (type == data::ProblemType::multi_label_classification) return std::make_unique<SeveralLabels>();
  if (type == data::ProblemType::regression) return std::make_unique<Regression>();
  return std::make_unique<OneLabel>();
}

}  // namespace tern::train
