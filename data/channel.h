// The column `channel` of rows: a name that tells where a sample is from, by which losses are told apart.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/column.h"
#include "data/micro_batch.h"
#include "data/row.h"

namespace tern::data {

inline constexpr const char* kChannel = "channel";

// Of samples: the bytes of the name's UTF-8, each a number.
[[nodiscard]] ColumnSpec channel_column();
[[nodiscard]] std::vector<std::byte> channel_bytes(std::string_view name);

// The row's, as Python writes what stands there; nothing where it has none. Error (data): neither text, a number nor
// true or false.
[[nodiscard]] Result<std::optional<std::string>> channel_of(const Row& row);
// That of the micro-batch's sample.
[[nodiscard]] std::optional<std::string> channel_of(const MicroBatch& batch, std::size_t sample);

}  // namespace tern::data
