// Flags of the optimizer and its learning rate. Names and defaults follow ms-swift.
#include "cli/flags/flag_groups.h"

namespace tern::cli {
namespace {

using enum FlagType;

constexpr Flag kOptimizer[] = {
    {.name = "learning_rate",
     .type = real,
     .help = "peak learning rate",
     .computed = "1e-5 for full tuning, else 1e-4",
     .range = "[0,inf)"},
    {.name = "lr_scheduler_type",
     .type = choice,
     .fallback = "cosine",
     .help = "how the learning rate falls after the warm-up; constant, reduce_lr_on_plateau and greedy have no warm-up",
     .choices = "cosine|linear|constant|constant_with_warmup|cosine_with_restarts|polynomial|inverse_sqrt|"
                "reduce_lr_on_plateau|cosine_with_min_lr|cosine_warmup_with_min_lr|warmup_stable_decay|greedy"},
    {.name = "lr_scheduler_kwargs",
     .type = json,
     .help = "what the schedule takes beside its steps, as in '{\"num_cycles\": 2}'"},
    {.name = "warmup_ratio",
     .type = real,
     .fallback = "0",
     .help = "share of all steps that the warm-up takes",
     .range = "[0,1]",
     .effect = "by_ratio"},
    {.name = "warmup_steps",
     .type = integer,
     .help = "steps that the warm-up takes; overrides warmup_ratio",
     .range = "[0,inf)"},
    {.name = "weight_decay",
     .type = real,
     .fallback = "0.1",
     .help = "weight decay, decoupled from the gradient as in AdamW",
     .range = "[0,inf)"},
    {.name = "adam_beta1",
     .type = real,
     .fallback = "0.9",
     .help = "Adam's decay rate of the first moment",
     .range = "[0,1)"},
    {.name = "adam_beta2",
     .type = real,
     .fallback = "0.95",
     .help = "Adam's decay rate of the second moment",
     .range = "[0,1)"},
    {.name = "adam_epsilon",
     .type = real,
     .fallback = "1e-8",
     .help = "Adam's epsilon, added to the square root of the second moment",
     .range = "(0,inf)"},
    {.name = "max_grad_norm",
     .type = real,
     .fallback = "1.0",
     .help = "clip the gradient's norm to this; 0 turns clipping off",
     .range = "[0,inf)"},
    {.name = "optim",
     .type = choice,
     .fallback = "adamw",
     .help = "optimizer; all three names mean AdamW",
     .choices = "adamw|adamw_torch|adamw_torch_fused"},
    {.name = "neftune_noise_alpha",
     .type = real,
     .fallback = "0",
     .help = "strength of the noise on embeddings (NEFTune)",
     .range = "[0,inf)"},
};

}  // namespace

std::vector<FlagGroup> optimizer_groups() { return {{"optimizer", "Optimizer", kOptimizer}}; }

}  // namespace tern::cli
