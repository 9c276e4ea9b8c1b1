#include "train/schedule.h"

#include <gtest/gtest.h>

#include "tiny_run.h"

namespace tern::train {
namespace {

TEST(LearningRateSchedule, BeginsAtItsPeakWithoutWarmUp) {
  EXPECT_EQ((LearningRateSchedule{ScheduleKind::cosine, 2e-4, 0, 7}.at(1)), 2e-4);
  EXPECT_EQ((LearningRateSchedule{ScheduleKind::cosine, 0.0, 0, 7}.at(3)), 0.0);
}

TEST(LearningRateSchedule, HasANameBothWays) {
  for (int i = 0; i <= static_cast<int>(ScheduleKind::greedy); ++i) {
    const auto kind = static_cast<ScheduleKind>(i);
    EXPECT_EQ(schedule_kind(schedule_name(kind)), kind);
  }
  EXPECT_FALSE(schedule_kind("triangle").has_value());
}

TEST(ScheduleArguments, RefuseWhatTheScheduleDoesNotTake) {
  const auto refusal = [](ScheduleKind kind, const char* json, double peak = 1e-4) {
    const auto made = schedule_arguments(kind, json, peak);
    return made.ok() ? std::string("none") : made.error().line();
  };
  using enum ScheduleKind;
  EXPECT_EQ(refusal(cosine, ""), "none");
  EXPECT_NE(refusal(cosine, "{").find("no JSON"), std::string::npos);
  EXPECT_NE(refusal(cosine, R"({"power": 2})").find("names power, which --lr_scheduler_type cosine"), std::string::npos);
  EXPECT_NE(refusal(constant, R"({"power": 2})").find("leave --lr_scheduler_kwargs out"), std::string::npos);
  EXPECT_NE(refusal(cosine, R"({"num_cycles": "two"})").find("expected a number"), std::string::npos);
  EXPECT_NE(refusal(polynomial, R"({"lr_end": 1})").find("not below --learning_rate"), std::string::npos);
  EXPECT_NE(refusal(cosine_with_min_lr, "").find("needs one of min_lr and min_lr_rate"), std::string::npos);
  EXPECT_NE(refusal(warmup_stable_decay, "").find("needs num_decay_steps"), std::string::npos);
  EXPECT_NE(refusal(reduce_lr_on_plateau, R"({"factor": 1})").find("below 1"), std::string::npos);
  EXPECT_NE(refusal(greedy, R"({"mode": "mean"})").find("\"min\" or \"max\""), std::string::npos);
}

// Each loss is no better than a threshold that none can reach, so the rate falls at every evaluation.
TEST(AdaptiveRate, ResumesToTheBit) {
  for (const ScheduleKind kind : {ScheduleKind::reduce_lr_on_plateau, ScheduleKind::greedy}) {
    const Scratch scratch;
    const auto make = [&](const char* name, const std::filesystem::path& resume_from) {
      std::filesystem::create_directories(scratch.path() / name);
      auto run = std::make_unique<TinyRun>(scratch.path() / name, resume_from);
      run->validation = tiny_samples();
      run->options.eval_strategy = When::steps;
      run->options.eval_steps = 1;
      run->options.schedule = kind;
      const bool greedy = kind == ScheduleKind::greedy;
      run->options.schedule_arguments =
          schedule_arguments(kind,
                             greedy ? R"({"patience": 0, "threshold": 100, "factor": 0.5, "min_lr": 1e-6})"
                                    : R"({"patience": 1, "threshold": 100, "threshold_mode": "abs", "factor": 0.5})",
                             run->options.learning_rate)
              .value();
      return run;
    };
    const auto whole = make("whole", {});
    std::vector<double> rates;
    whole->hooks.on_log = [&](const LogRow& row) {
      if (!row.eval_loss) rates.push_back(row.learning_rate);
    };
    (void)whole->train();
    ASSERT_GE(rates.size(), 3U);
    EXPECT_LT(rates.back(), rates.front()) << "the rate didn't follow the loss";
    const auto rest = make("rest", whole->output / "checkpoint-4");
    (void)rest->train();
    EXPECT_EQ(rest->losses, std::vector<double>(whole->losses.begin() + 4, whole->losses.end()));
    EXPECT_EQ(rest->state(), whole->state());
  }
}

TEST(AdaptiveRate, NeedsAnEvaluation) {
  const Scratch scratch;
  TinyRun run(scratch.path());
  run.options.schedule = ScheduleKind::reduce_lr_on_plateau;
  EXPECT_THROW((void)run.train(), Failure);
}

}  // namespace
}  // namespace tern::train
