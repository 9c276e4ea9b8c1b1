// What a device's faults come to through a program: the run ends with a plain error, and what goes after it neither
// hangs nor stays.
#include <gtest/gtest.h>

#include <chrono>

#include "backends/sim/extension.h"
#include "ops/axpby.h"
#include "ops/program_ops.h"
#include "tests/unit/graph/tiny_program.h"

namespace tern::test {
namespace {

Environment faulty(const std::string& personality, const std::string& faults) {
  return {{"TERN_SIM", personality}, {"TERN_SIM_TIMEOUT_MS", "300"}, {"TERN_SIM_FAULT", faults}};
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(Faults, ALaunchThatNeverEndsEndsTheRunWithItsDeadline) {
  for (const auto& [personality, captures] :
       {std::pair{"discrete", false}, {"ascend", true}, {"graph", false}, {"embedded", false}}) {
    SCOPED_TRACE(personality);
    const auto device = open_sim(faulty(personality, ""));
    std::string found;
    std::int32_t health = TERN_HEALTH_OK;
    char reason[256] = "";
    const auto begin = std::chrono::steady_clock::now();
    {
      graph::ProgramOptions options;
      options.capture = captures;
      TinyProgram program(device, {}, options);
      program.run(Batch::of({3, 4}));
      const auto* faults = device->backend().extension<tern_sim_faults>("sim.faults");
      ASSERT_EQ(faults->arm(device->raw(), "hang@1"), TERN_OK);
      found = failure_of([&] { program.run(Batch::of({3, 4})); });
      EXPECT_EQ(device->api().device_health(device->raw(), &health, {reason, sizeof reason}), TERN_OK);
      EXPECT_NE(failure_of([&] { program.run(Batch::of({3, 4})); }), "") << "nothing runs there any more";
      EXPECT_NE(failure_of([&] { (void)device->allocate(16, "a test"); }), "");
    }
    EXPECT_TRUE(contains(found, "sim:0: waiting for a stream failed: timeout (sim:0: ")) << found;
    EXPECT_TRUE(contains(found, personality == std::string("graph") ? "a compiled graph hasn't ended after 300 ms"
                                                                    : "embedding hasn't ended after 300 ms"))
        << found;
    EXPECT_TRUE(contains(found, "`tern doctor`")) << found;
    EXPECT_EQ(health, TERN_HEALTH_DEGRADED);
    EXPECT_TRUE(contains(reason, "the device hangs")) << reason;
    EXPECT_LT(seconds_since(begin), 10.0) << "what was destroyed waited again";
    EXPECT_EQ(device->memory().in_use_by_process, device->info().context_bytes);
  }
}

TEST(Faults, AskingAfterAnEventOfWhatHangsComesToAnEnd) {
  const auto device = open_sim(faulty("discrete", "hang@1"));
  const accel::Stream stream = device->make_stream();
  const accel::Event event = device->make_event();
  TinyProgram program(device, {});
  give_inputs(program.program(), inputs_of(Batch::of({3, 4})));
  program.program().launch(inputs_of(Batch::of({3, 4})).counts);
  const std::string found = failure_of([&] {
    stream.record(event);
    while (!event.finished()) continue;
    program.program().wait();
  });
  EXPECT_TRUE(contains(found, "hasn't ended after 300 ms")) << found;
}

// Whichever of the allocations it is.
TEST(Faults, HostMemoryThatRunsOutIsToldAndNothingStays) {
  int failed = 0;
  for (int at = 1; at < 10; ++at) {
    const auto device = open_sim(faulty("discrete", "host@" + std::to_string(at)));
    const std::string found = failure_of([&] {
      TinyProgram program(device, {});
      program.run(Batch::of({3, 4}));
    });
    if (!found.empty()) {
      ++failed;
      EXPECT_TRUE(contains(found, "of pinned host memory failed: out of host memory")) << found;
      EXPECT_TRUE(contains(found, "free some of the host's memory")) << found;
    }
    EXPECT_EQ(device->memory().in_use_by_process, device->info().context_bytes);
  }
  EXPECT_GE(failed, 2) << "inputs and outputs";
  EXPECT_LT(failed, 9);
}

struct Ends {
  std::string ended;         // the error of the rank's run
  std::string told;          // and of its communicator afterwards
  std::uint64_t leaked = 0;  // bytes of the device that stay once all is gone
};

// Two ranks sum their gradients in a program; the first one's device has the fault.
std::vector<Ends> sum_with(const std::string& personality, const std::string& fault) {
  std::vector<Ends> out(2);
  std::vector<accel::DevicePtr> devices;
  {
    std::vector<std::shared_ptr<const comm::Communicator>> groups;
    std::vector<std::unique_ptr<graph::Program>> programs;
    tern_comm_id id{};
    for (int r = 0; r < 2; ++r) {
      Environment variables = faulty(personality, fault + ":0");
      variables["TERN_SIM_DEVICES"] = "2";
      devices.push_back(open_sim(variables, r));
      if (r == 0) id = comm::Communicator::unique_id(*devices[0]);
      groups.push_back(std::make_shared<comm::Communicator>(devices.back(), id, 2, r));
      graph::ProgramOptions options;
      options.groups = {groups.back()};
      Graph graph;
      const Value x = graph.input("x", make_desc(TERN_F32, {4}));
      const Value sum = ops::all_reduce(graph, ops::axpby(graph, x, {}, {.a = 2.0F}), {0, 2});
      graph.output("sum", ops::axpby(graph, sum, {}, {.a = 2.0F}));
      accel::ChoiceCache choices;
      programs.push_back(
          graph::Program::build(graph, std::make_shared<graph::TensorStore>(devices.back()), choices, options));
    }
    for (const auto& program : programs) {
      graph::RunInputs inputs;
      const std::vector<float> x(4, 1.0F);
      inputs.inputs = {{"x", bytes_of(x)}};
      give_inputs(*program, inputs);
      // What fails may be known as soon as it's queued.
      out[static_cast<std::size_t>(&program - programs.data())].ended = failure_of([&] { program->launch({}); });
    }
    for (std::size_t r = 0; r < 2; ++r) {
      if (out[r].ended.empty()) out[r].ended = failure_of([&] { programs[r]->wait(); });
      out[r].told = failure_of([&] { groups[r]->check_async(); });
    }
  }
  for (std::size_t r = 0; r < 2; ++r) {
    out[r].leaked = devices[r]->memory().in_use_by_process - devices[r]->info().context_bytes;
  }
  return out;
}

TEST(Faults, ACollectiveThatFailsEndsTheGroup) {
  for (const char* personality : {"discrete", "ascend", "graph"}) {
    const auto ends = sum_with(personality, "comm@1");
    for (std::size_t r = 0; r < 2; ++r) {
      SCOPED_TRACE(personality);
      EXPECT_TRUE(contains(ends[r].ended, cat("sim:", r, ": "))) << ends[r].ended;
      for (const std::string& found : {ends[r].ended, ends[r].told}) {
        EXPECT_TRUE(contains(found, "asynchronous error")) << found;
        EXPECT_TRUE(contains(found, "all_reduce of rank 0 failed: the link reported a fault"))
            << "rank " << r << ": " << found;
        EXPECT_TRUE(contains(found, "`tern doctor`")) << found;
      }
      EXPECT_EQ(ends[r].leaked, 0U);
    }
  }
}

TEST(Faults, ACollectiveThatNeverEndsEndsWithItsDeadline) {
  for (const char* personality : {"discrete", "ascend", "graph"}) {
    const auto begin = std::chrono::steady_clock::now();
    const auto ends = sum_with(personality, "commhang@1");
    for (std::size_t r = 0; r < 2; ++r) {
      SCOPED_TRACE(personality);
      for (const std::string& found : {ends[r].ended, ends[r].told}) {
        EXPECT_TRUE(contains(found, "all_reduce of rank 0 hasn't ended after 300 ms")) << "rank " << r << ": " << found;
      }
      EXPECT_TRUE(contains(ends[r].ended, "asynchronous error")) << ends[r].ended;
      EXPECT_EQ(ends[r].leaked, 0U);
    }
    EXPECT_LT(seconds_since(begin), 10.0);
  }
}

}  // namespace
}  // namespace tern::test
