// The learning rate of each step beside those of transformers' schedulers.
#include <gtest/gtest.h>

#include <set>

#include "golden.h"
#include "io/json.h"
#include "train/adaptive_rate.h"
#include "train/schedule.h"

namespace tern::golden {
namespace {

using train::AdaptiveRate;
using train::ScheduleKind;

class Schedules : public testing::Test {
 protected:
  [[nodiscard]] static ScheduleKind kind(const io::Json& one) {
    return train::schedule_kind(one["type"].text()).value();
  }
  [[nodiscard]] train::ScheduleArguments arguments(const io::Json& one) const {
    return train::schedule_arguments(kind(one), one["kwargs"].dump(), peak_).value();
  }

  io::Json numbers_ = io::read_json_file(fixture("optimizers/schedules.json")).value();
  double peak_ = numbers_["peak"].get<double>();
};

TEST_F(Schedules, GiveTheRatesOfTransformers) {
  std::set<ScheduleKind> seen;
  for (const auto& one : numbers_["by_step"]) {
    const train::LearningRateSchedule schedule{kind(one), peak_, numbers_["warmup_steps"].get<std::int64_t>(),
                                               numbers_["total_steps"].get<std::int64_t>(), arguments(one)};
    seen.insert(schedule.kind);
    std::int64_t step = 0;
    for (const auto& rate : one["rates"]) {
      ++step;
      EXPECT_NEAR(schedule.at(step), rate.get<double>(), 1e-14 * peak_) << one.dump() << " step " << step;
    }
    EXPECT_EQ(step, schedule.total_steps);
  }
  for (const auto& one : numbers_["by_loss"]) seen.insert(kind(one));
  EXPECT_EQ(seen.size(), 12U) << "a schedule without numbers";
}

// Cut at every loss, with the state carried over, as a run that resumes does.
TEST_F(Schedules, FollowTheLossAsTransformersDoes) {
  for (const auto& one : numbers_["by_loss"]) {
    const auto options = arguments(one).adaptive;
    AdaptiveRate whole(options, peak_);
    std::size_t at = 0;
    for (const auto& loss : numbers_["losses"]) {
      EXPECT_NEAR(whole.rate(), one["rates"][at].get<double>(), 1e-14 * peak_) << one.dump() << " loss " << at;
      AdaptiveRate resumed(options, peak_);
      resumed.restore(whole.state());
      resumed.observe(loss.get<double>());
      whole.observe(loss.get<double>());
      EXPECT_EQ(resumed.rate(), whole.rate());
      whole = resumed;
      ++at;
    }
  }
}

}  // namespace
}  // namespace tern::golden
