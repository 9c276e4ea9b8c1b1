// Flags of one command or few: inference, serving, export and the tools.
#include "cli/flags/flag_groups.h"

namespace tern::cli {
namespace {

using enum FlagType;

constexpr Flag kAdapters[] = {
    {.name = "adapters", .type = list, .help = "adapter directories in PEFT's format"},
};
constexpr Flag kSeed[] = {
    {.name = "seed", .type = integer, .fallback = "42", .help = "seed of every random stream", .range = "[0,inf)"},
};
constexpr Flag kHub[] = {
    {.name = "use_hf",
     .type = boolean,
     .fallback = "false",
     .help = "a bare ORG/NAME is Hugging Face's",
     .env = "USE_HF"},
    {.name = "hub_token", .help = "access token of the hub", .computed = "the hub's own variables", .secret = true},
};
constexpr Flag kModelFile[] = {
    {.name = "model", .help = "a directory, a .gguf file, a bundled short name (`tern models`) or a hub id ORG/NAME"},
    {.name = "model_revision", .help = "branch, tag or commit of a hub id", .computed = "the hub's default branch"},
};
constexpr Flag kCompute[] = {kTorchDtype};
constexpr Flag kTextRows[] = {
    {.name = "dataset", .type = list, .help = "files or hub ids of rows {\"text\"}, each with #N to take N rows"},
    {.name = "result_path", .help = "file the rows go to", .computed = "standard output"},
};
constexpr Flag kInfer[] = {
    {.name = "max_batch_size",
     .type = integer,
     .fallback = "1",
     .help = "rows of val_dataset at once",
     .range = "[1,inf)",
     .effect = "rows"},
    {.name = "result_path", .help = "JSONL file of the answers"},
    {.name = "metric",
     .type = choice,
     .help = "judges the answers to val_dataset",
     .choices = "acc|rouge",
     .effect = "rows"},
    {.name = "load_data_args",
     .type = boolean,
     .fallback = "false",
     .help = "answer the split that the training run's args.json recorded",
     .effect = "recorded_rows"},
};
constexpr Flag kCache[] = {
    {.name = "kv_cache_dtype",
     .type = choice,
     .fallback = "auto",
     .help = "dtype of the KV cache; auto: that of --torch_dtype",
     .choices = "auto|bfloat16|float16|float32"},
    {.name = "kv_cache_memory",
     .type = size,
     .help = "most bytes of the KV cache",
     .computed = "80% of the memory that the model leaves free",
     .range = "[1,inf)"},
};
constexpr Flag kDeploy[] = {
    {.name = "host", .fallback = "0.0.0.0", .help = "address"},
    {.name = "port", .type = integer, .fallback = "8000", .help = "port", .range = "[0,65535]"},
    {.name = "api_key", .help = "key that requests must carry", .secret = true},
    {.name = "ssl_keyfile", .help = "private key, PEM"},
    {.name = "ssl_certfile", .help = "certificate, PEM"},
    {.name = "served_model_name", .type = list, .help = "names the model answers to", .computed = "the model's name"},
    {.name = "adapters", .type = list, .help = "name=path of LoRAs, chosen by the request's `model`"},
    {.name = "max_num_seqs", .type = integer, .fallback = "256", .help = "most sequences at once", .range = "[1,inf)"},
    {.name = "max_num_batched_tokens",
     .type = integer,
     .help = "most tokens of a step",
     .computed = "by the device",
     .range = "[1,inf)"},
    {.name = "enable_prefix_caching", .type = boolean, .fallback = "true", .help = "reuse the KV of equal prefixes"},
    {.name = "tensor_parallel_size",
     .type = integer,
     .fallback = "1",
     .help = "ranks that share a layer",
     .range = "[1,inf)"},
    {.name = "speculative_config", .type = json, .help = "vLLM's JSON object"},
};
constexpr Flag kMerge[] = {
    {.name = "output_dir", .help = "directory to write", .computed = "<adapter>-merged"},
    {.name = "max_shard_size", .type = size, .fallback = "5GB", .help = "largest file", .range = "[1,inf)"},
    {.name = "exist_ok", .type = boolean, .fallback = "false", .help = "replace an existing directory"},
};
constexpr Flag kExport[] = {
    {.name = "merge_lora", .type = boolean, .fallback = "false", .help = "merge the adapters first"},
    {.name = "quant_method", .type = choice, .help = "quantise", .choices = "awq|gptq|int8|fp8|gguf"},
    {.name = "quant_bits", .type = choice, .help = "bits of a quantised weight", .choices = "2|3|4|8"},
    {.name = "group_size",
     .type = integer,
     .fallback = "128",
     .help = "weights that share a scale",
     .range = "[-1,inf)"},
    {.name = "quant_n_samples", .type = integer, .fallback = "256", .help = "calibration rows", .range = "[1,inf)"},
    {.name = "push_to_hub", .type = boolean, .fallback = "false", .help = "upload the result"},
    {.name = "hub_model_id", .help = "ORG/NAME to upload to"},
    {.name = "hub_private_repo", .type = boolean, .fallback = "false", .help = "make it private"},
    {.name = "commit_message", .help = "of the upload", .computed = "names the checkpoint"},
};
constexpr Flag kEval[] = {
    {.name = "eval_dataset", .type = list, .help = "benchmarks"},
    {.name = "eval_limit", .type = integer, .help = "rows of each", .computed = "all", .range = "[1,inf)"},
    {.name = "eval_output_dir", .fallback = "eval_output", .help = "where results go"},
    {.name = "eval_url", .help = "an OpenAI-compatible server to ask instead of a model"},
    {.name = "eval_num_proc", .type = integer, .fallback = "16", .help = "requests at once", .range = "[1,inf)"},
};
constexpr Flag kSample[] = {
    {.name = "num_return_sequences", .type = integer, .fallback = "64", .help = "answers a row", .range = "[1,inf)"},
    {.name = "output_dir", .fallback = "sample_output", .help = "where rows go"},
};
constexpr Flag kTokenize[] = {
    {.name = "text", .help = "text to encode", .computed = "standard input", .effect = "one_text"},
    {.name = "decode", .type = boolean, .fallback = "false", .help = "ids in, text out"},
};
constexpr Flag kInspectData[] = {
    {.name = "dataset", .type = list, .help = "files or hub ids ORG/NAME[:subset], each with #N to take N rows"},
    {.name = "columns", .type = json, .help = "JSON map from the file's columns to the known ones"},
    {.name = "strict", .type = boolean, .fallback = "false", .help = "a bad row stops instead of being dropped"},
    {.name = "packing_length",
     .type = integer,
     .help = "length at which packing is judged",
     .computed = "max_length",
     .range = "[1,inf)"},
    {.name = "sample",
     .type = integer,
     .help = "show this row's tokens, supervised or not, in colour",
     .range = "[0,inf)"},
    {.name = "html", .help = "write a page that stands alone"},
    {.name = "svg", .help = "write the histogram of lengths"},
};
constexpr Flag kBench[] = {
    {.name = "prompt_length", .type = list, .fallback = "512", .help = "tokens of the prompt", .range = "[1,1048576]"},
    {.name = "max_new_tokens", .type = integer, .fallback = "128", .help = "tokens decoded", .range = "[1,inf)"},
    {.name = "batch_size", .type = list, .fallback = "1", .help = "sequences at once", .range = "[1,65536]"},
};
constexpr Flag kConvert[] = {
    {.name = "output", .help = "file or directory to write"},
    {.name = "outtype",
     .type = choice,
     .help = "dtype of the written weights",
     .computed = "as stored",
     .choices = "f32|f16|bf16|q8_0|q4_0|q4_1|q4_k|q6_k"},
    {.name = "format",
     .type = choice,
     .help = "format to write",
     .computed = "from the name of the output",
     .choices = "gguf|safetensors"},
    {.name = "max_shard_size", .type = size, .fallback = "5GB", .help = "largest file", .range = "[1,inf)"},
    {.name = "exist_ok", .type = boolean, .fallback = "false", .help = "replace what exists"},
};
constexpr Flag kSelftest[] = {
    {.name = "op", .type = list, .help = "ops to test", .computed = "all", .effect = "ops_alone new_cases"},
    {.name = "replay", .help = "run the failing case that this file holds", .effect = "ops_alone"},
};
constexpr Flag kWebUi[] = {
    {.name = "host", .fallback = "0.0.0.0", .help = "address"},
    {.name = "port", .type = integer, .fallback = "7860", .help = "port", .range = "[0,65535]"},
};

}  // namespace

std::vector<FlagGroup> tool_groups() {
  return {
      {"adapters", "Adapters", kAdapters}, {"seed", "Randomness", kSeed},        {"hub", "Hub", kHub},
      {"model_file", "Model", kModelFile}, {"compute", "Weights", kCompute},     {"text_rows", "Rows", kTextRows},
      {"infer", "Inference", kInfer},      {"deploy", "Server", kDeploy},        {"merge", "Result", kMerge},
      {"export", "Export", kExport},       {"cache", "Key-value cache", kCache}, {"eval", "Evaluation", kEval},
      {"sample", "Sampling", kSample},     {"tokenize", "Text", kTokenize},      {"inspect_data", "Data", kInspectData},
      {"bench", "Measurement", kBench},    {"convert", "Result", kConvert},      {"selftest", "Cases", kSelftest},
      {"web_ui", "Server", kWebUi}};
}

}  // namespace tern::cli
