#include "data/sample.h"

#include <algorithm>
#include <numeric>

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

void MemoryStore::add(Sample sample, std::uint64_t row, std::uint64_t line) {
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
  constexpr std::uint64_t kMost = 0xffffffffU;  // sample ids are one word of dropout's counter
  if (places_.size() + chosen.size() > kMost) {
    throw Failure(data_error("--dataset", cat("at most ", kMost, " samples in all"),
                             cat(places_.size() + chosen.size()), "lower N of path#N"));
  }
  const auto number = static_cast<std::uint32_t>(stores_.size());
  for (const std::uint32_t index : chosen) {
    const SampleInfo& info = store->info(index);
    places_.push_back({number, index});
    tokens_ += info.length;
    supervised_ += info.supervised;
    longest_ = std::max(longest_, info.length);
  }
  stores_.push_back(std::move(store));
  names_.push_back(std::move(name));
}

std::string EncodedDataset::place(std::uint32_t id) const {
  return cat(names_[places_.at(id).store], ":", info(id).line);
}

}  // namespace tern::data
