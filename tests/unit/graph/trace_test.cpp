// A traced step is there whole, computes the same bits, and a trace that is off is nothing.
#include "accel/trace.h"

#include <gtest/gtest.h>

#include "ops/table.h"
#include "tests/support/parsed_json.h"
#include "tests/support/trace_events.h"
#include "tests/unit/graph/tiny_program.h"

namespace tern::test {
namespace {

using accel::Trace;
using accel::TraceStep;

const std::vector<Batch>& batches() {
  // The fourth has the lengths of the third, which the capture of the first hasn't heard of if the third was traced.
  static const std::vector<Batch> all = {Batch::of({5, 6}), Batch::of({3, 9, 4}, 2), Batch::of({7, 2}, 3),
                                         Batch::of({7, 2}, 4), Batch::of({1, 8}, 5)};
  return all;
}

struct Traced {
  explicit Traced(const accel::DevicePtr& device, const accel::TraceOptions& options) {
    program.capture = true;
    program.trace = std::make_shared<Trace>(device, options, [this](const Trace& trace) {
      ++ends;
      trace.write([this](std::string_view piece) { text += piece; });
      steps = trace.steps();
      cut = trace.is_cut();
    });
  }
  std::string text;
  int ends = 0;
  std::int64_t steps = 0;
  bool cut = false;
  graph::ProgramOptions program;  // its trace may end when it goes
};

accel::DevicePtr open(const std::string& name) {
  if (name == "cpu") return accel::Device::open(load_plugin("cpu"), 0).value();
  return open_sim({{"TERN_SIM", name}});
}

// By name: how often the program's graph has each op.
std::map<std::string, std::int64_t> ops_of(const graph::Graph& graph) {
  std::map<std::string, std::int64_t> calls;
  for (const auto& node : graph.nodes()) ++calls[std::string(ops::op_spec(node.call.op).name)];
  return calls;
}

// The same of the events: a compiled graph lists its own.
std::map<std::string, std::int64_t> ops_of(const std::vector<TraceEvent>& events) {
  std::map<std::string, std::int64_t> calls;
  for (const TraceEvent& event : events) {
    if (!event.arguments.contains("shapes")) continue;  // a copy, or the packing of weights
    if (const io::Json* ops = event.arguments.find("ops")) {
      for (const auto& [op, count] : ops->items()) calls[op] += count.get<std::int64_t>();
    } else {
      ++calls[event.name];
    }
  }
  return calls;
}

TEST(Trace, EveryOpOfTheProgramIsThereWithinItsStep) {
  for (const std::string name : {"cpu", "discrete", "ascend", "graph", "embedded"}) {
    SCOPED_TRACE(name);
    const auto device = open(name);
    TinyProgram plain(device, {});
    Traced traced(device, {.first = 2, .last = 3});
    TinyProgram program(device, {}, traced.program);
    for (std::size_t i = 0; i < batches().size(); ++i) {
      plain.run(batches()[i]);
      const TraceStep step(traced.program.trace.get(), static_cast<std::int64_t>(i + 1));
      program.run(batches()[i]);
      EXPECT_EQ(distance(plain.results(), program.results()), 0.0) << i;
      EXPECT_EQ(traced.ends, i > 2 ? 1 : 0) << i;
    }
    ASSERT_EQ(traced.steps, 2);
    const io::Json trace = parsed_json(traced.text);
    const auto events = trace_events(trace);
    EXPECT_EQ(badly_nested(events), "");
    const bool by_host = trace["otherData"]["device_times"].text().starts_with("as the host timed it");
    EXPECT_EQ(by_host, name == "embedded") << trace["otherData"].dump();
    std::size_t in_steps = 0;
    for (const char* which : {"step 2", "step 3"}) {
      const auto step = std::find_if(events.begin(), events.end(), [&](const auto& it) { return it.name == which; });
      ASSERT_NE(step, events.end());
      const auto inside = device_events_in(events, *step);
      in_steps += inside.size();
      EXPECT_EQ(ops_of(inside), ops_of(program.program().graph()));
      EXPECT_LE(busiest_row(inside), step->seconds);
      EXPECT_GT(busiest_row(inside), 0.0);
      const auto uploads = [](const TraceEvent& it) { return it.category == "copy" && it.name == "upload inputs"; };
      EXPECT_EQ(std::count_if(inside.begin(), inside.end(), uploads), 1);
    }
    const auto of_device = [](const TraceEvent& it) { return it.process == kDeviceProcess; };
    EXPECT_EQ(static_cast<std::size_t>(std::count_if(events.begin(), events.end(), of_device)), in_steps);
  }
}

TEST(Trace, ShapesAreThoseOfTheRun) {
  const auto device = open("cpu");
  Traced traced(device, {});
  TinyProgram program(device, {}, traced.program);
  {
    const TraceStep step(traced.program.trace.get(), 1);
    program.run(Batch::of({5, 6}));
  }
  const auto events = trace_events(parsed_json(traced.text));
  const auto embedding =
      std::find_if(events.begin(), events.end(), [](const auto& it) { return it.name == "embedding"; });
  ASSERT_NE(embedding, events.end());
  EXPECT_EQ(embedding->arguments["shapes"].text(), "29x16 11 -> 11x16");
  EXPECT_NE(embedding->arguments["kernel"].text(), "");
}

TEST(Trace, NothingIsRecordedAndAllIsCapturedWhileItIsOff) {
  const auto device = open("discrete");
  Traced traced(device, {.first = 3, .last = 3});
  TinyProgram program(device, {}, traced.program);
  for (std::int64_t i = 1; i <= 2; ++i) {
    const TraceStep step(traced.program.trace.get(), i);
    program.run(batches()[0]);
    EXPECT_EQ(program.program().num_captures(), 1);
    EXPECT_TRUE(accel::DeviceProfile(device).collect().empty()) << "and nobody else records";
  }
  EXPECT_EQ(traced.program.trace->events(), 0U);
  traced.program.trace->end();
  EXPECT_EQ(traced.ends, 1);
  EXPECT_EQ(traced.steps, 0);
}

TEST(Trace, EndsAtSoManyEvents) {
  for (const char* name : {"cpu", "embedded"}) {
    const auto device = open(name);
    Traced traced(device, {.first = 1, .last = 1000, .max_events = 20});
    TinyProgram program(device, {}, traced.program);
    for (std::int64_t i = 1; i <= 3; ++i) {
      const TraceStep step(traced.program.trace.get(), i);
      program.run(batches()[0]);
    }
    EXPECT_EQ(traced.ends, 1);
    EXPECT_TRUE(traced.cut);
    EXPECT_EQ(traced.steps, 1);
    const auto events = trace_events(parsed_json(traced.text));
    EXPECT_EQ(badly_nested(events), "");
    // What was open or under way when it ended: one step, its launch, its wait, and the ops of one run.
    EXPECT_LE(events.size(), 20 + 3 + (std::string(name) == "cpu" ? 0 : program.program().graph().nodes().size() + 2));
  }
}

}  // namespace
}  // namespace tern::test
