#include "data/sample.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "base/status.h"
#include "base/strings.h"

namespace tern::data {

SampleInfo info_of(SampleView sample) {
  SampleInfo info;
  info.length = static_cast<std::uint32_t>(sample.ids.size());
  for (const float weight : sample.weights) {
    info.weight += weight;
    if (weight > 0) ++info.supervised;
  }
  return info;
}

void MemoryStore::add(Sample sample, std::uint64_t row, std::uint64_t line, bool begins_group) {
  if (!begins_group && samples_.empty()) throw std::logic_error("a first sample that begins no group");
  if (sample.columns.size() > columns_.size()) throw std::logic_error("a sample of more columns than its store");
  for (std::size_t c = 0; c < sample.columns.size(); ++c) {
    const ColumnSpec& spec = columns_[c];
    const auto size = static_cast<std::size_t>(dtype_bytes(spec.dtype));
    const std::size_t bytes = sample.columns[c].size();
    const std::size_t entries = spec.per == Per::token ? sample.ids.size() : 1;
    const bool fits = spec.width == ColumnSpec::kAnyNumber ? bytes % size == 0 : bytes == entries * spec.width * size;
    if (bytes > 0 && !fits) throw std::logic_error(cat("column ", spec.name, " of ", bytes, " bytes"));
    if (bytes > 0 && spec.per == Per::group && !begins_group) {
      throw std::logic_error(cat("column ", spec.name, ": a group's values come with its first sample"));
    }
  }
  begins_group_.push_back(begins_group);
  SampleInfo info = info_of({sample.ids, sample.weights});
  info.row = row;
  info.line = line;
  samples_.push_back(std::move(sample));
  infos_.push_back(info);
}

void EncodedDataset::add(std::shared_ptr<const SampleStore> store, std::string name) {
  std::vector<std::uint32_t> all(store->size());
  std::iota(all.begin(), all.end(), 0U);
  add(std::move(store), all, std::move(name));
}

void EncodedDataset::add(std::shared_ptr<const SampleStore> store, std::span<const std::uint32_t> chosen,
                         std::string name) {
  append(add_store(std::move(store), std::move(name)), chosen);
}

std::uint32_t EncodedDataset::add_store(std::shared_ptr<const SampleStore> store, std::string name) {
  add_columns(*store);
  stores_.push_back(std::move(store));
  names_.push_back(std::move(name));
  return static_cast<std::uint32_t>(stores_.size() - 1);
}

void EncodedDataset::append(std::uint32_t store, std::span<const std::uint32_t> chosen) {
  constexpr std::uint64_t kMost = 0xffffffffU;  // sample ids are one word of dropout's counter
  if (places_.size() + chosen.size() > kMost) {
    throw Failure(data_error("--dataset", cat("at most ", kMost, " samples in all"),
                             cat(places_.size() + chosen.size()), "lower N of path#N"));
  }
  const SampleStore& of = *stores_.at(store);
  add_groups(of, chosen);
  for (const std::uint32_t index : chosen) {
    const SampleInfo& info = of.info(index);
    places_.push_back({store, index});
    tokens_ += info.length;
    supervised_ += info.supervised;
    longest_ = std::max(longest_, info.length);
  }
}

void EncodedDataset::add_columns(const SampleStore& store) {
  const auto specs = store.columns();
  std::vector<std::size_t> known(columns_.size(), kNone);
  for (std::size_t c = 0; c < specs.size(); ++c) {
    const auto same =
        std::find_if(columns_.begin(), columns_.end(), [&](const auto& it) { return it.name == specs[c].name; });
    if (same == columns_.end()) {
      columns_.push_back(specs[c]);
      known.push_back(c);
      continue;
    }
    if (!(*same == specs[c])) throw std::logic_error(cat("column ", specs[c].name, " of two kinds"));
    known[static_cast<std::size_t>(same - columns_.begin())] = c;
  }
  store_columns_.push_back(std::move(known));
}

void EncodedDataset::add_groups(const SampleStore& store, std::span<const std::uint32_t> chosen) {
  std::vector<std::uint32_t> begins;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const bool follows = i > 0 && chosen[i] == chosen[i - 1] + 1;
    const bool first = store.begins_group(chosen[i]);
    const bool cut = !follows && i > 0 && chosen[i - 1] + 1 < store.size() && !store.begins_group(chosen[i - 1] + 1);
    if ((!first && !follows) || cut) throw std::logic_error("a part of a group of samples");
    if (first) begins.push_back(size() + static_cast<std::uint32_t>(i));
  }
  if (!chosen.empty() && chosen.back() + 1 < store.size() && !store.begins_group(chosen.back() + 1)) {
    throw std::logic_error("a part of a group of samples");
  }
  if (group_begin_.empty() && begins.size() == chosen.size()) return;  // each still is one of its own
  if (group_begin_.empty()) {
    group_begin_.resize(size());
    std::iota(group_begin_.begin(), group_begin_.end(), 0U);
  }
  group_begin_.insert(group_begin_.end(), begins.begin(), begins.end());
}

std::span<const std::byte> EncodedDataset::column(std::uint32_t id, std::size_t column) const {
  const Where& where = places_.at(id);
  const auto& known = store_columns_[where.store];
  if (column >= known.size() || known[column] == kNone) return {};
  return stores_[where.store]->column(where.index, known[column]);
}

bool EncodedDataset::begins_row(std::uint32_t id) const {
  if (id == 0) return true;
  const Where& at = places_.at(id);
  const Where& before = places_.at(id - 1);
  const bool follows = at.store == before.store && at.index == before.index + 1;
  return !follows || info(id).row != info(id - 1).row;
}

std::uint32_t EncodedDataset::group_length(std::uint32_t group) const {
  std::uint32_t tokens = 0;
  for (std::uint32_t id = group_begin(group); id < group_begin(group + 1); ++id) tokens += info(id).length;
  return tokens;
}

std::uint32_t EncodedDataset::longest_group() const {
  if (group_begin_.empty()) return longest_;
  std::uint32_t longest = 0;
  for (std::uint32_t group = 0; group < groups(); ++group) longest = std::max(longest, group_length(group));
  return longest;
}

std::string EncodedDataset::place(std::uint32_t id) const {
  return cat(names_[places_.at(id).store], ":", info(id).line);
}

}  // namespace tern::data
