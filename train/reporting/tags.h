// The tags of TensorBoard, wandb, SwanLab and of plots.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/reporting/log_row.h"

namespace tern::train {

// As transformers makes them of a log's keys: `eval_loss` is eval/loss, `loss` is train/loss.
[[nodiscard]] inline std::string tag_of(std::string_view key) {
  constexpr std::string_view kEval = "eval_";
  return key.starts_with(kEval) ? std::string("eval/").append(key.substr(kEval.size()))
                                : std::string("train/").append(key);
}

// A row's numbers by their tags. An evaluation is no step of training, and its row repeats the last one's rates: those
// are left out.
[[nodiscard]] inline std::vector<std::pair<std::string, double>> tagged_numbers(const LogRow& row) {
  std::vector<std::pair<std::string, double>> out;
  for (const auto& [key, value] : numbers(row)) {
    if (row.loss || key.starts_with("eval_")) out.emplace_back(tag_of(key), value);
  }
  return out;
}

}  // namespace tern::train
