// One graph, the same numbers on every device, whatever way it is bound, ordered, split or placed.
#include <gtest/gtest.h>

#include "base/log.h"
#include "tests/unit/graph/tiny_program.h"

namespace tern::test {
namespace {

// fp32 sums in another order over at most a few dozen terms, through two layers.
constexpr double kTolerance = 2e-5;

accel::DevicePtr open_cpu() { return accel::Device::open(load_plugin("cpu"), 0).value(); }

Environment sim(const char* personality, int seed = 0) {
  return {{"TERN_SIM", personality}, {"TERN_SIM_SEED", std::to_string(seed)}};
}

graph::ProgramOptions packing(graph::Packing how) {
  graph::ProgramOptions options;
  options.packing = how;
  return options;
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

// A soft cap has no decomposition: binding says which op, why, and what to do, before anything is planned.
TEST(Program, ASoftCapThatTheDeviceLacksIsToldAtBinding) {
  Graph graph;
  const TensorDesc rows = make_desc(TERN_F32, {4, 1, 16});
  const Value q = graph.input("q", rows);
  const Value bounds = graph.input("cu_seqlens", make_desc(TERN_I32, {2}), graph::Padding::repeat_last);
  ops::AttentionOptions options;
  options.softcap = 30.0F;
  options.max_seqlen_q = options.max_seqlen_k = 4;
  graph.output("out", ops::attention(graph, q, q, q, bounds, bounds, options).out);
  accel::ChoiceCache choices;
  EXPECT_EQ(failure_of([&] { (void)graph::plan_program(graph, open_sim(sim("ascend")), choices, {}); }),
            "op attention(f32[4,1,16], f32[4,1,16], f32[4,1,16], i32[2], i32[2], f32[4,1,16], f32[4,1]) on sim:0 has "
            "neither a kernel nor a decomposition: attention: the fused attention has no soft "
            "cap; run it on the host with --fallback warn, or choose another --device.");
  EXPECT_EQ(failure_of([&] { (void)graph::plan_program(graph, open_sim(), choices, {}); }), "");
}

// A device whose attention takes no sinks trains them all the same.
TEST(Program, EveryPersonalityTrainsSinksAlike) {
  TinyOptions options;
  options.sinks = true;
  TinyProgram cpu(open_cpu(), options);
  const Results expected = run_both(cpu);
  for (const char* personality : {"discrete", "ascend", "graph", "embedded"}) {
    SCOPED_TRACE(personality);
    TinyProgram program(open_sim(sim(personality)), options);
    EXPECT_LT(distance(expected, run_both(program)), kTolerance);
    const auto& bindings = program.program().bindings();
    const auto is_split = [](const graph::BindingRow& row) {
      return row.op.rfind("attention", 0) == 0 &&
             row.why.find("the fused attention takes no sinks") != std::string::npos;
    };
    EXPECT_EQ(std::any_of(bindings.begin(), bindings.end(), is_split), std::string(personality) == "ascend");
  }
}

TEST(Program, GradientsAreSlopesOfTheLoss) {
  TinyOptions options;
  options.fused_residual = true;
  options.sinks = true;
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
    // An update that the device refuses is no failure: the launches are captured again.
    Environment refusing = sim(personality);
    refusing["TERN_SIM_FAULT"] = "update@1,update@3";
    TinyProgram again(open_sim(refusing), {}, options);
    TinyProgram alike(open_sim(sim(personality)), {});
    for (int run = 0; run < 3; ++run) EXPECT_EQ(run_both(alike), run_both(again));
  }
}

// Lanes are recorded together: what forks within a capture joins it again, and what runs before and after waits.
TEST(Program, ACaptureSpansLanes) {
  TinyOptions options;
  options.comm_lane = true;
  for (const char* personality : {"discrete", "ascend"}) {
    SCOPED_TRACE(personality);
    for (int seed = 0; seed < 16; ++seed) {
      TinyProgram eager(open_sim(sim(personality, seed)), options);
      graph::ProgramOptions capturing;
      capturing.capture = true;
      TinyProgram captured(open_sim(sim(personality, seed)), options, capturing);
      for (int run = 0; run < 2; ++run) EXPECT_EQ(run_both(eager), run_both(captured)) << seed;
      EXPECT_EQ(captured.program().num_captures(), 1);
    }
  }
}

// A run that does not end may have taken in new lengths that no captured launch has heard of.
TEST(Program, CapturedIsEagerAfterARunThatFailed) {
  graph::ProgramOptions options;
  options.capture = true;
  TinyOptions without_dropout;
  TinyProgram eager(open_sim(sim("ascend")), without_dropout);
  TinyProgram captured(open_sim(sim("ascend")), without_dropout, options);
  captured.run(Batch::of({5, 6}));
  EXPECT_THROW(captured.run_without("weights", Batch::of({3, 9, 4}, 2)), std::logic_error);
  captured.run(Batch::of({3, 9, 4}, 2));
  eager.run(Batch::of({5, 6}));
  eager.run(Batch::of({3, 9, 4}, 2));
  EXPECT_EQ(eager.results(), captured.results());
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
  EXPECT_TRUE(contains(forbidden, "op dropout(f32[16,24], i64[16], f32[16,24]) on sim:0")) << forbidden;
  EXPECT_TRUE(contains(forbidden, "--fallback")) << forbidden;
  graph::ProgramOptions fallback;
  fallback.bind.fallback = graph::Fallback::warn;
  const std::string nowhere = failure_of([&] { TinyProgram program(device, options, fallback, device); });
  EXPECT_TRUE(contains(nowhere, "op dropout(f32[16,24], i64[16], f32[16,24]) on sim:0 has no kernel (")) << nowhere;
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
    TinyProgram program(device, {}, packing(graph::Packing::always));
    (void)run_both(program);
    const graph::MemoryReport& report = program.program().memory();
    EXPECT_EQ(device->memory().peak_by_process,
              program.store().bytes() + report.arenas + report.library + report.context);
    EXPECT_LE(report.live_peak, report.arenas);
    EXPECT_LE(report.arenas, 2 * report.live_peak);
  }
}

TEST(Program, PacksFollowTheirWeights) {
  const auto device = open_sim(sim("ascend"));
  TinyOptions options;
  options.train = false;
  TinyProgram packed(device, options, packing(graph::Packing::always));
  TinyProgram unpacked(device, options, packing(graph::Packing::never));
  EXPECT_GT(packed.store().packed_bytes(), packed.store().bytes() / 2);
  EXPECT_EQ(packed.store().packed_bytes(), packed.program().memory().packs);
  EXPECT_EQ(unpacked.store().packed_bytes(), 0U);
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

// Weights in a private layout must not be kept twice: neither as stored beside it, nor in memory that waits for another
// use. What is held after loading and a step is what is stored, and little more.
TEST(Program, APackTakesItsWeightsPlace) {
  constexpr std::int64_t kSize = 96;
  constexpr int kLayers = 4;
  for (const graph::Packing how : {graph::Packing::always, graph::Packing::never}) {
    const auto device = open_sim(sim("ascend"));
    const auto store = std::make_shared<graph::TensorStore>(device);
    Graph graph;
    Value x = graph.input("x", with_dynamic(make_desc(TERN_F32, {8, kSize}), 0, 0));
    std::uint64_t stored = 0;
    for (int layer = 0; layer < kLayers; ++layer) {
      const std::string name = "w" + std::to_string(layer);
      const TensorDesc desc = make_desc(TERN_F32, {kSize, kSize});
      store->create(name, desc);
      store->upload(name, bytes_of(weight_data(name, desc)));
      ops::MatmulOptions options;
      options.transpose_b = true;
      x = ops::matmul(graph, x, graph.constant(name, desc), options);
      stored += total_bytes(desc);
    }
    graph.output("y", x);
    accel::ChoiceCache choices;
    const auto program = graph::Program::build(graph, store, choices, packing(how), nullptr);
    const std::vector<float> rows(8 * kSize, 0.5F);
    graph::RunInputs inputs;
    inputs.inputs["x"] = bytes_of(rows);
    inputs.counts[0] = 8;
    program->run(inputs);
    const graph::MemoryReport& report = program->memory();
    EXPECT_EQ(report.packs > 0, how == graph::Packing::always);
    const std::uint64_t others = report.context + report.arenas + report.library;
    const std::uint64_t held = device->memory().in_use_by_process - others;
    EXPECT_GE(held, stored);
    EXPECT_LE(static_cast<double>(held), 1.15 * static_cast<double>(stored));
    // Each pack was made before its weight went, but only one at a time.
    EXPECT_LE(device->memory().peak_by_process, held + stored / kLayers * 2 + others);
  }
}

// Who reads a weight as it was stored finds it so, whatever others read.
TEST(Program, PackedWeightsComeBack) {
  const auto device = open_sim(sim("ascend"));
  TinyOptions options;
  options.train = false;
  TinyProgram packed(device, options, packing(graph::Packing::always));
  const Batch batch = Batch::of({5, 6});
  packed.run(batch);
  const std::string name = "layer0.gate";
  EXPECT_EQ(packed.stored(name), weight_data(name, TinyModel(options).weights.at(name)));
  const std::uint64_t once = packed.store().bytes();
  {
    // Another program over the same weights, which reads them as stored.
    accel::ChoiceCache choices;
    const TinyModel model(options);
    const auto plain =
        graph::Program::build(model.graph, packed.shared_store(), choices, packing(graph::Packing::never), nullptr);
    EXPECT_GT(packed.store().bytes(), once);
    EXPECT_EQ(plain->memory().packs, 0U);
    const std::vector<float> before = packed.output("loss");
    packed.run(batch);
    EXPECT_EQ(packed.output("loss"), before);
  }
  packed.run(batch);  // nobody reads them as stored any more
  EXPECT_EQ(packed.store().bytes(), once);
}

// A weight that somebody reads as stored already would be kept a second time: a pack is not worth that.
TEST(Program, WhatIsReadAsStoredIsNotPacked) {
  const auto device = open_sim(sim("ascend"));
  TinyOptions options;
  options.train = false;
  TinyProgram first(device, options, packing(graph::Packing::never));
  accel::ChoiceCache choices;
  const auto second = graph::Program::build(TinyModel(options).graph, first.shared_store(), choices,
                                            packing(graph::Packing::always), nullptr);
  EXPECT_EQ(second->memory().packs, 0U);
  EXPECT_EQ(first.store().packed_bytes(), 0U);
}

// x W^T by a weight of that size, which rows of are looked up too where `tied`.
Graph product_graph(std::int64_t out, std::int64_t in, bool tied) {
  Graph graph;
  const Value w = graph.constant("w", make_desc(TERN_F32, {out, in}));
  const Value x =
      tied ? ops::embedding(graph, w, graph.input("ids", with_dynamic(make_desc(TERN_I32, {8}), 0, 0)), TERN_F32)
           : graph.input("x", with_dynamic(make_desc(TERN_F32, {8, in}), 0, 0));
  ops::MatmulOptions options;
  options.transpose_b = true;
  graph.output("y", ops::matmul(graph, x, w, options));
  return graph;
}

std::uint64_t packs_of(const Graph& graph, std::int64_t out, std::int64_t in, accel::ChoiceCache& choices,
                       graph::Packing how) {
  const auto store = std::make_shared<graph::TensorStore>(open_sim(sim("ascend")));
  store->create("w", make_desc(TERN_F32, {out, in}));
  store->fill_zero("w");
  return graph::Program::build(graph, store, choices, packing(how), nullptr)->memory().packs;
}

TEST(Program, OneFormServesATiedEmbedding) {
  accel::ChoiceCache choices;
  EXPECT_GT(packs_of(product_graph(64, 32, false), 64, 32, choices, graph::Packing::always), 0U);
  EXPECT_EQ(packs_of(product_graph(64, 32, true), 64, 32, choices, graph::Packing::always), 0U);
}

// What was measured once decides: on disk for the next run, in a checkpoint for a resumed one.
TEST(Program, WhetherAPackPaysIsMeasuredOnceAndReplayed) {
  const std::int64_t out = 256, in = 128;
  const Graph graph = product_graph(out, in, false);
  accel::ChoiceCache first;
  const bool packed = packs_of(graph, out, in, first, graph::Packing::measured) > 0;
  std::string key;
  for (const auto& [name, choice] : first.used()) {
    if (name.starts_with("pack ")) key = name;
  }
  ASSERT_NE(key, "");
  EXPECT_EQ(first.used().at(key), packed ? "packed" : "stored");
  for (const bool other : {true, false}) {
    accel::ChoiceCache replayed;
    replayed.replay({{key, other ? "packed" : "stored"}});
    EXPECT_EQ(packs_of(graph, out, in, replayed, graph::Packing::measured) > 0, other);
    EXPECT_EQ(replayed.used().at(key), other ? "packed" : "stored");
  }
  accel::ChoiceCache small;  // a weight of a few pages is not worth asking
  EXPECT_EQ(packs_of(product_graph(64, 32, false), 64, 32, small, graph::Packing::measured), 0U);
  for (const auto& [name, choice] : small.used()) EXPECT_FALSE(name.starts_with("pack ")) << name;
}

TEST(TensorStore, AFrozenWeightIsPackedOnce) {
  const auto device = open_sim(sim("ascend"));
  graph::TensorStore store(device);
  const TensorDesc desc = make_desc(TERN_F32, {32, 16});
  store.create("w", desc);
  const std::vector<float> values = weight_data("w", desc);
  store.upload("w", bytes_of(values));
  const auto hold = store.hold_packed("w", TERN_USE_FORWARD);
  const tern_tensor pack = store.packed("w", TERN_USE_FORWARD);
  EXPECT_EQ(store.at("w").planes[0].buffer, nullptr);  // the pack has its place
  const auto read = [&] {
    std::vector<float> found(values.size());
    store.download("w", writable_bytes_of(found));
    return found;
  };
  EXPECT_EQ(read(), values);
  // Were it packed again, this mark would go.
  const accel::Stream stream = device->make_stream();
  device->fill(pack.planes[0], 0, 4, stream);
  stream.synchronize();
  (void)store.packed("w", TERN_USE_FORWARD);
  EXPECT_NE(read(), values);
  store.upload("w", bytes_of(values));  // written: packed again
  (void)store.packed("w", TERN_USE_FORWARD);
  EXPECT_EQ(read(), values);
  EXPECT_THROW((void)store.hold_packed("absent", TERN_USE_FORWARD), std::logic_error);
  store.create("vector", make_desc(TERN_F32, {16}));
  EXPECT_THROW((void)store.hold_packed("vector", TERN_USE_FORWARD), std::logic_error);
}

TEST(Program, FaultsEndTheRunWithAClearError) {
  for (const auto& [fault, expected] :
       {std::pair{"oom@3", " cannot allocate "}, std::pair{"async@20", "asynchronous error"},
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
  const std::int32_t waits = whole.program().plan().num_waits;
  EXPECT_GE(waits, 6);  // after the upload, to the communication lane and back, before the download
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
