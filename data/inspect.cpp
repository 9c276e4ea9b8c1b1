#include "data/inspect.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/philox.h"
#include "base/strings.h"
#include "data/batch.h"

namespace tern::data {
namespace {

constexpr std::size_t kBins = 24;

// Nearest rank: the smallest length that at least the share `q` of all do not exceed.
std::uint32_t quantile(const std::vector<std::uint32_t>& sorted, double q) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

// A bin width of 1, 2 or 5 times a power of ten, so that borders read well.
std::uint32_t bin_width(std::uint32_t span) {
  for (std::uint32_t power = 1; power < 1000000000U; power *= 10) {
    for (const std::uint32_t factor : {1U, 2U, 5U}) {
      if (span / (power * factor) < kBins) return power * factor;
    }
  }
  return 1000000000U;
}

std::vector<Bin> histogram(const std::vector<std::uint32_t>& sorted) {
  std::vector<Bin> bins;
  if (sorted.empty()) return bins;
  const std::uint32_t width = bin_width(sorted.back() - sorted.front() + 1);
  const std::uint32_t first = sorted.front() / width * width;
  for (std::uint32_t from = first; from <= sorted.back(); from += width) bins.push_back({from, from + width, 0});
  for (const std::uint32_t length : sorted) ++bins[(length - first) / width].samples;
  return bins;
}

void remark(std::vector<Remark>& list, std::uint64_t& count, Remark one) {
  ++count;
  if (list.size() < Inspection::kRemarks) list.push_back(std::move(one));
}

void find_duplicates(const EncodedDataset& data, Inspection& out) {
  std::unordered_multimap<std::uint64_t, std::uint32_t> seen;
  seen.reserve(data.size());
  for (std::uint32_t id = 0; id < data.size(); ++id) {
    const auto ids = data.sample(id).ids;
    std::uint64_t hash = ids.size();
    for (const std::int32_t token : ids) hash = mix_key(hash, static_cast<std::uint32_t>(token));
    const auto [begin, end] = seen.equal_range(hash);
    const auto same = std::find_if(begin, end, [&](const auto& entry) {
      const auto other = data.sample(entry.second).ids;
      return std::equal(ids.begin(), ids.end(), other.begin(), other.end());
    });
    if (same == end) {
      seen.emplace(hash, id);
      continue;
    }
    remark(out.duplicate_rows, out.duplicates, {id, data.place(id), cat("the same as ", data.place(same->second))});
  }
}

void find_extremes(const EncodedDataset& data, const std::vector<std::uint32_t>& sorted, Inspection& out) {
  const std::uint64_t low = quantile(sorted, 0.25);
  const std::uint64_t high = quantile(sorted, 0.75);
  const std::uint64_t border = std::max(high + 3 * (high - low), 2 * std::uint64_t{out.p50});
  for (std::uint32_t id = 0; id < data.size(); ++id) {
    const SampleInfo& info = data.info(id);
    if (info.supervised <= Inspection::kNearEmpty) {
      remark(out.near_empty_rows, out.near_empty,
             {id, data.place(id), cat(info.supervised, " supervised tokens of ", info.length)});
    }
    if (info.length > border) {
      remark(out.very_long_rows, out.very_long,
             {id, data.place(id), cat(info.length, " tokens, the median is ", out.p50)});
    }
  }
}

}  // namespace

Inspection inspect(const EncodedDataset& data, std::vector<DatasetReport> reports, std::uint32_t packing_length) {
  Inspection out;
  out.reports = std::move(reports);
  out.samples = data.size();
  out.tokens = data.tokens();
  out.supervised = data.supervised();
  std::vector<std::uint32_t> lengths(data.size());
  for (std::uint32_t id = 0; id < data.size(); ++id) lengths[id] = data.info(id).length;
  std::vector<std::uint32_t> sorted = lengths;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty()) return out;
  out.shortest = sorted.front();
  out.longest = sorted.back();
  out.p50 = quantile(sorted, 0.5);
  out.p90 = quantile(sorted, 0.9);
  out.p99 = quantile(sorted, 0.99);
  out.mean = static_cast<double>(out.tokens) / static_cast<double>(out.samples);
  out.histogram = histogram(sorted);
  out.packing_length = packing_length == 0 ? out.longest : packing_length;
  out.packs = best_fit(lengths, out.packing_length).size();
  out.packing_efficiency =
      static_cast<double>(out.tokens) / (static_cast<double>(out.packs) * static_cast<double>(out.packing_length));
  find_duplicates(data, out);
  find_extremes(data, sorted, out);
  return out;
}

ShownSample show(const EncodedDataset& data, std::uint32_t id, const tokenizer::Tokenizer& tokenizer) {
  ShownSample out;
  out.sample = id;
  out.place = data.place(id);
  const SampleView sample = data.sample(id);
  tokenizer::IncrementalDecoder decoder(tokenizer, false);
  for (std::size_t t = 0; t < sample.ids.size(); ++t) {
    const std::int32_t token = sample.ids[t];
    out.tokens.push_back({token, decoder.push(token), std::string(tokenizer.id_to_piece(token)), sample.weights[t],
                          tokenizer.is_special(token)});
  }
  if (!out.tokens.empty()) out.tokens.back().text += decoder.flush();
  return out;
}

}  // namespace tern::data
