#include "models/tiled_columns.h"

#include "base/dtype.h"

namespace tern::models {

bool moves_whole(const TiledHeads& columns, const TensorDesc& desc) {
  if (!is_present(desc)) return false;
  if (!is_quantised(desc)) return true;
  const int block = packing_block(static_cast<tern_packing>(desc.scheme.packing)).elements;
  return block > 0 && columns.size % block == 0 && columns.first % block == 0;
}

void append_row(const TiledHeads& tiled, std::int64_t columns, std::span<const std::byte> row,
                std::vector<std::byte>& out) {
  const auto bytes_of = [&](std::int64_t some) {
    return row.size() * static_cast<std::uint64_t>(some) / static_cast<std::uint64_t>(columns);
  };
  const auto append = [&](std::int64_t first, std::int64_t count) {
    const auto part = row.subspan(bytes_of(first), bytes_of(count));
    out.insert(out.end(), part.begin(), part.end());
  };
  append(0, tiled.first);
  for (std::int64_t c = tiled.first; c < columns; c += tiled.size) append(tiled(c), tiled.size);
}

}  // namespace tern::models
