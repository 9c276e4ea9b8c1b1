// Cases of the optimizers.
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "conformance/recipe.h"
#include "ops/adamw_8bit.h"
#include "tern/accel_ops.h"

namespace tern::conformance {
namespace {

using Shape = CaseBuilder::Shape;

// Vectors and matrices, whose rows may be padded; the last is shared among threads.
const std::array<Shape, 7> kParameters = {Shape{1024},   Shape{3, 11}, Shape{1031},     Shape{1},
                                          Shape{260, 9}, Shape{0},     Shape{300, 1001}};

std::int64_t elements_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

void make_adamw(CaseBuilder& b) {
  const Variant& v = b.variant();
  const Shape& shape = kParameters[static_cast<std::size_t>(v.size)];
  const auto count = static_cast<std::size_t>(elements_of(shape));
  std::vector<double> m(count);
  std::vector<double> second(count);
  std::vector<double> grad(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double size = i % 3 == 1 ? 1e-7 : 1.0;  // of the gradients: of some so small that eps decides
    grad[i] = size * b.random().term();
    m[i] = 0.1 * size * b.random().term();
    second[i] = 0.01 * size * size * (0.5 + b.random().uniform());
  }
  if (v.special != 0) {
    b.real(TERN_ADAMW_GRAD, v.in, shape);
  } else {
    b.values(TERN_ADAMW_GRAD, v.in, shape, grad);
  }
  b.real(TERN_ADAMW_PARAM, TERN_F32, shape);
  b.values(TERN_ADAMW_M, TERN_F32, shape, m);
  b.values(TERN_ADAMW_V, TERN_F32, shape, second);
  const double step = 1.0 + static_cast<double>(b.random().below(50));
  b.values(TERN_ADAMW_HYPER, TERN_F32, {10},
           {0.01 + 0.01 * b.random().uniform(), 0.9, 0.95, 0.1, 0.05, 1e-8, 0.1, 1.0 - std::pow(0.9, step),
            1.0 - std::pow(0.95, step), 0.5 + b.random().uniform()});
  if (v.option == 1) b.out(TERN_ADAMW_COPY, TERN_BF16, shape);
}

// Without momentum, with it, and what Muon makes of a gradient.
void make_sgd(CaseBuilder& b) {
  const Variant& v = b.variant();
  const Shape& shape = kParameters[static_cast<std::size_t>(v.size)];
  b.real(TERN_SGD_GRAD, v.in, shape);
  b.real(TERN_SGD_PARAM, TERN_F32, shape);
  if (v.option > 0) b.real(TERN_SGD_BUF, TERN_F32, shape);
  const double lr = 0.01 + 0.01 * b.random().uniform();
  const double scale = 0.5 + b.random().uniform();
  constexpr std::array<std::array<double, 6>, 3> kFactors = {
      {{1.0, 0.0, 0.0, 0.1, 1.0, 0.0}, {0.99, 0.9, 0.7, 0.1, 1.0, 0.9}, {0.0, 0.95, 0.05, 0.0, 0.05, 0.95}}};
  const auto& f = kFactors[static_cast<std::size_t>(v.option)];
  b.values(TERN_SGD_HYPER, TERN_F32, {8}, {v.option == 2 ? -1.0 : lr, f[0], f[1], f[2], f[3], f[4], f[5], scale});
}

void make_lion(CaseBuilder& b) {
  const Variant& v = b.variant();
  const Shape& shape = kParameters[static_cast<std::size_t>(v.size)];
  b.real(TERN_LION_GRAD, v.in, shape);
  b.real(TERN_LION_PARAM, TERN_F32, shape);
  // Some momenta are so much larger than the gradient that they alone decide the sign.
  std::vector<double> m(static_cast<std::size_t>(elements_of(shape)));
  for (std::size_t i = 0; i < m.size(); ++i) m[i] = (i % 3 == 1 ? 100.0 : 0.3) * b.random().term();
  b.values(TERN_LION_M, TERN_F32, shape, m);
  b.values(TERN_LION_HYPER, TERN_F32, {7},
           {0.01 + 0.01 * b.random().uniform(), 0.998, 0.9, 0.1, 0.99, 0.01, 0.5 + b.random().uniform()});
}

// Matrices, a vector and a stack of matrices; with factors, with momentum too, and a matrix without factors. Where rows
// or columns differ much in size the factors do.
void make_adafactor(CaseBuilder& b) {
  const Variant& v = b.variant();
  static const std::array<Shape, 6> kShapes = {Shape{48, 64},   Shape{7, 1031}, Shape{2100},
                                               Shape{3, 20, 9}, Shape{1, 1},    Shape{300, 517}};
  const Shape& shape = kShapes[static_cast<std::size_t>(v.size)];
  std::vector<double> grad(static_cast<std::size_t>(elements_of(shape)));
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const auto column = static_cast<std::int64_t>(i) % shape.back();
    const auto row = static_cast<std::int64_t>(i) / shape.back();
    grad[i] = std::pow(10.0, static_cast<double>(column % 3 - row % 2)) * b.random().term();
  }
  b.values(TERN_ADAFACTOR_GRAD, v.in, shape, grad);
  b.real(TERN_ADAFACTOR_PARAM, TERN_F32, shape);
  const auto squares = [&](int arg, const Shape& of) {
    std::vector<double> values(static_cast<std::size_t>(elements_of(of)));
    for (double& value : values) value = 0.1 + b.random().uniform();
    b.values(arg, TERN_F32, of, values);
  };
  if (shape.size() < 2 || v.option == 2) {
    squares(TERN_ADAFACTOR_V, shape);
  } else {
    Shape row(shape.begin(), shape.end() - 1);
    Shape col(shape.begin(), shape.end() - 2);
    col.push_back(shape.back());
    squares(TERN_ADAFACTOR_ROW, row);
    squares(TERN_ADAFACTOR_COL, col);
  }
  if (v.option > 0) b.real(TERN_ADAFACTOR_M, TERN_F32, shape);
  b.values(TERN_ADAFACTOR_HYPER, TERN_F32, {11},
           {0.01 + 0.01 * b.random().uniform(), 0.8, 0.2, 1e-30, 1e-3, v.option == 1 ? 0.5 : 1.0, 0.9, 0.1, 0.1,
            v.option == 0 ? 1.0 : 0.0, 0.5 + b.random().uniform()});
}

// Codes rise as those of bitsandbytes do: closer to each other near 0. The largest is near 1.
std::vector<double> codes(bool has_sign, Random& random) {
  const double largest = 0.9 + 0.2 * random.uniform();
  std::vector<double> out;
  for (int i = 0; i < 256; ++i) {
    const double x = has_sign ? (i - 127) / 128.0 : i / 255.0;
    out.push_back(largest * x * std::fabs(x));
  }
  return out;
}

void make_adamw_8bit(CaseBuilder& b) {
  const Variant& v = b.variant();
  const Shape& shape = kParameters[static_cast<std::size_t>(v.size)];
  const std::int64_t count = elements_of(shape);
  const Shape blocks = {ops::adamw_8bit_blocks(count)};
  b.real(TERN_ADAMW_8BIT_GRAD, v.in, shape);
  b.real(TERN_ADAMW_8BIT_PARAM, TERN_F32, shape);
  const bool first = v.option == 1;  // the first step, whose moments are 0
  const auto moment = [&](int arg, int largest, std::int64_t zero, double size) {
    std::vector<std::int64_t> of(static_cast<std::size_t>(count));
    for (auto& code : of) code = first ? zero : b.random().below(256);
    b.integers(arg, TERN_U8, shape, of);
    std::vector<double> most(static_cast<std::size_t>(blocks[0]));
    for (double& one : most) one = first ? 0.0 : size * (0.5 + b.random().uniform());
    b.values(largest, TERN_F32, blocks, most);
  };
  moment(TERN_ADAMW_8BIT_M, TERN_ADAMW_8BIT_M_MAX, 127, 0.3);
  moment(TERN_ADAMW_8BIT_V, TERN_ADAMW_8BIT_V_MAX, 0, 0.1);
  b.values(TERN_ADAMW_8BIT_M_CODES, TERN_F32, {256}, codes(true, b.random()));
  b.values(TERN_ADAMW_8BIT_V_CODES, TERN_F32, {256}, codes(false, b.random()));
  const double step = first ? 1.0 : 2.0 + static_cast<double>(b.random().below(50));
  b.values(TERN_ADAMW_8BIT_HYPER, TERN_F32, {10},
           {0.01 + 0.01 * b.random().uniform(), 0.9, 0.95, 0.1, 0.05, 1e-8, 0.1, 1.0 - std::pow(0.9, step),
            1.0 - std::pow(0.95, step), 0.5 + b.random().uniform()});
}

const Recipe kRecipes[] = {
    {TERN_OP_ADAMW, kParameters.size(), 2, kDtypes | kLayouts | kSpecials, make_adamw},
    {TERN_OP_SGD, kParameters.size(), 3, kDtypes | kLayouts | kSpecials, make_sgd},
    {TERN_OP_LION, kParameters.size(), 1, kDtypes | kLayouts | kSpecials, make_lion},
    {TERN_OP_ADAFACTOR, 6, 3, kDtypes, make_adafactor},
    {TERN_OP_ADAMW_8BIT, kParameters.size(), 2, kDtypes, make_adamw_8bit},
};

}  // namespace

std::span<const Recipe> optimizer_recipes() { return kRecipes; }

}  // namespace tern::conformance
