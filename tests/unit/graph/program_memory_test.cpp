// What programs take is known before they take it, and programs of one owner take it once.
#include <gtest/gtest.h>

#include <malloc.h>

#include <fstream>

#include "tests/unit/graph/tiny_program.h"

namespace tern::test {
namespace {

Environment personality(const char* name) { return {{"TERN_SIM", name}}; }

accel::DevicePtr described(const char* name) {
  const SimEnvironment environment(personality(name));
  return accel::Device::describe(load_plugin("sim"), name).value();
}

// Every byte that the plan of a described device names is taken by the program on the device itself, and no other.
TEST(ProgramPlan, OfADescribedDeviceIsThatOfTheDevice) {
  for (const char* name : kPersonalities) {
    SCOPED_TRACE(name);
    const TinyModel model({});
    accel::ChoiceCache choices;
    const graph::ProgramPlan plan = graph::plan_program(model.graph, described(name), choices, {});
    TinyProgram program(open_sim(personality(name)), {});
    const graph::MemoryReport& taken = program.program().memory();
    EXPECT_EQ(plan.memory.arena_bytes, program.program().plan().memory.arena_bytes);
    EXPECT_EQ(plan.report.live_peak, taken.live_peak);
    EXPECT_EQ(plan.report.weights, taken.weights);
    EXPECT_EQ(plan.report.resources, taken.resources);
    EXPECT_EQ(plan.report.packs, taken.packs);
    EXPECT_EQ(plan.report.library, taken.library);
    EXPECT_EQ(plan.report.context, taken.context);
    EXPECT_EQ(plan.report.staging, taken.staging);
    EXPECT_EQ(plan.report.host_scratch, taken.host_scratch);
    EXPECT_GT(plan.report.arenas, 0U);
    EXPECT_GT(plan.report.weights, 0U);
    EXPECT_GT(plan.report.resources, 0U);
    EXPECT_LE(plan.report.live_peak, plan.report.arenas);
  }
}

// A large and a small program over the same weights, run in turns.
struct Pair {
  Pair(const std::shared_ptr<graph::Arena>& arena, TinyProgram& store)
      : large(graph::Program::build(model(16).graph, store.shared_store(), choices, {}, nullptr, arena)),
        small(graph::Program::build(model(8).graph, store.shared_store(), choices, {}, nullptr, arena)) {}

  static TinyModel model(std::int64_t tokens) {
    TinyOptions options;
    options.tokens = tokens;
    return TinyModel(options);
  }

  accel::ChoiceCache choices;
  std::unique_ptr<graph::Program> large;
  std::unique_ptr<graph::Program> small;
};

TEST(Arena, HoldsTheLargestOfItsPrograms) {
  for (const char* name : kPersonalities) {
    SCOPED_TRACE(name);
    TinyProgram alone(open_sim(personality(name)), {});
    const auto arena = std::make_shared<graph::Arena>(alone.store().allocator());
    const Pair pair(arena, alone);
    EXPECT_EQ(arena->bytes(), pair.large->memory().arenas);
    // Every byte that the device counts has an owner.
    const graph::MemoryReport& own = alone.program().memory();
    EXPECT_EQ(alone.store().device()->memory().in_use_by_process,
              alone.store().bytes() + own.arenas + arena->bytes() + own.context + own.library +
                  pair.large->memory().library + pair.small->memory().library);
    const Batch long_batch = Batch::of({5, 6});
    const Batch short_batch = Batch::of({3, 4}, 2);
    const graph::RunInputs long_run = inputs_of(long_batch);
    const graph::RunInputs short_run = inputs_of(short_batch);
    std::vector<float> losses[2];
    for (int turn = 0; turn < 2; ++turn) {
      for (const auto& [program, inputs] : {std::pair{pair.large.get(), &long_run}, {pair.small.get(), &short_run}}) {
        program->run(*inputs);
        losses[turn].push_back(output_of(*program, "loss")[0]);
      }
    }
    EXPECT_EQ(losses[0], losses[1]);  // neither left anything that the other reads
    alone.run(long_batch);
    EXPECT_EQ(alone.output("loss")[0], losses[0][0]);
  }
}

TEST(Arena, IsNoPlaceForTwoRunsAtOnce) {
  TinyProgram alone(open_sim(), {});
  const Pair pair(std::make_shared<graph::Arena>(alone.store().allocator()), alone);
  const auto give = [](graph::Program& program, const graph::RunInputs& inputs) {
    give_inputs(program, inputs);
    program.launch(inputs.counts);
  };
  const Batch batch = Batch::of({3, 4});
  const graph::RunInputs inputs = inputs_of(batch);
  give(*pair.large, inputs);
  EXPECT_THROW(give(*pair.small, inputs), std::logic_error);
  pair.large->wait();
  give(*pair.small, inputs);
  pair.small->wait();
  EXPECT_EQ(output_of(*pair.small, "loss"), output_of(*pair.large, "loss"));
}

// The next run's inputs are written while one is under way, and neither sees the other's.
TEST(Program, PreparesAhead) {
  for (const char* name : kPersonalities) {
    SCOPED_TRACE(name);
    for (const bool capture : {false, true}) {
      graph::ProgramOptions options;
      options.capture = capture;
      TinyProgram in_turn(open_sim(personality(name)), {}, options);
      options.prepare_ahead = true;
      TinyProgram ahead(open_sim(personality(name)), {}, options);
      const Batch batches[] = {Batch::of({5, 6}), Batch::of({3, 9, 4}, 2), Batch::of({2}, 5), Batch::of({7, 1, 8}, 3)};
      std::vector<float> expected;
      for (const Batch& batch : batches) {
        in_turn.run(batch);
        expected.push_back(in_turn.output("loss")[0]);
      }
      std::vector<float> losses;
      graph::Program& program = ahead.program();
      const auto prepare = [&](const Batch& batch) {
        const graph::RunInputs inputs = inputs_of(batch);
        give_inputs(program, inputs);
        return inputs.counts;
      };
      graph::Counts counts = prepare(batches[0]);
      for (std::size_t b = 0; b < std::size(batches); ++b) {
        program.launch(counts);
        if (b + 1 < std::size(batches)) counts = prepare(batches[b + 1]);
        program.wait();
        losses.push_back(ahead.output("loss")[0]);
      }
      EXPECT_EQ(losses, expected);
      EXPECT_EQ(ahead.results(), in_turn.results());
    }
  }
}

// What was written for a launch that never came isn't taken for padding: a device may compute the whole capacity.
TEST(Program, WhatWasWrittenInVainIsPaddedOver) {
  const Batch small = Batch::of({3, 4});
  const Batch large = Batch::of({7, 8}, 2);
  TinyProgram program(open_sim(), {});
  const auto expect_padding = [&] {
    const std::int32_t id = program.program().input_id("targets");
    const auto targets = program.program().input(id).subspan(small.targets.size() * sizeof(std::int32_t));
    EXPECT_EQ(targets.size(), 9 * sizeof(std::int32_t));
    for (const std::byte byte : targets) EXPECT_EQ(byte, std::byte{0xff});
  };
  program.run(small);
  expect_padding();
  give_inputs(program.program(), inputs_of(large));
  program.run(small);
  expect_padding();
  program.run(small);
  EXPECT_THROW(program.run_without("ids", large), std::logic_error);
  program.run(small);
  expect_padding();
}

TEST(Program, AsksForEveryInputBeforeEachLaunch) {
  TinyProgram program(open_sim(), {});
  const Batch batch = Batch::of({3, 4});
  program.run(batch);
  EXPECT_THROW(program.program().launch(inputs_of(batch).counts), std::logic_error);
  EXPECT_THROW(program.program().wait(), std::logic_error);
  program.run(batch);  // the refusal broke nothing
  graph::RunInputs too_many = inputs_of(batch);
  too_many.counts[0] = 17;
  EXPECT_THROW(program.program().run(too_many), std::logic_error);
}

// Bytes of this process that no file backs.
std::uint64_t anonymous_memory() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string line; std::getline(rollup, line);) {
    if (line.starts_with("Anonymous:")) return std::stoull(line.substr(10)) << 10;
  }
  return 0;
}

// What the report counts is what the operating system counts.
TEST(Program, MemoryOnTheCpuIsTheProcesss) {
  const accel::DevicePtr cpu = accel::Device::open(load_plugin("cpu"), 0).value();
  TinyOptions options;
  options.tokens = 1 << 16;
  options.sequences = 1 << 13;
  std::vector<std::int32_t> lengths(std::size_t{1} << 13, 8);
  const Batch batch = Batch::of(lengths);
  {
    TinyProgram warm(cpu, {});
    warm.run(Batch::of({3}));
  }
  ::malloc_trim(0);  // what earlier tests left would be used again unseen
  const std::uint64_t before = anonymous_memory();
  TinyProgram program(cpu, options);
  for (int run = 0; run < 2; ++run) program.run(batch);
  const auto grown = static_cast<double>(anonymous_memory() - before);
  const graph::MemoryReport& report = program.program().memory();
  const auto counted = static_cast<double>(program.store().bytes() + report.arenas + report.library +
                                           report.host_scratch + report.staging);
  EXPECT_GT(counted, 100e6);
  EXPECT_NEAR(grown / counted, 1.0, 0.03) << grown << " bytes, " << counted << " counted";
}

}  // namespace
}  // namespace tern::test
