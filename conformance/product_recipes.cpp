// Products by weights, and what reads weights in other ways.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/dtype.h"
#include "base/nf4.h"
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
  // options: x w^T with bias; a b; a^T b; x w^T in bf16; batched; a^T b^T; batched x w^T; batched a^T b
  const int option = v.option;
  const bool transpose_a = option == 2 || option == 5 || option == 7;
  const bool transpose_b = option == 0 || option == 3 || option == 5 || option == 6;
  const bool batched = option == 4 || option >= 6;
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
  if ((transpose_b || option == 1) && !batched) b.mark_packed(TERN_MATMUL_B);
  if (option == 0) b.real(TERN_MATMUL_BIAS, v.in, {n});
  b.out(TERN_MATMUL_OUT, v.out, out, inner ? -1 : row);
}

// Every packing that has an oracle.
constexpr std::array kPackings = {
    TERN_PACK_GGUF_Q4_1, TERN_PACK_GGUF_Q8_0, TERN_PACK_GGUF_Q4_0,   TERN_PACK_GGUF_Q5_0,   TERN_PACK_GGUF_Q5_1,
    TERN_PACK_GGUF_Q4_K, TERN_PACK_GGUF_Q6_K, TERN_PACK_ROW_INT8,    TERN_PACK_F8_BLOCK,    TERN_PACK_GGUF_Q2_K,
    TERN_PACK_GGUF_Q3_K, TERN_PACK_GGUF_Q5_K, TERN_PACK_GGUF_IQ4_NL, TERN_PACK_GGUF_IQ4_XS, TERN_PACK_GGUF_MXFP4,
    TERN_PACK_AWQ_INT4,  TERN_PACK_GPTQ_INT4, TERN_PACK_NF4,         TERN_PACK_FP4};

// Outputs fill words: those of AWQ hold 8, of GPTQ in 2 bits 16; 32 codes of 3 bits fill three.
std::int64_t whole_words(std::int64_t rows, tern_packing packing) {
  const bool words = packing == TERN_PACK_AWQ_INT4 || packing == TERN_PACK_GPTQ_INT4;
  const std::int64_t each = !words ? 1 : packing == TERN_PACK_AWQ_INT4 ? 8 : 32;
  return (rows + each - 1) / each * each;
}

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

constexpr std::size_t kMatmulQKinds = 4;

void make_matmul_q(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [rows, outputs, width] = kQuantised[static_cast<std::size_t>(v.size)];
  // options: forward with bias, its gradient, and forward in x15 and in int8, for each packing; the first packing's in
  // bf16
  const int kind = v.option % static_cast<int>(kMatmulQKinds);
  const tern_packing packing = kPackings[static_cast<std::size_t>(v.option) / kMatmulQKinds % kPackings.size()];
  const bool low = static_cast<std::size_t>(v.option) / kMatmulQKinds >= kPackings.size();
  const bool whole = packing != TERN_PACK_F8_BLOCK && !is_levels4(packing);  // numbers beside a scale
  // Of large calls the first two options alone are tried: what is f16 there is computed in x15.
  const bool large = v.option == 0 && v.size > 2 && v.in == TERN_F16;
  const bool x15 = (kind == 2 || large) && whole && !low;
  const bool forward = kind != 1;
  const std::int64_t to = whole_words(outputs, packing);
  const std::int64_t from = whole_blocks(width, packing);
  const bool int8 = kind == 3 && whole && !low;
  const auto compute = x15    ? tern_compute{TERN_COMPUTE_X15}
                       : int8 ? tern_compute{TERN_COMPUTE_INT8}
                       : low  ? tern_compute{TERN_BF16}
                              : v.in;
  b.attrs(tern_matmul_q_attrs{forward ? 1 : 0, compute});
  b.count_for(rows);
  b.real(TERN_MATMUL_Q_X, v.in, {rows, forward ? from : to}, 0);
  b.quantised(TERN_MATMUL_Q_W, packing, to, from);
  b.mark_packed(TERN_MATMUL_Q_W);
  if (forward && !low) b.real(TERN_MATMUL_Q_BIAS, v.in, {to});
  b.out(TERN_MATMUL_Q_Y, v.out, {rows, forward ? to : from}, 0);
}

void make_dequantize(CaseBuilder& b) {
  const auto [rows, outputs, width] = kQuantised[static_cast<std::size_t>(b.variant().size)];
  const tern_packing packing = kPackings[static_cast<std::size_t>(b.variant().option)];
  const std::int64_t to = whole_words(outputs, packing);
  const std::int64_t from = whole_blocks(width, packing);
  b.quantised(TERN_DEQUANTIZE_W, packing, to, from);
  b.out(TERN_DEQUANTIZE_Y, b.variant().out, {to, from});
}

void make_embedding(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [size, entries, columns] = kQuantised[static_cast<std::size_t>(v.size)];
  const tern_packing packing =
      v.option == 0 ? tern_packing{TERN_PACK_NONE} : tern_packing{kPackings[static_cast<std::size_t>(v.option - 1)]};
  const std::int64_t vocab = whole_words(entries, packing);
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

constexpr std::uint32_t kUsual = kDtypes | kLayouts | kDynamic | kSpecials | kRows | kMixed;

constexpr Recipe kRecipes[] = {
    {TERN_OP_MATMUL, kProducts.size(), 8, kUsual | kAccumulates | kPacks | kReduces, make_matmul},
    {TERN_OP_MATMUL_Q, kQuantised.size(), kMatmulQKinds*(kPackings.size() + 1),
     kUsual | kAccumulates | kPacks | kReduces, make_matmul_q, static_cast<int>(kMatmulQKinds)},
    {TERN_OP_DEQUANTIZE, kQuantised.size(), kPackings.size(), kDtypes | kLayouts, make_dequantize},
    {TERN_OP_EMBEDDING, kQuantised.size(), 1 + kPackings.size(),
     kDtypes | kLayouts | kDynamic | kMixed | kRows | kSpecials, make_embedding},
};

}  // namespace

std::span<const Recipe> product_recipes() { return kRecipes; }

}  // namespace tern::conformance
