// Flags that several commands share. Names and defaults follow ms-swift.
#include "cli/flags/flag_groups.h"

namespace tern::cli {
namespace {

using enum FlagType;

constexpr Flag kModel[] = {
    {.name = "model", .help = "a directory, a .gguf file, a bundled short name (`tern models`) or a hub id ORG/NAME"},
    {.name = "model_revision", .help = "branch, tag or commit of a hub id", .computed = "the hub's default branch"},
    {.name = "model_type", .help = "architecture", .computed = "from config.json"},
    {.name = "torch_dtype",
     .type = choice,
     .help = "dtype in which the weights are held",
     .computed = "from config.json",
     .choices = "bfloat16|float16|float32",
     .aliases = "dtype"},
    {.name = "attn_impl",
     .type = choice,
     .help = "accepted for ms-swift scripts",
     .choices = "flash_attention_2",
     .explanation = "attention never holds a matrix of scores: there is no other kind to choose"},
    {.name = "rope_scaling",
     .type = json,
     .help = "scaling of rotary positions: a name or config.json's JSON object",
     .computed = "from config.json",
     .choices = "linear|dynamic|yarn"},
    {.name = "max_model_len",
     .type = integer,
     .help = "longest sequence in tokens",
     .computed = "from config.json",
     .range = "[1,inf)"},
};

constexpr Flag kRuntime[] = {
    {.name = "device",
     .fallback = "auto",
     .help = "auto, cpu, cuda:0, opencl:0, npu:0, sim:0; a named device never falls back",
     .env = "TERN_ACCELERATOR|DS_ACCELERATOR"},
    {.name = "threads",
     .type = integer,
     .help = "host threads",
     .computed = "the cores this process may use",
     .range = "[1,4096]"},
    {.name = "fallback",
     .type = choice,
     .help = "whether an op the device lacks may run on the host",
     .computed = "forbid where the device was named, else warn",
     .choices = "forbid|warn|allow"},
    {.name = "backend", .help = "a backend library to load beside the installed ones"},
    {.name = "kernels",
     .type = choice,
     .fallback = "native",
     .help = "reference: decompositions and oracle kernels only, to find a wrong native kernel",
     .choices = "native|reference"},
    {.name = "enable_npu_model_patch",
     .type = boolean,
     .fallback = "true",
     .help = "false is --kernels reference, as ms-swift spells it"},
};

constexpr Flag kOutput[] = {
    {.name = "quiet", .type = boolean, .fallback = "false", .help = "only warnings, errors and results"},
};

constexpr Flag kJson[] = {
    {.name = "json", .type = boolean, .fallback = "false", .help = "print JSON for machines"},
};

constexpr Flag kBase[] = {
    {.name = "adapters", .type = list, .help = "adapter directories in PEFT's format"},
    {.name = "seed", .type = integer, .fallback = "42", .help = "seed of every random stream", .range = "[0,inf)"},
    {.name = "load_args",
     .type = boolean,
     .fallback = "false",
     .help = "take model, template, system and the like from the args.json beside the adapter or checkpoint"},
    {.name = "use_hf",
     .type = boolean,
     .fallback = "false",
     .help = "a bare ORG/NAME is Hugging Face's",
     .env = "USE_HF"},
    {.name = "hub_token", .help = "access token of the hub", .computed = "the hub's own variables", .secret = true},
    {.name = "ddp_timeout",
     .type = integer,
     .fallback = "18000000",
     .help = "deadline of a collective, seconds",
     .range = "[1,inf)"},
};

constexpr Flag kData[] = {
    {.name = "dataset", .type = list, .help = "files or hub ids ORG/NAME[:subset], each with #N to take N rows"},
    {.name = "val_dataset", .type = list, .help = "held-out rows, as --dataset"},
    {.name = "split_dataset_ratio",
     .type = real,
     .fallback = "0",
     .help = "share of --dataset held out where no --val_dataset is given",
     .range = "[0,1)"},
    {.name = "data_seed",
     .type = integer,
     .fallback = "42",
     .help = "seed of splitting and shuffling",
     .range = "[0,inf)"},
    {.name = "dataset_num_proc",
     .type = integer,
     .fallback = "1",
     .help = "threads that encode rows",
     .range = "[1,4096]"},
    {.name = "dataset_shuffle", .type = boolean, .fallback = "true", .help = "shuffle rows, within epochs as well"},
    {.name = "streaming", .type = boolean, .fallback = "false", .help = "read rows as they are needed"},
    {.name = "shuffle_buffer_size",
     .type = integer,
     .fallback = "1000",
     .help = "rows from which a stream draws the next one",
     .range = "[1,1000000000]"},
    {.name = "columns", .type = json, .help = "JSON map from the file's columns to the known ones"},
    {.name = "strict",
     .type = boolean,
     .fallback = "false",
     .help = "a bad row stops the run instead of being dropped"},
    {.name = "load_from_cache_file", .type = boolean, .fallback = "true", .help = "reuse encoded rows"},
};

constexpr Flag kTemplate[] = {
    {.name = "template", .help = "file of a chat template", .computed = "the model's own"},
    {.name = "system", .help = "system message, or a file that holds it", .computed = "the template's own"},
    {.name = "max_length",
     .type = integer,
     .help = "longest sample in tokens",
     .computed = "the model's longest",
     .range = "[1,inf)"},
    {.name = "truncation_strategy",
     .type = choice,
     .fallback = "delete",
     .help = "what becomes of a longer sample",
     .choices = "delete|left|right|split"},
    {.name = "padding_free",
     .type = boolean,
     .fallback = "false",
     .help = "accepted for ms-swift scripts",
     .explanation = "batches never hold padding: sequences are laid end to end in either case"},
    {.name = "loss_scale",
     .type = choice,
     .fallback = "default",
     .help = "which tokens are supervised",
     .choices = "default|last_round|all"},
    {.name = "use_chat_template", .type = boolean, .fallback = "true", .help = "render rows by the chat template"},
    {.name = "enable_thinking", .type = boolean, .help = "passed to the template", .computed = "the template's own"},
    {.name = "agent_template", .help = "how tools are written", .computed = "the template's own"},
};

constexpr Flag kGeneration[] = {
    {.name = "max_new_tokens",
     .type = integer,
     .help = "most tokens of an answer",
     .computed = "from generation_config.json, else what the model's length leaves",
     .range = "[1,inf)"},
    {.name = "temperature",
     .type = real,
     .help = "0 takes the likeliest token",
     .computed = "from generation_config.json",
     .range = "[0,inf)"},
    {.name = "top_k",
     .type = integer,
     .help = "sample from the k likeliest; 0 or -1: all",
     .computed = "from generation_config.json",
     .range = "[-1,inf)"},
    {.name = "top_p",
     .type = real,
     .help = "sample from the likeliest that hold this probability",
     .computed = "from generation_config.json",
     .range = "(0,1]"},
    {.name = "min_p",
     .type = real,
     .help = "drop tokens below this share of the likeliest",
     .computed = "from generation_config.json",
     .range = "[0,1]"},
    {.name = "repetition_penalty",
     .type = real,
     .help = "above 1 makes seen tokens less likely",
     .computed = "from generation_config.json",
     .range = "(0,inf)"},
    {.name = "num_beams", .type = integer, .fallback = "1", .help = "beams of a beam search", .range = "[1,inf)"},
    {.name = "stream", .type = boolean, .help = "print tokens as they come", .computed = "true on a terminal"},
    {.name = "stop_words", .type = list, .help = "texts that end an answer"},
    {.name = "logprobs", .type = boolean, .fallback = "false", .help = "give the log-probability of each token"},
    {.name = "top_logprobs", .type = integer, .help = "and of this many likeliest", .range = "[0,inf)"},
};

constexpr Flag kQuantization[] = {
    {.name = "quant_method", .type = choice, .help = "quantise the weights at load", .choices = "bnb-nf4|int8|fp8"},
    {.name = "quant_bits", .type = choice, .help = "bits of a quantised weight", .choices = "4|8"},
    {.name = "bnb_4bit_quant_type", .type = choice, .fallback = "nf4", .help = "4-bit code", .choices = "nf4|fp4"},
    {.name = "bnb_4bit_use_double_quant", .type = boolean, .fallback = "true", .help = "quantise the scales too"},
};

constexpr Flag kCompat[] = {
    {.name = "infer_backend",
     .type = choice,
     .help = "accepted for ms-swift scripts",
     .choices = "pt|transformers|vllm|sglang",
     .explanation = "one engine serves what any of them would"},
    {.name = "use_liger_kernel",
     .type = boolean,
     .help = "accepted for ms-swift scripts",
     .explanation = "the loss never holds tokens x vocabulary in either case"},
};

}  // namespace

std::vector<FlagGroup> shared_groups() {
  return {{"model", "Model", kModel},
          {"base", "Base", kBase},
          {"data", "Data", kData},
          {"template", "Template", kTemplate},
          {"generation", "Generation", kGeneration},
          {"quantization", "Quantisation at load", kQuantization},
          {"compat", "For ms-swift scripts", kCompat},
          {"runtime", "Device", kRuntime},
          {"json", "Output", kJson},
          {"output", "Output", kOutput}};
}

}  // namespace tern::cli
