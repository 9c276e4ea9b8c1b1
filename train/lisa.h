// LISA (Pan et al., "LISA: Layerwise Importance Sampling for Memory-Efficient Large Language Model Fine-Tuning",
// NeurIPS 2024), as ms-swift's callback has it: of full tuning a few layers train at a time, drawn anew every so many
// steps, and what lies outside of the layers always does.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tern::train {

struct LisaOptions {
  std::int64_t activated_layers = 1;
  std::int64_t step_interval = 20;
};

class LayerSampler {
 public:
  // `layers`: that the model has; `parameters`: stored names of all that the run trains. Throws Failure (usage) where
  // fewer layers than `options` asks for are there.
  LayerSampler(const LisaOptions& options, std::int64_t layers, std::uint64_t seed,
               std::vector<std::string> parameters);

  // Of the step behind `done` ones: whether its layers are drawn anew. They are before the first step, before the
  // second, and before each behind a multiple of the interval.
  [[nodiscard]] bool draws_at(std::int64_t done) const;
  // Its layers, rising. They depend on the seed and the step alone, so that a run that resumes has the same.
  [[nodiscard]] std::vector<std::int64_t> layers_at(std::int64_t done) const;
  // What trains then.
  [[nodiscard]] std::vector<std::string> parameters_at(std::int64_t done) const { return of_layers(layers_at(done)); }
  [[nodiscard]] std::vector<std::string> of_layers(const std::vector<std::int64_t>& layers) const;

  // Choices of layers that take the most memory, to plan with: the first, the last, those between, those of most
  // numbers.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> extremes(const std::map<std::string, std::int64_t>& sizes) const;

  // Adds the step behind `done` ones to what each layer has missed, [layers].
  void count_missed(std::int64_t done, std::vector<std::int64_t>& missed) const;
  // The same by parameter.
  [[nodiscard]] std::map<std::string, std::int64_t> missed_of(const std::vector<std::int64_t>& missed) const;

 private:
  LisaOptions options_;
  std::int64_t layers_;
  std::uint64_t seed_;
  std::vector<std::string> parameters_;
};

}  // namespace tern::train
