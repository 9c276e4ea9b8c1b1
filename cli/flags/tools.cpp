// Flags of one command or few: inference, serving, export and the tools.
#include "cli/flags/flag_groups.h"

namespace tern::cli {
namespace {

using enum FlagType;

constexpr Flag kAdapters[] = {
    {.name = "adapters", .type = list, .help = "directory of an adapter in PEFT's format"},
};
constexpr Flag kSeed[] = {
    {.name = "seed", .type = integer, .fallback = "42", .help = "seed for the random prompts", .range = "[0,inf)"},
};
constexpr Flag kHub[] = {
    {.name = "use_hf",
     .type = boolean,
     .fallback = "false",
     .help = "look up a bare ORG/NAME on Hugging Face instead of ModelScope",
     .env = "USE_HF"},
    {.name = "hub_token",
     .help = "access token for the hub",
     .computed = "from HF_TOKEN or MODELSCOPE_API_TOKEN",
     .secret = true},
};
constexpr Flag kModelFile[] = {
    {.name = "model", .help = "a directory, a .gguf file, a short name (see `tern models`) or a hub id ORG/NAME"},
    {.name = "model_revision",
     .help = "branch, tag or commit in the hub's repository",
     .computed = "the hub's default branch"},
};
constexpr Flag kCompute[] = {kTorchDtype};
constexpr Flag kInvariance[] = {
    {.name = "batch_invariant",
     .type = boolean,
     .fallback = "false",
     .help = "the bits of a result do not depend on what is computed beside it; may cost speed"},
};
constexpr Flag kTextRows[] = {
    {.name = "dataset", .type = list, .help = "files or hub ids with rows {\"text\"}; add #N to take N rows"},
    {.name = "result_path", .help = "file to write the results to", .computed = "standard output"},
};
constexpr Flag kScore[] = {
    {.name = "max_length",
     .type = integer,
     .help = "tokens that are computed at once; longer texts are scored in windows",
     .computed = "the model's context",
     .range = "[2,inf)"},
    {.name = "stride",
     .type = integer,
     .help = "tokens from the begin of a window to that of the next; each token is scored once",
     .computed = "half a window",
     .range = "[1,inf)"},
    {.name = "reference",
     .help = "another model with the same vocabulary, to tell how far the model's distributions are from its"},
    {.name = "kv_cache_dtype",
     .type = choice,
     .help = "score as tern infer computes, in steps over a KV cache of this dtype; auto: that of --torch_dtype",
     .computed = "no cache: keys and values aren't rounded",
     .choices = "auto|bfloat16|float16|float32"},
    {.name = "max_num_batched_tokens",
     .type = integer,
     .fallback = "32",
     .help = "most tokens in a step; 1: as the tokens of an answer are computed",
     .range = "[1,32]",
     .effect = "over_a_cache"},
    {.name = "json",
     .type = boolean,
     .fallback = "false",
     .help = "print the means over all tokens as JSON at the end"},
};
constexpr Flag kInfer[] = {
    {.name = "max_batch_size",
     .type = integer,
     .fallback = "1",
     .help = "rows of val_dataset to answer at once",
     .range = "[1,inf)",
     .effect = "rows"},
    {.name = "result_path", .help = "JSONL file to append the answers to"},
    {.name = "images",
     .type = list,
     .help = "paths or URLs of images that the first question shows, in the order of its tags <image>",
     .effect = "dialogue"},
    {.name = "mmproj",
     .help = "file of a GGUF's vision tower, mmproj-*.gguf in its repository",
     .computed = "the one beside a model that is named by its folder or hub id",
     .effect = "generates"},
    {.name = "metric",
     .type = choice,
     .help = "how to judge the answers to val_dataset",
     .choices = "acc|rouge",
     .effect = "rows"},
    {.name = "speculative_config",
     .type = json,
     .help =
         "guess tokens from what followed the same words before, as vLLM's JSON object says: {\"method\": \"ngram\", "
         "\"num_speculative_tokens\": 5, \"prompt_lookup_max\": 4, \"prompt_lookup_min\": 2}"},
    {.name = "load_data_args",
     .type = boolean,
     .fallback = "false",
     .help = "answer the rows that the training run held out",
     .effect = "recorded_rows"},
    {.name = "task_type",
     .type = choice,
     .fallback = "causal_lm",
     .help = "what is made of the rows: an answer, a vector, how relevant a response is to its query, or a label",
     .choices = "causal_lm|embedding|reranker|seq_cls"},
    {.name = "pooling",
     .type = choice,
     .help = "what a vector is made of: the first token, the last one, or the mean of all",
     .computed = "from the model's modules.json, else last, of an encoder mean",
     .choices = "cls|last|mean",
     .effect = "embeds"},
    {.name = "normalize_embeddings",
     .type = boolean,
     .help = "scale each vector to length 1",
     .computed = "from the model's modules.json, else true",
     .effect = "embeds"},
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
    {.name = "host", .fallback = "0.0.0.0", .help = "address to listen on"},
    {.name = "port", .type = integer, .fallback = "8000", .help = "port to listen on", .range = "[0,65535]"},
    {.name = "api_key", .help = "key that every request must send", .secret = true},
    {.name = "ssl_keyfile", .help = "private key (PEM)"},
    {.name = "ssl_certfile", .help = "certificate (PEM)"},
    {.name = "served_model_name",
     .type = list,
     .help = "names under which clients can ask for the model",
     .computed = "the model's name"},
    {.name = "adapters", .type = list, .help = "adapters as name=path; a request chooses one by its `model`"},
    {.name = "max_num_seqs",
     .type = integer,
     .fallback = "256",
     .help = "most sequences in a batch",
     .range = "[1,inf)"},
    {.name = "max_num_batched_tokens",
     .type = integer,
     .help = "most tokens in a step",
     .computed = "depends on the device",
     .range = "[1,inf)"},
    {.name = "enable_prefix_caching",
     .type = boolean,
     .fallback = "true",
     .help = "reuse the key-value cache of equal prefixes"},
    {.name = "tensor_parallel_size",
     .type = integer,
     .fallback = "1",
     .help = "ranks that each layer is split over",
     .range = "[1,inf)"},
    {.name = "speculative_config", .type = json, .help = "speculative decoding, as vLLM's JSON object"},
};
constexpr Flag kMerge[] = {
    {.name = "output_dir", .help = "directory to write to", .computed = "<adapter>-merged"},
    {.name = "max_shard_size", .type = size, .fallback = "5GB", .help = "size of the largest file", .range = "[1,inf)"},
    {.name = "exist_ok", .type = boolean, .fallback = "false", .help = "replace the directory if it exists"},
};
constexpr Flag kExport[] = {
    {.name = "merge_lora", .type = boolean, .fallback = "false", .help = "merge the adapters first"},
    {.name = "quant_method", .type = choice, .help = "how to quantise the model", .choices = "awq|gptq|int8|fp8|gguf"},
    {.name = "quant_bits", .type = choice, .help = "bits per weight", .choices = "2|3|4|8"},
    {.name = "group_size",
     .type = integer,
     .fallback = "128",
     .help = "weights that share a scale",
     .range = "[-1,inf)"},
    {.name = "quant_n_samples",
     .type = integer,
     .fallback = "256",
     .help = "rows to calibrate with",
     .range = "[1,inf)"},
    {.name = "push_to_hub", .type = boolean, .fallback = "false", .help = "upload the result"},
    {.name = "hub_model_id", .help = "ORG/NAME to upload to"},
    {.name = "hub_private_repo", .type = boolean, .fallback = "false", .help = "make the hub's repository private"},
    {.name = "commit_message", .help = "message of the upload's commit", .computed = "the checkpoint's name"},
};
constexpr Flag kEval[] = {
    {.name = "eval_dataset", .type = list, .help = "benchmarks to run"},
    {.name = "eval_limit",
     .type = integer,
     .help = "most rows of each benchmark",
     .computed = "all",
     .range = "[1,inf)"},
    {.name = "eval_output_dir", .fallback = "eval_output", .help = "folder to write the results to"},
    {.name = "eval_url", .help = "address of an OpenAI-compatible server to ask instead of a model"},
    {.name = "eval_num_proc",
     .type = integer,
     .fallback = "16",
     .help = "requests to send at once",
     .range = "[1,inf)"},
};
constexpr Flag kSample[] = {
    {.name = "num_return_sequences",
     .type = integer,
     .fallback = "64",
     .help = "answers to each row",
     .range = "[1,inf)"},
    {.name = "output_dir", .fallback = "sample_output", .help = "folder to write the answers to"},
};
constexpr Flag kTokenize[] = {
    {.name = "text",
     .help = "text to tokenise, or ids with --decode",
     .computed = "standard input",
     .effect = "one_text"},
    {.name = "decode", .type = boolean, .fallback = "false", .help = "turn ids into text"},
};
constexpr Flag kInspectData[] = {
    {.name = "dataset", .type = list, .help = "files, folders or hub ids ORG/NAME[:subset]; add #N to take N rows"},
    {.name = "columns", .type = json, .help = "JSON object that renames columns, as in {\"q\": \"query\"}"},
    {.name = "strict", .type = boolean, .fallback = "false", .help = "stop at a bad row instead of dropping it"},
    {.name = "sample",
     .type = integer,
     .help = "show this sample's tokens, and mark those that the loss counts",
     .range = "[0,inf)"},
    {.name = "html", .help = "HTML page to write"},
    {.name = "svg", .help = "SVG file to write with a histogram of lengths"},
};
constexpr Flag kInspectLength[] = {
    {.name = "max_length",
     .type = integer,
     .help = "longest sample, in tokens",
     .computed = "no limit",
     .range = "[1,inf)"},
    {.name = "packing_length",
     .type = integer,
     .help = "length of packed sequences to judge packing by, in tokens",
     .computed = "max_length, else that of the longest sample",
     .range = "[1,inf)"},
};
constexpr Flag kBench[] = {
    {.name = "prompt_length", .type = list, .fallback = "512", .help = "tokens in the prompt", .range = "[1,1048576]"},
    {.name = "max_new_tokens", .type = integer, .fallback = "128", .help = "tokens to generate", .range = "[1,inf)"},
    {.name = "batch_size", .type = list, .fallback = "1", .help = "sequences in a batch", .range = "[1,65536]"},
    {.name = "threads",
     .type = list,
     .help = "threads on the host; several are measured one after another",
     .computed = "the cores this process may use",
     .range = "[1,4096]"},
    {.name = "svg", .help = "SVG file to write with the machine's roofline, and each phase as a point"},
};
constexpr Flag kConvert[] = {
    {.name = "output", .help = "file or directory to write to"},
    {.name = "outtype",
     .type = choice,
     .help = "dtype to write the weights in",
     .computed = "as stored",
     .choices = "f32|f16|bf16|q8_0|q4_0|q4_1|q4_k|q6_k"},
    {.name = "format",
     .type = choice,
     .help = "format to write",
     .computed = "from the output's name",
     .choices = "gguf|safetensors"},
    {.name = "max_shard_size", .type = size, .fallback = "5GB", .help = "size of the largest file", .range = "[1,inf)"},
    {.name = "exist_ok", .type = boolean, .fallback = "false", .help = "replace the output if it exists"},
};
constexpr Flag kSelftest[] = {
    {.name = "op", .type = list, .help = "ops to test", .computed = "all", .effect = "ops_alone new_cases"},
    {.name = "require",
     .type = list,
     .help = "fail if the host would have to run an op for: infer, train, serve",
     .computed = "none",
     .effect = "ops_alone new_cases"},
    {.name = "replay", .help = "file with a failing case to run again", .effect = "ops_alone"},
};
constexpr Flag kWebUi[] = {
    {.name = "host", .fallback = "0.0.0.0", .help = "address to listen on"},
    {.name = "port", .type = integer, .fallback = "7860", .help = "port to listen on", .range = "[0,65535]"},
};

}  // namespace

std::vector<FlagGroup> tool_groups() {
  return {{"adapters", "Adapters", kAdapters},
          {"seed", "Randomness", kSeed},
          {"hub", "Hub", kHub},
          {"model_file", "Model", kModelFile},
          {"compute", "Weights", kCompute},
          {"invariance", "Bits", kInvariance},
          {"text_rows", "Rows", kTextRows},
          {"score", "Scores", kScore},
          {"infer", "Inference", kInfer},
          {"deploy", "Server", kDeploy},
          {"merge", "Result", kMerge},
          {"export", "Export", kExport},
          {"cache", "Key-value cache", kCache},
          {"eval", "Evaluation", kEval},
          {"sample", "Sampling", kSample},
          {"tokenize", "Text", kTokenize},
          {"inspect_data", "Data", kInspectData},
          {"inspect_length", "Lengths", kInspectLength},
          {"bench", "Benchmark", kBench},
          {"convert", "Result", kConvert},
          {"selftest", "Cases", kSelftest},
          {"web_ui", "Server", kWebUi}};
}

}  // namespace tern::cli
