// One graph, the same numbers on every device, whatever way it is bound, ordered, split or placed.
#include <gtest/gtest.h>

#include "base/log.h"
#include "tests/unit/graph/tiny_model.h"

namespace tern::test {
namespace {

// fp32 sums in another order over at most a few dozen terms, through two layers.
constexpr double kTolerance = 2e-5;

accel::DevicePtr open_cpu() { return accel::Device::open(load_plugin("cpu"), 0).value(); }

Environment sim(const char* personality, int seed = 0) {
  return {{"TERN_SIM", personality}, {"TERN_SIM_SEED", std::to_string(seed)}};
}

const Results& on_cpu() {
  static const Results results = [] {
    TinyProgram program(open_cpu(), {});
    program.run(Batch::of({5, 6}));
    program.run(Batch::of({3, 9, 4}, 2));
    return program.results();
  }();
  return results;
}

Results run_both(TinyProgram& program) {
  program.run(Batch::of({5, 6}));
  program.run(Batch::of({3, 9, 4}, 2));
  return program.results();
}

TEST(Program, EveryPersonalityAgreesWithTheCpu) {
  for (const char* personality : {"discrete", "ascend", "graph", "embedded"}) {
    for (int seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(personality);
      TinyProgram program(open_sim(sim(personality, seed)), {});
      EXPECT_LT(distance(on_cpu(), run_both(program)), kTolerance);
    }
  }
}

TEST(Program, EveryPersonalityFusesResidualsAlike) {
  TinyOptions options;
  options.fused_residual = true;
  for (const char* personality : {"discrete", "ascend", "graph", "embedded"}) {
    SCOPED_TRACE(personality);
    TinyProgram program(open_sim(sim(personality)), options);
    EXPECT_LT(distance(on_cpu(), run_both(program)), kTolerance);
  }
}

TEST(Program, GradientsAreSlopesOfTheLoss) {
  TinyOptions options;
  options.fused_residual = true;
  TinyProgram program(open_sim(), options);
  const Batch batch = Batch::of({5, 6});
  program.run(batch);
  const Results grads = program.results();
  for (const std::string& name : program.model().trained) {
    const std::vector<float>& grad = grads.at("grad." + name);
    std::vector<float> weight = program.stored(name);
    double squares = 0.0;
    for (float g : grad) squares += static_cast<double>(g) * g;
    const double length = std::sqrt(squares);
    ASSERT_GT(length, 0.0) << name;
    // Along the gradient the slope is its length.
    const double step = 2e-3;
    double losses[2] = {};
    for (int side = 0; side < 2; ++side) {
      std::vector<float> moved = weight;
      for (std::size_t i = 0; i < moved.size(); ++i) {
        moved[i] += static_cast<float>((side == 0 ? step : -step) * grad[i] / length);
      }
      program.store().upload(name, bytes_of(moved));
      program.run(batch);
      losses[side] = program.output("loss")[0];
    }
    program.store().upload(name, bytes_of(weight));
    EXPECT_NEAR((losses[0] - losses[1]) / (2 * step) / length, 1.0, 2e-2) << name;
  }
}

TEST(Program, CapturedIsEager) {
  for (const char* personality : {"discrete", "ascend"}) {
    SCOPED_TRACE(personality);
    TinyProgram eager(open_sim(sim(personality)), {});
    graph::ProgramOptions options;
    options.capture = true;
    TinyProgram captured(open_sim(sim(personality)), {}, options);
    for (int run = 0; run < 2; ++run) EXPECT_EQ(run_both(eager), run_both(captured));
  }
}

TEST(Program, DecomposedIsNative) {
  graph::ProgramOptions options;
  options.bind.prefer_decomposition = true;
  TinyProgram decomposed(open_sim(), {}, options);
  EXPECT_LT(distance(on_cpu(), run_both(decomposed)), kTolerance);
  bool any = false;
  for (const graph::BindingRow& row : decomposed.program().bindings()) any = any || row.how == "decomposed";
  EXPECT_TRUE(any);
}

TEST(Program, RecomputedIsKept) {
  TinyOptions options;
  options.layers = 4;
  TinyProgram kept(open_sim(), options);
  options.recompute = true;
  TinyProgram recomputed(open_sim(), options);
  EXPECT_EQ(run_both(kept), run_both(recomputed));
  EXPECT_LT(recomputed.program().memory().live_peak, kept.program().memory().live_peak);
}

TEST(Program, AnySplitGivesTheSameGradient) {
  for (float rate : {0.0F, 0.05F}) {
    TinyOptions options;
    options.dropout = rate;
    TinyProgram together(open_sim(), options);
    together.run(Batch::of({5, 3, 7}));
    TinyProgram apart(open_sim(), options);
    apart.run(Batch::of({5}));
    apart.run(Batch::of({3, 7}, 1));
    Results a = together.results();
    Results b = apart.results();
    for (const char* name : {"loss", "hidden"}) {  // of the last run alone
      a.erase(name);
      b.erase(name);
    }
    EXPECT_LT(distance(a, b), kTolerance) << rate;
  }
}

TEST(Program, WhatTheDeviceCannotRunsOnTheHost) {
  TinyOptions options;
  options.dropout = 0.25F;
  const auto device = open_sim(sim("embedded"));  // draws no random bits
  const std::string forbidden = failure_of([&] { TinyProgram program(device, options); });
  EXPECT_TRUE(contains(forbidden, "op dropout on sim:0")) << forbidden;
  EXPECT_TRUE(contains(forbidden, "--fallback")) << forbidden;
  graph::ProgramOptions fallback;
  fallback.bind.fallback = graph::Fallback::warn;
  const std::string nowhere = failure_of([&] { TinyProgram program(device, options, fallback, device); });
  EXPECT_TRUE(contains(nowhere, "op dropout on sim:0: expected a kernel of the device or of sim:0, found ")) << nowhere;
  EXPECT_TRUE(contains(nowhere, "; choose another --device or --torch_dtype")) << nowhere;
  TinyProgram mixed(device, options, fallback, open_cpu());
  TinyProgram whole(open_cpu(), options);
  EXPECT_LT(distance(run_both(whole), run_both(mixed)), kTolerance);
  int on_host = 0;
  for (const graph::BindingRow& row : mixed.program().bindings()) on_host += row.how == "host" ? row.calls : 0;
  EXPECT_EQ(on_host, 4);  // a dropout a layer, forward and backward
}

TEST(Program, MemoryIsWhatWasPredicted) {
  for (const char* personality : {"discrete", "ascend", "graph", "embedded"}) {
    SCOPED_TRACE(personality);
    const auto device = open_sim(sim(personality));
    TinyProgram program(device, {});
    (void)run_both(program);
    const graph::MemoryReport& report = program.program().memory();
    EXPECT_EQ(device->memory().peak_by_process, program.store().bytes() + report.arenas + report.library);
    EXPECT_LE(report.live_peak, report.arenas);
    EXPECT_LE(report.arenas, 2 * report.live_peak);
  }
}

TEST(Program, PacksFollowTheirWeights) {
  const auto device = open_sim(sim("ascend"));
  TinyOptions options;
  options.train = false;
  TinyProgram packed(device, options);
  graph::ProgramOptions unpacked_options;
  unpacked_options.pack_weights = false;
  TinyProgram unpacked(device, options, unpacked_options);
  EXPECT_GT(packed.store().bytes(), unpacked.store().bytes());
  const Batch batch = Batch::of({5, 6});
  for (int round = 0; round < 2; ++round) {
    packed.run(batch);
    unpacked.run(batch);
    EXPECT_EQ(packed.output("loss"), unpacked.output("loss"));
    const std::string name = "layer0.q";
    std::vector<float> moved = packed.stored(name);
    for (float& value : moved) value = -value;
    packed.store().upload(name, bytes_of(moved));
    unpacked.store().upload(name, bytes_of(moved));
  }
}

TEST(Program, FaultsEndTheRunWithAClearError) {
  for (const auto& [fault, expected] :
       {std::pair{"oom@3", "expected enough device memory"}, std::pair{"async@20", "asynchronous error"},
        std::pair{"lost@20", "device lost"}}) {
    SCOPED_TRACE(fault);
    const std::string found = failure_of([&, f = fault] {
      TinyProgram program(open_sim({{"TERN_SIM_FAULT", f}}), {});
      (void)run_both(program);
    });
    EXPECT_TRUE(contains(found, expected)) << found;
  }
}

// A run that fails leaves nothing queued that would use the program's memory after it.
TEST(Program, AFailedRunComesToRest) {
  std::string warnings;
  set_log_sink([&](LogLevel, std::string_view line) { warnings += line; });
  TinyOptions options;
  options.comm_lane = true;
  for (int seed = 0; seed < 16; ++seed) {
    Environment environment = sim("discrete", seed);
    environment["TERN_SIM_FAULT"] = "async@5";
    EXPECT_NE(failure_of([&] {
                TinyProgram program(open_sim(environment), options);
                program.run(Batch::of({5, 6}));
              }),
              "");
  }
  set_log_sink({});
  EXPECT_EQ(warnings, "");
}

// Each event that the planner emits matters: without it some legal order gives other numbers or an error.
TEST(Program, EveryEventIsNeeded) {
  TinyOptions options;
  options.layers = 1;
  options.comm_lane = true;
  const Batch first = Batch::of({5, 6});
  const Batch second = Batch::of({3, 9, 4}, 2);
  const auto run = [&](int seed, std::int32_t drop) {
    graph::ProgramOptions program_options;
    program_options.drop_wait = drop;
    TinyProgram program(open_sim(sim("discrete", seed)), options, program_options);
    program.run(first);
    program.run(second);
    return program.results();
  };
  TinyProgram whole(open_sim(), options);
  const std::int32_t waits = whole.program().num_waits();
  EXPECT_GE(waits, 10);  // after uploads, to the communication lane and back, before downloads
  const Results expected = run(0, -1);
  EXPECT_LT(distance(expected, run_both(whole)), 1e-12);
  for (int seed = 1; seed < 16; ++seed) EXPECT_EQ(run(seed, -1), expected) << "seed " << seed;
  for (std::int32_t wait = 0; wait < waits; ++wait) {
    bool visible = false;
    for (int seed = 0; seed < 64 && !visible; ++seed) {
      visible = failure_of([&] { visible = run(seed, wait) != expected; }) != "" || visible;
    }
    EXPECT_TRUE(visible) << "wait " << wait << " of " << waits;
  }
}

}  // namespace
}  // namespace tern::test
