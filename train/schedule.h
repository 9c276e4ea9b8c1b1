// The learning rate of each step, as transformers' `lr_scheduler_type` gives it (transformers/optimization.py).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tern::train {

enum class ScheduleKind {
  constant,
  constant_with_warmup,
  linear,
  cosine,
  cosine_with_restarts,
  polynomial,
  inverse_sqrt,
  reduce_lr_on_plateau,
  cosine_with_min_lr,
  cosine_warmup_with_min_lr,
  warmup_stable_decay,
  greedy,
};
[[nodiscard]] std::string_view schedule_name(ScheduleKind kind);
[[nodiscard]] std::optional<ScheduleKind> schedule_kind(std::string_view name);
// Whether the rate follows the held-out loss (AdaptiveRate) and not the step alone.
[[nodiscard]] bool follows_loss(ScheduleKind kind);
// Whether the rate rises to its peak in the first `warmup_steps`.
[[nodiscard]] bool warms_up(ScheduleKind kind);

enum class RampShape { linear, cosine, one_minus_sqrt };

// What adapts the rate to the held-out loss: torch.optim.lr_scheduler.ReduceLROnPlateau, and transformers' GreedyLR,
// which also raises it.
struct AdaptiveRateOptions {
  bool greedy = false;
  bool lower_is_better = true;
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  bool relative_threshold = true;
  std::int64_t cooldown = 0;
  double min_lr = 0;
  double eps = 1e-8;  // smaller changes are left out
  // Of greedy alone:
  double max_lr = 1;
  std::int64_t warmup = 0;
  bool smooth = false;  // by the mean of the last `window_size` losses
  std::int64_t window_size = 50;
  std::int64_t reset_start = 500;  // reductions at min_lr before everything begins again
};

// `lr_scheduler_kwargs`, with the defaults of transformers.
struct ScheduleArguments {
  std::string text;         // as given
  double num_cycles = 0.5;  // of cosine_with_restarts 1
  double lr_end = 1e-7;
  double power = 1;
  std::int64_t timescale = 0;  // 0: warmup_steps, else 10,000
  double min_lr_rate = 0;      // of the peak
  std::optional<double> warmup_lr_rate;
  std::int64_t num_decay_steps = 0;
  std::optional<std::int64_t> num_stable_steps;  // else what warm-up and decay leave
  RampShape warmup_type = RampShape::linear;
  RampShape decay_type = RampShape::cosine;
  double min_lr_ratio = 0;
  AdaptiveRateOptions adaptive;
};

// Of `json`, "" or an object, for a schedule with that peak. Errors (usage): no JSON, a name that the schedule doesn't
// know, a value that it can't have, one that it needs and that isn't there.
[[nodiscard]] Result<ScheduleArguments> schedule_arguments(ScheduleKind kind, std::string_view json, double peak);

struct LearningRateSchedule {
  ScheduleKind kind = ScheduleKind::cosine;
  double peak = 1e-4;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 1;
  ScheduleArguments arguments = {};
  // The rate that step `step` (from 1) is taken with, as transformers' schedulers give it; the peak of one that follows
  // the loss.
  [[nodiscard]] double at(std::int64_t step) const;
};

}  // namespace tern::train
