// If these fail, a replayed step takes something from when it was captured, or steps are launched kernel by kernel
// where the device could replay them.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/backend_sim/sim_device.h"
#include "tiny.h"

namespace tern::engine {
namespace {

// The sim's functions, counted.
struct Counted {
  const tern_backend* inner = nullptr;
  tern_backend table{};
  std::int64_t launches = 0;  // outside of captures
  std::int64_t captures = 0;
  std::int64_t replays = 0;
  bool is_capturing = false;
} counted_sim;

std::shared_ptr<const accel::Backend> count_calls(const std::shared_ptr<const accel::Backend>& sim) {
  Counted& c = counted_sim;
  c.inner = &sim->api();
  std::memcpy(&c.table, c.inner, std::min<std::size_t>(c.inner->size, sizeof c.table));
  c.table.launch = [](tern_bound bound, const tern_host_args* args, tern_stream stream, std::uint64_t* node) {
    counted_sim.launches += counted_sim.is_capturing ? 0 : 1;
    return counted_sim.inner->launch(bound, args, stream, node);
  };
  c.table.capture_begin = [](tern_stream stream) {
    counted_sim.is_capturing = true;
    return counted_sim.inner->capture_begin(stream);
  };
  c.table.capture_end = [](tern_stream stream, tern_capture* capture) {
    counted_sim.is_capturing = false;
    ++counted_sim.captures;
    return counted_sim.inner->capture_end(stream, capture);
  };
  c.table.capture_launch = [](tern_capture capture, tern_stream stream) {
    ++counted_sim.replays;
    return counted_sim.inner->capture_launch(capture, stream);
  };
  return accel::Backend::wrap(&c.table);
}

struct Generated {
  std::map<SequenceId, std::vector<std::int32_t>> tokens;
  std::int64_t steps = 0;
  Counted calls;  // of five steps in the middle of decoding
};

// Four requests, some with penalties. `eager`: every kernel is launched by itself, as a profile asks for it.
Generated generate_on(const test::Environment& variables, bool eager) {
  const test::SimEnvironment environment(variables);
  auto model = tiny_model_on(accel::Device::open(count_calls(test::load_plugin("sim")), 0).value());
  session::Runtime runtime;
  if (eager) runtime.program.profile = std::make_shared<graph::Profile>();
  EngineOptions options = small_engine();
  options.max_model_len = 256;
  LLMEngine engine(model, any_tokenizer(), options, runtime);
  for (std::int32_t i = 0; i < 4; ++i) {
    SamplingParams params = greedy(30 + i);
    params.temperature = i == 2 ? 0.8F : 0.0F;
    params.presence_penalty = i == 3 ? 0.7F : 0.0F;
    (void)engine.add_request(prompt_of(i, 3 + 40 * (i % 2)), params).value();
  }
  Generated out;
  Drawn drawn;
  for (; !engine.idle(); ++out.steps) {
    if (out.steps == 20) counted_sim.launches = counted_sim.captures = counted_sim.replays = 0;
    if (out.steps == 25) out.calls = counted_sim;
    drawn.step(engine);
  }
  out.tokens = drawn.tokens;
  return out;
}

TEST(Captures, GiveWhatEveryKernelAloneDoes) {
  for (const char* personality : {"discrete", "ascend"}) {
    SCOPED_TRACE(personality);
    const test::Environment sim = {{"TERN_SIM", personality}};
    const Generated eager = generate_on(sim, true);
    const Generated captured = generate_on(sim, false);
    EXPECT_EQ(captured.tokens, eager.tokens);
    EXPECT_EQ(captured.tokens.size(), 4U);
    EXPECT_EQ(eager.calls.replays, 0);
    EXPECT_GT(eager.calls.launches, 0);
    // One replay a step, and nothing beside it.
    EXPECT_EQ(captured.calls.replays, 5);
    EXPECT_EQ(captured.calls.launches, 0);
    EXPECT_EQ(captured.calls.captures, 0);
  }
}

}  // namespace
}  // namespace tern::engine
