// Flags of training on several devices. Names and defaults follow ms-swift.
#include "cli/flags/flag_groups.h"

namespace tern::cli {
namespace {

using enum FlagType;

constexpr Flag kParallel[] = {
    {.name = "deepspeed",
     .type = json,
     .help = "how to shard training state: a name, or DeepSpeed's JSON",
     .choices = "zero0|zero1|zero2|zero3|zero2_offload|zero3_offload"},
    {.name = "fsdp", .type = choice, .help = "the same as --deepspeed zero3", .choices = "fsdp2"},
    {.name = "tensor_parallel_size",
     .type = integer,
     .fallback = "1",
     .help = "ranks that each layer is split over",
     .range = "[1,inf)"},
    {.name = "pipeline_parallel_size",
     .type = integer,
     .fallback = "1",
     .help = "stages that the layers are split into",
     .range = "[1,inf)"},
    {.name = "sequence_parallel_size",
     .type = integer,
     .fallback = "1",
     .help = "ranks that each sequence is split over",
     .range = "[1,inf)"},
    {.name = "expert_parallel_size",
     .type = integer,
     .fallback = "1",
     .help = "ranks that the experts are spread over",
     .range = "[1,inf)"},
    {.name = "context_parallel_size",
     .type = integer,
     .fallback = "1",
     .help = "ranks that attention's context is split over",
     .range = "[1,inf)"},
    {.name = "expert_tensor_parallel_size",
     .type = integer,
     .fallback = "1",
     .help = "ranks that each expert is split over",
     .range = "[1,inf)"},
};

}  // namespace

std::vector<FlagGroup> parallel_groups() { return {{"parallel", "Parallelism", kParallel}}; }

}  // namespace tern::cli
