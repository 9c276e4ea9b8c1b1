// A learning rate that follows the held-out loss: torch.optim.lr_scheduler.ReduceLROnPlateau, and transformers'
// GreedyLR.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "train/schedule.h"

namespace tern::train {

// What a checkpoint keeps of it.
struct AdaptiveRateState {
  double rate = 0;             // of the next step
  std::optional<double> best;  // no loss yet, or all forgotten: nothing
  std::int64_t bad = 0;        // losses in a row that were no better
  std::int64_t good = 0;
  std::int64_t cooldown = 0;  // losses that don't count yet
  std::int64_t warmup = 0;
  std::int64_t reset_in = 0;
  std::vector<double> window;  // the newest losses, of which greedy takes the mean
  double window_sum = 0;
};

class AdaptiveRate {
 public:
  AdaptiveRate(const AdaptiveRateOptions& options, double peak);

  void observe(double loss);  // after each evaluation
  [[nodiscard]] double rate() const { return state_.rate; }
  [[nodiscard]] const AdaptiveRateState& state() const { return state_; }
  void restore(AdaptiveRateState state) { state_ = std::move(state); }

 private:
  [[nodiscard]] bool is_better(double loss) const;
  [[nodiscard]] double smoothed(double loss);
  void observe_plateau(double loss);
  void observe_greedy(double loss);
  void reduce();
  void raise();
  void begin_again();

  AdaptiveRateOptions options_;
  double peak_;
  AdaptiveRateState state_;
};

}  // namespace tern::train
