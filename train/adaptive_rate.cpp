#include "train/adaptive_rate.h"

#include <algorithm>

namespace tern::train {

AdaptiveRate::AdaptiveRate(const AdaptiveRateOptions& options, double peak) : options_(options), peak_(peak) {
  state_.rate = peak;
  state_.reset_in = options.reset_start;
}

bool AdaptiveRate::is_better(double loss) const {
  if (!state_.best) return true;
  const double best = *state_.best;
  const double sign = options_.lower_is_better ? -1.0 : 1.0;
  const double bound =
      options_.relative_threshold ? best * (1.0 + sign * options_.threshold) : best + sign * options_.threshold;
  return options_.lower_is_better ? loss < bound : loss > bound;
}

void AdaptiveRate::observe(double loss) { options_.greedy ? observe_greedy(loss) : observe_plateau(loss); }

void AdaptiveRate::observe_plateau(double loss) {
  if (is_better(loss)) {
    state_.best = loss;
    state_.bad = 0;
  } else {
    ++state_.bad;
  }
  if (state_.cooldown > 0) {
    --state_.cooldown;
    state_.bad = 0;
  }
  if (state_.bad <= options_.patience) return;
  reduce();
  state_.cooldown = options_.cooldown;
  state_.bad = 0;
}

// The sum is carried, not made anew: its rounding is GreedyLR's.
double AdaptiveRate::smoothed(double loss) {
  if (!options_.smooth) return loss;
  state_.window.push_back(loss);
  state_.window_sum += loss;
  if (static_cast<std::int64_t>(state_.window.size()) > options_.window_size) {
    state_.window_sum -= state_.window.front();
    state_.window.erase(state_.window.begin());
  }
  return state_.window_sum / static_cast<double>(state_.window.size());
}

void AdaptiveRate::observe_greedy(double loss) {
  const double current = smoothed(loss);
  if (state_.cooldown > 0 || state_.warmup > 0) {
    --(state_.cooldown > 0 ? state_.cooldown : state_.warmup);
    state_.bad = 0;
    state_.good = 0;
    return;
  }
  if (is_better(current)) {
    state_.best = current;
    state_.bad = 0;
    ++state_.good;
  } else {
    ++state_.bad;
    state_.good = 0;
  }
  if (state_.good > options_.patience) {
    raise();
    state_.warmup = options_.warmup;
    state_.good = 0;
  } else if (state_.bad > options_.patience) {
    reduce();
    state_.cooldown = options_.cooldown;
    state_.bad = 0;
  }
}

void AdaptiveRate::reduce() {
  const double next = std::max(state_.rate * options_.factor, options_.min_lr);
  if (state_.rate - next > options_.eps) state_.rate = next;
  if (options_.greedy && state_.rate <= options_.min_lr && --state_.reset_in <= 0) begin_again();
}

void AdaptiveRate::raise() {
  const double next = std::min(state_.rate / options_.factor, options_.max_lr);
  if (next - state_.rate > options_.eps) state_.rate = next;
  state_.reset_in = options_.reset_start;
}

void AdaptiveRate::begin_again() {
  state_ = {};
  state_.rate = peak_;
  state_.reset_in = options_.reset_start;
}

}  // namespace tern::train
