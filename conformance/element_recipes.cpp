#include <algorithm>
#include <array>
#include <limits>

#include "base/dtype.h"
#include "conformance/matrices.h"
#include "conformance/recipe.h"
#include "tern/accel_ops.h"

namespace tern::conformance {
namespace {

using Shape = CaseBuilder::Shape;

std::vector<std::int64_t> random_index(CaseBuilder& b, std::int64_t count, std::int64_t n, bool unique) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(count));
  for (std::int64_t& i : out) i = b.random().below(8) == 0 || n == 0 ? -1 : b.random().below(n);
  if (unique) {
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    out.resize(static_cast<std::size_t>(count), -1);
  }
  return out;
}

// cast_copy: the main dtypes among each other, and integers.
constexpr std::array<std::array<tern_dtype, 2>, 14> kCasts = {{{TERN_F32, TERN_F32},
                                                               {TERN_F32, TERN_BF16},
                                                               {TERN_F32, TERN_F16},
                                                               {TERN_BF16, TERN_F32},
                                                               {TERN_F16, TERN_F32},
                                                               {TERN_BF16, TERN_F16},
                                                               {TERN_F16, TERN_BF16},
                                                               {TERN_I32, TERN_F32},
                                                               {TERN_F32, TERN_I32},
                                                               {TERN_U8, TERN_F32},
                                                               {TERN_I64, TERN_I32},
                                                               {TERN_I32, TERN_I64},
                                                               {TERN_F32, TERN_U8},
                                                               {TERN_BF16, TERN_BF16}}};

void make_cast_copy(CaseBuilder& b) {
  const auto [from, to] = kCasts[static_cast<std::size_t>(b.variant().option)];
  const Shape shape = matrix(b);
  const std::int64_t rows = b.count_for(shape[0]);
  const auto count = static_cast<std::size_t>(rows * shape[1]);
  if (dtype_info(from).floating) {
    std::vector<double> elements(count);
    for (double& x : elements) {
      x = b.random().term() * (dtype_info(to).floating ? 1.0 : 300.0);
      if (b.variant().special != 0 && b.random().below(5) == 0)
        x *= b.variant().special == 1 ? std::numeric_limits<double>::quiet_NaN() : 1e300;
    }
    b.values(TERN_CAST_COPY_X, from, shape, elements, 0);
  } else {
    std::vector<std::int64_t> elements(count);
    for (std::int64_t& x : elements)
      x = b.random().below(from == TERN_U8 ? 256 : 1 << 24) - (from == TERN_U8 ? 0 : 1 << 23);
    b.integers(TERN_CAST_COPY_X, from, shape, elements, 0);
  }
  b.out(TERN_CAST_COPY_Y, to, shape, 0);
  if (b.variant().alias && from == to) b.share(TERN_CAST_COPY_Y, TERN_CAST_COPY_X);
}

void make_gather_rows(CaseBuilder& b) {
  const Shape x = matrix(b);
  const std::int64_t capacity = b.variant().size == 5 ? 17 : x[0] + 5;
  const std::int64_t rows = b.count_for(capacity);
  b.real(TERN_GATHER_ROWS_X, b.variant().in, x);
  b.integers(TERN_GATHER_ROWS_INDEX, TERN_I32, {capacity}, random_index(b, rows, x[0], false), 0);
  b.out(TERN_GATHER_ROWS_Y, b.variant().in, {capacity, x[1]}, 0);
}

void make_scatter_add_rows(CaseBuilder& b) {
  const Shape x = matrix(b);
  const std::int64_t n = std::max<std::int64_t>(1, x[0] / 2 + 1);
  const std::int64_t rows = b.count_for(x[0]);
  b.real(TERN_SCATTER_ADD_ROWS_X, b.variant().in, x, 0);
  b.integers(TERN_SCATTER_ADD_ROWS_INDEX, TERN_I32, {x[0]}, random_index(b, rows, n, b.variant().option == 1), 0);
  b.out(TERN_SCATTER_ADD_ROWS_Y, b.variant().out, {n, x[1]});
}

void make_axpby(CaseBuilder& b) {
  const Shape shape = matrix(b);
  b.count_for(shape[0]);
  b.attrs(tern_axpby_attrs{0.75F, b.variant().option == 1 ? 0.0F : -1.5F});
  b.real(TERN_AXPBY_X, b.variant().in, shape, 0);
  if (b.variant().option == 0) b.real(TERN_AXPBY_Y, b.variant().in, shape, 0);
  if (b.variant().option == 2) {
    b.real(TERN_AXPBY_Y, b.variant().in, {1, shape[1]});
    b.broadcast(TERN_AXPBY_Y, 0, shape[0]);
  }
  b.out(TERN_AXPBY_OUT, b.variant().out, shape, 0);
  if (b.variant().alias) b.share(TERN_AXPBY_OUT, TERN_AXPBY_X);
}

void make_mul(CaseBuilder& b) {
  const Shape shape = matrix(b);
  b.count_for(shape[0]);
  b.real(TERN_MUL_X, b.variant().in, shape, 0);
  if (b.variant().option == 0) b.real(TERN_MUL_Y, b.variant().in, shape, 0);
  if (b.variant().option == 1) {
    b.real(TERN_MUL_Y, b.variant().in, {1, shape[1]});
    b.broadcast(TERN_MUL_Y, 0, shape[0]);
  }
  if (b.variant().option == 2) {
    b.real(TERN_MUL_Y, b.variant().in, {shape[0], 1}, 0);
    b.broadcast(TERN_MUL_Y, 1, shape[1]);
  }
  b.out(TERN_MUL_OUT, b.variant().out, shape, 0);
  if (b.variant().alias) b.share(TERN_MUL_OUT, TERN_MUL_X);
}

void make_row_sum(CaseBuilder& b) {
  const Shape shape = matrix(b);
  b.count_for(shape[0]);
  const int axis = b.variant().option == 0 ? 1 : 0;
  b.attrs(tern_row_sum_attrs{axis});
  b.real(TERN_ROW_SUM_X, b.variant().in, shape, 0);
  b.out(TERN_ROW_SUM_OUT, b.variant().out, {shape[static_cast<std::size_t>(1 - axis)]}, axis == 1 ? 0 : -1);
}

void make_scale(CaseBuilder& b) {
  const Shape shape = matrix(b);
  b.count_for(shape[0]);
  b.real(TERN_SCALE_X, b.variant().in, shape, 0);
  b.real(TERN_SCALE_FACTOR, TERN_F32, {1});
  b.out(TERN_SCALE_Y, b.variant().out, shape, 0);
  if (b.variant().alias) b.share(TERN_SCALE_Y, TERN_SCALE_X);
}

// Terms of every size beside the cap: in the middle of the curve, far beyond it, and where it is all but straight.
void make_softcap(CaseBuilder& b) {
  constexpr std::array<float, 3> caps = {2.0F, 0.03125F, 30.0F};
  const Shape shape = matrix(b);
  b.count_for(shape[0]);
  b.attrs(tern_softcap_attrs{caps[static_cast<std::size_t>(b.variant().option)]});
  b.real(TERN_SOFTCAP_X, b.variant().in, shape, 0);
  b.out(TERN_SOFTCAP_Y, b.variant().out, shape, 0);
  if (b.variant().alias) b.share(TERN_SOFTCAP_Y, TERN_SOFTCAP_X);
}

void make_fill(CaseBuilder& b) {
  constexpr std::array<float, 3> values = {0.0F, 1.0F, -0.3F};
  const Shape shape = matrix(b);
  b.count_for(shape[0]);
  b.attrs(tern_fill_attrs{values[static_cast<std::size_t>(b.variant().option)]});
  b.out(TERN_FILL_Y, b.variant().out, shape, 0);
}

void make_shard_index(CaseBuilder& b) {
  const std::int64_t capacity = matrix(b)[0];
  const std::int64_t rows = b.count_for(capacity);
  const std::int64_t first = b.variant().option == 0 ? 0 : 100'003;
  constexpr std::int64_t kCount = 1000;
  b.attrs(tern_shard_index_attrs{static_cast<std::int32_t>(first), kCount});
  const std::array<std::int64_t, 5> borders = {-1, first - 1, first, first + kCount - 1, first + kCount};
  std::vector<std::int64_t> ids(static_cast<std::size_t>(rows));
  for (std::size_t r = 0; r < ids.size(); ++r) {
    ids[r] = r < borders.size() ? borders[r] : first + b.random().below(3 * kCount) - kCount;
  }
  b.integers(TERN_SHARD_INDEX_IDS, TERN_I32, {capacity}, ids, 0);
  b.out(TERN_SHARD_INDEX_Y, TERN_I32, {capacity}, 0);
}

void make_sum_squares(CaseBuilder& b) {
  const Shape shape = matrix(b);
  b.count_for(shape[0]);
  b.real(TERN_SUM_SQUARES_X, b.variant().in, shape, 0);
  b.out(TERN_SUM_SQUARES_OUT, TERN_F32, {1});
}

void make_all_finite(CaseBuilder& b) {
  const Shape shape = matrix(b);
  const std::int64_t rows = b.count_for(shape[0]);
  if (b.variant().option == 0) {
    b.real(TERN_ALL_FINITE_X, b.variant().in, shape, 0);
  } else {
    // all is well but for the very last element, in most cases
    std::vector<double> elements(static_cast<std::size_t>(rows * shape[1]), 1.5);
    if (!elements.empty() && b.random().below(4) != 0) elements.back() = -std::numeric_limits<double>::infinity();
    b.values(TERN_ALL_FINITE_X, b.variant().in, shape, elements, 0);
  }
  b.out(TERN_ALL_FINITE_OUT, TERN_I32, {1});
}

constexpr std::uint32_t kUsual = kLayouts | kDynamic | kSpecials;
constexpr int kSizes = static_cast<int>(kMatrices.size());

constexpr Recipe kRecipes[] = {
    {TERN_OP_CAST_COPY, kSizes, static_cast<int>(kCasts.size()), kUsual | kAccumulates | kAliases | kRows,
     make_cast_copy},
    {TERN_OP_GATHER_ROWS, kSizes, 1, kUsual | kDtypes | kRows, make_gather_rows},
    {TERN_OP_SCATTER_ADD_ROWS, kSizes, 2, kUsual | kDtypes | kMixed | kAccumulates | kReduces, make_scatter_add_rows},
    {TERN_OP_AXPBY, kSizes, 3, kUsual | kDtypes | kMixed | kAccumulates | kAliases | kRows, make_axpby},
    {TERN_OP_MUL, kSizes, 3, kUsual | kDtypes | kMixed | kAccumulates | kAliases | kRows, make_mul},
    {TERN_OP_ROW_SUM, kSizes, 2, kUsual | kDtypes | kMixed | kAccumulates | kReduces, make_row_sum},
    {TERN_OP_SCALE, kSizes, 1, kUsual | kDtypes | kMixed | kAccumulates | kAliases | kRows, make_scale},
    {TERN_OP_SOFTCAP, kSizes, 3, kUsual | kDtypes | kMixed | kAliases | kRows, make_softcap},
    {TERN_OP_FILL, kSizes, 3, kLayouts | kDynamic | kDtypes | kRows, make_fill},
    {TERN_OP_SHARD_INDEX, kSizes, 2, kLayouts | kDynamic | kRows, make_shard_index},
    {TERN_OP_SUM_SQUARES, kSizes, 1, kUsual | kDtypes | kAccumulates | kReduces, make_sum_squares},
    {TERN_OP_ALL_FINITE, kSizes, 2, kUsual | kDtypes | kAccumulates, make_all_finite},
};

}  // namespace

std::span<const Recipe> element_recipes() { return kRecipes; }

}  // namespace tern::conformance
