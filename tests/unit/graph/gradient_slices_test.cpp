// Gradients through parts of values and of several roots, against slopes. Each case has a cheap wrong answer: the
// second of two overlapping slices forgotten, what nothing uses left undefined, a root counted once too often.
#include <gtest/gtest.h>

#include "ops/axpby.h"
#include "ops/matmul.h"
#include "ops/mul.h"
#include "ops/rms_norm.h"
#include "ops/row_sum.h"
#include "ops/softcap.h"
#include "ops/sum_squares.h"
#include "tests/unit/graph/gradient_case.h"

namespace tern::test {
namespace {

using Roots = std::vector<graph::Root>;

Value squares(Graph& g, Value x) { return ops::sum_squares(g, x); }
Value product(Graph& g, Value x, Value y) { return ops::mul(g, x, y, {}); }
Value sum(Graph& g, Value x, Value y) { return ops::axpby(g, x, y, {}); }
Value copied(Graph& g, Value x, Value at) { return ops::cast_copy(g, x, {.out = TERN_F32, .at = at}); }
// x w, of [4, 64] and [64, 192]. Slices begin where every device lets a view begin, and end anywhere.
Value fused(Graph& g, const Sources& s) { return ops::matmul(g, s.at("x"), s.at("w"), {}); }

const std::map<std::string, std::vector<std::int64_t>> kFused = {{"x", {4, 64}}, {"w", {64, 192}}};
const std::map<std::string, std::vector<std::int64_t>> kPair = {{"x", {4, 64}}, {"y", {4, 64}}};

const std::vector<GradientCase>& cases() {
  static const std::vector<GradientCase> all = {
      {"columns that make up the whole", kFused,
       [](Graph& g, const Sources& s) {
         const Value y = fused(g, s);
         const Value qk = product(g, columns(g, y, 0, 64), columns(g, y, 64, 64));
         return Roots{{squares(g, sum(g, qk, columns(g, y, 128, 64))), {}}};
       }},
      {"columns that overlap", kFused,
       [](Graph& g, const Sources& s) {
         const Value y = fused(g, s);
         return Roots{{squares(g, product(g, columns(g, y, 0, 128), columns(g, y, 64, 128))), {}}};
       }},
      {"columns that overlap by an odd number", kFused,
       [](Graph& g, const Sources& s) {
         const Value y = fused(g, s);
         return Roots{{squares(g, product(g, columns(g, y, 32, 45), columns(g, y, 64, 45))), {}}};
       }},
      {"columns of which the rest is not used", kFused,
       [](Graph& g, const Sources& s) {
         return Roots{{squares(g, columns(g, fused(g, s), 64, 64)), {}}};
       }},
      {"an odd number of columns", kFused,
       [](Graph& g, const Sources& s) {
         return Roots{{squares(g, columns(g, fused(g, s), 32, 51)), {}}};
       }},
      {"one slice twice", kFused,
       [](Graph& g, const Sources& s) {
         const Value y = fused(g, s);
         const Value a = columns(g, y, 64, 64);
         const Value b = columns(g, y, 64, 64);
         return Roots{{squares(g, sum(g, product(g, a, a), b)), {}}};
       }},
      {"a whole and its slices", kFused,
       [](Graph& g, const Sources& s) {
         const Value y = fused(g, s);
         const Value wide = squares(g, ops::softcap(g, y, {.cap = 1.5F}));
         return Roots{{wide, {}}, {squares(g, product(g, columns(g, y, 0, 64), columns(g, y, 96, 64))), {}}};
       }},
      {"rows, and rows that overlap", kFused,
       [](Graph& g, const Sources& s) {
         const Value a = ops::matmul(g, rows(g, s.at("x"), 0, 3), s.at("w"), {});
         const Value b = ops::matmul(g, rows(g, s.at("x"), 1, 3), rows(g, s.at("w"), 0, 64), {});
         return Roots{{squares(g, product(g, a, b)), {}}};
       }},
      {"rows of a weight of which the rest is not used", kFused,
       [](Graph& g, const Sources& s) {
         const Value a = columns(g, s.at("x"), 0, 20);
         return Roots{{squares(g, ops::matmul(g, a, rows(g, s.at("w"), 4, 20), {})), {}}};
       }},
      {"views of views", kFused,
       [](Graph& g, const Sources& s) {
         const Value heads = slice(g, fused(g, s), {4, 6, 32}, {192, 32, 1}, 0);
         const Value some = slice(g, heads, {4, 3, 32}, {192, 64, 1}, 32);
         const Value last = slice(g, some, {4, 32}, {192, 1}, 128);
         return Roots{{squares(g, product(g, some, some)), {}}, {squares(g, last), {}}};
       }},
      {"heads that alternate", kFused,
       [](Graph& g, const Sources& s) {
         const Value y = fused(g, s);
         const auto part = [&](std::int64_t p) { return slice(g, y, {4, 2, 32}, {192, 96, 1}, 32 * p); };
         return Roots{{squares(g, sum(g, product(g, part(0), part(1)), part(2))), {}}};
       }},
      {"a matrix seen across, whole and in part", kFused,
       [](Graph& g, const Sources& s) {
         const Value y = fused(g, s);
         const Value across = slice(g, y, {192, 4}, {1, 192}, 0);
         const Value part = slice(g, y, {64, 4}, {1, 192}, 32);
         const Value z = ops::matmul(g, across, s.at("x"), {});
         return Roots{{squares(g, z), {}}, {squares(g, product(g, part, slice(g, across, {64, 4}, {1, 192}, 64))), {}}};
       }},
      {"only seen across", kFused,
       [](Graph& g, const Sources& s) {
         const Value across = slice(g, fused(g, s), {192, 4}, {1, 192}, 0);
         return Roots{{squares(g, product(g, across, across)), {}}};
       }},
      {"a row broadcast over rows", kFused,
       [](Graph& g, const Sources& s) {
         const Value y = fused(g, s);
         const Value row = slice(g, s.at("w"), {4, 192}, {0, 1}, 192 * 3);
         return Roots{{squares(g, sum(g, product(g, y, row), y)), {}}};
       }},
      {"a column broadcast over columns", kFused,
       [](Graph& g, const Sources& s) {
         const Value column = slice(g, s.at("x"), {4, 192}, {64, 0}, 32);
         return Roots{{squares(g, product(g, fused(g, s), column)), {}}};
       }},
      {"heads broadcast in the middle, rows too", kFused,
       [](Graph& g, const Sources& s) {
         const Value heads = slice(g, fused(g, s), {4, 2, 3, 32}, {192, 96, 32, 1}, 0);
         const Value shared = slice(g, s.at("x"), {4, 2, 3, 32}, {64, 32, 0, 1}, 0);
         const Value one = slice(g, s.at("w"), {4, 2, 3, 32}, {0, 192, 0, 1}, 32);
         return Roots{{squares(g, sum(g, product(g, heads, shared), one)), {}}};
       }},
      {"a broadcast value that is read plainly too", kPair,
       [](Graph& g, const Sources& s) {
         const Value row = slice(g, s.at("y"), {4, 64}, {0, 1}, 64);
         return Roots{{squares(g, product(g, s.at("x"), row)), {}}, {squares(g, s.at("y")), {}}};
       }},
      {"every second and every third element", kPair,
       [](Graph& g, const Sources& s) {
         const Value y = product(g, s.at("x"), s.at("y"));
         const Value second = slice(g, y, {100}, {2}, 0);
         const Value third = slice(g, y, {70}, {3}, 32);
         return Roots{{squares(g, second), {}}, {squares(g, third), {}}};
       }},
      {"every second and every third element of a weight", kPair,
       [](Graph& g, const Sources& s) {
         const Value second = slice(g, s.at("x"), {70}, {2}, 0);
         const Value third = slice(g, s.at("x"), {70}, {3}, 32);
         return Roots{{squares(g, product(g, second, third)), {}}};
       }},
      {"a run of elements that begins within a row", kPair,
       [](Graph& g, const Sources& s) {
         const Value y = product(g, s.at("x"), s.at("y"));
         return Roots{{squares(g, slice(g, y, {99}, {1}, 32)), {}}, {squares(g, columns(g, y, 32, 2)), {}}};
       }},
      {"a norm with a residual, both of one value", kFused,
       [](Graph& g, const Sources& s) {
         const Value y = fused(g, s);
         ops::RmsNormOptions options;
         options.residual = columns(g, y, 64, 64);
         const auto norm = ops::rms_norm(g, columns(g, y, 0, 64), slice(g, s.at("w"), {64}, {1}, 32), options);
         return Roots{{squares(g, product(g, norm.y, norm.sum)), {}}};
       }},
      {"a residual that is the value itself", kPair,
       [](Graph& g, const Sources& s) {
         const Value y = product(g, s.at("x"), s.at("y"));
         ops::RmsNormOptions options;
         options.residual = y;
         const auto norm = ops::rms_norm(g, y, slice(g, s.at("y"), {64}, {1}, 64), options);
         return Roots{{squares(g, sum(g, norm.y, product(g, norm.sum, y))), {}}};
       }},
      {"one gradient for two values, one of which is given more before the other is read", kPair,
       [](Graph& g, const Sources& s) {
         const Value h = product(g, s.at("x"), s.at("y"));
         const Value p = product(g, h, s.at("y"));
         const Value u = product(g, h, h);
         ops::RmsNormOptions options;
         options.residual = h;
         const auto norm = ops::rms_norm(g, p, slice(g, s.at("y"), {64}, {1}, 64), options);
         return Roots{{squares(g, sum(g, norm.y, product(g, norm.sum, u))), {}}};
       }},
      {"a slice through a norm, and past it", kFused,
       [](Graph& g, const Sources& s) {
         const Value part = columns(g, fused(g, s), 64, 64);
         const auto norm = ops::rms_norm(g, part, slice(g, s.at("w"), {64}, {1}, 32), {});
         return Roots{{squares(g, product(g, norm.y, part)), {}}};
       }},
      {"parts put together", kPair,
       [](Graph& g, const Sources& s) {
         const Value both = g.buffer(make_desc(TERN_F32, {4, 128}));
         (void)copied(g, s.at("x"), columns(g, both, 0, 64));
         const Value right = copied(g, product(g, s.at("x"), s.at("y")), columns(g, g.latest(both), 64, 64));
         const Value all = g.latest(both);
         return Roots{{squares(g, product(g, all, all)), {}}, {squares(g, right), {}}};
       }},
      {"parts put together, and one of them overwritten", kPair,
       [](Graph& g, const Sources& s) {
         const Value both = g.buffer(make_desc(TERN_F32, {4, 128}));
         (void)copied(g, s.at("x"), columns(g, both, 0, 64));
         (void)copied(g, product(g, s.at("x"), s.at("y")), columns(g, g.latest(both), 64, 64));
         const Value before = ops::row_sum(g, g.latest(both), {});
         (void)copied(g, columns(g, s.at("y"), 0, 41), columns(g, g.latest(both), 32, 41));
         const Value after = ops::row_sum(g, g.latest(both), {});
         return Roots{{squares(g, before), {}}, {squares(g, product(g, after, after)), {}}};
       }},
      {"sums into slices, as adapters of a fused projection make", kFused,
       [](Graph& g, const Sources& s) {
         const Value y = fused(g, s);
         for (std::int64_t part : {0, 1}) {
           ops::MatmulOptions options;
           options.into = columns(g, g.latest(y), 64 * part, 64);
           (void)ops::matmul(g, s.at("x"), columns(g, s.at("w"), 32 * (3 - part), 64), options);
         }
         const Value all = g.latest(y);
         return Roots{{squares(g, product(g, columns(g, all, 0, 96), columns(g, all, 96, 96))), {}}};
       }},
      {"several losses, one used further", kPair,
       [](Graph& g, const Sources& s) {
         const Value a = squares(g, s.at("x"));
         const Value b = squares(g, s.at("y"));
         return Roots{{a, {}}, {b, {}}, {product(g, a, b), {}}};
       }},
      {"a loss that is named twice", kPair,
       [](Graph& g, const Sources& s) {
         const Value a = squares(g, product(g, s.at("x"), s.at("y")));
         return Roots{{a, {}}, {a, {}}};
       }},
      {"losses summed in place", kPair,
       [](Graph& g, const Sources& s) {
         const Value a = squares(g, s.at("x"));
         return Roots{{ops::sum_squares(g, product(g, s.at("x"), s.at("y")), a), {}}};
       }},
      {"a loss that is a sum of losses", kPair,
       [](Graph& g, const Sources& s) {
         ops::AxpbyOptions options;
         options.b = 0.5F;
         const Value both = ops::axpby(g, squares(g, s.at("x")), squares(g, s.at("y")), options);
         return Roots{{g.view(both, make_desc(TERN_F32, {1, 1}), 0), {}}};
       }},
      {"one number of many as a loss",
       {{"x", {64, 8}}, {"y", {64, 8}}},
       [](Graph& g, const Sources& s) {
         const Value sums = ops::row_sum(g, product(g, s.at("x"), s.at("y")), {});
         return Roots{{slice(g, sums, {1}, {1}, 0), {}}, {slice(g, sums, {1}, {1}, 32), {}}};
       }},
      {"gradients that the host gives", kFused,
       [](Graph& g, const Sources& s) {
         const Value y = fused(g, s);
         const Value z = product(g, columns(g, y, 0, 64), columns(g, y, 64, 64));
         return Roots{{z, host_made(g, "dz", {4, 64})}, {columns(g, y, 96, 50), host_made(g, "dpart", {4, 50})}};
       }},
      {"one gradient for three roots, one of them used further", kPair,
       [](Graph& g, const Sources& s) {
         const Value dz = host_made(g, "dz", {4, 64});
         const Value z = product(g, s.at("x"), s.at("y"));
         const Value u = product(g, z, s.at("x"));
         return Roots{{z, dz}, {u, dz}, {z, dz}};
       }},
      {"a root with a gradient in each of two shapes", kPair,
       [](Graph& g, const Sources& s) {
         const Value z = product(g, s.at("x"), s.at("y"));
         return Roots{{g.view(z, make_desc(TERN_F32, {256}), 0), host_made(g, "flat", {256})},
                      {slice(g, z, {64, 4}, {1, 64}, 0), host_made(g, "across", {64, 4})},
                      {squares(g, z), {}}};
       }},
      {"a weight as a root", kPair,
       [](Graph& g, const Sources& s) {
         return Roots{{s.at("x"), host_made(g, "given", {4, 64})}, {squares(g, columns(g, s.at("x"), 0, 20)), {}}};
       }},
  };
  return all;
}

TEST(GradientSlices, AreSlopes) {
  for (const GradientCase& made_of : cases()) {
    SCOPED_TRACE(made_of.name);
    GradientProgram program(made_of, open_sim());
    expect_slopes(program, made_of);
  }
}

void expect_same(GradientProgram& expected, GradientProgram& found, const GradientCase& made_of) {
  (void)expected.loss();
  (void)found.loss();
  for (const auto& [name, shape] : made_of.shapes) {
    const std::vector<float> a = expected.gradient(name);
    const std::vector<float> b = found.gradient(name);
    const double allowed = 1e-5 * largest(a);
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_NEAR(a[i], b[i], allowed) << name << "[" << i << "]";
    }
  }
}

TEST(GradientSlices, AreTheSameHoweverTheyAreMade) {
  const auto cpu = accel::Device::open(load_plugin("cpu"), 0).value();
  for (const GradientCase& made_of : cases()) {
    SCOPED_TRACE(made_of.name);
    GradientProgram expected(made_of, open_sim());
    for (const char* personality : {"discrete", "ascend", "graph", "embedded"}) {
      for (const bool recompute : {false, true}) {
        SCOPED_TRACE(std::string(personality) + (recompute ? ", recomputed" : ""));
        GradientOptions options;
        options.recompute = recompute;
        options.fresh = recompute;
        GradientProgram found(made_of, open_sim({{"TERN_SIM", personality}}), options);
        expect_same(expected, found, made_of);
      }
    }
    SCOPED_TRACE("cpu");
    GradientOptions options;
    GradientProgram native(made_of, cpu, options);
    expect_same(expected, native, made_of);
    options.fresh = true;
    options.program.bind.prefer_decomposition = true;
    GradientProgram decomposed(made_of, cpu, options);
    expect_same(expected, decomposed, made_of);
  }
}

}  // namespace
}  // namespace tern::test
