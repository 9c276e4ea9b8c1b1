// When a flag has an effect: every condition of the table, each way, and what the user reads.
#include "cli/flags/condition.h"

#include <gtest/gtest.h>

#include <set>

#include "base/strings.h"
#include "cli/flags/command_line.h"

namespace tern::cli {
namespace {

using Words = std::vector<std::string>;

// "" where the command line is taken, else the error; `lines` gets the notices.
std::string judged(
    const Words& words, Words* lines = nullptr,
    const Environment& environment = [](const std::string&) { return std::nullopt; }) {
  auto invocation = parse_command_line(words, environment);
  if (!invocation) return invocation.error().line();
  const std::size_t before = invocation->arguments.notices().size();
  const Status status = check_effects(invocation->arguments);
  const auto& notices = invocation->arguments.notices();
  if (lines != nullptr) lines->assign(notices.begin() + static_cast<std::ptrdiff_t>(before), notices.end());
  return status.ok() ? std::string() : status.error().line();
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

struct Case {
  const char* condition;
  const char* flag;
  Words words;     // the flag without effect
  Words remedied;  // ... and with it
};

const std::vector<Case>& refused() {
  static const std::vector<Case> cases = {
      {"lora", "lora_rank", {"sft", "--lora_rank", "4", "--tuner_type", "full"}, {"sft", "--lora_rank", "4"}},
      {"lora", "lora_bias", {"sft", "--lora_bias", "all", "--tuner_type", "vera"}, {"sft", "--lora_bias", "all"}},
      {"adapter", "adapters", {"sft", "--adapters", "a", "--tuner_type", "full"}, {"sft", "--adapters", "a"}},
      {"adapter",
       "target_modules",
       {"sft", "--target_modules", "v_proj", "--tuner_type", "full"},
       {"sft", "--target_modules", "v_proj", "--tuner_type", "vera"}},
      {"vera", "vera_rank", {"sft", "--vera_rank", "64"}, {"sft", "--vera_rank", "64", "--tuner_type", "vera"}},
      {"full",
       "freeze_parameters",
       {"sft", "--freeze_parameters", "m"},
       {"sft", "--freeze_parameters", "m", "--tuner_type", "full"}},
      {"profiles",
       "profile_steps",
       {"sft", "--profile_steps", "1-2"},
       {"sft", "--profile_steps", "1-2", "--profile", "trace.json"}},
      {"galore",
       "galore_rank",
       {"sft", "--tuner_type", "full", "--galore_rank", "4"},
       {"sft", "--tuner_type", "full", "--galore_rank", "4", "--use_galore", "true"}},
      {"q_galore",
       "galore_cos_threshold",
       {"sft", "--tuner_type", "full", "--use_galore", "true", "--galore_cos_threshold", "0.5"},
       {"sft", "--tuner_type", "full", "--use_galore", "true", "--galore_cos_threshold", "0.5", "--galore_quantization",
        "true"}},
      {"quantised_projections",
       "galore_proj_bits",
       {"sft", "--tuner_type", "full", "--use_galore", "true", "--galore_quantization", "true", "--galore_proj_bits",
        "8"},
       {"sft", "--tuner_type", "full", "--use_galore", "true", "--galore_quantization", "true", "--galore_proj_bits",
        "8", "--galore_proj_quant", "true"}},
      {"unquantised_galore",
       "galore_optim_per_parameter",
       {"sft", "--tuner_type", "full", "--use_galore", "true", "--galore_optim_per_parameter", "true",
        "--galore_quantization", "true"},
       {"sft", "--tuner_type", "full", "--use_galore", "true", "--galore_optim_per_parameter", "true"}},
      {"std_galore",
       "galore_quantization",
       {"sft", "--tuner_type", "full", "--use_galore", "true", "--galore_quantization", "true", "--galore_proj_type",
        "left"},
       {"sft", "--tuner_type", "full", "--use_galore", "true", "--galore_quantization", "true"}},
      {"lora_ga",
       "lora_ga_iters",
       {"sft", "--lora_ga_iters", "4"},
       {"sft", "--lora_ga_iters", "4", "--init_weights", "lora-ga"}},
      {"lisa",
       "lisa_step_interval",
       {"sft", "--tuner_type", "full", "--lisa_step_interval", "5"},
       {"sft", "--tuner_type", "full", "--lisa_step_interval", "5", "--lisa_activated_layers", "2"}},
      {"projects_adamw",
       "use_galore",
       {"sft", "--tuner_type", "full", "--use_galore", "true", "--optim", "sgd"},
       {"sft", "--tuner_type", "full", "--use_galore", "true", "--optim", "adamw_torch"}},
      {"one_optimizer", "optimizer", {"sft", "--optimizer", "muon", "--optim", "sgd"}, {"sft", "--optimizer", "muon"}},
      {"lora",
       "lorap_lr_ratio",
       {"sft", "--lorap_lr_ratio", "16", "--tuner_type", "full"},
       {"sft", "--lorap_lr_ratio", "16"}},
      {"new_adapter", "lora_alpha", {"sft", "--lora_alpha", "8", "--adapters", "a"}, {"sft", "--lora_alpha", "8"}},
      {"by_name",
       "target_modules",
       {"sft", "--target_modules", "q_proj", "--target_regex", ".*"},
       {"sft", "--target_modules", "q_proj"}},
      {"freezes",
       "trainable_parameters",
       {"sft", "--tuner_type", "full", "--trainable_parameters", "m"},
       {"sft", "--tuner_type", "full", "--trainable_parameters", "m", "--freeze_parameters", "l"}},
      {"freezes",
       "trainable_parameters_regex",
       {"sft", "--tuner_type", "full", "--trainable_parameters_regex", "m"},
       {"sft", "--tuner_type", "full", "--trainable_parameters_regex", "m", "--freeze_parameters_ratio", "1"}},
      {"full",
       "freeze_parameters_ratio",
       {"sft", "--freeze_parameters_ratio", "0.5"},
       {"sft", "--freeze_parameters_ratio", "0.5", "--tuner_type", "full"}},
      {"starts",
       "adapters",
       {"sft", "--adapters", "a", "--resume_from_checkpoint", "last"},
       {"sft", "--adapters", "a"}},
      {"resumes",
       "resume_only_model",
       {"sft", "--resume_only_model"},
       {"sft", "--resume_only_model", "--resume_from_checkpoint", "last"}},
      {"by_ratio",
       "warmup_ratio",
       {"sft", "--warmup_ratio", "0.1", "--warmup_steps", "2"},
       {"sft", "--warmup_ratio", "0.1", "--warmup_steps", "0"}},
      {"one_precision", "bf16", {"sft", "--bf16", "--fp16"}, {"sft", "--bf16", "--fp16", "false"}},
      {"one_precision",
       "fp16",
       {"sft", "--fp16", "--activation_dtype", "bfloat16"},
       {"sft", "--fp16", "--activation_dtype", "float16"}},
      {"known_metric",
       "metric",
       {"infer", "--metric", "mine", "--val_dataset", "rows.jsonl"},
       {"infer", "--metric", "mine", "--val_dataset", "rows.jsonl", "--external_plugins", "mine.py"}},
      {"packs", "packing_length", {"sft", "--packing_length", "64"}, {"sft", "--packing_length", "64", "--packing"}},
      {"rows_of_datasets",
       "interleave_prob",
       {"sft", "--interleave_prob", "1.0", "--cached_dataset", "d"},
       {"sft", "--interleave_prob", "1.0", "--dataset", "d"}},
      {"mixes",
       "stopping_strategy",
       {"sft", "--stopping_strategy", "all_exhausted", "--dataset", "d"},
       {"sft", "--stopping_strategy", "all_exhausted", "--dataset", "d", "--interleave_prob", "1.0"}},
      {"tokenises",
       "dataset",
       {"export", "--dataset", "d"},
       {"export", "--dataset", "d", "--to_cached_dataset", "true"}},
      {"streams",
       "shuffle_buffer_size",
       {"sft", "--shuffle_buffer_size", "9"},
       {"sft", "--shuffle_buffer_size", "9", "--streaming", "--max_steps", "1"}},
      {"bounded_stream", "streaming", {"sft", "--streaming"}, {"sft", "--streaming", "--max_steps", "1"}},
      {"whole_set",
       "group_by_length",
       {"sft", "--group_by_length", "--streaming", "--max_steps", "1"},
       {"sft", "--group_by_length", "false", "--streaming", "--max_steps", "1"}},
      {"whole_split",
       "split_dataset_ratio",
       {"sft", "--split_dataset_ratio", "0.1", "--streaming", "--max_steps", "1"},
       {"sft", "--split_dataset_ratio", "0", "--streaming", "--max_steps", "1"}},
      {"split_only",
       "split_dataset_ratio",
       {"sft", "--split_dataset_ratio", "0.1", "--val_dataset", "v"},
       {"sft", "--split_dataset_ratio", "0.1"}},
      {"shuffles",
       "shuffle_buffer_size",
       {"sft", "--shuffle_buffer_size", "9", "--streaming", "--max_steps", "1", "--dataset_shuffle", "false"},
       {"sft", "--shuffle_buffer_size", "9", "--streaming", "--max_steps", "1", "--dataset_shuffle", "true"}},
      {"saves",
       "load_best_model_at_end",
       {"sft", "--load_best_model_at_end", "--val_dataset", "v", "--save_strategy", "no"},
       {"sft", "--load_best_model_at_end", "--val_dataset", "v"}},
      {"judges",
       "load_best_model_at_end",
       {"sft", "--load_best_model_at_end", "--val_dataset", "v", "--eval_strategy", "no"},
       {"sft", "--load_best_model_at_end", "--val_dataset", "v", "--eval_strategy", "epoch"}},
      {"templated", "template", {"pt", "--template", "t"}, {"sft", "--template", "t"}},
      {"templated",
       "enable_thinking",
       {"infer", "--enable_thinking", "false", "--use_chat_template", "false"},
       {"infer", "--enable_thinking", "false"}},
      {"finds_prefixes",
       "swap_space",
       {"deploy", "--model", "m", "--swap_space", "1", "--enable_prefix_caching", "false"},
       {"deploy", "--model", "m", "--swap_space", "1"}},
      {"swaps",
       "swap_dir",
       {"deploy", "--model", "m", "--swap_dir", "d"},
       {"deploy", "--model", "m", "--swap_dir", "d", "--swap_space", "1"}},
      {"swaps_to_files",
       "swap_dir_space",
       {"deploy", "--model", "m", "--swap_space", "1", "--swap_dir_space", "2"},
       {"deploy", "--model", "m", "--swap_space", "1", "--swap_dir", "d", "--swap_dir_space", "2"}},
      {"many_models",
       "max_loaded_models",
       {"deploy", "--model", "m", "--max_loaded_models", "2"},
       {"deploy", "--models", "folder", "--max_loaded_models", "2"}},
      {"chosen_adapters",
       "max_loras",
       {"deploy", "--model", "m", "--adapters", "a", "--max_loras", "2"},
       {"deploy", "--model", "m", "--adapters", "a=b", "--max_loras", "2"}},
      {"adapters_given",
       "verify_merge",
       {"export", "--verify_merge", "false"},
       {"export", "--verify_merge", "false", "--adapters", "a"}},
      {"quantises",
       "quant_bits",
       {"export", "--quant_bits", "4"},
       {"export", "--quant_bits", "4", "--quant_method", "gguf"}},
      {"rows", "metric", {"infer", "--metric", "acc"}, {"infer", "--metric", "acc", "--load_data_args"}},
      {"rows", "strict", {"infer", "--strict"}, {"infer", "--strict", "--val_dataset", "v"}},
      {"tells_logprobs",
       "top_logprobs",
       {"infer", "--top_logprobs", "3", "--val_dataset", "v"},
       {"infer", "--top_logprobs", "3", "--logprobs", "--val_dataset", "v"}},
      {"kept_answers", "logprobs", {"infer", "--logprobs"}, {"infer", "--logprobs", "--result_path", "r"}},
      {"generates",
       "temperature",
       {"infer", "--temperature", "1", "--val_dataset", "v", "--task_type", "embedding"},
       {"infer", "--temperature", "1", "--val_dataset", "v"}},
      {"embeds",
       "pooling",
       {"infer", "--pooling", "mean", "--val_dataset", "v", "--task_type", "reranker"},
       {"infer", "--pooling", "mean", "--val_dataset", "v", "--task_type", "embedding"}},
      {"in_words",
       "logprobs",
       {"infer", "--logprobs", "--val_dataset", "v", "--task_type", "embedding"},
       {"infer", "--logprobs", "--val_dataset", "v", "--task_type", "seq_cls"}},
      {"classifies",
       "num_labels",
       {"sft", "--num_labels", "2"},
       {"sft", "--num_labels", "2", "--task_type", "seq_cls"}},
      {"compares",
       "loss_type",
       {"sft", "--loss_type", "infonce"},
       {"sft", "--loss_type", "infonce", "--task_type", "embedding"}},
      {"reranks",
       "max_negative_samples",
       {"sft", "--max_negative_samples", "3", "--task_type", "embedding"},
       {"sft", "--max_negative_samples", "3", "--task_type", "reranker"}},
      {"by_infonce",
       "infonce_temperature",
       {"sft", "--infonce_temperature", "1", "--task_type", "embedding", "--loss_type", "contrastive"},
       {"sft", "--infonce_temperature", "1", "--task_type", "embedding"}},
      {"masks_fakes",
       "infonce_fake_neg_margin",
       {"sft", "--infonce_fake_neg_margin", "1", "--task_type", "embedding"},
       {"sft", "--infonce_fake_neg_margin", "1", "--task_type", "embedding", "--infonce_mask_fake_negative", "true"}},
      {"by_lists",
       "listwise_reranker_temperature",
       {"sft", "--listwise_reranker_temperature", "2", "--task_type", "reranker"},
       {"sft", "--listwise_reranker_temperature", "2", "--task_type", "reranker", "--loss_type", "listwise_reranker"}},
      {"learns_tokens",
       "loss_scale",
       {"sft", "--loss_scale", "all", "--task_type", "seq_cls", "--num_labels", "2"},
       {"sft", "--loss_scale", "all"}},
      {"recorded_rows",
       "load_data_args",
       {"infer", "--load_data_args", "--val_dataset", "v"},
       {"infer", "--load_data_args"}},
      {"draws", "top_k", {"infer", "--top_k", "5", "--temperature", "0"}, {"infer", "--top_k", "5"}},
      {"one_kernel_word",
       "enable_npu_model_patch",
       {"score", "--kernels", "native", "--enable_npu_model_patch", "false"},
       {"score", "--kernels", "reference", "--enable_npu_model_patch", "false"}},
      {"quantises", "quant_bits", {"sft", "--quant_bits", "4"}, {"sft", "--quant_bits", "4", "--quant_method", "bnb"}},
      {"in_four_bits",
       "bnb_4bit_use_double_quant",
       {"sft", "--quant_method", "bnb", "--quant_bits", "8", "--bnb_4bit_use_double_quant", "false"},
       {"sft", "--quant_method", "bnb", "--bnb_4bit_use_double_quant", "false"}},
      {"one_text", "text", {"tokenize", "--text", "x", "--dataset", "d"}, {"tokenize", "--text", "x"}},
      {"one_choice_of_devices",
       "compare",
       {"bench", "--compare", "cpu", "sim:0", "--device", "cpu"},
       {"bench", "--compare", "cpu", "sim:0"}},
      {"ops_alone", "op", {"selftest", "--op", "mul", "--model", "m"}, {"selftest", "--op", "mul"}},
      {"model_run", "fallback", {"selftest", "--fallback", "warn"}, {"selftest", "--fallback", "warn", "--model", "m"}},
      {"new_cases", "json", {"selftest", "--json", "--replay", "f"}, {"selftest", "--replay", "f"}},
      {"bounded",
       "truncation_strategy",
       {"inspect-data", "d", "--truncation_strategy", "left"},
       {"inspect-data", "d", "--truncation_strategy", "left", "--max_length", "9"}},
      {"over_a_cache",
       "max_num_batched_tokens",
       {"score", "--max_num_batched_tokens", "1"},
       {"score", "--max_num_batched_tokens", "1", "--kv_cache_dtype", "auto"}},
      {"shards",
       "max_shard_size",
       {"convert", "m", "o.gguf", "--max_shard_size", "1GB"},
       {"convert", "m", "o", "--max_shard_size", "1GB"}},
      {"shards",
       "max_shard_size",
       {"convert", "m", "o", "--format", "gguf", "--max_shard_size", "1GB"},
       {"convert", "m", "o", "--format", "safetensors", "--max_shard_size", "1GB"}},
  };
  return cases;
}

const std::vector<Case>& told() {
  static const std::vector<Case> cases = {
      {"fetches_media",
       "image_fetch_timeout",
       {"deploy", "--model", "m", "--image_fetch_timeout", "2"},
       {"deploy", "--model", "m", "--allowed_media_domains", "a.example", "--image_fetch_timeout", "2"}},
      {"cached",
       "load_from_cache_file",
       {"sft", "--load_from_cache_file", "true", "--streaming", "--max_steps", "1"},
       {"sft", "--load_from_cache_file", "true", "--streaming", "--max_steps", "1", "--val_dataset", "v"}},
      {"self_cognition",
       "model_name",
       {"sft", "--model_name", "Tern", "--dataset", "rows.jsonl"},
       {"sft", "--model_name", "Tern", "--dataset", "rows.jsonl", "swift/self-cognition#9"}},
      {"scales_positions",
       "max_model_len",
       {"sft", "--max_model_len", "4096"},
       {"sft", "--max_model_len", "4096", "--rope_scaling", "yarn"}},
      {"held_out",
       "eval_strategy",
       {"sft", "--eval_strategy", "epoch"},
       {"sft", "--eval_strategy", "epoch", "--split_dataset_ratio", "0.01"}},
      {"held_out",
       "load_best_model_at_end",
       {"sft", "--load_best_model_at_end"},
       {"sft", "--load_best_model_at_end", "--val_dataset", "v"}},
      {"evaluates",
       "per_device_eval_batch_size",
       {"sft", "--val_dataset", "v", "--per_device_eval_batch_size", "2", "--eval_strategy", "no"},
       {"sft", "--val_dataset", "v", "--per_device_eval_batch_size", "2", "--eval_strategy", "no", "--eval_on_start"}},
      {"evaluates_by_steps",
       "eval_steps",
       {"sft", "--val_dataset", "v", "--eval_steps", "2", "--eval_strategy", "epoch"},
       {"sft", "--val_dataset", "v", "--eval_steps", "2", "--eval_strategy", "steps", "--save_strategy", "no"}},
      {"logs_by_steps",
       "logging_steps",
       {"sft", "--logging_steps", "2", "--logging_strategy", "epoch"},
       {"sft", "--logging_steps", "2"}},
      {"to_tensorboard",
       "logging_dir",
       {"sft", "--logging_dir", "d", "--report_to", "none"},
       {"sft", "--logging_dir", "d"}},
      {"to_wandb",
       "run_name",
       {"sft", "--run_name", "first"},
       {"sft", "--run_name", "first", "--report_to", "tensorboard", "wandb"}},
      {"to_swanlab",
       "swanlab_project",
       {"sft", "--swanlab_project", "p", "--report_to", "wandb"},
       {"sft", "--swanlab_project", "p", "--report_to", "all"}},
      {"saves",
       "save_total_limit",
       {"sft", "--save_total_limit", "2", "--save_strategy", "no"},
       {"sft", "--save_total_limit", "2"}},
      {"saves_by_steps",
       "save_steps",
       {"sft", "--save_steps", "2", "--save_strategy", "epoch"},
       {"sft", "--save_steps", "2", "--save_strategy", "epoch", "--eval_strategy", "steps", "--val_dataset", "v"}},
      {"full",
       "max_shard_size",
       {"sft", "--max_shard_size", "1GB"},
       {"sft", "--max_shard_size", "1GB", "--tuner_type", "full"}},
      {"by_epochs",
       "num_train_epochs",
       {"sft", "--num_train_epochs", "2", "--max_steps", "1"},
       {"sft", "--num_train_epochs", "2", "--max_steps", "-1"}},
      {"writes_there",
       "output_dir",
       {"sft", "--output_dir", "a", "--resume_from_checkpoint", "b/checkpoint-1"},
       {"sft", "--output_dir", "b", "--resume_from_checkpoint", "b/checkpoint-1/"}},
      {"generates",
       "seed",
       {"infer", "--seed", "7", "--val_dataset", "v", "--task_type", "seq_cls"},
       {"infer", "--seed", "7", "--val_dataset", "v"}},
      {"dialogue", "stream", {"infer", "--stream", "--val_dataset", "v"}, {"infer", "--stream"}},
  };
  return cases;
}

const Condition& named(std::string_view name) {
  for (const auto& condition : conditions()) {
    if (condition.name == name) return condition;
  }
  throw std::logic_error(cat("no condition ", name));
}

TEST(Conditions, AFlagWithoutEffectIsRefusedAndTheMendHelps) {
  for (const auto& row : refused()) {
    SCOPED_TRACE(cat(row.condition, " --", row.flag));
    const Condition& lacks = named(row.condition);
    EXPECT_EQ(judged(row.words),
              cat("--", row.flag, " ", lacks.verb, lacks.why.empty() ? "" : ": ", lacks.why, "; ", lacks.mend, "."));
    EXPECT_EQ(judged(row.remedied), "");
  }
}

// Whole, as users read them: one without effect, two that contradict each other, one that needs another.
TEST(Conditions, AreRefusedInASentence) {
  EXPECT_EQ(judged({"tokenize", "--text", "x", "--dataset", "d"}),
            "--text and --dataset cannot be used together; drop one.");
  EXPECT_EQ(judged({"sft", "--lora_rank", "4", "--tuner_type", "full"}),
            "--lora_rank has no effect: no LoRA adapter is trained; remove it.");
  EXPECT_EQ(judged({"sft", "--streaming"}),
            "--streaming needs --max_steps: nobody knows how long a stream is; give --max_steps N.");
}

TEST(Conditions, WhatOtherToolsScriptsPassAlwaysGetsALine) {
  for (const auto& row : told()) {
    SCOPED_TRACE(cat(row.condition, " --", row.flag));
    const Condition& lacks = named(row.condition);
    Words lines;
    EXPECT_EQ(judged(row.words, &lines), "");
    EXPECT_EQ(lines, Words{cat(lacks.why, ": --", row.flag, " has no effect; ", lacks.mend)});
    EXPECT_EQ(judged(row.remedied, &lines), "");
    EXPECT_EQ(lines, Words{});
  }
}

TEST(Conditions, FlagsOfOneReasonShareALine) {
  Words lines;
  EXPECT_EQ(judged({"sft", "--eval_steps", "50", "--eval_strategy", "steps", "--load_best_model_at_end"}, &lines), "");
  EXPECT_EQ(lines,
            Words{"no held-out rows: --eval_strategy, --eval_steps, --load_best_model_at_end have no effect; add "
                  "--split_dataset_ratio 0.01"});
  EXPECT_EQ(judged({"sft", "--eval_steps", "50"}, &lines), "");
  EXPECT_EQ(lines, Words{"no held-out rows: --eval_steps has no effect; add --split_dataset_ratio 0.01"});
}

TEST(Conditions, WhatAsksForNothingIsTaken) {
  const Words full = {"sft", "--tuner_type", "full"};
  EXPECT_EQ(judged(with(full, {"--use_rslora", "false"})), "");
  Words lines;
  EXPECT_EQ(judged(with(full, {"--lora_dropout", "0.05"}), &lines), "") << "a default that is given asks for nothing";
  ASSERT_EQ(lines.size(), 1U) << "and is told";
  EXPECT_EQ(lines[0], "no LoRA adapter is trained: --lora_dropout has no effect; remove it");
  EXPECT_NE(judged(with(full, {"--lora_dropout", "0.1"})), "");
  EXPECT_EQ(judged({"sft", "--eval_strategy", "no", "--eval_on_start", "false"}, &lines), "");
  EXPECT_EQ(lines, Words{});
}

TEST(Conditions, AVariableOfTheEnvironmentIsForEveryCommand) {
  const Environment hub = [](const std::string& name) {
    return name == "USE_HF" ? std::optional<std::string>("true") : std::nullopt;
  };
  EXPECT_EQ(judged({"selftest", "--op", "mul"}, nullptr, hub), "");
  EXPECT_NE(judged({"selftest", "--op", "mul", "--use_hf"}), "");
}

// Each condition of the table is named by a row, judged above, and looks at flags of the command that names it.
TEST(Conditions, AreAllUsedAndTested) {
  std::set<std::string_view> tested;
  for (const auto* cases : {&refused(), &told()}) {
    for (const auto& row : *cases) tested.insert(row.condition);
  }
  std::set<std::string_view> used;
  for (const auto& command : command_table()) {
    for (const Flag* flag : command_flags(command)) {
      const EffectOf effect = effect_of(command, *flag);
      for (const auto* asked : {&effect.refused, &effect.told}) {
        for (const Condition* condition : *asked) used.insert(condition->name);
      }
    }
    for (const auto& row : command.effects) EXPECT_NE(find_flag(command, row.flag), nullptr) << row.flag;
  }
  for (const auto& condition : conditions()) {
    EXPECT_TRUE(used.contains(condition.name)) << condition.name;
    EXPECT_TRUE(tested.contains(condition.name)) << condition.name;
  }
}

}  // namespace
}  // namespace tern::cli
