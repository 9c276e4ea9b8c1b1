// What a dataset holds and what of it is learned: the numbers and pages of `tern inspect-data`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"
#include "data/sample.h"
#include "tokenizer/tokenizer.h"

namespace tern::data {

struct Bin {
  std::uint32_t from = 0;  // lengths from <= length < to
  std::uint32_t to = 0;
  std::uint64_t samples = 0;
};

// A sample worth a look, with the place of its row.
struct Remark {
  std::uint32_t sample = 0;
  std::string place;  // `train.jsonl:17`
  std::string what;   // `2 supervised tokens`, `the same as train.jsonl:3`
};

struct Inspection {
  std::vector<DatasetReport> reports;
  std::uint64_t samples = 0;
  std::uint64_t tokens = 0;
  std::uint64_t supervised = 0;
  std::uint32_t shortest = 0, longest = 0;
  std::uint32_t p50 = 0, p90 = 0, p99 = 0;  // quantiles of lengths, nearest rank
  double mean = 0;
  std::vector<Bin> histogram;
  std::uint32_t packing_length = 0;  // 0: not judged
  std::uint64_t packs = 0;
  double packing_efficiency = 0;  // share of the packs' room that holds tokens

  // Counts of all, remarks of the first kRemarks of each kind.
  std::uint64_t duplicates = 0;  // samples whose tokens an earlier one has
  std::uint64_t near_empty = 0;  // at most kNearEmpty supervised tokens
  std::uint64_t very_long = 0;   // three interquartile ranges above the upper quartile, and twice the median
  std::vector<Remark> duplicate_rows, near_empty_rows, very_long_rows;

  static constexpr std::uint32_t kNearEmpty = 3;
  static constexpr std::size_t kRemarks = 20;
};

// `data` holds one part for each report, in order. packing_length 0: the longest sample. Its packs are those of
// training.
[[nodiscard]] Inspection inspect(const EncodedDataset& data, std::vector<DatasetReport> reports,
                                 std::uint32_t packing_length);

// A token as a reader sees it.
struct ShownToken {
  std::int32_t id = 0;
  std::string text;   // what it adds to the decoded text; empty inside a character that a later token completes
  std::string piece;  // as the vocabulary spells it
  float weight = 0;   // of learning it
  bool special = false;
};
struct ShownSample {
  std::uint32_t sample = 0;
  std::string place;
  std::vector<ShownToken> tokens;
};
[[nodiscard]] ShownSample show(const EncodedDataset& data, std::uint32_t id, const tokenizer::Tokenizer& tokenizer);

// For a terminal: the numbers, the histogram in bars of at most `width` columns, the remarks.
[[nodiscard]] std::string to_text(const Inspection& inspection, std::size_t width);
// The sample's text, learned tokens in green, others dim, special ones underlined; without `colour` learned tokens
// stand between marks: ⟦so⟧.
[[nodiscard]] std::string to_text(const ShownSample& sample, bool colour);
// One JSON object.
[[nodiscard]] std::string to_json(const Inspection& inspection, const std::vector<ShownSample>& samples);
// The histogram alone, and a page that stands alone: style, histogram and samples inside.
[[nodiscard]] std::string to_svg(const Inspection& inspection);
[[nodiscard]] std::string to_html(const Inspection& inspection, const std::vector<ShownSample>& samples);

}  // namespace tern::data
