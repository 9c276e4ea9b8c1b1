// Outputs that are written upon a part of what exists. If these fail, they land elsewhere, or a graph reads memory that
// nothing has written.
#include <gtest/gtest.h>

#include <cstring>

#include "graph/bind.h"
#include "ops/act_mul.h"
#include "ops/axpby.h"
#include "ops/build.h"
#include "ops/dropout.h"
#include "ops/fill.h"
#include "ops/kv_write.h"
#include "ops/mul.h"
#include "ops/rms_norm.h"
#include "ops/sum_squares.h"
#include "tests/unit/graph/gradient_case.h"

namespace tern::test {
namespace {

const TensorDesc kMatrix = make_desc(TERN_F32, {4, 64});

std::string logic_error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return {};
}

TEST(Placed, ABufferIsReadAfterItIsWritten) {
  Graph g;
  const Value x = g.input("x", kMatrix);
  const Value both = g.buffer(make_desc(TERN_F32, {4, 128}));
  EXPECT_TRUE(contains(logic_error_of([&] { (void)ops::axpby(g, columns(g, both, 0, 64), x, {}); }),
                       "which nothing has written"));
  EXPECT_TRUE(contains(
      logic_error_of([&] { (void)ops::axpby(g, x, {}, {.a = 1.0F, .b = 0.0F, .into = columns(g, both, 0, 64)}); }),
      "which nothing has written"));
  const Value left = ops::cast_copy(g, x, {.at = columns(g, both, 0, 64)});
  EXPECT_EQ(g.info(left).storage, g.info(both).storage);
  EXPECT_NO_THROW((void)ops::axpby(g, g.latest(both), {}, {}));
  EXPECT_THROW((void)ops::axpby(g, both, {}, {}), std::logic_error);  // an earlier version
  // A place has the output's shape and dtype, and is no input of the graph.
  const auto add_at = [&](Value at, const TensorDesc& out) {
    ops::CallBuilder call(TERN_OP_MUL);
    (void)call.in(TERN_MUL_X, x).in(TERN_MUL_Y, x).in(TERN_MUL_OUT, at).out(TERN_MUL_OUT, out).emit(g);
  };
  EXPECT_THROW(add_at(columns(g, g.latest(both), 0, 64), kMatrix), std::logic_error);  // other strides
  EXPECT_THROW(add_at(x, kMatrix), std::logic_error);
}

TEST(Placed, LatestIsTheSamePlace) {
  Graph g;
  const Value x = g.input("x", kMatrix);
  const Value both = g.buffer(make_desc(TERN_F32, {4, 128}));
  (void)ops::cast_copy(g, x, {.at = columns(g, both, 0, 64)});
  const Value right = ops::cast_copy(g, x, {.at = columns(g, g.latest(both), 64, 64)});
  EXPECT_EQ(g.latest(right), right);
  EXPECT_EQ(to_string(g.desc(g.latest(both))), to_string(g.desc(both)));
  EXPECT_EQ(g.info(g.latest(both)).offset, 0);
  EXPECT_EQ(g.info(g.latest(both)).version, 2);
}

TEST(Placed, AnOutputMovesOnlyWhereNobodyHasSeenIt) {
  Graph g;
  const Value x = g.input("x", kMatrix);
  const Value both = g.buffer(make_desc(TERN_F32, {4, 128}));
  const Value read = ops::mul(g, x, x, {});
  (void)ops::axpby(g, read, x, {});
  EXPECT_FALSE(g.write_at(read, columns(g, both, 0, 64)));
  const Value viewed = ops::mul(g, x, x, {});
  (void)columns(g, viewed, 0, 32);
  EXPECT_FALSE(g.write_at(viewed, columns(g, both, 0, 64)));
  const Value shape = ops::mul(g, x, x, {});
  EXPECT_FALSE(g.write_at(shape, columns(g, both, 0, 32)));
  EXPECT_FALSE(g.write_at(x, columns(g, both, 0, 64)));  // no node made it
  const Value late = ops::mul(g, x, x, {});
  (void)ops::fill(g, {}, 0.0F, {.at = columns(g, both, 64, 64)});
  EXPECT_FALSE(g.write_at(late, columns(g, g.latest(both), 0, 64)));  // the place was written since
  const Value moved = ops::mul(g, x, x, {});
  EXPECT_TRUE(g.write_at(moved, columns(g, g.latest(both), 0, 64)));
  EXPECT_EQ(g.info(moved).storage, g.info(both).storage);
  EXPECT_EQ(g.latest(moved), moved);
}

// Two outputs of one call, each in columns of one buffer, on devices and on a host that runs the call in their stead.
TEST(Placed, TwoOutputsLieOnOneBuffer) {
  const auto cpu = accel::Device::open(load_plugin("cpu"), 0).value();
  Graph g;
  const Value gate = g.input("gate", kMatrix);
  const Value up = g.input("up", kMatrix);
  const Value dy = g.input("dy", kMatrix);
  const Value both = g.buffer(make_desc(TERN_F32, {4, 128}));
  const Value again = g.buffer(make_desc(TERN_F32, {4, 128}));
  const auto emit = [&](Value dgate, Value dup) {
    return ops::CallBuilder(TERN_OP_ACT_MUL_BACKWARD)
        .attrs(tern_act_mul_backward_attrs{TERN_ACT_SILU})
        .in(TERN_ACT_MUL_BACKWARD_DY, dy)
        .in(TERN_ACT_MUL_BACKWARD_GATE, gate)
        .in(TERN_ACT_MUL_BACKWARD_UP, up)
        .place(g, TERN_ACT_MUL_BACKWARD_DGATE, kMatrix, dgate)
        .place(g, TERN_ACT_MUL_BACKWARD_DUP, kMatrix, dup)
        .emit(g);
  };
  (void)emit(columns(g, both, 0, 64), columns(g, both, 64, 64));
  const std::vector<Value> moved = emit({}, {});
  ASSERT_TRUE(g.write_at(moved[TERN_ACT_MUL_BACKWARD_DUP], columns(g, again, 64, 64)));
  ASSERT_TRUE(g.write_at(moved[TERN_ACT_MUL_BACKWARD_DGATE], columns(g, g.latest(again), 0, 64)));
  const std::vector<Value> plain = emit({}, {});
  g.output("both", g.latest(both));
  g.output("again", g.latest(again));
  g.output("dgate", plain[TERN_ACT_MUL_BACKWARD_DGATE]);
  g.output("dup", plain[TERN_ACT_MUL_BACKWARD_DUP]);
  const Graph live = graph::remove_dead_nodes(g);
  for (const char* name : {"discrete", "graph", "ascend", "embedded", "cpu", "decomposed"}) {
    SCOPED_TRACE(name);
    const bool on_cpu = std::string(name) == "cpu" || std::string(name) == "decomposed";
    auto store = std::make_shared<graph::TensorStore>(on_cpu ? cpu : open_sim({{"TERN_SIM", name}}));
    graph::ProgramOptions options;
    options.bind.prefer_decomposition = std::string(name) == "decomposed";
    accel::ChoiceCache choices;
    const auto program = graph::Program::build(live, store, choices, options);
    const std::vector<float> a = wave(256, 0.1), b = wave(256, 0.2), c = wave(256, 0.3);
    graph::RunInputs inputs;
    inputs.inputs = {{"gate", bytes_of(a)}, {"up", bytes_of(b)}, {"dy", bytes_of(c)}};
    program->run(inputs);
    const auto get = [&](const char* output) {
      const auto bytes = program->output(output);
      std::vector<float> out(bytes.size() / sizeof(float));
      std::copy(bytes.begin(), bytes.end(), writable_bytes_of(out).begin());
      return out;
    };
    const auto dgate = get("dgate"), dup = get("dup");
    for (const char* output : {"both", "again"}) {
      const auto found = get(output);
      for (std::size_t i = 0; i < 256; ++i) {
        ASSERT_EQ(found[i / 64 * 128 + i % 64], dgate[i]) << output << " " << i;
        ASSERT_EQ(found[i / 64 * 128 + 64 + i % 64], dup[i]) << output << " " << i;
      }
    }
  }
}

// A device without the op: the host writes tensors of its own, and what lies between the columns stays.
TEST(Placed, TheHostLeavesTheOtherColumns) {
  const auto cpu = accel::Device::open(load_plugin("cpu"), 0).value();
  Graph g;
  const Value x = g.input("x", kMatrix);
  const Value keys = g.input("keys", make_desc(TERN_I64, {4}));
  const Value both = g.buffer(make_desc(TERN_F32, {4, 128}));
  for (std::int64_t first : {64, 0}) {
    (void)ops::CallBuilder(TERN_OP_DROPOUT)
        .attrs(tern_dropout_attrs{0.0F, 1})
        .in(TERN_DROPOUT_X, x)
        .in(TERN_DROPOUT_KEYS, keys)
        .place(g, TERN_DROPOUT_Y, kMatrix, columns(g, g.latest(both), first, 64))
        .emit(g);
  }
  g.output("both", g.latest(both));
  auto store = std::make_shared<graph::TensorStore>(open_sim({{"TERN_SIM", "embedded"}}));
  graph::ProgramOptions options;
  options.bind.fallback = graph::Fallback::allow;
  accel::ChoiceCache choices;
  const auto program = graph::Program::build(g, store, choices, options, cpu);
  const std::vector<float> values = wave(256, 0.1);
  const std::vector<std::int64_t> numbers(4, 7);
  graph::RunInputs inputs;
  inputs.inputs = {{"x", bytes_of(values)}, {"keys", bytes_of(numbers)}};
  program->run(inputs);
  const auto bytes = program->output("both");
  std::vector<float> found(bytes.size() / sizeof(float));
  std::copy(bytes.begin(), bytes.end(), writable_bytes_of(found).begin());
  for (std::size_t i = 0; i < 512; ++i) ASSERT_EQ(found[i], values[i / 128 * 64 + i % 64]) << i;
  bool on_host = false;
  for (const graph::BindingRow& row : program->bindings()) on_host = on_host || row.how == "host";
  EXPECT_TRUE(on_host) << "the device has learnt dropout: ask for something else that it lacks";
}

// A target may be a part of a weight, share its `into` with another one, or be computed.
TEST(GradientTargets, MayBeAnything) {
  for (const char* personality : {"discrete", "graph"}) {
    Graph g;
    const Value w = g.constant("w", kMatrix);
    const Value dw = g.resource("dw", make_desc(TERN_F32, {8, 64}));
    const Value y = ops::mul(g, w, w, {});
    const Value z = ops::mul(g, y, w, {});
    const std::vector<graph::Root> roots = {{ops::sum_squares(g, rows(g, z, 0, 3)), {}}};
    const std::vector<graph::GradTarget> targets = {{rows(g, w, 0, 2), rows(g, dw, 0, 2)},
                                                    {rows(g, w, 1, 3), rows(g, dw, 4, 3)},
                                                    {y, {}},
                                                    {rows(g, w, 3, 1), {}},
                                                    {z, {}}};
    const std::vector<Value> grads = graph::differentiate(g, roots, targets);
    ASSERT_TRUE(grads[2].present() && grads[3].present() && grads[4].present());
    g.output("dy", grads[2]);
    g.output("dlast", grads[3]);
    g.output("dz", grads[4]);
    auto store = std::make_shared<graph::TensorStore>(open_sim({{"TERN_SIM", personality}}));
    store->create("w", kMatrix);
    store->create("dw", make_desc(TERN_F32, {8, 64}));
    const std::vector<float> values = wave(256, 0.4);
    const std::vector<float> held(512, 1.0F);
    store->upload("w", bytes_of(values));
    store->upload("dw", bytes_of(held));
    accel::ChoiceCache choices;
    const auto program = graph::Program::build(g, store, choices, {});
    program->run({});
    std::vector<float> found(512);
    store->download("dw", writable_bytes_of(found));
    const auto output = [&](const char* name) {
      const auto bytes = program->output(name);
      std::vector<float> out(bytes.size() / sizeof(float));
      std::copy(bytes.begin(), bytes.end(), writable_bytes_of(out).begin());
      return out;
    };
    const auto d_y = output("dy"), last = output("dlast"), d_z = output("dz");
    // z = w^3, loss = sum of w^6 over the first three rows.
    for (std::size_t i = 0; i < 256; ++i) {
      const double x = values[i];
      const double used = i < 192 ? 1.0 : 0.0;
      const double expected = used * 6.0 * std::pow(x, 5);
      if (i < 128) {
        ASSERT_NEAR(found[i], 1.0 + expected, 1e-5) << i;
      }
      if (i >= 64) {
        ASSERT_NEAR(found[i + 192], 1.0 + expected, 1e-5) << i;
      }
      if (i >= 192) {
        ASSERT_EQ(last[i - 192], 0.0F) << i;
      }
      ASSERT_NEAR(d_z[i], used * 2.0 * std::pow(x, 3), 1e-5) << i;
      ASSERT_NEAR(d_y[i], used * 2.0 * std::pow(x, 4), 1e-5) << i;
    }
    for (std::size_t i = 128; i < 256; ++i) ASSERT_EQ(found[i], 1.0F) << i;  // nobody's rows
  }
}

// A norm hands the gradient of its sum on as it is: what is added to it further down is not what was asked for.
TEST(GradientTargets, StayAsTheyWereFound) {
  Graph g;
  const Value x = g.constant("x", kMatrix);
  const Value given = ops::axpby(g, g.input("given", kMatrix), {}, {});
  const Value h = ops::mul(g, x, x, {});
  const Value u = ops::mul(g, h, h, {});
  ops::RmsNormOptions options;
  options.residual = g.input("residual", kMatrix);
  const Value sum = ops::rms_norm(g, h, g.input("weight", make_desc(TERN_F32, {64})), options).sum;
  const std::vector<graph::Root> roots = {{sum, given}, {ops::sum_squares(g, u), {}}};
  const std::vector<graph::GradTarget> targets = {{sum, {}}, {x, {}}};
  const std::vector<Value> grads = graph::differentiate(g, roots, targets);
  g.output("dsum", grads[0]);
  g.output("dx", grads[1]);
  g.output("given", given);
  auto store = std::make_shared<graph::TensorStore>(open_sim());
  store->create("x", kMatrix);
  const std::vector<float> values = wave(256, 0.4), upstream = wave(256, 0.9);
  store->upload("x", bytes_of(values));
  accel::ChoiceCache choices;
  const auto program = graph::Program::build(g, store, choices, {});
  graph::RunInputs inputs;
  const std::vector<float> weight(64, 1.0F);
  inputs.inputs = {{"given", bytes_of(upstream)}, {"residual", bytes_of(values)}, {"weight", bytes_of(weight)}};
  program->run(inputs);
  for (const char* name : {"dsum", "given"}) {
    const auto bytes = program->output(name);
    EXPECT_EQ(std::memcmp(bytes.data(), upstream.data(), bytes.size()), 0) << name;
  }
  std::vector<float> dx(256);
  std::memcpy(dx.data(), program->output("dx").data(), 1024);
  for (std::size_t i = 0; i < 256; ++i) {
    const double at = values[i];
    ASSERT_NEAR(dx[i], 2.0 * at * upstream[i] + 8.0 * std::pow(at, 7), 1e-5) << i;
  }
}

TEST(GradientTargets, WhatHasNoGradientSaysSo) {
  Graph g;
  const Value x = g.constant("x", kMatrix);
  const Value y = ops::mul(g, x, x, {});
  const std::vector<graph::GradTarget> targets = {{x, {}}};
  const auto problem = [&](Value root, Value gradient) {
    return logic_error_of([&] { (void)graph::differentiate(g, std::vector<graph::Root>{{root, gradient}}, targets); });
  };
  EXPECT_TRUE(contains(problem(y, {}), "the loss is one number"));
  EXPECT_TRUE(contains(problem(y, g.input("g", make_desc(TERN_F32, {4, 63}))), "its gradient f32[4,63]"));
  const Value windows = ops::sum_squares(g, slice(g, y, {60, 4}, {1, 1}, 0));
  EXPECT_TRUE(contains(problem(windows, {}), "windows that overlap"));
  // What no target leads to is no matter: nothing is asked of it.
  const Value other = g.constant("other", kMatrix);
  EXPECT_FALSE(
      graph::differentiate(g, std::vector<graph::Root>{{ops::sum_squares(g, other), {}}}, targets)[0].present());
}

}  // namespace
}  // namespace tern::test
