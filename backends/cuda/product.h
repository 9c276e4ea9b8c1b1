// Products a b^T of two sides, and how one is cut among blocks: what matmul, matmul_q, grouped_matmul and
// linear_cross_entropy have in common. cu/product*.cu have the kernels.
//
// A caller makes a ProductSpec of what plan knows, gets a ProductPlan of it, adds product_functions to its functions
// and product_bytes to its workspace, and queues it by run_product.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backends/cuda/kernel.h"

namespace tern::cuda {

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
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  tern_dtype compute = TERN_F32;
  bool any_rows = false;   // m may be much smaller in a launch
  bool few_alike = false;  // a row's bits are the same in kernels for few rows and for many
  // Rows of a belong to experts: tiles of them are listed on the device (cu/grouped.cu); m is what one expert has of
  // them.
  bool grouped = false;
  bool bounded = false;  // the sum of each of `batch` goes between its bounds, which the device knows
  // Where not 1: row i of a (and of out) lies at i / parts row + i % parts a_sub, step c of the sum at
  // c / sum_parts col + c % sum_parts a_sub or b_sub. Not both.
  std::int64_t parts = 1, sum_parts = 1;
  std::int64_t a_sub = 0, b_sub = 0;
};

// stream: few rows of a, b's read once. dot: the same of any dtypes. tensor: matrix units. tile: fp32 arithmetic.
enum class Form { stream, dot, tensor, tile };

// One way to cut a product; a place in product_tiles().
struct Tile {
  const char* name;
  Form form;
  int rows, columns;  // of a block: of a and of b
  int threads;
  int blocks;   // of a multiprocessor at a time
  double rate;  // products that all of them make in a clock, about
};
[[nodiscard]] std::span<const Tile> product_tiles();

// A product cut by a tile.
struct ProductPlan {
  const Tile* tile = nullptr;
  bool turned = false;      // the kernel's a is b
  bool direct = false;      // both sides are read in 16-byte pieces as they lie, if they are aligned at launch
  std::int64_t splits = 1;  // parts of the sum, put together by a second kernel
};

// Whether the tile is for such a product.
[[nodiscard]] bool takes_product(const Tile& tile, const ProductSpec& spec);
// By a tile, or by the one that is likely the fastest; there is one for every product.
[[nodiscard]] ProductPlan plan_product(const Tile& tile, const ProductSpec& spec, const Facts& facts);
[[nodiscard]] ProductPlan plan_product(const ProductSpec& spec, const Facts& facts);
// What run_product calls, always as many.
inline constexpr std::size_t kProductFunctions = 3;
[[nodiscard]] Functions product_functions(const ProductPlan& plan, const ProductSpec& spec);
// Workspace that run_product needs, a multiple of 256.
[[nodiscard]] std::uint64_t product_bytes(const ProductPlan& plan, const ProductSpec& spec);
// Rows of a that a block has: what the lists of grouped products are cut by.
[[nodiscard]] inline int rows_of_tile(const ProductPlan& plan) { return plan.tile->rows; }

// What a launch adds: actual sizes, at most those of the spec, and what becomes of the sums:
// out = alpha sum + bias (+ out where it adds).
struct ProductCall {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  Place a = 0, b = 0, bias = 0, out = 0;
  tern_dtype bias_dtype = TERN_F32;
  std::int64_t bias_step = 0, bias_batch = 0;
  tern_dtype out_dtype = TERN_F32;
  std::int64_t out_row = 0, out_col = 0, out_batch = 0;
  bool adds = false;
  float alpha = 1.0F;
  std::int64_t out_sub = 0;
  // Grouped: the list of tiles, of which each is four int: first row, end, expert (-1: rows of none, which become
  // zeros), 0. m is all experts' then.
  Place tiles = 0;
  std::int64_t num_tiles = 0;
  Place bounds = 0;  // bounded: [batch + 1] int

  // [n], of experts [experts, n]; an absent one is none.
  void take_bias(const TensorView& tensor);
};

// Queues the product. Its functions are those of the launch from `first` on, its workspace begins at `workspace`.
void run_product(const Launch& launch, std::size_t first, Place workspace, const ProductPlan& plan,
                 const ProductSpec& spec, const ProductCall& call);

// What becomes of sums that another has made, fp32 [batch, m, n]: rounded once, with the bias and what out holds.
void finish_product(const Launch& launch, std::size_t first, Place sums, const ProductSpec& spec,
                    const ProductCall& call);

// Where an element of a strided tensor lies.
[[nodiscard]] Place place_of(const TensorView& tensor, std::int64_t element);

}  // namespace tern::cuda
