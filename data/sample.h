// Tokenised samples, and the sets of them that training runs over.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tern::data {

// One sample. `weights[t]` is the loss weight of token t as a target, that is of predicting it from the tokens before
// it; weights[0] is always 0, as nothing predicts the first token.
struct Sample {
  std::vector<std::int32_t> ids;  // [tokens]
  std::vector<float> weights;     // [tokens]
  friend bool operator==(const Sample&, const Sample&) = default;
};

struct SampleView {
  std::span<const std::int32_t> ids;  // [tokens]
  std::span<const float> weights;     // [tokens]
};

// What is known of a sample without reading its tokens.
struct SampleInfo {
  std::uint64_t offset = 0;      // where its tokens lie in the store
  std::uint64_t row = 0;         // the dataset row it came from: samples of one row are neighbours
  std::uint64_t line = 0;        // that row's line in its file
  double weight = 0;             // sum of `weights`
  std::uint32_t length = 0;      // tokens
  std::uint32_t supervised = 0;  // tokens of weight above 0
};

[[nodiscard]] SampleInfo info_of(SampleView sample);

class SampleStore {
 public:
  virtual ~SampleStore() = default;
  [[nodiscard]] virtual std::uint32_t size() const = 0;
  [[nodiscard]] virtual SampleView sample(std::uint32_t index) const = 0;
  [[nodiscard]] virtual const SampleInfo& info(std::uint32_t index) const = 0;
};

class MemoryStore final : public SampleStore {
 public:
  void add(Sample sample, std::uint64_t row = 0, std::uint64_t line = 0);
  [[nodiscard]] std::uint32_t size() const override { return static_cast<std::uint32_t>(samples_.size()); }
  [[nodiscard]] SampleView sample(std::uint32_t index) const override {
    return {samples_.at(index).ids, samples_.at(index).weights};
  }
  [[nodiscard]] const SampleInfo& info(std::uint32_t index) const override { return infos_.at(index); }

 private:
  std::vector<Sample> samples_;
  std::vector<SampleInfo> infos_;
};

// A sequence of samples out of one or more stores; a sample may stand in it several times. Its places, 0 to size() - 1,
// are the sample ids that key dropout: they do not depend on batching.
class EncodedDataset {
 public:
  // `name`: what the rows' lines are lines of, for errors.
  void add(std::shared_ptr<const SampleStore> store, std::string name = "row");  // all of it, in order
  void add(std::shared_ptr<const SampleStore> store, std::span<const std::uint32_t> chosen, std::string name = "row");

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(places_.size()); }
  [[nodiscard]] SampleView sample(std::uint32_t id) const {
    const Where& where = places_.at(id);
    return stores_[where.store]->sample(where.index);
  }
  [[nodiscard]] const SampleInfo& info(std::uint32_t id) const {
    const Where& where = places_.at(id);
    return stores_[where.store]->info(where.index);
  }
  [[nodiscard]] std::string place(std::uint32_t id) const;  // of its row: `data/train.jsonl:17`
  [[nodiscard]] std::uint64_t tokens() const { return tokens_; }
  [[nodiscard]] std::uint64_t supervised() const { return supervised_; }
  [[nodiscard]] std::uint32_t longest() const { return longest_; }

 private:
  struct Where {
    std::uint32_t store;
    std::uint32_t index;
  };
  std::vector<std::shared_ptr<const SampleStore>> stores_;
  std::vector<std::string> names_;  // of the stores
  std::vector<Where> places_;
  std::uint64_t tokens_ = 0;
  std::uint64_t supervised_ = 0;
  std::uint32_t longest_ = 0;
};

}  // namespace tern::data
