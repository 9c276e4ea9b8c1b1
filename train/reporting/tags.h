// The tags of TensorBoard and of plots.
#pragma once

#include <string>
#include <string_view>

namespace tern::train {

// As transformers makes them of a log's keys: `eval_loss` is eval/loss, `loss` is train/loss.
[[nodiscard]] inline std::string tag_of(std::string_view key) {
  constexpr std::string_view kEval = "eval_";
  return key.starts_with(kEval) ? std::string("eval/").append(key.substr(kEval.size()))
                                : std::string("train/").append(key);
}

}  // namespace tern::train
