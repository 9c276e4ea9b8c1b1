#include "cli/flags/condition.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "base/strings.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;

bool has_flag(const CommandSpec& command, std::string_view name) {
  const Flag* flag = find_flag(command, name);
  return flag != nullptr && !why_no_effect(command, flag->name);
}

bool given(const Arguments& a, std::string_view name) { return a.has(name) && a.was_set(name); }
bool on(const Arguments& a, std::string_view name) { return a.has(name) && a.boolean(name); }
bool is(const Arguments& a, std::string_view name, std::string_view value) {
  return a.has(name) && a.string(name) == value;
}

bool has_held_out_rows(const Arguments& a) {
  return a.has("val_dataset") || a.has("cached_val_dataset") ||
         (a.has("split_dataset_ratio") && a.real("split_dataset_ratio") > 0);
}

// eval_strategy is save_strategy's where nobody gives it.
bool evaluates(const Arguments& a, std::string_view when) {
  return is(a, a.has("eval_strategy") ? "eval_strategy" : "save_strategy", when);
}

bool reads_self_cognition(const Arguments& a) {
  const auto asks = [](const std::string& word) { return word.find("self-cognition") != std::string::npos; };
  const auto any = [&](std::string_view flag) {
    return a.has(flag) && std::any_of(a.list(flag).begin(), a.list(flag).end(), asks);
  };
  return any("dataset") || any("val_dataset");
}

bool reports_to(const Arguments& a, std::string_view tool) {
  const auto& to = a.list("report_to");
  return std::any_of(to.begin(), to.end(), [&](const std::string& it) { return it == tool || it == "all"; });
}

bool chooses_adapters(const Arguments& a) {
  const auto& adapters = a.list("adapters");
  return on(a, "enable_lora") || a.has("lora_resolver_dir") ||
         std::any_of(adapters.begin(), adapters.end(),
                     [](const auto& it) { return it.find('=') != std::string::npos; });
}

bool answers_rows(const Arguments& a) { return a.has("val_dataset") || on(a, "load_data_args"); }

// A checkpoint that is named says where the run goes on.
bool writes_to_output_dir(const Arguments& a) {
  if (!a.has("resume_from_checkpoint") || is(a, "resume_from_checkpoint", "last") || on(a, "resume_only_model")) {
    return true;
  }
  const auto folder = [](const fs::path& path) {
    const fs::path clean = fs::absolute(path).lexically_normal();
    return clean.has_filename() ? clean : clean.parent_path();
  };
  const fs::path base = folder(a.string("output_dir"));
  const fs::path run = folder(a.string("resume_from_checkpoint")).parent_path();
  return std::mismatch(base.begin(), base.end(), run.begin(), run.end()).first == base.end();
}

// Only a directory of safetensors is cut into files.
bool writes_shards(const Arguments& a) {
  const fs::path target = a.maybe_string("output").value_or("");
  const bool gguf = a.maybe_string("format").value_or(target.extension() == ".gguf" ? "gguf" : "") == "gguf";
  return !gguf && target.extension() != ".safetensors";
}

bool freezes(const Arguments& a) {
  return a.has("freeze_parameters") || a.has("freeze_parameters_regex") || a.real("freeze_parameters_ratio") > 0;
}

constexpr std::string_view kDropOne = "drop one";

std::vector<Condition> training_conditions() {
  return {
      {"adapter", "tuner_type",
       [](const Arguments& a) { return is(a, "tuner_type", "lora") || is(a, "tuner_type", "vera"); },
       "--tuner_type lora or vera", "no adapter is trained"},
      {"lora", "tuner_type", [](const Arguments& a) { return is(a, "tuner_type", "lora"); }, "--tuner_type lora",
       "no LoRA adapter is trained"},
      {"vera", "tuner_type", [](const Arguments& a) { return is(a, "tuner_type", "vera"); }, "--tuner_type vera",
       "no VeRA adapter is trained"},
      {"full", "tuner_type", [](const Arguments& a) { return is(a, "tuner_type", "full"); }, "--tuner_type full",
       "only an adapter is trained"},
      {"new_adapter", "adapters", [](const Arguments& a) { return !a.has("adapters"); }, "no --adapters",
       "--adapters brings its own settings"},
      {"by_name", "target_regex", [](const Arguments& a) { return !a.has("target_regex"); }, "no --target_regex", "",
       kDropOne, "and --target_regex cannot be used together"},
      {"freezes", "freeze_parameters", freezes,
       "--freeze_parameters, freeze_parameters_regex or freeze_parameters_ratio", "nothing is frozen",
       "give --freeze_parameters, or remove it"},
      {"starts", "resume_from_checkpoint", [](const Arguments& a) { return !a.has("resume_from_checkpoint"); },
       "no --resume_from_checkpoint", "a checkpoint has its own weights", kDropOne,
       "and --resume_from_checkpoint cannot be used together"},
      {"resumes", "resume_from_checkpoint", [](const Arguments& a) { return a.has("resume_from_checkpoint"); },
       "--resume_from_checkpoint", "nothing is resumed", "give --resume_from_checkpoint, or remove it"},
      {"writes_there", "resume_from_checkpoint", writes_to_output_dir, "no --resume_from_checkpoint in another folder",
       "a resumed run goes on in the folder of its checkpoint"},
      {"by_epochs", "max_steps", [](const Arguments& a) { return a.integer("max_steps") <= 0; }, "no --max_steps",
       "--max_steps ends the run"},
      {"by_ratio", "warmup_steps", [](const Arguments& a) { return a.maybe_integer("warmup_steps").value_or(0) <= 0; },
       "no --warmup_steps", "", kDropOne, "and --warmup_steps cannot be used together"},
      {"packs", "packing", [](const Arguments& a) { return on(a, "packing"); }, "--packing", "nothing is packed",
       "give --packing, or remove it"},
      {"profiles", "profile", [](const Arguments& a) { return a.has("profile"); }, "--profile", "no step is profiled",
       "give --profile FILE, or remove it"},
      {"streams", "streaming", [](const Arguments& a) { return on(a, "streaming"); }, "--streaming",
       "nothing is streamed", "give --streaming, or remove it"},
      {"bounded_stream", "max_steps", [](const Arguments& a) { return a.integer("max_steps") > 0; }, "--max_steps",
       "nobody knows how long a stream is", "give --max_steps N", "needs --max_steps"},
      {"self_cognition", "dataset", reads_self_cognition, "a data set whose name has self-cognition",
       "no data set asks for a name", "add --dataset swift/self-cognition, or remove it"},
      {"whole_set", "streaming", [](const Arguments& a) { return !on(a, "streaming"); }, "no --streaming",
       "a stream does not know its rows in advance", kDropOne, "and --streaming cannot be used together"},
      {"whole_split", "streaming", [](const Arguments& a) { return !on(a, "streaming"); }, "no --streaming",
       "nobody knows how long a stream is", "give --val_dataset instead", "and --streaming cannot be used together"},
      {"split_only", "val_dataset", [](const Arguments& a) { return !a.has("val_dataset"); }, "no --val_dataset", "",
       kDropOne, "and --val_dataset cannot be used together"},
      {"rows_of_datasets", "dataset", [](const Arguments& a) { return a.has("dataset") && !a.list("dataset").empty(); },
       "--dataset", "there are no data sets to mix", "give --dataset, or remove it"},
      {"tokenises", "to_cached_dataset", [](const Arguments& a) { return on(a, "to_cached_dataset"); },
       "--to_cached_dataset true", "no rows are read", "give --to_cached_dataset true, or remove it"},
      {"mixes", "interleave_prob", [](const Arguments& a) { return a.has("interleave_prob"); }, "--interleave_prob",
       "data sets come one after another", "give --interleave_prob, or remove it"},
      {"cached", "streaming", [](const Arguments& a) { return !on(a, "streaming") || a.has("val_dataset"); },
       "no --streaming", "--streaming keeps no cache"},
      {"shuffles", "dataset_shuffle", [](const Arguments& a) { return on(a, "dataset_shuffle"); },
       "--dataset_shuffle true", "--dataset_shuffle false keeps the rows in their order"},
  };
}

// Of optimizers, and of what trains when.
std::vector<Condition> optimizer_conditions() {
  return {
      {"galore", "use_galore|optimizer",
       [](const Arguments& a) { return on(a, "use_galore") || is(a, "optimizer", "galore"); }, "--use_galore",
       "no gradient is projected", "give --use_galore, or remove it"},
      {"q_galore", "galore_quantization", [](const Arguments& a) { return on(a, "galore_quantization"); },
       "--galore_quantization", "nothing of GaLore is quantised", "give --galore_quantization, or remove it"},
      {"quantised_projections", "galore_proj_quant", [](const Arguments& a) { return on(a, "galore_proj_quant"); },
       "--galore_proj_quant", "no projection is quantised", "give --galore_proj_quant, or remove it"},
      {"unquantised_galore", "galore_quantization", [](const Arguments& a) { return !on(a, "galore_quantization"); },
       "no --galore_quantization", "Q-GaLore has one optimizer", kDropOne,
       "and --galore_quantization cannot be used together"},
      {"std_galore", "galore_proj_type", [](const Arguments& a) { return is(a, "galore_proj_type", "std"); },
       "--galore_proj_type std", "Q-GaLore projects the shorter side alone", kDropOne,
       "and this --galore_proj_type cannot be used together"},
      {"lora_ga", "init_weights",
       [](const Arguments& a) { return is(a, "init_weights", "lora-ga") || is(a, "init_weights", "lora_ga"); },
       "--init_weights lora-ga", "no gradient is looked at", "give --init_weights lora-ga, or remove it"},
      {"lisa", "lisa_activated_layers",
       [](const Arguments& a) { return a.has("lisa_activated_layers") && a.integer("lisa_activated_layers") > 0; },
       "--lisa_activated_layers", "no layers are drawn", "give --lisa_activated_layers, or remove it"},
      {"projects_adamw", "optim",
       [](const Arguments& a) {
         return !given(a, "optim") || a.string("optim").starts_with("adamw_torch") || is(a, "optim", "adamw");
       },
       "--optim adamw", "GaLore is there for AdamW alone", kDropOne, "and this --optim cannot be used together"},
      {"one_optimizer", "optim",
       [](const Arguments& a) {
         return is(a, "optimizer", "default") || !given(a, "optim") || is(a, "optim", "muon") ||
                a.string("optim").starts_with("adamw");
       },
       "no other --optim", "", kDropOne, "and this --optim cannot be used together"},
  };
}

std::vector<Condition> saving_conditions() {
  return {
      {"held_out", "val_dataset|cached_val_dataset|split_dataset_ratio", has_held_out_rows, "held-out rows",
       "no held-out rows", "add --split_dataset_ratio 0.01"},
      {"saves", "save_strategy", [](const Arguments& a) { return !is(a, "save_strategy", "no"); },
       "--save_strategy steps or epoch", "nothing is saved", "give --save_strategy steps or epoch"},
      {"saves_by_steps", "save_strategy",
       [](const Arguments& a) {
         return is(a, "save_strategy", "steps") ||
                (has_held_out_rows(a) && evaluates(a, "steps") && !given(a, "eval_steps"));
       },
       "--save_strategy steps", "nothing is saved by steps", "give --save_strategy steps"},
      {"evaluates", "eval_strategy", [](const Arguments& a) { return !evaluates(a, "no") || on(a, "eval_on_start"); },
       "--eval_strategy steps or epoch", "nothing is evaluated", "give --eval_strategy steps or epoch"},
      {"judges", "eval_strategy", [](const Arguments& a) { return !evaluates(a, "no"); },
       "--eval_strategy steps or epoch", "no checkpoint is evaluated", "give --eval_strategy steps or epoch"},
      {"logs_by_steps", "logging_strategy", [](const Arguments& a) { return is(a, "logging_strategy", "steps"); },
       "--logging_strategy steps", "nothing is logged by steps", "give --logging_strategy steps"},
      {"to_tensorboard", "report_to", [](const Arguments& a) { return reports_to(a, "tensorboard"); },
       "--report_to tensorboard", "nothing is written for TensorBoard", "give --report_to tensorboard"},
      {"to_wandb", "report_to", [](const Arguments& a) { return reports_to(a, "wandb"); }, "--report_to wandb",
       "a run is named by its folder", "give --report_to wandb"},
      {"to_swanlab", "report_to", [](const Arguments& a) { return reports_to(a, "swanlab"); }, "--report_to swanlab",
       "nothing is written for SwanLab", "give --report_to swanlab"},
      {"evaluates_by_steps", "eval_strategy", [](const Arguments& a) { return evaluates(a, "steps"); },
       "--eval_strategy steps", "nothing is evaluated by steps", "give --eval_strategy steps"},
  };
}

std::vector<Condition> other_conditions() {
  return {
      {"templated", "use_chat_template", [](const Arguments& a) { return on(a, "use_chat_template"); },
       "--use_chat_template true", "--use_chat_template is false", "give --use_chat_template true, or remove it"},
      {"rows", "val_dataset", answers_rows, "--val_dataset or --load_data_args", "there are no rows to answer",
       "give --val_dataset, or remove it"},
      {"kept_answers", "val_dataset", [](const Arguments& a) { return answers_rows(a) || a.has("result_path"); },
       "--val_dataset, --load_data_args or --result_path", "no results are written",
       "give --val_dataset or --result_path"},
      {"tells_logprobs", "logprobs", [](const Arguments& a) { return on(a, "logprobs"); }, "--logprobs",
       "no log-probabilities are written", "give --logprobs, or remove it"},
      {"dialogue", "val_dataset", [](const Arguments& a) { return !answers_rows(a); }, "no --val_dataset",
       "rows are answered as a whole"},
      {"generates", "task_type", [](const Arguments& a) { return is(a, "task_type", "causal_lm"); },
       "--task_type causal_lm", "no token is drawn"},
      {"embeds", "task_type", [](const Arguments& a) { return is(a, "task_type", "embedding"); },
       "--task_type embedding", "no vectors are made", "give --task_type embedding, or remove it"},
      {"classifies", "task_type", [](const Arguments& a) { return is(a, "task_type", "seq_cls"); },
       "--task_type seq_cls", "nothing is classified", "give --task_type seq_cls, or remove it"},
      {"learns_tokens", "task_type", [](const Arguments& a) { return is(a, "task_type", "causal_lm"); },
       "--task_type causal_lm", "the task has no loss of tokens"},
      {"compares", "task_type",
       [](const Arguments& a) {
         return is(a, "task_type", "embedding") || is(a, "task_type", "reranker") ||
                is(a, "task_type", "generative_reranker");
       },
       "--task_type embedding or reranker", "no texts are compared", "give --task_type embedding or reranker"},
      {"reranks", "task_type",
       [](const Arguments& a) { return is(a, "task_type", "reranker") || is(a, "task_type", "generative_reranker"); },
       "--task_type reranker", "nothing is reranked", "give --task_type reranker, or remove it"},
      {"by_infonce", "loss_type",
       [](const Arguments& a) { return !a.has("loss_type") || is(a, "loss_type", "infonce"); }, "--loss_type infonce",
       "the loss is another", "give --loss_type infonce, or remove it"},
      {"masks_fakes", "infonce_mask_fake_negative",
       [](const Arguments& a) { return on(a, "infonce_mask_fake_negative"); }, "--infonce_mask_fake_negative",
       "nothing is left out", "give --infonce_mask_fake_negative, or remove it"},
      {"by_lists", "loss_type", [](const Arguments& a) { return is(a, "loss_type", "listwise_reranker"); },
       "--loss_type listwise_reranker", "the loss is another", "give --loss_type listwise_reranker, or remove it"},
      {"in_words", "task_type",
       [](const Arguments& a) { return is(a, "task_type", "causal_lm") || is(a, "task_type", "seq_cls"); },
       "--task_type causal_lm or seq_cls", "nothing is answered in words"},
      {"known_metric", "external_plugins",
       [](const Arguments& a) {
         return is(a, "metric", "acc") || is(a, "metric", "rouge") || a.has("external_plugins");
       },
       "--external_plugins for one of its own", "", "give --external_plugins with another metric",
       "is neither acc nor rouge"},
      {"recorded_rows", "val_dataset", [](const Arguments& a) { return !a.has("val_dataset"); }, "no --val_dataset", "",
       kDropOne, "and --val_dataset cannot be used together"},
      {"draws", "temperature", [](const Arguments& a) { return !given(a, "temperature") || a.real("temperature") > 0; },
       "a --temperature above 0", "temperature 0 always takes the likeliest token", kDropOne,
       "and --temperature 0 cannot be used together"},
      {"one_kernel_word", "kernels",
       [](const Arguments& a) {
         return on(a, "enable_npu_model_patch") || !given(a, "kernels") || is(a, "kernels", "reference");
       },
       "no --kernels native", "", kDropOne, "false and --kernels native contradict each other"},
      {"one_precision", "activation_dtype",
       [](const Arguments& a) {
         const std::string said = given(a, "activation_dtype") ? a.string("activation_dtype") : "";
         const auto fits = [&](const char* flag, const char* dtype) {
           return !on(a, flag) || said.empty() || said == dtype;
         };
         return fits("bf16", "bfloat16") && fits("fp16", "float16") && !(on(a, "bf16") && on(a, "fp16"));
       },
       "no other word for the dtype of activations", "", kDropOne,
       "and another word for the dtype of activations contradict each other"},
      {"scales_positions", "rope_scaling", [](const Arguments& a) { return a.has("rope_scaling"); }, "--rope_scaling",
       "positions are as the model has them, and other flags bound the length",
       "give --rope_scaling to stretch the context, or remove it"},
      {"quantises", "quant_method", [](const Arguments& a) { return a.has("quant_method"); }, "--quant_method",
       "no weight is quantised", "give --quant_method, or remove it"},
      {"adapters_given", "adapters", [](const Arguments& a) { return a.has("adapters"); }, "--adapters",
       "nothing is merged", "give --adapters, or remove it"},
      {"finds_prefixes", "enable_prefix_caching", [](const Arguments& a) { return on(a, "enable_prefix_caching"); },
       "--enable_prefix_caching true", "nobody looks for what was computed before", kDropOne,
       "and --enable_prefix_caching false cannot be used together"},
      {"swaps", "swap_space", [](const Arguments& a) { return given(a, "swap_space") && a.real("swap_space") > 0; },
       "--swap_space", "blocks reach files through it", "give --swap_space too, or remove it"},
      {"swaps_to_files", "swap_dir", [](const Arguments& a) { return a.has("swap_dir"); }, "--swap_dir",
       "no files are written", "give --swap_dir, or remove it"},
      {"fetches_media", "allowed_media_domains", [](const Arguments& a) { return a.has("allowed_media_domains"); },
       "--allowed_media_domains", "no image is fetched", "give --allowed_media_domains, or remove it"},
      {"many_models", "models", [](const Arguments& a) { return a.has("models"); }, "--models", "there is one model",
       "give --models, or remove it"},
      {"chosen_adapters", "adapters", chooses_adapters, "adapters that requests choose", "all requests have the same",
       "give --adapters name=directory or --enable_lora true, or remove it"},
      {"in_four_bits", "quant_method",
       [](const Arguments& a) { return is(a, "quant_method", "bnb") && !is(a, "quant_bits", "8"); },
       "--quant_method bnb of 4 bits", "no weight is quantised to 4 bits", "give --quant_method bnb, or remove it"},
      {"one_text", "dataset", [](const Arguments& a) { return !a.has("dataset"); }, "no --dataset", "", kDropOne,
       "and --dataset cannot be used together"},
      {"one_choice_of_devices", "device", [](const Arguments& a) { return !given(a, "device"); }, "no --device", "",
       kDropOne, "and --device cannot be used together"},
      {"ops_alone", "model", [](const Arguments& a) { return !a.has("model"); }, "no --model",
       "with a model, its own ops are tested", kDropOne, "and --model cannot be used together"},
      {"model_run", "model", [](const Arguments& a) { return a.has("model"); }, "--model", "no model is tested",
       "give --model, or remove it"},
      {"new_cases", "replay", [](const Arguments& a) { return !a.has("replay"); }, "no --replay",
       "a replay runs one case and prints one line", kDropOne, "and --replay cannot be used together"},
      {"bounded", "max_length", [](const Arguments& a) { return a.has("max_length"); }, "--max_length",
       "no sample is too long", "give --max_length, or remove it"},
      {"over_a_cache", "kv_cache_dtype", [](const Arguments& a) { return a.has("kv_cache_dtype"); }, "--kv_cache_dtype",
       "texts are scored without steps", "give --kv_cache_dtype, or remove it"},
      {"shards", "output", writes_shards, "a folder of safetensors as output", "the output is one file"},
  };
}

// Nothing is asked for by it.
bool is_off(const CommandSpec& command, const Flag& flag, const Arguments& arguments) {
  if (!arguments.has(flag.name)) return true;
  switch (flag.type) {
    case FlagType::boolean:
      return !arguments.boolean(flag.name) && contract_default(command, flag) == "false";
    case FlagType::real:
      return arguments.real(flag.name) == 0 && contract_default(command, flag) == "0";
    case FlagType::choice:
      return arguments.string(flag.name) == "no";
    default:
      return false;
  }
}

void append(const CommandSpec& command, std::string_view names, std::vector<const Condition*>& out) {
  if (names.empty()) return;
  for (const auto name : split(names, ' ')) {
    const auto& table = conditions();
    const auto row = std::find_if(table.begin(), table.end(), [&](const Condition& c) { return c.name == name; });
    if (row == table.end()) throw std::logic_error(cat("flag table: no condition ", name));
    const auto flags = split(row->flags, '|');
    if (std::any_of(flags.begin(), flags.end(), [&](auto flag) { return has_flag(command, flag); })) {
      out.push_back(&*row);
    }
  }
}

}  // namespace

const std::vector<Condition>& conditions() {
  static const std::vector<Condition> table = [] {
    auto all = training_conditions();
    for (const auto& part : {optimizer_conditions(), saving_conditions(), other_conditions()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return table;
}

EffectOf effect_of(const CommandSpec& command, const Flag& flag) {
  EffectOf out;
  append(command, flag.effect, out.refused);
  append(command, flag.told, out.told);
  for (const auto& row : command.effects) {
    if (row.flag != flag.name) continue;
    append(command, row.effect, out.refused);
    append(command, row.told, out.told);
  }
  return out;
}

Status check_effects(Arguments& arguments) {
  const CommandSpec& command = arguments.command();
  const auto failed = [&](const std::vector<const Condition*>& asked) -> const Condition* {
    const auto it = std::find_if(asked.begin(), asked.end(), [&](const Condition* c) { return !c->holds(arguments); });
    return it == asked.end() ? nullptr : *it;
  };
  const Arguments untouched(command);
  std::vector<std::pair<const Condition*, std::vector<std::string>>> lines;  // flags of one reason share a line
  for (const Flag* flag : command_flags(command)) {
    if (arguments.provenance(flag->name) < Provenance::config || is_off(command, *flag, arguments)) continue;
    const EffectOf effect = effect_of(command, *flag);
    const Condition* mistaken = failed(effect.refused);
    // Given, and yet what it is anyway: a script says all that it relies on.
    const bool harmless = mistaken != nullptr && mistaken->verb == "has no effect" &&
                          untouched.data(flag->name) == arguments.data(flag->name);
    if (const Condition* lacks = harmless ? mistaken : failed(effect.told)) {
      auto line = std::find_if(lines.begin(), lines.end(), [&](const auto& entry) { return entry.first == lacks; });
      if (line == lines.end()) line = lines.insert(lines.end(), {lacks, {}});
      line->second.push_back(cat("--", flag->name));
    } else if (mistaken != nullptr) {
      return usage_error(cat("--", flag->name, " ", mistaken->verb, mistaken->why.empty() ? "" : ": ", mistaken->why),
                         std::string(mistaken->mend));
    }
  }
  for (const auto& [lacks, flags] : lines) {
    arguments.notice(cat(lacks->why, ": ", join(flags, ", "), flags.size() == 1 ? " has" : " have", " no effect; ",
                         lacks->mend == "remove it" && flags.size() > 1 ? "remove them" : lacks->mend));
  }
  return Unit{};
}

}  // namespace tern::cli
