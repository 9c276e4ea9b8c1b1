// If this fails, a device that computes whole capacities stores rows that are nobody's among those of others.
#include <gtest/gtest.h>

#include "tests/unit/backend_sim/sim_device.h"
#include "tiny.h"

namespace tern::engine {
namespace {

// What stays goes on as if alone; throws where a launch finds padding that does harm.
std::vector<std::int32_t> answer_beside_one_that_goes(const accel::DevicePtr& device, bool goes) {
  auto model = tiny_model_on(device);
  session::Runtime runtime;
  EngineOptions options = small_engine();
  options.max_model_len = 256;
  LLMEngine engine(model, any_tokenizer(), options, runtime);
  const SequenceId stays = engine.add_request(prompt_of(1, 1), greedy(9)).value();
  for (std::int32_t i = 2; i < 4; ++i) (void)engine.add_request(prompt_of(i, 1), greedy(9)).value();
  Drawn drawn;
  for (int i = 0; i < 4; ++i) drawn.step(engine);
  if (goes) {
    const SequenceId fourth = engine.add_request(prompt_of(4, 1), greedy(9)).value();
    drawn.step(engine);  // and four rows are prepared where three stood last
    engine.abort(fourth);
  }
  drawn.run(engine);
  return drawn.tokens.at(stays);
}

TEST(Padding, OfAStepThatWasPreparedInVainIsHarmless) {
  for (const char* personality : {"ascend", "graph"}) {
    const auto device = test::open_sim({{"TERN_SIM", personality}});
    EXPECT_EQ(answer_beside_one_that_goes(device, true), answer_beside_one_that_goes(device, false)) << personality;
  }
}

}  // namespace
}  // namespace tern::engine
