#include "data/dataset_spec.h"

#include <algorithm>
#include <charconv>

#include "base/strings.h"
#include "data/sampler.h"

namespace tern::data {

Result<DatasetSpec> parse_dataset_spec(std::string_view spec) {
  DatasetSpec out{std::string(spec), std::nullopt};
  const auto hash = spec.rfind('#');
  if (hash != std::string_view::npos) {
    const std::string_view digits = spec.substr(hash + 1);
    std::uint64_t count = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    const bool all_digits =
        !digits.empty() && std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (all_digits) {
      constexpr std::uint64_t kMost = std::uint64_t{1} << 28;  // their places must fit in memory
      if (error != std::errc() || count == 0 || count > kMost) {
        return usage_error(cat(spec, " asks for ", digits, " rows"),
                           cat("write a number from 1 to ", kMost, " after #, or leave it out to take every row once"));
      }
      out = {std::string(spec.substr(0, hash)), count};
    }
  }
  if (out.path.empty()) return usage_error(cat("\"", spec, "\" names no file"), "name one, as in train.jsonl#1000");
  return out;
}

std::vector<std::uint32_t> select_rows(std::uint32_t available, std::optional<std::uint64_t> count,
                                       std::uint64_t seed) {
  std::vector<std::uint32_t> out;
  if (available == 0) return out;
  const std::uint64_t want = count.value_or(available);
  out.reserve(want);
  for (std::uint64_t pass = 0; pass < want / available; ++pass) {
    for (std::uint32_t i = 0; i < available; ++i) out.push_back(i);
  }
  const auto remainder = static_cast<std::size_t>(want % available);
  constexpr std::uint64_t kSelection = 0x5e1ec7ULL;  // a stream of its own, no epoch
  const Permutation order(available, seed, kSelection);
  const auto first = static_cast<std::ptrdiff_t>(out.size());
  for (std::size_t i = 0; i < remainder; ++i) out.push_back(static_cast<std::uint32_t>(order(i)));
  std::sort(out.begin() + first, out.end());
  return out;
}

}  // namespace tern::data
