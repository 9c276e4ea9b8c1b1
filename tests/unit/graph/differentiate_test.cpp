// Gradients of small graphs against slopes of the same graph, each value's ways into the loss being the hard part.
#include "graph/differentiate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <stdexcept>

#include "graph/program.h"
#include "ops/adamw.h"
#include "ops/axpby.h"
#include "ops/gather_rows.h"
#include "ops/matmul.h"
#include "ops/mul.h"
#include "ops/rms_norm.h"
#include "ops/row_sum.h"
#include "ops/softcap.h"
#include "ops/sum_squares.h"
#include "tests/unit/backend_sim/sim_device.h"

namespace tern::test {
namespace {

using graph::Graph;
using ops::Value;

constexpr std::int64_t kRows = 3;
constexpr std::int64_t kWidth = 4;

// Makes the loss [1] from x [rows, width] and w [width, width].
using Build = std::function<Value(Graph&, Value x, Value w)>;

std::vector<float> data_of(std::size_t size, double phase) {
  std::vector<float> out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i) + phase));
  return out;
}

class Slopes {
 public:
  Slopes(const Build& build, bool recompute) : store_(std::make_shared<graph::TensorStore>(open_sim())) {
    Graph g;
    const Value x = g.constant("x", make_desc(TERN_F32, {kRows, kWidth}));
    const Value w = g.constant("w", make_desc(TERN_F32, {kWidth, kWidth}));
    const Value dx = g.resource("dx", make_desc(TERN_F32, {kRows, kWidth}));
    const Value dw = g.resource("dw", make_desc(TERN_F32, {kWidth, kWidth}));
    const Value loss = build(g, x, w);
    const std::vector<graph::RecomputeSegment> segments = {{0, static_cast<std::int32_t>(g.nodes().size()) - 1}};
    const std::vector<graph::GradTarget> targets = {{x, dx}, {w, dw}};
    const graph::Root roots[] = {{.value = loss}};
    (void)graph::differentiate(g, roots, targets, recompute ? segments : std::vector<graph::RecomputeSegment>{});
    g.output("loss", loss);
    for (const auto& [name, value] : {std::pair{"x", x}, {"w", w}, {"dx", dx}, {"dw", dw}}) {
      store_->create(name, g.desc(value));
    }
    put("x", data_of(kRows * kWidth, 0.3));
    put("w", data_of(kWidth * kWidth, 1.1));
    program_ = graph::Program::build(g, store_, choices_, {});
  }

  void check() {
    for (const char* name : {"x", "w"}) {
      const std::vector<float> at = get(name);
      (void)loss();
      const std::vector<float> grad = get(std::string("d") + name);
      for (std::size_t i = 0; i < at.size(); ++i) {
        double side[2] = {};
        constexpr float kStep = 0.01F;
        for (int s = 0; s < 2; ++s) {
          std::vector<float> moved = at;
          moved[i] += s == 0 ? kStep : -kStep;
          put(name, moved);
          side[s] = loss();
        }
        put(name, at);
        // A central difference errs by step^2 / 6 of the third derivative, and by the loss's rounding over the step.
        EXPECT_NEAR(grad[i], (side[0] - side[1]) / (2.0 * kStep), 5e-3 + 1e-3 * std::fabs(grad[i]))
            << name << "[" << i << "]";
      }
    }
  }

 private:
  void put(const std::string& name, const std::vector<float>& values) { store_->upload(name, bytes_of(values)); }
  std::vector<float> get(const std::string& name) {
    std::vector<float> out(static_cast<std::size_t>(num_elements(store_->at(name).desc)));
    store_->download(name, writable_bytes_of(out));
    return out;
  }
  double loss() {
    store_->fill_zero("dx");
    store_->fill_zero("dw");
    program_->run({});
    float value = 0.0F;
    std::memcpy(&value, program_->output("loss").data(), sizeof value);
    return value;
  }

  std::shared_ptr<graph::TensorStore> store_;
  accel::ChoiceCache choices_;
  std::unique_ptr<graph::Program> program_;
};

struct Shape {
  const char* name;
  Build build;
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {"a value times itself",
       [](Graph& g, Value x, Value w) { return ops::sum_squares(g, ops::matmul(g, ops::mul(g, x, x, {}), w, {})); }},
      {"a value added to itself",
       [](Graph& g, Value x, Value w) { return ops::sum_squares(g, ops::matmul(g, ops::axpby(g, x, x, {}), w, {})); }},
      {"a diamond",
       [](Graph& g, Value x, Value w) {
         const Value y = ops::matmul(g, x, w, {});
         ops::AxpbyOptions options;
         options.a = 2.0F;
         options.b = -0.5F;
         return ops::sum_squares(g, ops::mul(g, y, ops::axpby(g, y, x, options), {}));
       }},
      {"a weight used twice",
       [](Graph& g, Value x, Value w) { return ops::sum_squares(g, ops::matmul(g, ops::matmul(g, x, w, {}), w, {})); }},
      {"a weight used both ways",
       [](Graph& g, Value x, Value w) {
         ops::MatmulOptions back;
         back.transpose_b = true;
         return ops::sum_squares(g, ops::matmul(g, ops::matmul(g, x, w, {}), w, back));
       }},
      {"a view of another shape",
       [](Graph& g, Value x, Value w) {
         const Value y = ops::matmul(g, x, w, {});
         const Value flat = g.view(y, make_desc(TERN_F32, {kRows * kWidth, 1}), 0);
         const Value sums = ops::row_sum(g, y, {});
         const Value column = g.view(sums, make_desc(TERN_F32, {kRows, 1}), 0);
         return ops::sum_squares(g,
                                 ops::matmul(g, column, g.view(flat, make_desc(TERN_F32, {1, kRows * kWidth}), 0), {}));
       }},
      {"a product added to what is there",
       [](Graph& g, Value x, Value w) {
         ops::MatmulOptions options;
         options.into = ops::mul(g, x, x, {});
         return ops::sum_squares(g, ops::matmul(g, x, w, options));
       }},
      {"soft caps, one of a value that is read again",
       [](Graph& g, Value x, Value w) {
         const Value y = ops::matmul(g, x, w, {});
         const Value capped = ops::softcap(g, y, {.cap = 1.5F});
         return ops::sum_squares(g, ops::mul(g, y, ops::softcap(g, capped, {.cap = 0.8F}), {}));
       }},
      {"a residual through a norm, and past it",
       [](Graph& g, Value x, Value w) {
         const Value scale = g.view(w, make_desc(TERN_F32, {kWidth, kWidth}), 0);
         const Value y = ops::matmul(g, x, scale, {});
         const Value weight = ops::row_sum(g, ops::mul(g, w, w, {}), {});
         ops::RmsNormOptions options;
         options.residual = x;
         const auto norm = ops::rms_norm(g, y, weight, options);
         return ops::sum_squares(g, ops::axpby(g, norm.y, ops::mul(g, norm.sum, norm.sum, {}), {}));
       }},
  };
  return all;
}

TEST(Differentiate, GradientsAreSlopes) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.name);
    Slopes(shape.build, false).check();
  }
}

TEST(Differentiate, RecomputedGradientsAreSlopes) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.name);
    Slopes(shape.build, true).check();
  }
}

TEST(Graph, AnOverwrittenVersionIsNotRead) {
  Graph g;
  const TensorDesc desc = make_desc(TERN_F32, {4});
  const Value sum = g.resource("sum", desc);
  const Value x = g.input("x", desc);
  ops::AxpbyOptions options;
  options.into = sum;
  const Value next = ops::axpby(g, x, {}, options);
  EXPECT_EQ(g.latest(sum), next);
  EXPECT_THROW((void)ops::axpby(g, sum, x, {}), std::logic_error);
  EXPECT_NO_THROW((void)ops::axpby(g, next, x, {}));
  options.into = x;
  EXPECT_THROW((void)ops::axpby(g, next, {}, options), std::logic_error);  // an input is only read
  EXPECT_THROW((void)g.input("x", desc), std::logic_error);                // the name is taken
}

// Two optimizer steps in one program are two runs of a program with one.
TEST(Program, StatesAreCarriedWithinARunAndBetweenRuns) {
  const TensorDesc desc = make_desc(TERN_F32, {6});
  const auto run = [&](const char* personality, int steps, int runs) {
    Graph g;
    ops::AdamwState state{g.resource("param", desc), g.resource("m", desc), g.resource("v", desc), {}};
    const Value grad = g.input("grad", desc);
    const Value hyper = g.input("hyper", make_desc(TERN_F32, {10}));
    for (int s = 0; s < steps; ++s) {
      const ops::AdamwState next = ops::adamw(g, {state.param, state.m, state.v, {}}, grad, hyper);
      state = {next.param, next.m, next.v, {}};
    }
    auto store = std::make_shared<graph::TensorStore>(open_sim({{"TERN_SIM", personality}}));
    for (const char* name : {"param", "m", "v"}) {
      store->create(name, desc);
      store->fill_zero(name);
    }
    accel::ChoiceCache choices;
    const auto program = graph::Program::build(g, store, choices, {});
    const std::vector<float> grads = data_of(6, 0.2);
    const std::vector<float> hypers = {0.1F, 0.9F, 0.99F, 0.1F, 0.01F, 1e-8F, 0.01F, 0.1F, 0.01F, 1.0F};
    graph::RunInputs inputs;
    inputs.inputs = {{"grad", bytes_of(grads)}, {"hyper", bytes_of(hypers)}};
    for (int r = 0; r < runs; ++r) program->run(inputs);
    std::vector<float> out(6);
    store->download("param", writable_bytes_of(out));
    return out;
  };
  const std::vector<float> expected = run("discrete", 1, 4);
  for (const char* personality : {"discrete", "ascend", "graph", "embedded"}) {
    EXPECT_EQ(run(personality, 2, 2), expected) << personality;
    EXPECT_EQ(run(personality, 4, 1), expected) << personality;
  }
}

// Else the ops of the backward are given arguments whose rows must agree and are counted differently.
TEST(Differentiate, AGradientOfGatheredRowsCountsAsTheRowsDo) {
  Graph g;
  const Value x = g.input("x", with_dynamic(make_desc(TERN_F32, {kRows, kWidth}), 0, 2));
  const Value h = ops::mul(g, x, x, {});
  const Value index = g.input("index", make_desc(TERN_I32, {2}));
  const graph::Root roots[] = {{.value = ops::sum_squares(g, ops::gather_rows(g, h, index, 0))}};
  const std::vector<graph::GradTarget> targets = {{h, {}}};
  const TensorDesc& gradient = g.desc(graph::differentiate(g, roots, targets)[0]);
  EXPECT_EQ(gradient.dynamic_dim, 0);
  EXPECT_EQ(gradient.count_slot, 2);
}

}  // namespace
}  // namespace tern::test
