#include "backends/cuda/product.h"

#include <algorithm>
#include <limits>

#include "backends/cuda/check.h"
#include "backends/cuda/text.h"
#include "tern/plugin/desc.h"

namespace tern::cuda {
namespace {

// As in cu/product.cuh.
struct Product {
  Place a, b, bias, out, partials, tiles, bounds;
  std::int64_t a_row, a_sub, a_col, a_batch;
  std::int64_t b_row, b_col, b_sub, b_batch;
  std::int64_t out_row, out_sub, out_col, out_batch;
  std::int64_t bias_step, bias_batch;
  std::int32_t m, n, k, batch;
  std::int32_t tiles_i, tiles_j;
  std::int32_t list_parts;
  std::int32_t depth;
  std::int32_t parts, sum_parts;
  std::int32_t a_type, b_type;
  std::int32_t round;
  std::int32_t out_type;
  std::int32_t bias_type;
  std::int32_t bias_of_rows;
  std::int32_t adds;
  std::int32_t a_vector, b_vector, out_vector;
  float alpha;
};

constexpr Tile kTiles[] = {
    {"stream_8", Form::stream, 8, 16, 256, 2, 300},
    {"stream_16", Form::stream, 16, 32, 256, 2, 400},
    {"stream_32", Form::stream, 32, 32, 256, 2, 500},
    {"dot_1", Form::dot, 1, 4, 128, 8, 30},
    {"dot_4", Form::dot, 4, 4, 128, 7, 60},
    {"tensor_128x256", Form::tensor, 128, 256, 256, 1, 1000},
    {"tensor_128x128", Form::tensor, 128, 128, 128, 2, 950},
    {"tensor_64x128", Form::tensor, 64, 128, 128, 3, 800},
    {"tensor_64x64", Form::tensor, 64, 64, 128, 4, 600},
    {"tile_128", Form::tile, 128, 128, 256, 1, 95},
    {"tile_64", Form::tile, 64, 64, 256, 3, 75},
};
constexpr Tile kAny = {"tensor_any", Form::tensor, 64, 64, 128, 4, 100};

constexpr std::int64_t kDepth = 32;  // steps of the sum that a stage of a tensor tile has
constexpr std::int64_t kStages = 4;
constexpr std::int64_t kLeastDepth = 256;  // of a split
constexpr std::int64_t kMostSplits = 16;
constexpr std::uint64_t kMostPartials = 64 << 20;  // bytes
constexpr std::int64_t kFewRows = 16;

bool is_half(tern_dtype dtype) { return dtype == TERN_BF16 || dtype == TERN_F16; }

// What the matrix units multiply; f32: they can't, without losing digits.
tern_dtype tensor_type(const ProductSpec& spec) {
  if (is_half(spec.compute)) return spec.compute;
  return is_half(spec.a.dtype) && spec.a.dtype == spec.b.dtype ? spec.a.dtype : tern_dtype{TERN_F32};
}

// Whether pieces of 16 bytes of 16-bit elements lie along the sum, or across it.
bool lies_along(const Side& side) { return side.col == 1 && side.row % 8 == 0 && side.batch % 8 == 0; }
bool lies_across(const Side& side) { return side.row == 1 && side.col % 8 == 0 && side.batch % 8 == 0; }

enum class Order { nt, nn, tn, turned, none };
Order order_of(const ProductSpec& spec) {
  const tern_dtype type = tensor_type(spec);
  if (type == TERN_F32 || spec.a.dtype != type || spec.b.dtype != type || spec.parts != 1 || spec.sum_parts != 1) {
    return Order::none;
  }
  const bool a_along = lies_along(spec.a), b_along = lies_along(spec.b);
  const bool a_across = lies_across(spec.a), b_across = lies_across(spec.b);
  if (spec.bounded) return a_across && b_across ? Order::tn : Order::none;  // a sum may begin anywhere
  if (a_along) return b_along ? Order::nt : b_across ? Order::nn : Order::none;
  if (spec.grouped || !a_across) return Order::none;
  return b_across ? Order::tn : b_along ? Order::turned : Order::none;
}

bool is_plain(const ProductSpec& spec) { return !spec.few_alike && !spec.grouped && !spec.bounded; }

bool takes_stream(const ProductSpec& spec, int rows) {
  return is_plain(spec) && order_of(spec) == Order::nt && spec.k % 8 == 0 && (spec.m <= rows || spec.any_rows);
}

// Steps of the sum of each of so many splits.
std::int64_t depth_of(std::int64_t k, std::int64_t splits) {
  return round_up(parts_of(std::max<std::int64_t>(k, 1), splits), kDepth);
}

// Clocks that a product takes about, on a device with the balance of an H100.
double clocks_of(const Tile& tile, const ProductSpec& spec, bool turned, std::int64_t splits, const Facts& facts) {
  constexpr double kStart = 2000.0, kMemory = 14.0, kCache = 30.0;  // bytes per clock of a multiprocessor
  const auto units = static_cast<double>(std::max(facts.multiprocessors, 1));
  const std::int64_t m = turned ? spec.n : spec.m, n = turned ? spec.m : spec.n;
  const std::int64_t depth = depth_of(spec.k, splits);
  const std::int64_t blocks = parts_of(m, tile.rows) * parts_of(n, tile.columns) * spec.batch * splits;
  const std::int64_t each = parts_of(blocks, std::max(facts.multiprocessors, 1));
  const double share = std::min(1.0, 0.15 + 0.85 * static_cast<double>(each) / tile.blocks);
  const double element = is_half(spec.b.dtype) ? 2.0 : 4.0;
  const double arithmetic = static_cast<double>(each * tile.rows * tile.columns * depth) / (tile.rate * share);
  const double memory = static_cast<double>((m + n) * spec.k * spec.batch) * element / (units * kMemory);
  const double cache = static_cast<double>(blocks * (tile.rows + tile.columns) * depth) * element / (units * kCache);
  double clocks = kStart + std::max({arithmetic, memory, cache});
  if (splits > 1) clocks += kStart + static_cast<double>(m * n * spec.batch * splits) * 8.0 / (units * kMemory);
  return clocks;
}

std::uint64_t partial_bytes(const ProductSpec& spec, std::int64_t splits) {
  return splits < 2 ? 0 : static_cast<std::uint64_t>(round_up(spec.m * spec.n * spec.batch * splits * 4, 256));
}

struct Choice {
  std::int64_t splits = 1;
  double clocks = 0.0;
};
Choice best_splits(const Tile& tile, const ProductSpec& spec, bool turned, const Facts& facts) {
  Choice best{1, clocks_of(tile, spec, turned, 1, facts)};
  if (!is_plain(spec) || tile.form == Form::stream || tile.form == Form::dot) return best;
  for (std::int64_t splits = 2; splits <= kMostSplits; ++splits) {
    if (depth_of(spec.k, splits) < kLeastDepth || partial_bytes(spec, splits) > kMostPartials) break;
    const double clocks = clocks_of(tile, spec, turned, splits, facts);
    if (clocks < 0.95 * best.clocks) best = {splits, clocks};
  }
  return best;
}

// The tile whose kernel is called: any sides have one of their own.
const Tile& called_tile(const ProductPlan& plan) {
  return plan.tile->form == Form::tensor && !plan.direct ? kAny : *plan.tile;
}

const char* suffix_of(tern_dtype type) { return type == TERN_BF16 ? "_bf16" : "_f16"; }

// Whether four neighbours of a side, from a multiple of four on, lie together and aligned.
bool has_fours(const Side& side, Place at, const ProductSpec& spec, bool grouped) {
  const bool along = side.row != 1;
  if ((along ? side.col : side.row) != 1 || at % (side.dtype == TERN_F32 ? 16 : 8) != 0) return false;
  if (along ? spec.bounded : grouped) return false;
  const bool subs = spec.a_sub % 4 == 0 && spec.b_sub % 4 == 0;
  return (along ? side.row : side.col) % 4 == 0 && side.batch % 4 == 0 && subs;
}

}  // namespace

std::span<const Tile> product_tiles() { return kTiles; }

bool takes_product(const Tile& tile, const ProductSpec& spec) {
  const bool tensor = tensor_type(spec) != TERN_F32;
  switch (tile.form) {
    case Form::stream:
      return takes_stream(spec, tile.rows);
    case Form::dot:
      return is_plain(spec) && !takes_stream(spec, kFewRows) && spec.a.col == 1 && spec.b.col == 1 &&
             (tile.rows == 1 ? spec.m <= 1 : spec.m <= kFewRows);
    case Form::tensor:
      return tensor && (order_of(spec) != Order::none || tile.rows * tile.columns == kAny.rows * kAny.columns);
    case Form::tile:
      // Where rows must be alike, the kind of arithmetic depends on dtypes alone.
      return !tensor && (tile.rows == 64 || spec.few_alike || spec.any_rows || spec.m > 64);
  }
  return false;
}

ProductPlan plan_product(const Tile& tile, const ProductSpec& spec, const Facts& facts) {
  ProductPlan plan;
  plan.tile = &tile;
  const Order order = order_of(spec);
  plan.direct = (tile.form == Form::tensor || tile.form == Form::stream) && order != Order::none;
  plan.turned = tile.form == Form::tensor && order == Order::turned;
  plan.splits = best_splits(called_tile(plan), spec, plan.turned, facts).splits;
  return plan;
}

ProductPlan plan_product(const ProductSpec& spec, const Facts& facts) {
  ProductPlan best;
  double least = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    if (!takes_product(tile, spec)) continue;
    const ProductPlan plan = plan_product(tile, spec, facts);
    const double clocks = clocks_of(called_tile(plan), spec, plan.turned, plan.splits, facts);
    if (clocks >= least) continue;
    least = clocks;
    best = plan;
  }
  return best;
}

Functions product_functions(const ProductPlan& plan, const ProductSpec& spec) {
  static constexpr const char* kOrders[] = {"_nt", "_nn", "_tn", "_nn"};
  const tern_dtype type = tensor_type(spec);
  const Tile& tile = called_tile(plan);
  std::string name = cat("product_", tile.name);
  if (tile.form == Form::tensor || tile.form == Form::stream) name += suffix_of(type);
  if (tile.form == Form::tensor && plan.direct) name += kOrders[static_cast<int>(order_of(spec))];
  const std::string other = plan.direct ? cat("product_", kAny.name, suffix_of(type)) : name;
  return {name, other, "product_combine"};
}

std::uint64_t product_bytes(const ProductPlan& plan, const ProductSpec& spec) {
  return partial_bytes(spec, plan.splits);
}

void ProductCall::take_bias(const TensorView& tensor) {
  if (!tensor.present()) return;
  bias = tensor.planes[0];
  bias_dtype = tensor.dtype();
  bias_step = tensor.stride(tensor.desc.rank - 1);
  if (tensor.desc.rank == 2) bias_batch = tensor.stride(0);
}

Place place_of(const TensorView& tensor, std::int64_t element) {
  return tensor.planes[0] + static_cast<Place>(element) * tern_plugin_dtype_bytes(tensor.dtype());
}

namespace {

void take_sides(Product& p, const ProductPlan& plan, const ProductSpec& spec, const ProductCall& call) {
  const Side& a = plan.turned ? spec.b : spec.a;
  const Side& b = plan.turned ? spec.a : spec.b;
  p.a = plan.turned ? call.b : call.a;
  p.b = plan.turned ? call.a : call.b;
  p.a_row = a.row;
  p.a_sub = spec.a_sub;
  p.a_col = a.col;
  p.a_batch = a.batch;
  p.b_row = b.row;
  p.b_col = b.col;
  p.b_sub = spec.b_sub;
  p.b_batch = b.batch;
  p.a_type = a.dtype;
  p.b_type = b.dtype;
  p.a_vector = has_fours(a, p.a, spec, spec.grouped) ? 1 : 0;
  p.b_vector = has_fours(b, p.b, spec, false) ? 1 : 0;
  p.m = static_cast<std::int32_t>(plan.turned ? call.n : call.m);
  p.n = static_cast<std::int32_t>(plan.turned ? call.m : call.n);
  p.k = static_cast<std::int32_t>(call.k);
  p.batch = static_cast<std::int32_t>(call.batch);
  p.parts = static_cast<std::int32_t>(spec.parts);
  p.sum_parts = static_cast<std::int32_t>(spec.sum_parts);
  p.round = spec.compute;
}

void take_out(Product& p, const ProductPlan& plan, const ProductCall& call) {
  p.out = call.out;
  p.out_row = plan.turned ? call.out_col : call.out_row;
  p.out_col = plan.turned ? call.out_row : call.out_col;
  p.out_sub = call.out_sub;
  p.out_batch = call.out_batch;
  p.out_type = call.out_dtype;
  p.out_vector = p.out_col == 1 && p.out_row % 4 == 0 && p.out_batch % 4 == 0 && p.out_sub % 4 == 0 &&
                         p.out % (call.out_dtype == TERN_F32 ? 16 : 8) == 0
                     ? 1
                     : 0;
  p.bias = call.bias;
  p.bias_step = call.bias_step;
  p.bias_batch = call.bias_batch;
  p.bias_type = call.bias_dtype;
  p.bias_of_rows = plan.turned ? 1 : 0;
  p.adds = call.adds ? 1 : 0;
  p.alpha = call.alpha;
}

// The sums of [splits, batch, m, n], and what becomes of them.
void combine(const Launch& launch, std::size_t first, Place sums, const Product& p, std::int64_t splits) {
  launch.call(first + 2)
      .arg(p)
      .arg(sums)
      .arg(static_cast<std::int32_t>(splits))
      .overlapped()
      .run(std::int64_t{p.batch} * p.m * p.n, 256);
}

}  // namespace

void run_product(const Launch& launch, std::size_t first, Place workspace, const ProductPlan& plan,
                 const ProductSpec& spec, const ProductCall& call) {
  Product p{};
  take_sides(p, plan, spec, call);
  take_out(p, plan, call);
  const bool direct = plan.direct && p.a % 16 == 0 && p.b % 16 == 0;
  const Tile& tile = plan.direct && !direct ? kAny : called_tile(plan);
  p.list_parts = spec.grouped ? std::max(plan.tile->rows / tile.rows, 1) : 1;
  p.tiles = spec.grouped ? call.tiles : 0;
  p.bounds = spec.bounded ? call.bounds : 0;
  p.tiles_i = static_cast<std::int32_t>(spec.grouped ? call.num_tiles * p.list_parts : parts_of(p.m, tile.rows));
  p.tiles_j = static_cast<std::int32_t>(parts_of(p.n, tile.columns));
  p.depth = static_cast<std::int32_t>(spec.bounded ? round_up(std::max(p.k, 1), kDepth) : depth_of(p.k, plan.splits));
  p.partials = plan.splits > 1 ? workspace : 0;
  const std::int64_t blocks = std::int64_t{p.tiles_i} * p.tiles_j * p.batch;
  Call kernel = launch.call(first + (plan.direct && !direct ? 1 : 0));
  kernel.arg(p).overlapped();
  if (tile.form == Form::tensor) {
    kernel.shared(static_cast<std::size_t>(kStages * (tile.rows + tile.columns) * kDepth * 2));
  }
  kernel.run({blocks, plan.splits, 1}, {tile.threads, 1, 1});
  if (plan.splits < 2) return;
  p.partials = 0;
  combine(launch, first, workspace, p, plan.splits);
}

void finish_product(const Launch& launch, std::size_t first, Place sums, const ProductSpec& spec,
                    const ProductCall& call) {
  Product p{};
  take_sides(p, {}, spec, call);
  take_out(p, {}, call);
  combine(launch, first, sums, p, 1);
}

}  // namespace tern::cuda
