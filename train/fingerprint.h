// What a run that goes on must have in common with the one that wrote the checkpoint, and what may change.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/steps.h"

namespace tern::train {

struct Fingerprint {
  data::Settings fixed;       // decide the sequence of steps: data, seeds, template, lengths, packing, samples a step
  data::Settings changeable;  // decide what a step does: learning rate, steps in all, weight decay
};

// Error where `is.fixed` isn't `was.fixed`, naming each difference: of the kind data where the rows alone differ, else
// usage.
[[nodiscard]] Status require_same(const std::filesystem::path& checkpoint, const Fingerprint& was,
                                  const Fingerprint& is);
// A line for each difference in `changeable`.
[[nodiscard]] std::vector<std::string> changes(const Fingerprint& was, const Fingerprint& is);

}  // namespace tern::train
