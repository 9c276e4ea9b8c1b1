// `--dataset path#N`: which file, and how many of its rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tern::data {

struct DatasetSpec {
  std::string path;                    // a file or directory, or a hub id ORG/NAME[:subset]
  std::optional<std::uint64_t> count;  // N of `#N`
};

// Splits at the last `#` that digits follow; a `#` in a file's own name stays with it. N of 0 is an error.
[[nodiscard]] Result<DatasetSpec> parse_dataset_spec(std::string_view spec);

// Which of `available` rows `#N` takes, as indices into them. Below the length: N without replacement, by `seed`, in
// file order. Above: whole passes, then the remainder taken the same way. Without N: all, once.
[[nodiscard]] std::vector<std::uint32_t> select_rows(std::uint32_t available, std::optional<std::uint64_t> count,
                                                     std::uint64_t seed);

}  // namespace tern::data
