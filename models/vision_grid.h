// Arithmetic of patches in grids, on the host: positions, windows and interpolation, as transformers' vision_utils has
// them. Patches of a grid come in blocks of merge x merge where they are merged later.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/patch_grid.h"

namespace tern::models {

struct PatchPlace {
  std::int32_t row = 0;
  std::int32_t column = 0;
};
// Where each patch stands, block by block and row by row within one; of one row of patches after the other: merge 1.
[[nodiscard]] std::vector<PatchPlace> patch_places(const nn::PatchGrid& grid, std::int64_t merge);

// Windows of `side` x `side` merged patches, those at the right and lower edge smaller.
struct WindowOrder {
  std::vector<std::int32_t> order;   // [merged patches]: which stands in each place, window by window
  std::vector<std::int32_t> bounds;  // [windows + 1] of merged patches
};
[[nodiscard]] WindowOrder window_order(const nn::PatchGrid& grid, std::int64_t merge, std::int64_t side);
// order[inverse[i]] == i.
[[nodiscard]] std::vector<std::int32_t> inverse_of(const std::vector<std::int32_t>& order);
// Rows of single patches, for an order of blocks of `unit` of them.
[[nodiscard]] std::vector<std::int32_t> each_row(const std::vector<std::int32_t>& blocks, std::int64_t unit);

// Cosines and sines by a patch's row and then by its column, a quarter of a head's features each: [patches, head_dim /
// 2].
struct AxialRope {
  std::vector<float> cos;
  std::vector<float> sin;
};
[[nodiscard]] AxialRope axial_rope(const std::vector<PatchPlace>& places, std::int64_t head_dim, double theta);

// A square table of `side` x `side` learned positions spread over a grid, its corners on the grid's: each patch's
// position is the weighted sum of four rows.
struct Interpolation {
  std::vector<std::int32_t> rows[4];  // [patches] each
  std::vector<float> weights[4];
};
[[nodiscard]] Interpolation interpolate(const nn::PatchGrid& grid, const std::vector<PatchPlace>& places,
                                        std::int64_t side);

// The positions of three dimensions of merged patch `index` of an image whose first token stands at `begin`.
struct MropePosition {
  std::int64_t axis[3] = {0, 0, 0};  // time, row, column
};
[[nodiscard]] MropePosition mrope_position(const nn::PatchGrid& grid, std::int64_t merge, std::int64_t begin,
                                           std::int64_t index);
// Which of the three turns pair `pair` of a head.
[[nodiscard]] int mrope_axis(const std::vector<std::int64_t>& section, bool interleaved, std::int64_t pair);
// Positions that an image takes of what follows it.
[[nodiscard]] std::int64_t mrope_extent(const nn::PatchGrid& grid, std::int64_t merge);

}  // namespace tern::models
