// A canonical row to samples of token ids and loss weights.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "data/row.h"
#include "data/sample.h"
#include "data/settings.h"

namespace tern::data {

// Of a sample longer than max_length: drop it, keep its last or first max_length tokens, or cut it into pieces.
enum class Truncation { remove, left, right, split };

[[nodiscard]] Result<Truncation> parse_truncation(std::string_view value);  // delete left right split

struct EncodedRow {
  std::vector<Sample> samples;
  bool too_long = false;         // dropped for its length
  bool split_turns = false;      // each turn is a sample of its own, as the template demands
  std::uint32_t truncated = 0;   // samples shortened
  bool split = false;            // cut into several
  std::uint32_t group_size = 1;  // of so many samples each is a group (data/column.h)
};

// Shortens a sample of which one piece is kept: left or right. False where it is too long and to be dropped.
[[nodiscard]] bool shorten(EncodedRow& out, std::vector<std::int32_t>& ids, std::uint32_t max_length,
                           Truncation truncation);

// Appends what truncation leaves of `sample` to `out`, each piece's first weight set to 0. max_length 0 is no limit.
void append_truncated(EncodedRow& out, Sample sample, std::uint32_t max_length, Truncation truncation);

class RowEncoder {
 public:
  virtual ~RowEncoder() = default;
  // Safe to call from any number of threads at once. The Error names the row's file:line.
  [[nodiscard]] virtual Result<EncodedRow> encode(const Row& row) const = 0;
  // Everything that the samples depend on beside the row: part of the cache's key.
  [[nodiscard]] virtual std::string fingerprint() const = 0;
  // The same under the names of flags, for words about what differs; channels, which change no sample, aside.
  [[nodiscard]] virtual Settings settings() const { return {}; }
  // What samples have beside tokens and weights.
  [[nodiscard]] virtual std::span<const ColumnSpec> columns() const { return {}; }
};

}  // namespace tern::data
