// Which of a model's weights full tuning trains.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "models/config.h"

namespace tern::train {

// All are trained but what is frozen, and what is asked for is trained whatever freezes it: ms-swift's rule.
struct Selection {
  std::vector<std::string> freeze_parameters;  // beginnings of names
  std::string freeze_parameters_regex;         // found anywhere in a name; "": none
  // The share of all numbers that is frozen, from the embedding upwards: as many whole weights as fit into it.
  double freeze_parameters_ratio = 0;
  std::vector<std::string> trainable_parameters;
  std::string trainable_parameters_regex;
};

// Their names, of a model of that configuration. Errors (usage): a beginning or an expression that chooses no weight,
// nothing left to train.
[[nodiscard]] Result<std::vector<std::string>> trained_parameters(const Selection& selection,
                                                                  const models::ModelConfig& config);

}  // namespace tern::train
