// Products a b^T of two sides, and how one is cut among work-items: what matmul, matmul_q, grouped_matmul and
// linear_cross_entropy have in common. cl/product.cl has the kernels.
#pragma once

#include <cstdint>
#include <string>

#include "backends/opencl/kernel.h"

namespace tern::opencl {

// One side: rows across the product, columns along its sum. Strides in elements.
struct Side {
  tern_dtype dtype = TERN_F32;
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::int64_t batch = 0;
};

// A product as far as its kernel depends on it. Sizes are the largest ones.
struct ProductSpec {
  Side a, b;
  std::int64_t m = 0, n = 0, k = 0;
  tern_dtype compute = TERN_F32;
  tern_packing packing = TERN_PACK_NONE;  // of b, whose columns its rows are where b.row is 1
  bool any_rows = false;                  // m may be much smaller in a launch
  bool in_order = false;                  // sums go from the first to the last, so that a row's bits depend on no size
  bool few_alike = false;                 // a row's bits are the same in kernels for few rows and for many
  bool grouped = false;                   // rows belong to experts (grouped.h)
};

enum class Form { dot, outer, plain, shared, tile, matrix };

// One way to cut a product; a place in product_tiles().
struct Tile {
  const char* name;
  Form form;
  bool on_cpu, on_gpu;
  int rows, columns;          // of a work-item; the columns of `outer` are vectors
  int least_rows, most_rows;  // of products that it is for; 0: no limit
  int group_i, group_j;       // work-items of a group; of `tile`, rows and columns
  bool j_first;               // neighbouring groups go along b
};
[[nodiscard]] std::span<const Tile> product_tiles();

// A product cut by a tile.
struct ProductPlan {
  const Tile* tile = nullptr;
  bool turned = false;  // the kernel's a is b
  int vector = 4;
  int columns = 1;  // Tile::columns, or as many vectors as there are
};

// Whether the tile is for such a product.
[[nodiscard]] bool takes_product(const Tile& tile, const ProductSpec& spec, const Facts& facts);
// The first tile that does; a device has one for every product.
[[nodiscard]] const Tile& first_tile(const ProductSpec& spec, const Facts& facts);
[[nodiscard]] ProductPlan plan_product(const Tile& tile, const ProductSpec& spec, const Facts& facts);
[[nodiscard]] Function product_function(const ProductPlan& plan, const ProductSpec& spec);
// Rows of a that a work-item, or a work-group of a tile, has: what the lists of grouped.h are cut by.
[[nodiscard]] int rows_of_tile(const ProductPlan& plan);

// What a launch adds: actual sizes and what becomes of the sums.
struct ProductCall {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  Place a, b, bias, out;
  tern_dtype bias_dtype = TERN_F32;
  std::int64_t bias_step = 0, bias_batch = 0;
  bool bias_of_rows = false;
  tern_dtype out_dtype = TERN_F32;
  std::int64_t out_row = 0, out_col = 0, out_batch = 0;
  bool adds = false;
  float alpha = 1.0F;
  // Grouped: rows of a and of out as [m / parts, parts, ...], and the list of tiles.
  std::int64_t parts = 1, a_sub = 0, out_sub = 0;
  Place tiles;
  std::int64_t num_tiles = 0;
  // Quantised b.
  const TensorView* weight = nullptr;

  // [n], of experts [experts, n]; an absent one is none.
  void take_bias(const TensorView& tensor);
};
// A side b that lies along the sum can be laid across it first, in the workspace: worth it on a CPU where rows are
// many.
[[nodiscard]] bool goes_across(const ProductSpec& spec, const Facts& facts);
[[nodiscard]] ProductSpec across_spec(const ProductSpec& spec);  // the product that is left then
[[nodiscard]] std::uint64_t across_bytes(const ProductSpec& spec);
[[nodiscard]] Function across_function(const ProductSpec& spec);
void run_across(Call call, const ProductSpec& spec, const ProductCall& product, const Place& across);

// Where an element of a strided tensor lies.
[[nodiscard]] Place place_of(const TensorView& tensor, std::int64_t element);

void run_product(Call call, const ProductPlan& plan, const ProductSpec& spec, const ProductCall& product);

}  // namespace tern::opencl
