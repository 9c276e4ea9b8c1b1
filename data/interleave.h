// `--interleave_prob`: rows of several data sets in turn, each next one drawn by these probabilities, as
// datasets.interleave_datasets(datasets, probabilities, seed, stopping_strategy) takes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "data/numpy_random.h"

namespace tern::data {

// The mixture ends with the first data set that is exhausted, or when each was: those that are before begin anew.
enum class StoppingStrategy { first_exhausted, all_exhausted };

struct Interleave {
  std::vector<double> probabilities;  // of each data set; empty: they come one after another
  StoppingStrategy stopping = StoppingStrategy::first_exhausted;

  [[nodiscard]] bool on() const { return !probabilities.empty(); }
};

// Errors (usage): not one probability for each of the data sets; below 0, or with another sum than 1; 0 where the data
// set would have to be exhausted.
[[nodiscard]] Status check_interleave(const Interleave& options, std::size_t datasets);
[[nodiscard]] std::string_view name(StoppingStrategy strategy);

// Which data set the next row is from.
class Mixture {
 public:
  Mixture(const Interleave& options, std::uint64_t seed);
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] std::size_t next() { return choice_.next(); }
  // The last row of `dataset` was taken.
  void exhausted(std::size_t dataset);

 private:
  StoppingStrategy stopping_;
  NumpyChoice choice_;
  std::vector<bool> exhausted_;
  bool ended_ = false;
};

// The mixture of data sets of so many rows, each at least 1: (data set, its row).
[[nodiscard]] std::vector<std::pair<std::uint32_t, std::uint32_t>> interleaved(std::span<const std::uint32_t> rows,
                                                                               const Interleave& options,
                                                                               std::uint64_t seed);

}  // namespace tern::data
