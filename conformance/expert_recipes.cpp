// Mixtures of experts: the choice, the way to the experts and back, and their products.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/dtype.h"
#include "conformance/recipe.h"
#include "ops/ref/moe_route.h"
#include "tern/accel_ops.h"

namespace tern::conformance {
namespace {

using Shape = CaseBuilder::Shape;

struct Routes {
  std::int64_t rows, experts, top_k;
  std::int32_t groups;
};
constexpr std::array<Routes, 8> kRoutes = {{{17, 8, 2, 2},
                                            {13, 24, 3, 4},
                                            {9, 256, 8, 8},
                                            {0, 8, 2, 2},
                                            {1, 1, 1, 1},
                                            {5, 128, 8, 4},
                                            {300, 60, 4, 5},
                                            {70001, 5, 2, 1}}};

// No two sums that decide lie closer, so that fp32 decides as fp64 does.
constexpr double kMargin = 1e-6;

// Logits that decide, in some options with equal ones among them.
std::vector<double> decided_logits(CaseBuilder& b, const tern_moe_route_attrs& attrs, std::int64_t rows,
                                   std::int64_t experts, std::span<const double> bias, std::int64_t top_k) {
  const bool ties = b.variant().option % 2 == 1 && experts > 1;
  std::vector<double> all;
  std::vector<double> row(static_cast<std::size_t>(experts));
  while (static_cast<std::int64_t>(all.size()) < rows * experts) {
    for (double& x : row) x = ops::ref::round_to(b.variant().in, 2.0 * b.random().term() + 2.0 * b.random().uniform());
    if (ties && b.random().below(4) == 0) row[1] = row[0] = 4.25;
    if (ops::ref::route_row(attrs, row, bias, top_k).margin < kMargin) continue;
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

void make_moe_route(CaseBuilder& b) {
  const auto [capacity, experts, top_k, groups] = kRoutes[static_cast<std::size_t>(b.variant().size)];
  const std::int64_t rows = b.count_for(capacity);
  // options: softmax over the chosen; softmax; sigmoid with bias and groups by their best two; softmax with groups by
  // their best; sigmoid
  const int option = b.variant().option;
  const bool grouped = option == 2 || option == 3;
  tern_moe_route_attrs attrs{};
  attrs.sigmoid = option == 2 || option == 4 ? 1 : 0;
  attrs.normalise = option == 0 || option == 2 ? 1 : 0;
  attrs.scale = option == 0 || option == 4 ? 1.0F : 2.5F;
  attrs.groups = grouped ? groups : 1;
  attrs.top_groups = grouped ? (groups + 1) / 2 : 1;
  attrs.group_top = option == 2 && experts / groups >= 2 ? 2 : 1;
  b.attrs(attrs);
  std::vector<double> bias;
  if (option == 2) {
    for (std::int64_t e = 0; e < experts; ++e) {
      bias.push_back(e == 1 ? bias[0] : ops::ref::round_to(TERN_F32, 0.4 * b.random().term()));
    }
    b.values(TERN_MOE_ROUTE_BIAS, TERN_F32, {experts}, bias);
    bias = b.decoded(TERN_MOE_ROUTE_BIAS).real;
  }
  b.values(TERN_MOE_ROUTE_LOGITS, b.variant().in, {capacity, experts},
           decided_logits(b, attrs, rows, experts, bias, top_k), 0);
  b.out(TERN_MOE_ROUTE_WEIGHTS, TERN_F32, {capacity, top_k}, 0);
  b.out(TERN_MOE_ROUTE_EXPERTS, TERN_I32, {capacity, top_k}, 0);
}

// Different ones in each row.
std::vector<std::int64_t> chosen_experts(CaseBuilder& b, std::int64_t rows, std::int64_t experts, std::int64_t top_k) {
  std::vector<std::int64_t> all;
  std::vector<std::int64_t> order(static_cast<std::size_t>(experts));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < top_k; ++i) {
      std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(i + b.random().below(experts - i))]);
    }
    all.insert(all.end(), order.begin(), order.begin() + top_k);
  }
  return all;
}

void make_moe_route_backward(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, experts, top_k, groups] = kRoutes[static_cast<std::size_t>(v.size)];
  const std::int64_t rows = b.count_for(capacity);
  // options: softmax over the chosen; softmax; sigmoid normalised; sigmoid
  b.attrs(tern_moe_route_backward_attrs{v.option >= 2 ? 1 : 0, v.option % 2 == 0 ? 1 : 0, v.option == 1 ? 2.5F : 1.0F});
  b.real(TERN_MOE_ROUTE_BACKWARD_LOGITS, v.in, {capacity, experts}, 0);
  b.real(TERN_MOE_ROUTE_BACKWARD_DWEIGHTS, TERN_F32, {capacity, top_k}, 0);
  b.integers(TERN_MOE_ROUTE_BACKWARD_EXPERTS, TERN_I32, {capacity, top_k}, chosen_experts(b, rows, experts, top_k), 0);
  b.out(TERN_MOE_ROUTE_BACKWARD_DLOGITS, v.out, {capacity, experts}, 0);
}

struct Moves {
  std::int64_t rows, experts, top_k, width;
};
constexpr std::array<Moves, 9> kMoves = {{{16, 4, 2, 64},
                                          {7, 5, 3, 33},
                                          {13, 8, 2, 131},
                                          {0, 4, 2, 8},
                                          {1, 1, 1, 1},
                                          {300, 300, 4, 5},
                                          {3, 8, 2, 1100},
                                          {70001, 5, 2, 2},
                                          {265, 60, 8, 70}}};

void make_moe_permute(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, experts, top_k, width] = kMoves[static_cast<std::size_t>(v.size)];
  const std::int64_t rows = b.count_for(capacity);
  b.real(TERN_MOE_PERMUTE_X, v.in, {capacity, width}, 0);
  std::vector<std::int64_t> chosen = chosen_experts(b, rows, experts, top_k);
  if (v.option == 1) {  // most experts have no row, and one has nearly all
    for (std::int64_t& e : chosen) e = b.random().below(9) == 0 ? e : experts / 2;
  }
  b.integers(TERN_MOE_PERMUTE_EXPERTS, TERN_I32, {capacity, top_k}, chosen, 0);
  b.out(TERN_MOE_PERMUTE_Y, v.in, {capacity, top_k, width}, 0);
  b.out(TERN_MOE_PERMUTE_PLACES, TERN_I32, {capacity, top_k}, 0);
  b.out(TERN_MOE_PERMUTE_OFFSETS, TERN_I32, {experts + 1});
}

// Each of the first rows x top_k places once, in any order.
std::vector<std::int64_t> any_places(CaseBuilder& b, std::int64_t count) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(count));
  std::iota(places.begin(), places.end(), 0);
  for (std::size_t i = places.size(); i > 1; --i) {
    std::swap(places[i - 1], places[static_cast<std::size_t>(b.random().below(static_cast<std::int64_t>(i)))]);
  }
  return places;
}

void make_moe_combine(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, experts, top_k, width] = kMoves[static_cast<std::size_t>(v.size)];
  const std::int64_t rows = b.count_for(capacity);
  b.real(TERN_MOE_COMBINE_X, v.in, {capacity, top_k, width}, 0);
  b.integers(TERN_MOE_COMBINE_PLACES, TERN_I32, {capacity, top_k}, any_places(b, rows * top_k), 0);
  if (v.option == 0) b.real(TERN_MOE_COMBINE_WEIGHTS, TERN_F32, {capacity, top_k}, 0);
  b.out(TERN_MOE_COMBINE_Y, v.out, {capacity, width}, 0);
}

void make_moe_combine_backward(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, experts, top_k, width] = kMoves[static_cast<std::size_t>(v.size)];
  const std::int64_t rows = b.count_for(capacity);
  // options: all there is; neither weights nor their gradient; weights without their gradient
  b.real(TERN_MOE_COMBINE_BACKWARD_DY, v.in, {capacity, width}, 0);
  b.integers(TERN_MOE_COMBINE_BACKWARD_PLACES, TERN_I32, {capacity, top_k}, any_places(b, rows * top_k), 0);
  if (v.option != 1) b.real(TERN_MOE_COMBINE_BACKWARD_WEIGHTS, TERN_F32, {capacity, top_k}, 0);
  b.out(TERN_MOE_COMBINE_BACKWARD_DX, v.out, {capacity, top_k, width}, 0);
  if (v.option != 0) return;
  b.real(TERN_MOE_COMBINE_BACKWARD_X, v.in, {capacity, top_k, width}, 0);
  b.out(TERN_MOE_COMBINE_BACKWARD_DWEIGHTS, TERN_F32, {capacity, top_k}, 0);
}

struct Groups {
  std::int64_t rows, top_k, experts, out, in;
};
constexpr std::array<Groups, 11> kGroups = {{{16, 2, 4, 24, 32},
                                             {7, 3, 5, 33, 65},
                                             {13, 2, 8, 37, 101},
                                             {0, 2, 3, 8, 8},
                                             {5, 2, 3, 5, 0},
                                             {1, 8, 300, 40, 64},
                                             {259, 2, 3, 257, 130},
                                             {3, 4, 2, 1040, 96},
                                             {70001, 1, 3, 5, 8},
                                             {6, 2, 3, 24, 24},
                                             {150, 4, 2, 72, 1031}}};

constexpr std::array kPackings = {TERN_PACK_GGUF_Q4_1, TERN_PACK_GGUF_Q8_0, TERN_PACK_GGUF_Q4_K,   TERN_PACK_GGUF_Q6_K,
                                  TERN_PACK_GGUF_Q5_K, TERN_PACK_GGUF_Q3_K, TERN_PACK_GGUF_IQ4_XS, TERN_PACK_GGUF_MXFP4,
                                  TERN_PACK_ROW_INT8,  TERN_PACK_F8_BLOCK,  TERN_PACK_NF4,         TERN_PACK_AWQ_INT4,
                                  TERN_PACK_GPTQ_INT4, TERN_PACK_FP4};

// Where the rows of each expert begin: some have none, one may have most, and some rows may be nobody's.
std::vector<std::int64_t> group_offsets(CaseBuilder& b, std::int64_t rows, std::int64_t experts) {
  const bool all = b.variant().special != 0 || b.random().below(3) != 0;
  std::vector<std::int64_t> bounds = {0};
  for (std::int64_t e = 1; e < experts; ++e) bounds.push_back(b.random().below(rows + 1));
  bounds.push_back(all ? rows : rows - b.random().below(std::min<std::int64_t>(rows, 3) + 1));
  for (std::int64_t& bound : bounds) bound = std::min(bound, bounds.back());
  std::sort(bounds.begin(), bounds.end());
  return bounds;
}

void make_grouped_matmul(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, top_k, experts, outputs, width] = kGroups[static_cast<std::size_t>(v.size)];
  // options: forward with bias, the gradient of its input, forward in bf16; then both for each packing
  const bool forward = v.option == 0 || v.option == 2 || (v.option > 2 && v.option % 2 == 1);
  const bool quantised = v.option > 2;
  const tern_packing packing = kPackings[static_cast<std::size_t>(std::max(v.option - 3, 0) / 2)];
  // Planes of their own: rows of 32 elements, an expert of whole words of outputs.
  const bool planes = quantised && packing_block(packing).elements == 0;
  const std::int64_t block = planes ? 32 : quantised ? packing_block(packing).elements : 1;
  const std::int64_t out = planes ? (outputs + 31) / 32 * 32 : outputs;
  const std::int64_t in = (width + block - 1) / block * block;
  const std::int64_t rows = b.count_for(capacity);
  b.attrs(tern_grouped_matmul_attrs{forward ? 1 : 0, v.option == 2 ? TERN_BF16 : v.in});
  b.real(TERN_GROUPED_MATMUL_X, v.in, {capacity, top_k, forward ? in : out}, 0);
  if (quantised) {
    b.quantised(TERN_GROUPED_MATMUL_W, packing, experts * out, in);
  } else {
    b.real(TERN_GROUPED_MATMUL_W, v.in, {experts, out, in});
  }
  if (v.option == 0) b.real(TERN_GROUPED_MATMUL_BIAS, v.in, {experts, out});
  b.integers(TERN_GROUPED_MATMUL_OFFSETS, TERN_I32, {experts + 1}, group_offsets(b, rows * top_k, experts));
  b.out(TERN_GROUPED_MATMUL_Y, v.out, {capacity, top_k, forward ? out : in}, 0);
}

void make_grouped_matmul_backward(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, top_k, experts, out, in] = kGroups[static_cast<std::size_t>(v.size)];
  // options: both; that of w alone, in bf16; that of the bias alone
  const std::int64_t rows = b.count_for(capacity);
  b.attrs(tern_grouped_matmul_backward_attrs{v.option == 1 ? TERN_BF16 : v.in});
  b.real(TERN_GROUPED_MATMUL_BACKWARD_DY, v.in, {capacity, top_k, out}, 0);
  b.real(TERN_GROUPED_MATMUL_BACKWARD_X, v.in, {capacity, top_k, in}, 0);
  b.integers(TERN_GROUPED_MATMUL_BACKWARD_OFFSETS, TERN_I32, {experts + 1}, group_offsets(b, rows * top_k, experts));
  if (v.option != 2) b.out(TERN_GROUPED_MATMUL_BACKWARD_DW, TERN_F32, {experts, out, in});
  if (v.option != 1) b.out(TERN_GROUPED_MATMUL_BACKWARD_DBIAS, TERN_F32, {experts, out});
}

constexpr Recipe kRecipes[] = {
    {TERN_OP_MOE_ROUTE, kRoutes.size(), 5, kDtypes | kLayouts | kDynamic | kRows, make_moe_route},
    {TERN_OP_MOE_ROUTE_BACKWARD, kRoutes.size(), 4, kDtypes | kMixed | kLayouts | kDynamic | kRows,
     make_moe_route_backward},
    {TERN_OP_MOE_PERMUTE, kMoves.size(), 2, kDtypes | kLayouts | kDynamic | kSpecials, make_moe_permute},
    {TERN_OP_MOE_COMBINE, kMoves.size(), 2, kDtypes | kMixed | kLayouts | kDynamic | kSpecials | kAccumulates,
     make_moe_combine},
    {TERN_OP_MOE_COMBINE_BACKWARD, kMoves.size(), 3, kDtypes | kMixed | kLayouts | kDynamic | kSpecials,
     make_moe_combine_backward},
    {TERN_OP_GROUPED_MATMUL, kGroups.size(), 3 + 2 * kPackings.size(),
     kDtypes | kMixed | kLayouts | kDynamic | kSpecials | kAccumulates | kReduces, make_grouped_matmul},
    {TERN_OP_GROUPED_MATMUL_BACKWARD, kGroups.size(), 3,
     kDtypes | kLayouts | kDynamic | kSpecials | kAccumulates | kReduces, make_grouped_matmul_backward},
};

}  // namespace

std::span<const Recipe> expert_recipes() { return kRecipes; }

}  // namespace tern::conformance
