#include <algorithm>
#include <array>
#include <cmath>

#include "base/dtype.h"
#include "conformance/recipe.h"
#include "tern/accel_ops.h"

namespace tern::conformance {
namespace {

using Shape = CaseBuilder::Shape;

// m, n, k of products: middling, odd, prime, a vector, no rows, no inner, a long inner, wide, tall and square; then a
// real model's weights, a thousand both ways and more.
constexpr std::array<std::array<std::int64_t, 3>, 12> kProducts = {{{16, 48, 32},
                                                                    {7, 33, 65},
                                                                    {13, 37, 101},
                                                                    {1, 131, 96},
                                                                    {0, 8, 8},
                                                                    {3, 5, 0},
                                                                    {5, 9, 4099},
                                                                    {3, 1031, 64},
                                                                    {259, 67, 130},
                                                                    {24, 24, 24},
                                                                    {65, 1040, 1031},
                                                                    {1031, 70, 1024}}};

void make_matmul(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [m, n, k] = kProducts[static_cast<std::size_t>(v.size)];
  // options: x w^T with bias; a b; a^T b; x w^T in bf16; batched; a^T b^T
  const int option = v.option;
  const bool transpose_a = option == 2 || option == 5;
  const bool transpose_b = option == 0 || option == 3 || option == 5;
  const bool batched = option == 4;
  const tern_dtype compute = option == 3 ? TERN_BF16 : v.in;
  // A factor of its own where rows are many or strides are: the options with a bias, with an accumulating a^T b, in
  // bf16.
  const float alpha = v.size % 2 == 1 ? -1.75F : option == 1 ? 0.3F : 1.0F;
  b.attrs(tern_matmul_attrs{transpose_a ? 1 : 0, transpose_b ? 1 : 0, compute, alpha});
  Shape a = transpose_a ? Shape{k, m} : Shape{m, k};
  Shape w = transpose_b ? Shape{n, k} : Shape{k, n};
  Shape out = {m, n};
  if (batched) {
    for (Shape* shape : {&a, &w, &out}) shape->insert(shape->begin(), 3);
  }
  // Rows are dynamic; with transpose_a the shared inner dimension is: a weight's gradient sums the valid rows.
  const bool inner = transpose_a && !transpose_b;
  b.count_for(inner ? k : m);
  const int row = batched ? 1 : 0;
  const int a_rows = inner || !transpose_a ? row : 1;
  if (v.in == TERN_F32 && k >= 1024 && !v.dynamic) {
    // TF32 rounds all of these the same way: errors that would cancel over so long a sum show.
    std::vector<double> elements(static_cast<std::size_t>(m * k * (batched ? 3 : 1)));
    for (double& x : elements) x = (1.0 + static_cast<double>(b.random().below(4)) / 4.0) * (1.0 + 0x1p-12);
    b.values(TERN_MATMUL_A, v.in, a, elements, a_rows);
    std::vector<double> factors(static_cast<std::size_t>(n * k * (batched ? 3 : 1)));
    for (double& x : factors) x = std::fabs(b.random().term());
    b.values(TERN_MATMUL_B, v.in, w, factors, -1);
  } else {
    b.real(TERN_MATMUL_A, v.in, a, a_rows);
    b.real(TERN_MATMUL_B, v.in, w, inner ? 0 : -1);
  }
  if (transpose_b) b.mark_packed(TERN_MATMUL_B);
  if (option == 0) b.real(TERN_MATMUL_BIAS, v.in, {n});
  b.out(TERN_MATMUL_OUT, v.out, out, inner ? -1 : row);
}

// Every packing that has an oracle.
constexpr std::array<tern_packing, 9> kPackings = {TERN_PACK_GGUF_Q4_1, TERN_PACK_GGUF_Q8_0, TERN_PACK_GGUF_Q4_0,
                                                   TERN_PACK_GGUF_Q5_0, TERN_PACK_GGUF_Q5_1, TERN_PACK_GGUF_Q4_K,
                                                   TERN_PACK_GGUF_Q6_K, TERN_PACK_ROW_INT8,  TERN_PACK_F8_BLOCK};

// Rows are whole blocks.
std::int64_t whole_blocks(std::int64_t columns, tern_packing packing) {
  const std::int64_t block = std::max<std::int64_t>(packing_block(packing).elements, 1);
  return (columns + block - 1) / block * block;
}

// rows, out, in: in is a multiple of the block.
constexpr std::array<std::array<std::int64_t, 3>, 11> kQuantised = {{{9, 48, 64},
                                                                     {7, 33, 96},
                                                                     {13, 37, 160},
                                                                     {1, 131, 576},
                                                                     {0, 8, 32},
                                                                     {3, 1031, 64},
                                                                     {65, 67, 1056},
                                                                     {5, 64, 64},
                                                                     {33, 1040, 1056},
                                                                     {5, 70001, 32},  // ids beyond 16 bits
                                                                     {300, 131, 64}}};

void make_matmul_q(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [rows, to, width] = kQuantised[static_cast<std::size_t>(v.size)];
  // options: forward with bias and its gradient for each packing, in fp32 and bf16
  const bool forward = v.option % 2 == 0;
  const auto packing = kPackings[static_cast<std::size_t>(v.option / 2) % kPackings.size()];
  const bool low = v.option / 2 >= static_cast<int>(kPackings.size());
  const std::int64_t from = whole_blocks(width, packing);
  b.attrs(tern_matmul_q_attrs{forward ? 1 : 0, low ? TERN_BF16 : v.in});
  b.count_for(rows);
  b.real(TERN_MATMUL_Q_X, v.in, {rows, forward ? from : to}, 0);
  b.quantised(TERN_MATMUL_Q_W, packing, to, from);
  b.mark_packed(TERN_MATMUL_Q_W);
  if (forward && !low) b.real(TERN_MATMUL_Q_BIAS, v.in, {to});
  b.out(TERN_MATMUL_Q_Y, v.out, {rows, forward ? to : from}, 0);
}

void make_dequantize(CaseBuilder& b) {
  const auto [rows, to, width] = kQuantised[static_cast<std::size_t>(b.variant().size)];
  const tern_packing packing = kPackings[static_cast<std::size_t>(b.variant().option)];
  const std::int64_t from = whole_blocks(width, packing);
  b.quantised(TERN_DEQUANTIZE_W, packing, to, from);
  b.out(TERN_DEQUANTIZE_Y, b.variant().out, {to, from});
}

void make_embedding(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [size, vocab, columns] = kQuantised[static_cast<std::size_t>(v.size)];
  const tern_packing packing = v.option == 0 ? TERN_PACK_NONE : kPackings[static_cast<std::size_t>(v.option - 1)];
  const std::int64_t width = v.option == 0 ? columns - 1 : whole_blocks(columns, packing);
  const std::int64_t capacity = size + 2;
  const std::int64_t rows = b.count_for(capacity);
  if (v.option == 0) {
    b.real(TERN_EMBEDDING_TABLE, v.in, {vocab, width});
  } else {
    b.quantised(TERN_EMBEDDING_TABLE, packing, vocab, width);
  }
  std::vector<std::int64_t> ids(static_cast<std::size_t>(rows));
  for (std::int64_t& id : ids) id = b.random().below(8) == 0 ? -1 : b.random().below(vocab);
  if (v.special != 0 && v.option == 0 && rows > 0) {  // the row that is special is looked up
    const std::vector<double> table = b.decoded(TERN_EMBEDDING_TABLE).real;
    const auto special = std::find_if(table.begin(), table.end(), [](double x) { return !std::isfinite(x); });
    if (special != table.end()) ids.back() = (special - table.begin()) / width;
  }
  b.integers(TERN_EMBEDDING_IDS, TERN_I32, {capacity}, ids, 0);
  b.out(TERN_EMBEDDING_Y, v.out, {capacity, width}, 0);
}

constexpr std::array<std::array<std::int64_t, 2>, 8> kRowsWidth = {
    {{16, 64}, {7, 33}, {13, 131}, {1, 1}, {0, 8}, {257, 5}, {3, 4099}, {300, 896}}};

void make_rms_norm(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [rows, width] = kRowsWidth[static_cast<std::size_t>(v.size)];
  b.count_for(rows);
  b.attrs(tern_rms_norm_attrs{1e-5F, v.option == 2 ? 1.0F : 0.0F});
  b.real(TERN_RMS_NORM_X, v.in, {rows, width}, 0);
  b.real(TERN_RMS_NORM_WEIGHT, v.option == 1 ? TERN_F32 : v.in, {width});
  b.out(TERN_RMS_NORM_Y, v.out, {rows, width}, 0);
  if (v.option != 2) b.out(TERN_RMS_NORM_RSTD, TERN_F32, {rows}, 0);
  if (v.option == 1) {
    b.real(TERN_RMS_NORM_RESIDUAL, v.in, {rows, width}, 0);
    b.out(TERN_RMS_NORM_SUM, v.out, {rows, width}, 0);
    if (v.alias) b.share(TERN_RMS_NORM_SUM, TERN_RMS_NORM_RESIDUAL);
  } else if (v.alias) {
    b.share(TERN_RMS_NORM_Y, TERN_RMS_NORM_X);
  }
}

std::vector<double> rstds(CaseBuilder& b, std::int64_t count) {
  std::vector<double> out(static_cast<std::size_t>(count));
  for (double& x : out) x = 0.7 + b.random().uniform();
  return out;
}

void make_rms_norm_backward(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, width] = kRowsWidth[static_cast<std::size_t>(v.size)];
  const std::int64_t rows = b.count_for(capacity);
  const Shape shape = {capacity, width};
  b.attrs(tern_rms_norm_backward_attrs{v.option == 2 ? 1.0F : 0.0F});
  b.real(TERN_RMS_NORM_BACKWARD_DY, v.in, shape, 0);
  b.real(TERN_RMS_NORM_BACKWARD_X, v.in, shape, 0);
  b.real(TERN_RMS_NORM_BACKWARD_WEIGHT, v.in, {width});
  b.values(TERN_RMS_NORM_BACKWARD_RSTD, TERN_F32, {capacity}, rstds(b, rows), 0);
  if (v.option == 1) b.real(TERN_RMS_NORM_BACKWARD_DSUM, v.in, shape, 0);
  b.out(TERN_RMS_NORM_BACKWARD_DX, v.out, shape, 0);
  if (v.option != 2) b.out(TERN_RMS_NORM_BACKWARD_DWEIGHT, TERN_F32, {width});
  if (v.alias)
    b.share(TERN_RMS_NORM_BACKWARD_DX, v.option == 1 ? TERN_RMS_NORM_BACKWARD_DSUM : TERN_RMS_NORM_BACKWARD_DY);
}

// rows, heads, head_dim, rotary.
constexpr std::array<std::array<std::int64_t, 4>, 9> kHeads = {{{16, 4, 32, 32},
                                                                {7, 3, 10, 6},
                                                                {13, 5, 34, 34},
                                                                {1, 1, 2, 2},
                                                                {0, 2, 8, 8},
                                                                {101, 9, 64, 64},
                                                                {19, 8, 96, 96},
                                                                {9, 2, 256, 64},
                                                                {300, 3, 128, 128}}};

// Positions, and the tables that they index, for the arguments beginning at `positions`.
void rotation_tables(CaseBuilder& b, int positions, std::int64_t capacity, std::int64_t rows, std::int64_t half) {
  const std::int64_t num_positions = half < 32 ? 61 : 4099;  // those of a long prompt with heads of a real size
  std::vector<std::int64_t> at(static_cast<std::size_t>(rows));
  for (std::int64_t& position : at) position = b.random().below(num_positions);
  b.integers(positions, TERN_I32, {capacity}, at, 0);
  std::vector<double> cos;
  std::vector<double> sin;
  const double base = 10000.0 * (1.0 + b.random().uniform());
  for (std::int64_t p = 0; p < num_positions; ++p) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
      cos.push_back(std::cos(angle));
      sin.push_back(std::sin(angle));
    }
  }
  b.values(positions + 1, TERN_F32, {num_positions, half}, cos);
  b.values(positions + 2, TERN_F32, {num_positions, half}, sin);
}

void make_rope(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, heads, head_dim, rotary] = kHeads[static_cast<std::size_t>(v.size)];
  const std::int64_t rows = b.count_for(capacity);
  b.attrs(tern_rope_attrs{v.option == 1 ? 1 : 0, v.option == 2 ? 1 : 0});
  b.real(TERN_ROPE_X, v.in, {capacity, heads, head_dim}, 0);
  rotation_tables(b, TERN_ROPE_POSITIONS, capacity, rows, rotary / 2);
  b.out(TERN_ROPE_Y, v.out, {capacity, heads, head_dim}, 0);
  if (v.alias) b.share(TERN_ROPE_Y, TERN_ROPE_X);
}

void make_qk_norm_rope(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, heads, head_dim, rotary] = kHeads[static_cast<std::size_t>(v.size)];
  const std::int64_t rows = b.count_for(capacity);
  b.attrs(tern_qk_norm_rope_attrs{1e-6F, v.option == 2 ? 1.0F : 0.0F, v.option == 1 ? 1 : 0});
  b.real(TERN_QK_NORM_ROPE_X, v.in, {capacity, heads, head_dim}, 0);
  b.real(TERN_QK_NORM_ROPE_WEIGHT, v.in, {head_dim});
  rotation_tables(b, TERN_QK_NORM_ROPE_POSITIONS, capacity, rows, rotary / 2);
  b.out(TERN_QK_NORM_ROPE_Y, v.out, {capacity, heads, head_dim}, 0);
  if (v.option != 2) b.out(TERN_QK_NORM_ROPE_RSTD, TERN_F32, {capacity, heads}, 0);
  if (v.alias) b.share(TERN_QK_NORM_ROPE_Y, TERN_QK_NORM_ROPE_X);
}

void make_qk_norm_rope_backward(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, heads, head_dim, rotary] = kHeads[static_cast<std::size_t>(v.size)];
  const std::int64_t rows = b.count_for(capacity);
  const Shape shape = {capacity, heads, head_dim};
  b.attrs(tern_qk_norm_rope_backward_attrs{v.option == 2 ? 1.0F : 0.0F, v.option == 1 ? 1 : 0});
  b.real(TERN_QK_NORM_ROPE_BACKWARD_DY, v.in, shape, 0);
  b.real(TERN_QK_NORM_ROPE_BACKWARD_X, v.in, shape, 0);
  b.real(TERN_QK_NORM_ROPE_BACKWARD_WEIGHT, v.in, {head_dim});
  b.values(TERN_QK_NORM_ROPE_BACKWARD_RSTD, TERN_F32, {capacity, heads}, rstds(b, rows * heads), 0);
  rotation_tables(b, TERN_QK_NORM_ROPE_BACKWARD_POSITIONS, capacity, rows, rotary / 2);
  b.out(TERN_QK_NORM_ROPE_BACKWARD_DX, v.out, shape, 0);
  if (v.option != 2) b.out(TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT, TERN_F32, {head_dim});
  if (v.alias) b.share(TERN_QK_NORM_ROPE_BACKWARD_DX, TERN_QK_NORM_ROPE_BACKWARD_DY);
}

void make_act_mul(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [rows, width] = kRowsWidth[static_cast<std::size_t>(v.size)];
  b.count_for(rows);
  b.attrs(tern_act_mul_attrs{v.option});
  b.real(TERN_ACT_MUL_GATE, v.in, {rows, width}, 0);
  b.real(TERN_ACT_MUL_UP, v.in, {rows, width}, 0);
  b.out(TERN_ACT_MUL_Y, v.out, {rows, width}, 0);
  if (v.alias) b.share(TERN_ACT_MUL_Y, v.option == 0 ? TERN_ACT_MUL_GATE : TERN_ACT_MUL_UP);
}

void make_act_mul_backward(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [rows, width] = kRowsWidth[static_cast<std::size_t>(v.size)];
  const Shape shape = {rows, width};
  b.count_for(rows);
  b.attrs(tern_act_mul_backward_attrs{v.option});
  for (int arg : {TERN_ACT_MUL_BACKWARD_DY, TERN_ACT_MUL_BACKWARD_GATE, TERN_ACT_MUL_BACKWARD_UP})
    b.real(arg, v.in, shape, 0);
  for (int arg : {TERN_ACT_MUL_BACKWARD_DGATE, TERN_ACT_MUL_BACKWARD_DUP}) b.out(arg, v.out, shape, 0);
  if (v.alias) {
    b.share(TERN_ACT_MUL_BACKWARD_DGATE, TERN_ACT_MUL_BACKWARD_GATE);
    b.share(TERN_ACT_MUL_BACKWARD_DUP, v.option == 0 ? TERN_ACT_MUL_BACKWARD_UP : TERN_ACT_MUL_BACKWARD_DY);
  }
}

constexpr std::uint32_t kUsual = kDtypes | kLayouts | kDynamic | kSpecials | kRows | kMixed;

constexpr Recipe kRecipes[] = {
    {TERN_OP_MATMUL, kProducts.size(), 6, kUsual | kAccumulates | kPacks | kReduces, make_matmul},
    {TERN_OP_MATMUL_Q, kQuantised.size(), 20, kUsual | kAccumulates | kPacks | kReduces, make_matmul_q},
    {TERN_OP_DEQUANTIZE, kQuantised.size(), 9, kDtypes | kLayouts, make_dequantize},
    {TERN_OP_EMBEDDING, kQuantised.size(), 10, kDtypes | kLayouts | kDynamic | kMixed | kRows | kSpecials,
     make_embedding},
    {TERN_OP_RMS_NORM, kRowsWidth.size(), 3, kUsual | kAliases | kReduces, make_rms_norm},
    {TERN_OP_RMS_NORM_BACKWARD, kRowsWidth.size(), 3, kUsual | kAliases | kAccumulates | kReduces,
     make_rms_norm_backward},
    {TERN_OP_ROPE, kHeads.size(), 3, kUsual | kAliases | kAccumulates, make_rope},
    {TERN_OP_QK_NORM_ROPE, kHeads.size(), 3, kUsual | kAliases | kReduces, make_qk_norm_rope},
    {TERN_OP_QK_NORM_ROPE_BACKWARD, kHeads.size(), 3, kUsual | kAliases | kAccumulates | kReduces,
     make_qk_norm_rope_backward},
    {TERN_OP_ACT_MUL, kRowsWidth.size(), 4, kUsual | kAliases, make_act_mul},
    {TERN_OP_ACT_MUL_BACKWARD, kRowsWidth.size(), 4, kUsual | kAliases, make_act_mul_backward},
};

}  // namespace

std::span<const Recipe> layer_recipes() { return kRecipes; }

}  // namespace tern::conformance
