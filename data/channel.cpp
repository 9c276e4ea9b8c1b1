#include "data/channel.h"

#include <algorithm>

#include "base/strings.h"
#include "io/json.h"

namespace tern::data {

ColumnSpec channel_column() { return {kChannel, Per::sample, TERN_U32, ColumnSpec::kAnyNumber, 0}; }

std::vector<std::byte> channel_bytes(std::string_view name) {
  std::vector<std::uint32_t> values;
  for (const char c : name) values.push_back(static_cast<unsigned char>(c));
  return column_bytes(values);
}

Result<std::optional<std::string>> channel_of(const Row& row) {
  const auto found =
      std::find_if(row.extra.begin(), row.extra.end(), [](const Column& column) { return column.first == kChannel; });
  if (found == row.extra.end()) return std::optional<std::string>();
  const std::string where = cat(row.file, ":", row.line, ": field \"channel\"");
  const auto parsed = io::parse_json(found->second, where);
  if (!parsed) return parsed.error();
  if (parsed->is_null()) return std::optional<std::string>();
  if (parsed->is_string()) return std::optional(parsed->text());
  if (parsed->is_boolean()) return std::optional<std::string>(parsed->get<bool>() ? "True" : "False");
  if (parsed->is_number()) return std::optional(found->second);
  return data_error(where, "a name", cat("a JSON ", parsed->type_name()), "name the channel with a word");
}

std::optional<std::string> channel_of(const MicroBatch& batch, std::size_t sample) {
  const BatchColumn* column = batch.find(kChannel);
  if (column == nullptr) return std::nullopt;
  const auto values = column->entry<std::uint32_t>(sample);
  if (values.empty()) return std::nullopt;
  std::string name;
  for (const std::uint32_t value : values) name += static_cast<char>(value);
  return name;
}

}  // namespace tern::data
