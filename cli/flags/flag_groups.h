// The parts of the flag table, by the file that holds them.
#pragma once

#include <vector>

#include "cli/flags/flag.h"

namespace tern::cli {

// Of every command that opens a model's weights.
inline constexpr Flag kTorchDtype = {
    .name = "torch_dtype",
    .type = FlagType::choice,
    .help = "dtype of the weights: unquantised ones are held in it, products use at most its precision",
    .computed = "config.json's; bfloat16 for a GGUF file",
    .choices = "bfloat16|float16|float32",
    .aliases = "dtype"};

[[nodiscard]] std::vector<FlagGroup> shared_groups();
[[nodiscard]] std::vector<FlagGroup> loop_groups();
[[nodiscard]] std::vector<FlagGroup> optimizer_groups();
[[nodiscard]] std::vector<FlagGroup> parallel_groups();
[[nodiscard]] std::vector<FlagGroup> tuner_groups();
[[nodiscard]] std::vector<FlagGroup> task_groups();
[[nodiscard]] std::vector<FlagGroup> alignment_groups();
[[nodiscard]] std::vector<FlagGroup> tool_groups();

}  // namespace tern::cli
