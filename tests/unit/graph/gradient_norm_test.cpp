// Gradients through layer_norm, of its input, residual, weight and bias, against slopes.
#include <gtest/gtest.h>

#include "ops/axpby.h"
#include "ops/layer_norm.h"
#include "ops/mul.h"
#include "ops/sum_squares.h"
#include "tests/unit/graph/gradient_case.h"

namespace tern::test {
namespace {

using NormRoots = std::vector<graph::Root>;

constexpr std::int64_t kNormWidth = 10;
const std::map<std::string, std::vector<std::int64_t>> kNormShapes = {
    {"x", {6, kNormWidth}}, {"w", {kNormWidth}}, {"b", {kNormWidth}}};

// Rows whose spread is near that of eps, and whose mean is not 0.
ops::LayerNormOptions norm_options(Value bias) {
  ops::LayerNormOptions options;
  options.eps = 0.05F;
  options.bias = bias;
  return options;
}

std::vector<GradientCase> norm_cases() {
  return {
      {"a layer norm with a bias", kNormShapes,
       [](Graph& g, const Sources& s) {
         return NormRoots{
             {ops::sum_squares(g, ops::layer_norm(g, s.at("x"), s.at("w"), norm_options(s.at("b"))).y), {}}};
       }},
      {"a layer norm without a bias",
       {{"x", {6, kNormWidth}}, {"w", {kNormWidth}}},
       [](Graph& g, const Sources& s) {
         return NormRoots{{ops::sum_squares(g, ops::layer_norm(g, s.at("x"), s.at("w"), norm_options({})).y), {}}};
       }},
      {"a residual through a layer norm, and past it", kNormShapes,
       [](Graph& g, const Sources& s) {
         ops::LayerNormOptions options = norm_options(s.at("b"));
         options.residual = ops::mul(g, s.at("x"), s.at("x"), {});
         const auto norm = ops::layer_norm(g, s.at("x"), s.at("w"), options);
         return NormRoots{{ops::sum_squares(g, ops::axpby(g, norm.y, ops::mul(g, norm.sum, norm.sum, {}), {})), {}}};
       }},
      {"a layer norm that reads what others read, twice with one weight", kNormShapes,
       [](Graph& g, const Sources& s) {
         const Value once = ops::layer_norm(g, s.at("x"), s.at("w"), norm_options(s.at("b"))).y;
         const Value twice = ops::layer_norm(g, once, s.at("w"), norm_options(s.at("b"))).y;
         return NormRoots{{ops::sum_squares(g, ops::mul(g, twice, s.at("x"), {})), {}}};
       }},
      {"a layer norm whose gradient the host gives", kNormShapes,
       [](Graph& g, const Sources& s) {
         return NormRoots{{ops::layer_norm(g, s.at("x"), s.at("w"), norm_options(s.at("b"))).y,
                           host_made(g, "dy", {6, kNormWidth})}};
       }},
  };
}

TEST(GradientNorm, AreSlopes) {
  const auto cpu = accel::Device::open(load_plugin("cpu"), 0).value();
  for (const GradientCase& made_of : norm_cases()) {
    SCOPED_TRACE(made_of.name);
    for (const accel::DevicePtr& device : {open_sim(), cpu}) {
      GradientProgram program(made_of, device);
      expect_slopes(program, made_of);
    }
  }
}

// Everything as decompositions: rms_norm and sums of rows.
TEST(GradientNorm, AreTheSameWhenDecomposed) {
  const auto cpu = accel::Device::open(load_plugin("cpu"), 0).value();
  for (const GradientCase& made_of : norm_cases()) {
    SCOPED_TRACE(made_of.name);
    GradientProgram own(made_of, cpu);
    GradientOptions options;
    options.program.bind.prefer_decomposition = true;
    GradientProgram decomposed(made_of, cpu, options);
    EXPECT_NEAR(own.loss(), decomposed.loss(), 1e-5 * std::fabs(own.loss()) + 1e-6);
    for (const auto& [name, shape] : made_of.shapes) {
      const std::vector<float> a = own.gradient(name);
      const std::vector<float> b = decomposed.gradient(name);
      for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5 * largest(a)) << name << "[" << i << "]";
    }
  }
}

}  // namespace
}  // namespace tern::test
