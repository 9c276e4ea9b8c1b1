#include "train/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace tern::train {
namespace {

struct Name {
  ScheduleKind kind;
  std::string_view name;
};
constexpr std::array<Name, 12> kNames = {{
    {ScheduleKind::constant, "constant"},
    {ScheduleKind::constant_with_warmup, "constant_with_warmup"},
    {ScheduleKind::linear, "linear"},
    {ScheduleKind::cosine, "cosine"},
    {ScheduleKind::cosine_with_restarts, "cosine_with_restarts"},
    {ScheduleKind::polynomial, "polynomial"},
    {ScheduleKind::inverse_sqrt, "inverse_sqrt"},
    {ScheduleKind::reduce_lr_on_plateau, "reduce_lr_on_plateau"},
    {ScheduleKind::cosine_with_min_lr, "cosine_with_min_lr"},
    {ScheduleKind::cosine_warmup_with_min_lr, "cosine_warmup_with_min_lr"},
    {ScheduleKind::warmup_stable_decay, "warmup_stable_decay"},
    {ScheduleKind::greedy, "greedy"},
}};

// The formulas of transformers, each a factor of the peak. `done`: steps taken before this one.
struct Formula {
  const LearningRateSchedule& schedule;
  double done;
  double warmup;
  double total;
  [[nodiscard]] const ScheduleArguments& arguments() const { return schedule.arguments; }
  // Of the steps after the warm-up, the share that is done.
  [[nodiscard]] double progress() const { return (done - warmup) / std::max(1.0, total - warmup); }

  [[nodiscard]] double cosine(double x, double lowest) const {
    const double wave = 0.5 * (1.0 + std::cos(std::numbers::pi * arguments().num_cycles * 2.0 * x));
    return std::max(0.0, wave * (1.0 - lowest) + lowest);
  }

  [[nodiscard]] double restarts() const {
    if (progress() >= 1.0) return 0;
    const double x = std::fmod(arguments().num_cycles * progress(), 1.0);
    return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * x)));
  }

  [[nodiscard]] double polynomial() const {
    const double peak = schedule.peak;
    const double end = arguments().lr_end;
    if (done > total) return end / peak;
    return ((peak - end) * std::pow(1.0 - progress(), arguments().power) + end) / peak;
  }

  [[nodiscard]] double inverse_sqrt() const {
    double timescale = warmup > 0 ? warmup : 10000;
    if (arguments().timescale > 0) timescale = static_cast<double>(arguments().timescale);
    return 1.0 / std::sqrt((done + timescale - warmup) / timescale);
  }

  // Its warm-up ends one step earlier than the others', and so does its cosine.
  [[nodiscard]] double cosine_warmup_with_min_lr() const {
    if (done < warmup) {
      const auto first = arguments().warmup_lr_rate;
      if (!first) return (done + 1.0) / std::max(1.0, warmup);
      return *first + (1.0 - *first) * done / std::max(1.0, warmup - 1.0);
    }
    return cosine((done - warmup + 1.0) / std::max(1.0, total - warmup), arguments().min_lr_rate);
  }

  [[nodiscard]] double warmup_stable_decay() const {
    const double lowest = arguments().min_lr_ratio;
    const auto decay = static_cast<double>(arguments().num_decay_steps);
    const double stable =
        arguments().num_stable_steps ? static_cast<double>(*arguments().num_stable_steps) : total - warmup - decay;
    const auto scaled = [&](double factor) { return std::max(0.0, factor * (1.0 - lowest) + lowest); };
    if (done < warmup) {
      const double x = done / std::max(1.0, warmup);
      if (arguments().warmup_type == RampShape::linear) return scaled(x);
      if (arguments().warmup_type == RampShape::cosine) return scaled(0.5 * (1.0 - std::cos(std::numbers::pi * x)));
      return scaled(1.0 - std::sqrt(1.0 - x));
    }
    if (done < warmup + stable) return 1;
    if (done >= warmup + stable + decay) return lowest;
    const double x = (done - warmup - stable) / std::max(1.0, decay);
    if (arguments().decay_type == RampShape::linear) return scaled(1.0 - x);
    if (arguments().decay_type == RampShape::one_minus_sqrt) return scaled(1.0 - std::sqrt(x));
    return scaled(0.5 * (1.0 + std::cos(std::numbers::pi * arguments().num_cycles * 2.0 * x)));
  }

  [[nodiscard]] double factor() const {
    switch (schedule.kind) {
      case ScheduleKind::constant:
      case ScheduleKind::reduce_lr_on_plateau:
      case ScheduleKind::greedy:
        return 1;
      case ScheduleKind::cosine_warmup_with_min_lr:
        return cosine_warmup_with_min_lr();
      case ScheduleKind::warmup_stable_decay:
        return warmup_stable_decay();
      default:
        return done < warmup ? done / std::max(1.0, warmup) : after_warmup();
    }
  }

  [[nodiscard]] double after_warmup() const {
    switch (schedule.kind) {
      case ScheduleKind::linear:
        return std::max(0.0, (total - done) / std::max(1.0, total - warmup));
      case ScheduleKind::cosine:
        return cosine(progress(), 0);
      case ScheduleKind::cosine_with_min_lr:
        return cosine(progress(), arguments().min_lr_rate);
      case ScheduleKind::cosine_with_restarts:
        return restarts();
      case ScheduleKind::polynomial:
        return polynomial();
      case ScheduleKind::inverse_sqrt:
        return inverse_sqrt();
      default:
        return 1;
    }
  }
};

}  // namespace

std::string_view schedule_name(ScheduleKind kind) {
  const auto* found = std::find_if(kNames.begin(), kNames.end(), [&](const Name& it) { return it.kind == kind; });
  return found == kNames.end() ? std::string_view() : found->name;
}

std::optional<ScheduleKind> schedule_kind(std::string_view name) {
  const auto* found = std::find_if(kNames.begin(), kNames.end(), [&](const Name& it) { return it.name == name; });
  if (found == kNames.end()) return std::nullopt;
  return found->kind;
}

bool follows_loss(ScheduleKind kind) {
  return kind == ScheduleKind::reduce_lr_on_plateau || kind == ScheduleKind::greedy;
}

bool warms_up(ScheduleKind kind) { return kind != ScheduleKind::constant && !follows_loss(kind); }

double LearningRateSchedule::at(std::int64_t step) const {
  // transformers steps its scheduler after the optimizer
  const Formula formula{*this, static_cast<double>(step - 1), static_cast<double>(warmup_steps),
                        static_cast<double>(total_steps)};
  return peak * formula.factor();
}

}  // namespace tern::train
