#include "graph/row_parts.h"

#include <algorithm>

#include "base/status.h"
#include "base/strings.h"

namespace tern::graph {
namespace {

// Rows that kernels like to have whole. Columns of an output that stand for the rows of a part begin at a place of the
// device's alignment then.
constexpr std::int64_t kTiles[] = {64, 16};

std::uint64_t expanded_bytes(const TensorDesc& desc) {
  return is_quantised(desc) ? static_cast<std::uint64_t>(num_elements(desc)) * sizeof(float) : total_bytes(desc);
}

std::int64_t round_down(std::int64_t value, std::int64_t unit) { return value / unit * unit; }
std::int64_t round_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

std::vector<RowRange> row_parts(const TensorDesc& desc, const tern_device_info& device, std::string_view name) {
  const std::uint64_t largest = device.largest_allocation_bytes;
  const std::uint64_t bytes = expanded_bytes(desc);
  if (!is_present(desc) || bytes <= largest) return {{0, is_present(desc) ? desc.shape[0] : 0}};
  const std::int64_t rows = desc.shape[0];
  const auto row_bytes = bytes / static_cast<std::uint64_t>(std::max<std::int64_t>(rows, 1));
  const std::int64_t group = is_quantised(desc) ? std::max<std::int64_t>(desc.scheme.group_rows, 1) : 1;
  auto most = static_cast<std::int64_t>(largest / std::max<std::uint64_t>(row_bytes, 1));
  most = round_down(most, group);
  if (most == 0) {
    throw Failure(
        device_error(cat(name, ": ", group == 1 ? "a row" : cat(group, " rows"), " of ", to_string(desc),
                         group == 1 ? " takes " : " take ", human_bytes(row_bytes * static_cast<std::uint64_t>(group)),
                         ", and the device allocates at most ", human_bytes(largest), " at a time"),
                     "use another --device"));
  }
  std::int64_t unit = group;
  for (const std::int64_t tile : kTiles) {
    if (most >= tile && tile % group == 0 && unit == group) unit = tile;
  }
  most = round_down(most, unit);
  // Parts of one size, as far as it goes.
  const std::int64_t count = (rows + most - 1) / most;
  const std::int64_t each = std::min(most, round_up((rows + count - 1) / count, unit));
  std::vector<RowRange> parts;
  for (std::int64_t at = 0; at < rows; at += each) parts.push_back({at, std::min(rows, at + each)});
  return parts;
}

TensorDesc part_desc(TensorDesc desc, const RowRange& rows) {
  desc.shape[0] = rows.end - rows.begin;
  return desc;
}

std::string part_name(std::string_view name, const RowRange& rows) {
  return cat(name, "[", rows.begin, ":", rows.end, "]");
}

}  // namespace tern::graph
