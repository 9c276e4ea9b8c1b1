// The formulas of rope scalings.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/rope.h"

namespace tern::models {
namespace {

// By Llama 3.1's formula.
double llama3_frequency(const ModelConfig& config, double frequency) {
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  const double low = config.rope_original_max_position / config.rope_low_freq_factor;
  const double high = config.rope_original_max_position / config.rope_high_freq_factor;
  if (wavelength > low) return frequency / config.rope_factor;
  if (wavelength < high || low == high) return frequency;
  const double smooth = (config.rope_original_max_position / wavelength - config.rope_low_freq_factor) /
                        (config.rope_high_freq_factor - config.rope_low_freq_factor);
  return (1.0 - smooth) * frequency / config.rope_factor + smooth * frequency;
}

// Which share of the frequency of pair `pair` YaRN slows down: none of those that turn often within the original
// context, all of those that turn seldom, and a ramp between.
class YarnRamp {
 public:
  explicit YarnRamp(const ModelConfig& config)
      : low_(pair_of(config, config.rope_beta_fast)), high_(pair_of(config, config.rope_beta_slow)) {
    if (config.rope_truncate) {
      low_ = std::floor(low_);
      high_ = std::ceil(high_);
    }
    low_ = std::max(low_, 0.0);
    high_ = std::min(high_, static_cast<double>(config.rotary_dim - 1));
    if (low_ == high_) high_ += 0.001;  // as the reference implementation
  }
  [[nodiscard]] double operator()(std::size_t pair) const {
    return std::clamp((static_cast<double>(pair) - low_) / (high_ - low_), 0.0, 1.0);
  }

 private:
  // The pair that turns so often within the original context.
  static double pair_of(const ModelConfig& config, double turns) {
    return static_cast<double>(config.rotary_dim) *
           std::log(config.rope_original_max_position / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(config.rope_theta));
  }
  double low_;
  double high_;
};

// LongRoPE's, which grows with the context over the one that was trained first.
double longrope_amplitude(const ModelConfig& config) {
  if (config.rope_factor <= 1.0) return 1.0;
  return std::sqrt(1.0 + std::log(config.rope_factor) / std::log(config.rope_original_max_position));
}

// Of the pairs of a head, those that `proportional` turns: the share of its features that are in whole pairs.
std::size_t turned_pairs(const ModelConfig& config) {
  return static_cast<std::size_t>(config.rope_share * static_cast<double>(config.rotary_dim) / 2.0);
}

double yarn_mscale(double factor, double mscale) { return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

// `divisors`: of longrope.
std::vector<double> scaled_frequencies(const ModelConfig& config, const std::vector<float>& divisors) {
  const auto half = static_cast<std::size_t>(config.rotary_dim / 2);
  std::vector<double> out(half);
  for (std::size_t i = 0; i < half; ++i) {
    out[i] = std::pow(config.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(config.rotary_dim));
    if (i < config.rope_freq_factors.size()) {
      out[i] /= config.rope_freq_factors[i];
    } else if (config.rope_scaling == RopeScaling::longrope) {
      out[i] /= divisors[i];
    } else if (config.rope_scaling == RopeScaling::proportional) {
      out[i] = i < turned_pairs(config) ? out[i] / config.rope_factor : 0.0;
    } else if (config.rope_scaling == RopeScaling::linear) {
      out[i] /= config.rope_factor;
    } else if (config.rope_scaling == RopeScaling::yarn) {
      const double slowed = YarnRamp(config)(i);
      out[i] *= (1.0 - slowed) + slowed / config.rope_factor;
    } else if (config.rope_scaling == RopeScaling::llama3) {
      out[i] = llama3_frequency(config, out[i]);
    }
  }
  return out;
}

}  // namespace

double rope_amplitude(const ModelConfig& config) {
  const bool is_long = config.rope_scaling == RopeScaling::longrope;
  if (config.rope_scaling != RopeScaling::yarn && !is_long) return 1.0;
  if (config.rope_attention_factor != 0.0) return config.rope_attention_factor;
  if (is_long) return longrope_amplitude(config);
  if (config.rope_mscale == 0.0 || config.rope_mscale_all_dim == 0.0) return yarn_mscale(config.rope_factor, 1.0);
  return yarn_mscale(config.rope_factor, config.rope_mscale) /
         yarn_mscale(config.rope_factor, config.rope_mscale_all_dim);
}

double yarn_score_scale(const ModelConfig& config) {
  return config.rope_scaling == RopeScaling::yarn ? yarn_mscale(config.rope_factor, config.rope_mscale_all_dim) : 1.0;
}

std::vector<double> rope_frequencies(const ModelConfig& config) {
  return scaled_frequencies(config, config.rope_short_factors);
}

std::vector<double> long_rope_frequencies(const ModelConfig& config) {
  return config.rope_long_factors.empty() ? std::vector<double>()
                                          : scaled_frequencies(config, config.rope_long_factors);
}

std::vector<float> rope_factors(const ModelConfig& config) {
  const std::vector<double> scaled = rope_frequencies(config);
  ModelConfig unscaled = config;
  unscaled.rope_scaling = RopeScaling::none;
  unscaled.rope_freq_factors.clear();
  const std::vector<double> plain = rope_frequencies(unscaled);
  std::vector<float> factors(plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i)
    factors[i] = scaled[i] == 0.0 ? kStill : static_cast<float>(plain[i] / scaled[i]);
  return factors;
}

std::vector<double> local_rope_frequencies(const ModelConfig& config) {
  ModelConfig local = config;
  local.rope_theta = config.rope_local_theta;
  local.rope_scaling = RopeScaling::none;
  local.rope_freq_factors.clear();
  return rope_frequencies(local);
}

}  // namespace tern::models
