// The commands: which groups of flags each has, its own defaults, and what of them is not implemented yet.
#include "cli/commands/command.h"
#include "cli/flags/flag_groups.h"
#include "cli/flags/flag_table.h"
#include "cli/saved_arguments.h"

namespace tern::cli {
namespace {

using Names = std::vector<std::string_view>;

Names joined(std::initializer_list<Names> parts) {
  Names all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

const Names kTrainGroups = {"model",          "positions",      "base",         "data",       "template",
                            "quantization",   "loop",           "optimizer",    "save",       "parallel",
                            "tuner",          "runtime",        "compat",       "output",     "precision",
                            "self_cognition", "binary_weights", "loss_weights", "mixture",    "cached",
                            "plugins",        "task",           "task_loss",    "new_tokens", "profile"};
const Names kQuantPending = {"bnb_4bit_quant_type=fp4"};
const Names kParallelPending = {"ddp_timeout",
                                "deepspeed",
                                "fsdp",
                                "tensor_parallel_size",
                                "pipeline_parallel_size",
                                "sequence_parallel_size",
                                "expert_parallel_size",
                                "context_parallel_size",
                                "expert_tensor_parallel_size"};
const Names kOtherTuners = {"tuner_type=llamapro", "tuner_type=adalora", "tuner_type=longlora",
                            "tuner_type=adapter",  "tuner_type=boft",    "tuner_type=fourierft",
                            "tuner_type=reft",     "tuner_type=bone",    "tuner_type=ia3"};
const Names kGenerationPending = {"num_beams"};

const Names kSftPending = joined({kQuantPending, kParallelPending, kOtherTuners});
const Names kInferPending = joined({kQuantPending, {"ddp_timeout"}});

// Where nothing else reads the longest sequence.
const FlagEffect kStretches = {"max_model_len", "", "scales_positions"};
const FlagEffect kLearnsTokens[] = {{"loss_scale", "learns_tokens"}, {"streaming", "learns_tokens"}};
const std::vector<NoEffect> kTrainNoEffect = {
    {"max_pixels", "rows with images are refused, as models are trained on text alone"},
};
const std::vector<NoEffect> kPlanNoEffect = {
    {"max_pixels", "rows with images are refused, as models are trained on text alone"},
    {"profile", "nothing is trained"},
    {"profile_steps", "nothing is trained"},
};
const std::vector<NoEffect> kInferNoEffect = {
    {"max_length", "sequences are bounded by --max_model_len"},
    {"truncation_strategy", "nothing is truncated"},
    {"padding_free", "nothing is trained"},
    {"loss_scale", "nothing is trained"},
    {"split_dataset_ratio", "rows to answer come from --val_dataset"},
    {"dataset", "rows to answer come from --val_dataset"},
    {"dataset_shuffle", "rows are answered in their order"},
    {"streaming", "rows are read as they are needed"},
    {"shuffle_buffer_size", "rows are answered in their order"},
    {"load_from_cache_file", "rows are answered, not tokenised in advance"},
};

const Names kDeployPending = joined({kQuantPending, kGenerationPending, {"ddp_timeout", "tensor_parallel_size"}});
const std::vector<NoEffect> kDeployNoEffect = {
    {"max_length", "sequences are bounded by --max_model_len"},
    {"truncation_strategy", "nothing is truncated"},
    {"padding_free", "nothing is trained"},
    {"loss_scale", "nothing is trained"},
    {"stream", "each request says whether it is streamed"},
    {"logprobs", "each request says whether it has them"},
    {"top_logprobs", "each request says how many it has"},
};

const std::vector<NoEffect> kRolloutNoEffect = [] {
  std::vector<NoEffect> rows = kDeployNoEffect;
  rows.push_back({"models", "a trainer has one model"});
  rows.push_back({"max_loaded_models", "a trainer has one model"});
  rows.push_back({"sleep_on_idle", "the weights are a trainer's, and can't be read again"});
  rows.push_back({"swap_dir", "the weights are a trainer's, and what they computed is of no use to later ones"});
  rows.push_back({"swap_dir_space", "there are no files of blocks: the weights are a trainer's"});
  return rows;
}();

const Names kExportPending = {"ddp_timeout",      "quant_method=awq", "quant_method=gptq", "quant_method=gptq_v2",
                              "group_size",       "quant_n_samples",  "push_to_hub",       "hub_model_id",
                              "hub_private_repo", "commit_message"};
const std::vector<NoEffect> kExportNoEffect = {
    {"seed", "nothing is random"},
    {"max_pixels", "no image is read"},
    {"streaming", "the whole data set is tokenised"},
    {"shuffle_buffer_size", "the whole data set is tokenised"},
    {"dataset_shuffle", "a run shuffles the rows that it trains on"},
};
// How rows are read and tokenised.
std::vector<FlagEffect> of_cached_rows() {
  std::vector<FlagEffect> out = {kStretches};
  for (const auto flag : {"dataset",         "val_dataset",          "split_dataset_ratio",
                          "data_seed",       "dataset_num_proc",     "columns",
                          "strict",          "load_from_cache_file", "template",
                          "system",          "max_length",           "truncation_strategy",
                          "loss_scale",      "is_binary_loss_scale", "use_chat_template",
                          "enable_thinking", "preserve_thinking",    "agent_template",
                          "interleave_prob", "external_plugins",     "custom_dataset_info"}) {
    out.push_back({flag, "tokenises"});
  }
  return out;
}

std::vector<CommandSpec> training_commands() {
  return {
      {.name = "pt",
       .summary = "continue pre-training on plain text",
       .groups = kTrainGroups,
       .defaults = {{"use_chat_template", "false"}, {"loss_scale", "all"}},
       .pending = kSftPending,
       .no_effect = kTrainNoEffect,
       .effects = {kStretches, kLearnsTokens[0], kLearnsTokens[1]},
       .example = "tern pt --model smollm2-135m --dataset text.jsonl --max_steps 10",
       .prepare = with_saved_arguments,
       .run = run_pt},
      {.name = "sft",
       .summary = "fine-tune on dialogues, with LoRA or in full",
       .groups = kTrainGroups,
       .pending = kSftPending,
       .no_effect = kTrainNoEffect,
       .effects = {kStretches, kLearnsTokens[0], kLearnsTokens[1]},
       .example = "tern sft --model smollm2-135m --dataset examples/gsm8k/train.jsonl --max_steps 10",
       .prepare = with_saved_arguments,
       .run = run_sft},
      {.name = "rlhf",
       .summary = "align a model with preferences or rewards",
       .groups = joined({kTrainGroups, {"align", "policy"}})},
      {.name = "plan",
       .summary = "show how much memory a training run would take, before it runs",
       .groups = joined({{"plan"}, kTrainGroups, {"json"}}),
       .pending = kSftPending,
       .no_effect = kPlanNoEffect,
       .effects = {kStretches},
       .example = "tern plan --model smollm2-135m --max_length 512",
       .prepare = with_saved_arguments,
       .run = run_plan},
  };
}

std::vector<CommandSpec> serving_commands() {
  const Names infer = {"model",  "positions", "base",        "data",       "template",   "generation", "quantization",
                       "task",   "infer",     "cache_dtype", "cache",      "invariance", "rounding",   "runtime",
                       "compat", "output",    "plugins",     "new_tokens", "profile"};
  const Names serve = {"model",        "positions", "base",        "template", "generation",
                       "quantization", "deploy",    "cache_dtype", "cache",    "invariance",
                       "rounding",     "runtime",   "compat",      "output",   "new_tokens"};
  return {
      {.name = "infer",
       .summary = "chat, or answer the rows of a file",
       .groups = infer,
       .defaults = {{"load_args", "true"}, {"load_from_cache_file", "false"}, {"profile_steps", "1-32"}},
       .pending = kInferPending,
       .no_effect = kInferNoEffect,
       .effects = {{"columns", "rows"},
                   {"strict", "rows"},
                   {"dataset_num_proc", "rows"},
                   {"data_seed", "rows"},
                   {"logprobs", "kept_answers in_words"},
                   {"metric", "in_words"},
                   {"template", "in_words"},
                   {"use_chat_template", "in_words"},
                   {"enable_thinking", "in_words"},
                   {"preserve_thinking", "in_words"},
                   {"agent_template", "in_words"},
                   {"max_pixels", "generates"},
                   {"top_logprobs", "generates"},
                   {"speculative_config", "generates"},
                   {"max_new_tokens", "generates"},
                   {"temperature", "generates"},
                   {"top_k", "generates"},
                   {"top_p", "generates"},
                   {"min_p", "generates"},
                   {"repetition_penalty", "generates"},
                   {"stop_words", "generates"},
                   {"kv_cache_dtype", "generates"},
                   {"kv_cache_memory", "generates"},
                   {"seed", "", "generates"},
                   {"stream", "", "dialogue"}},
       .example = "echo 'What is 12 times 7?' | tern infer --model smollm2-135m --temperature 0",
       .run = run_infer},
      {.name = "deploy",
       .summary = "serve a model with OpenAI's protocol",
       .groups = joined({serve, {"served_task"}}),
       .defaults = {{"load_args", "true"}},
       .pending = kDeployPending,
       .no_effect = kDeployNoEffect,
       .effects = {{"max_pixels", "generates"},
                   {"speculative_config", "generates"},
                   {"max_new_tokens", "generates"},
                   {"temperature", "generates"},
                   {"top_k", "generates"},
                   {"top_p", "generates"},
                   {"min_p", "generates"},
                   {"repetition_penalty", "generates"},
                   {"stop_words", "generates"},
                   {"kv_cache_dtype", "generates"},
                   {"kv_cache_memory", "generates"},
                   {"swap_space", "generates"},
                   {"swap_dir", "generates"},
                   {"allowed_media_domains", "generates"},
                   {"allowed_local_media_path", "generates"},
                   {"enable_lora", "generates"},
                   {"lora_resolver_dir", "generates"},
                   {"reasoning_parser", "generates"},
                   {"tool_call_parser", "generates"},
                   {"target_inter_token_latency", "generates"},
                   {"max_num_batched_tokens", "generates"},
                   {"enable_prefix_caching", "generates"},
                   {"max_logprobs", "generates"}},
       .example = "tern deploy --model smollm2-135m --port 8000",
       .run = run_deploy},
      {.name = "rollout",
       .summary = "generate completions for a trainer",
       .groups = serve,
       .defaults = {{"load_args", "true"}, {"max_queue_len", "1000000"}, {"max_logprobs", "100"}},
       .pending = kDeployPending,
       .no_effect = kRolloutNoEffect,
       .example = "tern rollout --model smollm2-135m --port 8000",
       .run = run_rollout},
      {.name = "sample",
       .summary = "sample answers to the rows of a file",
       .groups = {"model", "positions", "base", "data", "template", "generation", "quantization", "sample", "runtime",
                  "compat", "output"},
       .defaults = {{"load_args", "true"}, {"temperature", "1.0"}}},
      {.name = "eval",
       .summary = "run benchmarks",
       .groups = {"model", "positions", "base", "template", "generation", "quantization", "eval", "runtime", "compat",
                  "output"},
       .defaults = {{"load_args", "true"}, {"temperature", "0.0"}}},
      {.name = "web-ui",
       .summary = "show training runs in a browser, with live curves, and start new ones",
       .groups = {"web_ui", "output"},
       .example = "tern web-ui --output_dir output --port 7860",
       .run = run_web_ui},
      {.name = "app",
       .summary = "chat in a browser, with a model or with a server elsewhere",
       .groups = joined({serve, {"app"}}),
       .defaults = {{"load_args", "true"}, {"stream", "true"}},
       .pending = kDeployPending,
       .no_effect = kDeployNoEffect,
       .example = "tern app --model smollm2-135m",
       .run = run_app},
      {.name = "launch",
       .summary = "start a coding agent that asks a server of tern deploy",
       .groups = {"launch", "output"},
       .positional = {"agent", "agent_arguments"},
       .example = "tern launch claude --port 8000",
       .run = run_launch},
      {.name = "score",
       .summary = "give the log-probability of every token in each text",
       .groups = {"model_file", "positions", "compute", "adapters", "hub", "text_rows", "score", "invariance",
                  "rounding", "runtime", "output", "new_tokens"},
       .effects = {kStretches},
       .example = "tern score --model smollm2-135m --dataset text.jsonl",
       .run = run_score},
      {.name = "bench",
       .summary = "measure prefill and decode on this machine",
       .groups = {"model_file", "positions", "compute", "adapters", "hub", "seed", "runtime", "bench", "cache_dtype",
                  "rounding", "json", "output", "new_tokens"},
       .effects = {kStretches},
       .example = "tern bench --model smollm2-135m --batch_size 1 16 --json",
       .run = run_bench},
  };
}

std::vector<CommandSpec> file_commands() {
  return {
      {.name = "export",
       .summary = "quantise, merge or upload a model, or tokenise data sets",
       .groups = {"model", "positions", "base", "data", "template", "binary_weights", "mixture", "self_cognition",
                  "plugins", "export", "merge", "runtime", "compat", "output", "new_tokens"},
       .defaults = {{"load_args", "true"}, {"load_from_cache_file", "false"}},
       .pending = kExportPending,
       .no_effect = kExportNoEffect,
       .effects = of_cached_rows(),
       .example = "tern export --model smollm2-135m --quant_method gguf --quant_bits 8",
       .run = run_export},
      {.name = "merge-lora",
       .summary = "merge adapters into a model and write it",
       .groups = {"model_file", "positions", "compute", "base", "merge", "output", "new_tokens"},
       .defaults = {{"load_args", "true"}},
       .pending = Names{"ddp_timeout"},
       .no_effect = {{"seed", "nothing is random"}},
       .effects = {kStretches},
       .example = "tern merge-lora --adapters output/smollm2-135m/v0-20260101-000000/checkpoint-10",
       .run = run_merge_lora},
      {.name = "convert",
       .summary = "write a model in another format or dtype",
       .groups = {"model_file", "hub", "convert", "output"},
       .positional = {"model", "output"},
       .effects = {{"max_shard_size", "shards"}},
       .example = "tern convert smollm2-135m smollm2-135m-bf16 --outtype bf16",
       .run = run_convert},
      {.name = "inspect",
       .summary = "show what is in a model file",
       .groups = {"model_file", "hub", "json", "output"},
       .positional = {"model"},
       .example = "tern inspect smollm2-135m --json",
       .run = run_inspect},
      {.name = "inspect-data",
       .summary = "show what a dataset holds, and what a model would learn from it",
       .groups = {"inspect_data", "plugins", "model_file", "hub", "template", "inspect_length", "json", "output"},
       .positional = {"dataset"},
       .effects = {{"truncation_strategy", "bounded"}},
       .example = "tern inspect-data examples/gsm8k/train.jsonl --model smollm2-135m",
       .run = run_inspect_data},
      {.name = "tokenize",
       .summary = "turn texts into token ids and pieces, or ids into text",
       .groups = {"model_file", "hub", "tokenize", "text_rows", "json", "output"},
       .example = "tern tokenize --model smollm2-135m --text 'Hello world'",
       .run = run_tokenize},
      {.name = "models",
       .summary = "list the models that are here, and the architectures that are served",
       .groups = {"json"},
       .example = "tern models",
       .run = run_models},
  };
}

std::vector<CommandSpec> machine_commands() {
  return {
      {.name = "devices",
       .summary = "list every backend and device, and say why one is absent",
       .groups = {"runtime", "json"},
       .no_effect = {{"threads", "nothing is computed"},
                     {"device_options", "nothing is computed"},
                     {"fallback", "nothing is computed"},
                     {"kernels", "nothing is computed"},
                     {"enable_npu_model_patch", "nothing is computed"}},
       .example = "tern devices --json",
       .run = run_devices},
      {.name = "topo",
       .summary = "show the links between devices and to the host",
       .groups = {"runtime", "json"},
       .no_effect = {{"threads", "nothing is computed"},
                     {"device_options", "nothing is computed"},
                     {"fallback", "nothing is computed"},
                     {"kernels", "nothing is computed"},
                     {"enable_npu_model_patch", "nothing is computed"}},
       .example = "tern topo",
       .run = run_topo},
      {.name = "doctor",
       .summary = "check drivers and libraries, and say what to fix",
       .groups = {"doctor", "model_file", "hub", "runtime", "json"},
       .no_effect = {{"fallback", "nothing is computed"},
                     {"device_options", "nothing is computed"},
                     {"kernels", "nothing is computed"},
                     {"enable_npu_model_patch", "nothing is computed"}},
       .effects = {{"model_revision", "model_run"}, {"use_hf", "model_run"}, {"hub_token", "model_run"}},
       .example = "tern doctor",
       .run = run_doctor},
      {.name = "selftest",
       .summary = "check every op of a device against an fp64 oracle",
       .groups = {"selftest", "model_file", "compute", "hub", "runtime", "json", "output"},
       .no_effect = {{"kernels", "the device's own kernels are what it tests"},
                     {"enable_npu_model_patch", "the device's own kernels are what it tests"}},
       .effects = {{"torch_dtype", "model_run"},
                   {"activation_dtype", "model_run"},
                   {"fallback", "model_run"},
                   {"model_revision", "model_run"},
                   {"use_hf", "model_run"},
                   {"hub_token", "model_run"},
                   {"json", "new_cases"}},
       .example = "tern selftest --device cpu --op rms_norm",
       .run = run_selftest},
  };
}

}  // namespace

const std::vector<FlagGroup>& flag_groups() {
  static const std::vector<FlagGroup> groups = [] {
    std::vector<FlagGroup> all;
    for (const auto& part : {shared_groups(), loop_groups(), optimizer_groups(), parallel_groups(), tuner_groups(),
                             task_groups(), alignment_groups(), tool_groups()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return groups;
}

const std::vector<CommandSpec>& command_table() {
  static const std::vector<CommandSpec> commands = [] {
    auto all = training_commands();
    for (auto& command : serving_commands()) all.push_back(std::move(command));
    for (auto& command : file_commands()) all.push_back(std::move(command));
    for (auto& command : machine_commands()) all.push_back(std::move(command));
    return all;
  }();
  return commands;
}

}  // namespace tern::cli
