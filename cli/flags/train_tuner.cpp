// Flags of what is trained. Names and defaults follow ms-swift.
#include "cli/flags/flag_groups.h"

namespace tern::cli {
namespace {

using enum FlagType;

constexpr Flag kTuner[] = {
    {.name = "tuner_type",
     .type = choice,
     .fallback = "lora",
     .help = "what to train: an adapter or all weights",
     .choices = "lora|full",
     .aliases = "train_type"},
    {.name = "lora_rank",
     .type = integer,
     .fallback = "8",
     .help = "the adapter's rank",
     .range = "[1,inf)",
     .effect = "lora new_adapter"},
    {.name = "lora_alpha",
     .type = real,
     .fallback = "32",
     .help = "the adapter's output is scaled by alpha / rank",
     .range = "(0,inf)",
     .effect = "lora new_adapter"},
    {.name = "lora_dropout",
     .type = real,
     .fallback = "0.05",
     .help = "dropout on the adapter's input",
     .range = "[0,1)",
     .effect = "lora new_adapter"},
    {.name = "lora_bias",
     .type = choice,
     .fallback = "none",
     .help = "which biases to train",
     .choices = "none|all|lora_only",
     .effect = "lora new_adapter"},
    {.name = "target_modules",
     .type = list,
     .fallback = "all-linear",
     .help = "layers that get an adapter; all-linear is every linear layer but the head",
     .effect = "lora new_adapter by_name"},
    {.name = "target_regex",
     .help = "regular expression of whole layer names; overrides target_modules",
     .effect = "lora new_adapter"},
    {.name = "target_parameters",
     .type = list,
     .help = "fused expert weights that get an adapter",
     .effect = "lora new_adapter"},
    {.name = "modules_to_save",
     .type = list,
     .help = "modules to train in full beside the adapter, by the ends of their names; all-embedding and all-norm are "
             "known",
     .effect = "lora new_adapter"},
    {.name = "init_weights",
     .fallback = "true",
     .help = "how a new adapter is initialised: true, false, gaussian, pissa, pissa_niter_N or olora",
     .effect = "lora new_adapter"},
    {.name = "use_rslora",
     .type = boolean,
     .fallback = "false",
     .help = "scale by alpha / sqrt(rank) instead (rsLoRA)",
     .effect = "lora new_adapter"},
    {.name = "use_dora",
     .type = boolean,
     .fallback = "false",
     .help = "train magnitude and direction separately (DoRA)",
     .effect = "lora new_adapter"},
    {.name = "freeze_parameters",
     .type = list,
     .help = "don't train weights whose names begin like this",
     .effect = "full"},
    {.name = "trainable_parameters",
     .type = list,
     .help = "train weights whose names begin like this; overrides freeze_parameters",
     .effect = "full freezes"},
};

}  // namespace

std::vector<FlagGroup> tuner_groups() { return {{"tuner", "Tuner", kTuner}}; }

}  // namespace tern::cli
