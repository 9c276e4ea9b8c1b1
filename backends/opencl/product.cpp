#include "backends/opencl/product.h"

#include <algorithm>

#include "backends/opencl/check.h"
#include "backends/opencl/text.h"
#include "backends/opencl/weight.h"
#include "tern/plugin/desc.h"

namespace tern::opencl {
namespace {

// As in cl/product_sides.clh.
struct Product {
  std::int64_t a_row, a_sub, a_col, a_batch;
  std::int64_t b_row, b_col, b_batch;
  std::int64_t out_row, out_sub, out_col, out_batch;
  std::int64_t bias_step, bias_batch;
  std::int32_t m, n, k;
  std::int32_t parts;
  std::int32_t out_type;
  std::int32_t bias_type;
  std::int32_t bias_of_rows;
  std::int32_t adds;
  float alpha;
  std::int32_t a_type;
  std::int32_t round;
  std::int32_t reserved;
};

constexpr int kShare = 64;        // work-items of one sum
constexpr int kTileDepth = 16;    // steps of a sum that a work-group holds
constexpr int kMatrixLanes = 16;  // work-items of a sub-group that uses matrix units
constexpr int kFewRows = 16;
constexpr std::int64_t kAcross = 16;  // neighbours that are laid across a sum together

// In order of preference. On a CPU a work-item fills the vector registers by itself; a work-group of several only keeps
// what they share in the caches.
constexpr Tile kTiles[] = {
    {"dot_4x4", Form::dot, true, false, 4, 4, 2, 0, 4, 4, false},
    {"dot_1x4", Form::dot, true, false, 1, 4, 1, 3, 1, 8, false},
    {"outer_8", Form::outer, true, false, 8, 2, 5, 0, 1, 1, true},
    {"outer_12", Form::outer, true, false, 12, 2, 32, 0, 1, 1, true},
    {"outer_4", Form::outer, true, false, 4, 2, 1, 8, 1, 1, true},
    {"shared_1x4", Form::shared, false, true, 1, 4, 1, 4, kShare, 1, false},
    {"shared_4x4", Form::shared, false, true, 4, 4, 2, kFewRows, kShare, 1, false},
    {"shared_4x1", Form::shared, false, true, 4, 1, 2, kFewRows, kShare, 1, false},
    {"columns_4", Form::outer, false, true, 4, 1, 1, kFewRows, 1, 64, true},
    {"matrix_32", Form::matrix, false, true, 32, 32, 8, 0, kMatrixLanes, 1, false},
    {"tile_64", Form::tile, false, true, 4, 4, 2, 0, 64, 64, false},
    {"tile_128", Form::tile, false, true, 8, 8, 65, 0, 128, 128, false},
    {"plain", Form::plain, true, true, 4, 4, 0, 0, 1, 1, false},
};

bool is_along(const Side& side, std::int64_t k) { return side.col == 1 || k <= 1; }

bool packed(const ProductSpec& spec) { return spec.packing != TERN_PACK_NONE; }

bool takes_dot(const ProductSpec& spec) {
  if (spec.in_order || !is_along(spec.a, spec.k)) return false;
  return packed(spec) ? spec.b.row != 1 : is_along(spec.b, spec.k);
}

bool takes_outer(const ProductSpec& spec) { return spec.b.row == 1; }
bool takes_turned(const ProductSpec& spec) { return spec.a.row == 1 && !packed(spec) && !spec.grouped; }

// The side with more rows fills the vectors.
bool turns(const ProductSpec& spec) {
  return takes_turned(spec) && (!takes_outer(spec) || (spec.n < 16 && spec.m > spec.n));
}

int vector_of(const ProductPlan& plan, const ProductSpec& spec, const Facts& facts) {
  if (packed(spec)) return 16;
  if (!facts.cpu) return 4;
  const std::int64_t length = plan.tile->form == Form::dot ? spec.k : plan.turned ? spec.m : spec.n;
  if (length >= 64 || (length >= 16 && (plan.tile->form != Form::dot || length % 16 == 0))) return 16;
  return length >= 8 ? 8 : 4;
}

}  // namespace

std::span<const Tile> product_tiles() { return kTiles; }

bool takes_product(const Tile& tile, const ProductSpec& spec, const Facts& facts) {
  if (facts.cpu ? !tile.on_cpu : !tile.on_gpu) return false;
  const bool outer = !takes_dot(spec) && (takes_outer(spec) || takes_turned(spec));
  const bool turned = outer && turns(spec);
  const std::int64_t rows = std::max<std::int64_t>(turned ? spec.n : spec.m, 1);
  if (rows < tile.least_rows && !(tile.form == Form::tile && tile.least_rows <= 2)) return false;
  if (tile.most_rows > 0 && rows > tile.most_rows && !(spec.any_rows && !turned)) return false;
  switch (tile.form) {
    case Form::dot:
      return takes_dot(spec);
    case Form::outer:
      return outer;
    case Form::shared:
      // Vectors of expanded weights are long: a work-item has registers for four.
      return takes_dot(spec) && !spec.few_alike && tile.rows * tile.columns <= (packed(spec) ? 4 : 16) &&
             (packed(spec) || tile.columns > 1);
    case Form::matrix:
      return facts.intel_matrix && spec.compute != TERN_F32 && !packed(spec) && !spec.few_alike;
    case Form::tile:
      return facts.largest_group >= 256;
    case Form::plain:
      return facts.cpu ? !takes_dot(spec) && !outer : facts.largest_group < 256;
  }
  return false;
}

const Tile& first_tile(const ProductSpec& spec, const Facts& facts) {
  ProductSpec full = spec;
  full.any_rows = false;
  return *std::find_if(std::begin(kTiles), std::end(kTiles) - 1,
                       [&](const Tile& tile) { return takes_product(tile, full, facts); });
}

ProductPlan plan_product(const Tile& tile, const ProductSpec& spec, const Facts& facts) {
  ProductPlan plan{&tile, false, 4, tile.columns};
  plan.turned = tile.form == Form::outer && turns(spec);
  plan.vector = vector_of(plan, spec, facts);
  if (tile.form == Form::outer) {
    const std::int64_t across = plan.turned ? spec.m : spec.n;
    plan.columns = across >= plan.vector * tile.columns ? tile.columns : 1;
  }
  return plan;
}

int rows_of_tile(const ProductPlan& plan) {
  return plan.tile->form == Form::tile ? plan.tile->group_i : plan.tile->rows;
}

Function product_function(const ProductPlan& plan, const ProductSpec& spec) {
  static constexpr const char* kNames[] = {"product_dot",    "product_outer", "product_plain",
                                           "product_shared", "product_tile",  "product_matrix"};
  const Tile& tile = *plan.tile;
  const Side& a = plan.turned ? spec.b : spec.a;
  const Side& b = plan.turned ? spec.a : spec.b;
  Defines defines;
  defines.set("V", plan.vector).set("TM", tile.rows).set("TN", plan.columns);
  if (tile.j_first) defines.set("J_FIRST", 1);
  if (spec.grouped) defines.set("GROUPED", 1);
  if (tile.form == Form::shared) defines.set("SHARE", kShare);
  if (tile.form == Form::matrix) defines.set("MATRIX", spec.compute);
  if (tile.form == Form::tile) {
    defines.set("BM", tile.group_i).set("BN", tile.group_j).set("BK", kTileDepth);
    defines.set("A_IS_ALONG", is_along(a, spec.k) ? 1 : 0).set("B_IS_ALONG", is_along(b, spec.k) ? 1 : 0);
  }
  std::string options;
  if (packed(spec)) {
    defines.set("PACKING", spec.packing);
    options = " -D a_T=p.a_type -D ROUND=p.round";
  } else {
    const bool rounds = spec.compute != TERN_F32 && (a.dtype != spec.compute || b.dtype != spec.compute);
    defines.set("a_T", a.dtype).set("b_T", b.dtype).set("ROUND", rounds ? spec.compute : TERN_F32);
  }
  return {"product", kNames[static_cast<int>(tile.form)], defines.text() + options};
}

void ProductCall::take_bias(const TensorView& tensor) {
  if (!tensor.present()) return;
  bias = tensor.planes[0];
  bias_dtype = tensor.dtype();
  bias_step = tensor.stride(tensor.desc.rank - 1);
  if (tensor.desc.rank == 2) bias_batch = tensor.stride(0);
}

namespace {

Product make_product(const ProductPlan& plan, const ProductSpec& spec, const ProductCall& call) {
  Product p{};
  const Side& a = plan.turned ? spec.b : spec.a;
  const Side& b = plan.turned ? spec.a : spec.b;
  p.a_row = a.row;
  p.a_sub = call.a_sub;
  p.a_col = a.col;
  p.a_batch = a.batch;
  p.b_row = b.row;
  p.b_col = b.col;
  p.b_batch = b.batch;
  p.out_row = plan.turned ? call.out_col : call.out_row;
  p.out_col = plan.turned ? call.out_row : call.out_col;
  p.out_sub = call.out_sub;
  p.out_batch = call.out_batch;
  p.bias_step = call.bias_step;
  p.bias_batch = call.bias_batch;
  p.m = static_cast<std::int32_t>(plan.turned ? call.n : call.m);
  p.n = static_cast<std::int32_t>(plan.turned ? call.m : call.n);
  p.k = static_cast<std::int32_t>(call.k);
  p.parts = static_cast<std::int32_t>(call.parts);
  p.out_type = call.out_dtype;
  p.bias_type = call.bias.memory == nullptr ? -1 : call.bias_dtype;
  p.bias_of_rows = plan.turned != call.bias_of_rows ? 1 : 0;
  p.adds = call.adds ? 1 : 0;
  p.alpha = call.alpha;
  p.a_type = spec.a.dtype;
  p.round = spec.compute;
  return p;
}

}  // namespace

bool goes_across(const ProductSpec& spec, const Facts& facts) {
  constexpr std::int64_t kManyRows = 32;
  constexpr std::uint64_t kMostBytes = 64 << 20;
  return facts.cpu && takes_dot(spec) && !packed(spec) && !spec.grouped && !spec.few_alike && spec.b.batch == 0 &&
         spec.m >= kManyRows && across_bytes(spec) <= kMostBytes;
}

ProductSpec across_spec(const ProductSpec& spec) {
  ProductSpec left = spec;
  left.b = {TERN_F32, 1, round_up(spec.n, kAcross), 0};
  return left;
}

std::uint64_t across_bytes(const ProductSpec& spec) {
  return static_cast<std::uint64_t>(round_up(spec.n, kAcross) * spec.k) * 4;
}

Function across_function(const ProductSpec& spec) {
  return {"across", "product_across", Defines().set("V", kAcross).set("b_T", spec.b.dtype).text()};
}

void run_across(Call call, const ProductSpec& spec, const ProductCall& product, const Place& across) {
  constexpr std::int64_t kLength = 256;  // of a work-item along the sum
  call.arg(product.b).arg(spec.b.row).arg(spec.b.col).arg(across);
  call.arg(static_cast<std::int32_t>(product.n)).arg(static_cast<std::int32_t>(product.k));
  call.arg(static_cast<std::int32_t>(round_up(spec.n, kAcross))).arg(static_cast<std::int32_t>(kLength));
  call.run({parts_of(product.n, kAcross), parts_of(product.k, kLength), 1}, {1, 1, 1});
}

Place place_of(const TensorView& tensor, std::int64_t element) {
  Place place = tensor.planes[0];
  place.offset += static_cast<std::uint64_t>(element) * tern_plugin_dtype_bytes(tensor.dtype());
  return place;
}

void run_product(Call kernel, const ProductPlan& plan, const ProductSpec& spec, const ProductCall& call) {
  const Tile& tile = *plan.tile;
  const Product p = make_product(plan, spec, call);
  kernel.arg(plan.turned ? call.b : call.a);
  if (packed(spec)) {
    weight_args(kernel, *call.weight);
  } else {
    kernel.arg(plan.turned ? call.a : call.b);
  }
  kernel.arg(call.bias).arg(call.out).arg(p);
  if (spec.grouped) kernel.arg(call.tiles);
  const std::int64_t i = spec.grouped ? call.num_tiles : parts_of(p.m, rows_of_tile(plan));
  switch (tile.form) {
    case Form::tile:
      return kernel.run({i * (tile.group_i / tile.rows), round_up(p.n, tile.group_j) / tile.columns, call.batch},
                        {tile.group_i / tile.rows, tile.group_j / tile.columns, 1});
    case Form::matrix:
      return kernel.run({i * kMatrixLanes, parts_of(p.n, tile.columns), call.batch}, {kMatrixLanes, 1, 1});
    case Form::shared:
      return kernel.run({parts_of(p.n, tile.columns) * kShare, i, call.batch}, {kShare, 1, 1});
    default:
      break;
  }
  const int columns = tile.form == Form::outer ? plan.columns * plan.vector : plan.columns;
  const std::int64_t j = parts_of(p.n, columns);
  if (tile.j_first) return kernel.run({j, i, call.batch}, {tile.group_j, tile.group_i, 1});
  kernel.run({i, j, call.batch}, {tile.group_i, tile.group_j, 1});
}

}  // namespace tern::opencl
