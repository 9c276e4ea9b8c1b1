#include "data/encode.h"

#include <algorithm>

#include "base/strings.h"

namespace tern::data {

Result<Truncation> parse_truncation(std::string_view value) {
  if (value == "delete") return Truncation::remove;
  if (value == "left") return Truncation::left;
  if (value == "right") return Truncation::right;
  if (value == "split") return Truncation::split;
  return usage_error(cat("--truncation_strategy ", value, " is unknown"), "choose delete, left, right or split");
}

bool shorten(EncodedRow& out, std::vector<std::int32_t>& ids, std::uint32_t max_length, Truncation truncation) {
  if (max_length == 0 || ids.size() <= max_length) return true;
  if (truncation == Truncation::remove) {
    out.too_long = true;
    return false;
  }
  ++out.truncated;
  if (truncation == Truncation::left) {
    ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(max_length));
  } else {
    ids.resize(max_length);
  }
  return true;
}

void append_truncated(EncodedRow& out, Sample sample, std::uint32_t max_length, Truncation truncation) {
  const std::size_t length = sample.ids.size();
  const auto keep = [&](std::size_t begin, std::size_t end) {
    Sample piece;
    piece.ids.assign(sample.ids.begin() + static_cast<std::ptrdiff_t>(begin),
                     sample.ids.begin() + static_cast<std::ptrdiff_t>(end));
    piece.weights.assign(sample.weights.begin() + static_cast<std::ptrdiff_t>(begin),
                         sample.weights.begin() + static_cast<std::ptrdiff_t>(end));
    if (!piece.weights.empty()) piece.weights.front() = 0;
    // A piece that teaches nothing costs its forward and backward for no gradient.
    const bool taught = std::any_of(piece.weights.begin(), piece.weights.end(), [](float w) { return w > 0; });
    if (taught) out.samples.push_back(std::move(piece));
  };
  if (max_length == 0 || length <= max_length) {
    keep(0, length);
    return;
  }
  switch (truncation) {
    case Truncation::remove:
      out.too_long = true;
      return;
    case Truncation::left:
      ++out.truncated;
      keep(length - max_length, length);
      return;
    case Truncation::right:
      ++out.truncated;
      keep(0, max_length);
      return;
    case Truncation::split:
      out.split = true;
      for (std::size_t begin = 0; begin < length; begin += max_length) {
        keep(begin, std::min<std::size_t>(length, begin + max_length));
      }
      return;
  }
}

}  // namespace tern::data
