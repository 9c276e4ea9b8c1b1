// Tokenised samples, and the sets of them that training runs over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/column.h"

namespace tern::data {

// One sample. `weights[t]` is the loss weight of token t as a target, that is of predicting it from the tokens before
// it; weights[0] is always 0, as nothing predicts the first token.
struct Sample {
  std::vector<std::int32_t> ids;  // [tokens]
  std::vector<float> weights;     // [tokens]
  // Of each of the store's columns: the bytes of its entries (of a group's: with the group's first sample), or nothing.
  std::vector<std::vector<std::byte>> columns;
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
  // What there is beside tokens and weights.
  [[nodiscard]] virtual std::span<const ColumnSpec> columns() const { return {}; }
  // The bytes of a sample's entries in column `column`; nothing where it has none.
  [[nodiscard]] virtual std::span<const std::byte> column(std::uint32_t, std::size_t) const { return {}; }
  // Whether the sample is the first of a group; those up to the next such one belong to it.
  [[nodiscard]] virtual bool begins_group(std::uint32_t) const { return true; }
};

class MemoryStore final : public SampleStore {
 public:
  explicit MemoryStore(std::vector<ColumnSpec> columns = {}) : columns_(std::move(columns)) {}
  // Throws std::logic_error where a column's values aren't one entry for each token or for the sample, or the first
  // sample begins no group.
  void add(Sample sample, std::uint64_t row = 0, std::uint64_t line = 0, bool begins_group = true);
  [[nodiscard]] std::uint32_t size() const override { return static_cast<std::uint32_t>(samples_.size()); }
  [[nodiscard]] SampleView sample(std::uint32_t index) const override {
    return {samples_.at(index).ids, samples_.at(index).weights};
  }
  [[nodiscard]] const SampleInfo& info(std::uint32_t index) const override { return infos_.at(index); }
  [[nodiscard]] std::span<const ColumnSpec> columns() const override { return columns_; }
  [[nodiscard]] std::span<const std::byte> column(std::uint32_t index, std::size_t column) const override {
    const auto& all = samples_.at(index).columns;
    return column < all.size() ? std::span<const std::byte>(all[column]) : std::span<const std::byte>();
  }
  [[nodiscard]] bool begins_group(std::uint32_t index) const override { return begins_group_.at(index); }

 private:
  std::vector<ColumnSpec> columns_;
  std::vector<Sample> samples_;
  std::vector<SampleInfo> infos_;
  std::vector<bool> begins_group_;
};

// A sequence of samples out of one or more stores; a sample may stand in it several times, groups whole. Its columns
// are those of all stores. Its places, 0 to size() - 1, are the sample ids that key dropout: they do not depend on
// batching.
class EncodedDataset {
 public:
  // `name`: what the rows' lines are lines of, for errors. Throws std::logic_error where a group is torn, or a column
  // is of another kind than one of its name that is here.
  void add(std::shared_ptr<const SampleStore> store, std::string name = "row");  // all of it, in order
  void add(std::shared_ptr<const SampleStore> store, std::span<const std::uint32_t> chosen, std::string name = "row");
  // The same in parts, where those of several stores take turns: the store's number, and what is next of it.
  std::uint32_t add_store(std::shared_ptr<const SampleStore> store, std::string name = "row");
  void append(std::uint32_t store, std::span<const std::uint32_t> chosen);

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(places_.size()); }
  [[nodiscard]] SampleView sample(std::uint32_t id) const {
    const Where& where = places_.at(id);
    return stores_[where.store]->sample(where.index);
  }
  [[nodiscard]] const SampleInfo& info(std::uint32_t id) const {
    const Where& where = places_.at(id);
    return stores_[where.store]->info(where.index);
  }
  [[nodiscard]] std::span<const ColumnSpec> columns() const { return columns_; }
  // The bytes of a sample's entries in column `column`; nothing where it has none.
  [[nodiscard]] std::span<const std::byte> column(std::uint32_t id, std::size_t column) const;
  [[nodiscard]] bool begins_group(std::uint32_t id) const {
    const Where& where = places_.at(id);
    return stores_[where.store]->begins_group(where.index);
  }
  // Whether the sample is not of the same row as the one before it.
  [[nodiscard]] bool begins_row(std::uint32_t id) const;
  // Groups in order; samples where each is a group of its own.
  [[nodiscard]] std::uint32_t groups() const {
    return group_begin_.empty() ? size() : static_cast<std::uint32_t>(group_begin_.size());
  }
  // The first sample of a group; of groups(): size().
  [[nodiscard]] std::uint32_t group_begin(std::uint32_t group) const {
    if (group_begin_.empty()) return group;
    return group < group_begin_.size() ? group_begin_[group] : size();
  }
  [[nodiscard]] std::uint32_t group_length(std::uint32_t group) const;  // tokens
  [[nodiscard]] std::uint32_t longest_group() const;                    // tokens
  [[nodiscard]] std::string place(std::uint32_t id) const;              // of its row: `data/train.jsonl:17`
  [[nodiscard]] std::uint64_t tokens() const { return tokens_; }
  [[nodiscard]] std::uint64_t supervised() const { return supervised_; }
  [[nodiscard]] std::uint32_t longest() const { return longest_; }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  void add_columns(const SampleStore& store);
  void add_groups(const SampleStore& store, std::span<const std::uint32_t> chosen);
  struct Where {
    std::uint32_t store;
    std::uint32_t index;
  };
  std::vector<std::shared_ptr<const SampleStore>> stores_;
  std::vector<std::string> names_;  // of the stores
  std::vector<ColumnSpec> columns_;
  std::vector<std::vector<std::size_t>> store_columns_;  // [stores][columns known then]: the store's, or kNone
  std::vector<std::uint32_t> group_begin_;               // [groups]; empty where each sample is one
  std::vector<Where> places_;
  std::uint64_t tokens_ = 0;
  std::uint64_t supervised_ = 0;
  std::uint32_t longest_ = 0;
};

}  // namespace tern::data
