// A run that ends in a NaN is told where the first one came from.
#include "graph/finite_probe.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "graph/program.h"
#include "ops/matmul.h"
#include "ops/mul.h"
#include "tests/unit/graph/tiny_program.h"

namespace tern::test {
namespace {

using graph::FiniteProbe;
using graph::NonFinite;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
std::span<const std::byte> bytes(const T& values) {
  return std::as_bytes(std::span(values));
}

TEST(FirstNonFinite, ReadsEveryKindOfFloatAndNothingElse) {
  const std::array<float, 4> plain = {1, -2, 3e38F, 0};
  EXPECT_FALSE(graph::first_non_finite(make_desc(TERN_F32, {2, 2}), bytes(plain)));
  const std::array<float, 4> bad = {1, -2, -kInf, kNan};
  EXPECT_EQ(graph::first_non_finite(make_desc(TERN_F32, {2, 2}), bytes(bad)), -kInf);
  EXPECT_FALSE(graph::first_non_finite(make_desc(TERN_F32, {2}), bytes(bad))) << "only what the shape holds";
  EXPECT_FALSE(graph::first_non_finite(make_desc(TERN_I32, {4}), bytes(bad)));
  EXPECT_FALSE(graph::first_non_finite(make_desc(TERN_F32, {0, 2}), bytes(bad)));
  const std::array<std::uint16_t, 2> half = {float_to_fp16(1), float_to_fp16(70000)};
  EXPECT_EQ(graph::first_non_finite(make_desc(TERN_F16, {2}), bytes(half)), kInf);
  const std::array<std::uint16_t, 2> brain = {float_to_bf16(1), float_to_bf16(kNan)};
  EXPECT_TRUE(std::isnan(graph::first_non_finite(make_desc(TERN_BF16, {2}), bytes(brain)).value()));
}

TEST(FirstNonFinite, FollowsStrides) {
  std::array<float, 12> values{};
  values[3] = kNan;  // between the rows of three columns out of four
  TensorDesc desc = make_desc(TERN_F32, {3, 3});
  desc.strides[0] = 4;
  EXPECT_FALSE(graph::first_non_finite(desc, bytes(values)));
  values[10] = kInf;  // row 2, column 2
  EXPECT_EQ(graph::first_non_finite(desc, bytes(values)), kInf);
}

// y = (x w^T)^2: three rows planned, two given.
struct Probed {
  Probed(float input, float weight) {
    const auto cpu = accel::Device::open(load_plugin("cpu"), 0).value();
    auto store = std::make_shared<graph::TensorStore>(cpu);
    store->create("w", make_desc(TERN_F32, {2, 2}));
    const std::array<float, 4> weights = {weight, 1, 1, 1};
    store->upload("w", bytes(weights));
    Graph graph;
    const Value x = graph.input("x", with_dynamic(make_desc(TERN_F32, {3, 2}), 0, 0));
    ops::MatmulOptions product;
    product.transpose_b = true;
    const Value y = ops::matmul(graph, x, graph.constant("w", make_desc(TERN_F32, {2, 2})), product);
    graph.output("y", ops::mul(graph, y, y, {}));
    graph::ProgramOptions options;
    options.probe = probe;
    accel::ChoiceCache choices;
    const auto program = graph::Program::build(graph, store, choices, options);
    graph::RunInputs run;
    const std::array<float, 4> rows = {input, 0, 1, 1};
    run.inputs["x"] = bytes(rows);
    run.counts[0] = 2;
    program->run(run);
  }
  std::shared_ptr<FiniteProbe> probe = std::make_shared<FiniteProbe>();
};

TEST(FiniteProbe, NamesTheOpThatBeganIt) {
  EXPECT_FALSE(Probed(1, 1).probe->first());
  const auto product = Probed(3e38F, 10).probe->first();
  ASSERT_TRUE(product);
  EXPECT_EQ(product->text(), "op matmul of w first gives inf");
  const auto square = Probed(1e30F, 1).probe->first();
  ASSERT_TRUE(square);
  EXPECT_EQ(square->text(), "op mul after w first gives inf");
  const auto weight = Probed(1, kNan).probe->first();
  ASSERT_TRUE(weight);
  EXPECT_EQ(weight->text(), "the weight w holds nan");
}

TEST(NonFinite, TellsOpsWithoutWeightsByThoseBefore) {
  EXPECT_EQ((NonFinite{"attention", "v_proj.weight", -kInf, false}).text(),
            "op attention after v_proj.weight first gives -inf");
  EXPECT_EQ((NonFinite{"mul", "", -kNan, false}).text(), "op mul first gives nan");
}

}  // namespace
}  // namespace tern::test
