// Heads of columns that a file has in another order than the model (TiledHeads), moved as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/parameters.h"
#include "ops/tensor_desc.h"

namespace tern::models {

// Whether they can change places as bytes: where no block of a GGUF spans two.
[[nodiscard]] bool moves_whole(const TiledHeads& columns, const TensorDesc& desc);

// A row of `columns` columns in the parameter's order.
void append_row(const TiledHeads& tiled, std::int64_t columns, std::span<const std::byte> row,
                std::vector<std::byte>& out);

}  // namespace tern::models
