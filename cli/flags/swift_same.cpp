// ms-swift's flags that are accepted and make no difference, by the reason that the user reads.
#include "cli/flags/answer.h"

namespace tern::cli {
namespace {

constexpr std::string_view kTrain = "pt|sft|rlhf|plan";
constexpr std::string_view kEverywhere =
    "pt|sft|rlhf|plan|infer|deploy|rollout|export|merge-lora|eval|sample|app|web-ui";
constexpr std::string_view kAnswering = "rlhf|infer|deploy|rollout|eval|sample|app";
constexpr std::string_view kNotTraining = "infer|deploy|rollout|export|merge-lora|eval|sample|app";
constexpr std::string_view kServing = "deploy|rollout|eval|app";
constexpr std::string_view kFiles = "export|merge-lora";
constexpr auto kSame = AnswerKind::no_difference;

std::vector<AnswerRow> of_training() {
  return {
      {kSame, kTrain, "batches are made in order on the host's threads, in microseconds",
       "dataloader_in_order dataloader_multiprocessing_context dataloader_persistent_workers dataloader_pin_memory "
       "dataloader_prefetch_factor length_column_name packing_num_proc"},
      {kSame, kTrain, "memory is planned before the run", "torch_empty_cache_steps"},
      {kSame, kTrain, "every run is compiled from its graph",
       "torch_compile torch_compile_backend torch_compile_mode tf32"},
      {kSame, kTrain, "gradients of all ranks are summed as the plan says, and every parameter is known to it",
       "ddp_broadcast_buffers ddp_bucket_cap_mb ddp_find_unused_parameters ddp_static_graph"},
      {kSame, kTrain, "ranks and nodes come from the environment", "local_rank"},
      {kSame, kTrain, "the command trains, and evaluates where there are held-out rows", "do_train do_eval do_predict"},
      {kSame, kTrain, "the logits of all tokens are never stored", "use_logits_to_keep liger_kernel_config"},
      {kSame, kTrain, "training keeps no KV cache", "use_cache"},
      {kSame, kTrain, "evaluation takes the loss of a batch at a time, computed as in training",
       "eval_use_gather_object bf16_full_eval fp16_full_eval"},
      {kSame, kTrain, "a run is the same each time that it starts from the same seed", "full_determinism"},
      {kSame, kTrain, "a run saves when it is told to end, and each checkpoint is whole or absent",
       "enable_jit_checkpoint use_flash_ckpt"},
      {kSame, kTrain, "a run that goes on takes all of its state from the checkpoint",
       "restore_callback_states_from_checkpoint"},
      {kSame, kTrain, "a run folder's name has the time, so that nothing is overwritten", "overwrite_output_dir"},
      {kSame, kTrain, "the held-out loss does not depend on the order of its rows", "val_dataset_shuffle"},
      {kSame, "pt|sft|plan", "nothing is generated while training",
       "max_new_tokens temperature top_k top_p repetition_penalty stop_words num_beams logprobs top_logprobs stream "
       "structured_outputs_regex generation_max_length generation_num_beams generation_config"},
      {kSame, "rlhf", "completions are sampled as --temperature, --top_k and --top_p say",
       "num_beams logprobs top_logprobs stream generation_num_beams generation_config generation_max_length "
       "max_new_tokens"},
  };
}

std::vector<AnswerRow> of_models_and_data() {
  return {
      {kSame, kEverywhere, "adapters are PEFT's", "tuner_backend to_peft_format"},
      {kSame, kEverywhere, "experts have one implementation", "experts_impl"},
      {kSame, kEverywhere, "no architecture needs Python code of its repository", "local_repo_path"},
      {kSame, kEverywhere, "a model's files are always compared with what its config.json says", "check_model"},
      {kSame, kEverywhere, "the model's own chat template is the only one", "template_backend"},
      {kSame, kEverywhere, "batches never hold padding", "padding_side"},
      {kSame, kEverywhere, "columns that nothing reads are left out, and the others are kept", "remove_unused_columns"},
      {kSame, kEverywhere, "rows are tokenised on threads while or before they are needed", "lazy_tokenize"},
      {kSame, kEverywhere, "products compute as --torch_dtype and --activation_dtype say",
       "bnb_4bit_compute_dtype bnb_4bit_quant_storage"},
      {kSame, kEverywhere, "the device's own library carries collectives, else the host's", "ddp_backend"},
      {kSame, kNotTraining, "nothing is trained",
       "packing packing_length packing_num_proc packing_strategy tuner_type sequence_parallel_size cached_dataset "
       "cached_val_dataset val_dataset_shuffle interleave_prob stopping_strategy disable_ignore_empty_think "
       "is_binary_loss_scale model_author model_name num_labels problem_type norm_bbox"},
      {kSame, "eval|sample", "nothing is trained", "new_special_tokens"},
      {kSame, "infer|deploy|rollout|eval|app",
       "an adapter is applied without merging it; tern merge-lora writes a merge",
       "merge_lora safe_serialization max_shard_size"},
  };
}

std::vector<AnswerRow> of_answering() {
  return {
      {kSame, kAnswering, "kernels are captured where the device can, and collectives are the device's own",
       "vllm_enforce_eager vllm_disable_custom_all_reduce vllm_disable_cascade_attn sglang_disable_cuda_graph "
       "sglang_disable_custom_all_reduce"},
      {kSame, kAnswering, "--kv_cache_memory bounds the KV cache",
       "vllm_gpu_memory_utilization gpu_memory_utilization sglang_mem_fraction_static lmdeploy_cache_max_entry_count"},
      {kSame, "rlhf|infer|eval|sample", "adapters of every rank are served",
       "vllm_enable_lora enable_lora vllm_max_lora_rank max_lora_rank"},
      {kSame, kAnswering, "a request may show any number of images, and they are read when it comes",
       "vllm_limit_mm_per_prompt limit_mm_per_prompt vllm_mm_processor_cache_gb lmdeploy_vision_batch_size"},
      {kSame, kAnswering, "one engine answers all requests", "vllm_use_async_engine"},
      {kSame, "infer|eval", "a file's rows and a dialogue keep a cache of their own",
       "vllm_enable_prefix_caching enable_prefix_caching"},
      {kSame, "infer", "the thoughts are shown as the model writes them", "vllm_reasoning_parser"},
      {kSame, "infer|sample", "each answer is written as soon as it is complete", "write_batch_size"},
      {kSame, kServing, "--quiet decides what is shown, and /metrics has the figures",
       "verbose log_level log_interval"},
      {kSame, kServing, "--max_num_seqs bounds the batch", "max_batch_size"},
      {kSame, "deploy|rollout|app", "a server reads no rows",
       "dataset val_dataset split_dataset_ratio data_seed dataset_num_proc dataset_shuffle shuffle_buffer_size "
       "streaming "
       "columns strict load_from_cache_file load_data_args val_dataset_sample metric write_batch_size"},
      {kSame, "eval", "rows come from --eval_dataset",
       "dataset val_dataset split_dataset_ratio data_seed dataset_num_proc dataset_shuffle shuffle_buffer_size "
       "streaming "
       "columns strict load_from_cache_file load_data_args val_dataset_sample metric write_batch_size"},
      {kSame, "app", "the page finds out from the server", "is_multimodal"},
      {kSame, "web-ui", "the page is in English", "lang"},
  };
}

std::vector<AnswerRow> of_files() {
  return {
      {kSame, kFiles, "nothing is generated",
       "max_new_tokens temperature top_k top_p repetition_penalty stop_words num_beams logprobs top_logprobs stream "
       "structured_outputs_regex"},
      {kSame, "merge-lora", "nothing but weights is read and written, and the chat template is kept as it is",
       "agent_template attn_impl enable_npu_model_patch enable_thinking preserve_thinking model_type system "
       "template "
       "use_chat_template max_pixels loss_scale max_length "
       "padding_free truncation_strategy template_mode load_data_args"},
      {kSame, "merge-lora", "no rows are read",
       "dataset val_dataset split_dataset_ratio data_seed dataset_num_proc dataset_shuffle shuffle_buffer_size "
       "streaming "
       "columns strict load_from_cache_file"},
      {kSame, "merge-lora", "merging is what the command does", "merge_lora task_type"},
      {kSame, kFiles, "models are read without Python", "external_plugins custom_register_path custom_dataset_info"},
      {kSame, "deploy|rollout|eval|sample|app", "models are read without Python",
       "external_plugins custom_register_path custom_dataset_info"},
      {kSame, "merge-lora", "nothing is uploaded", "commit_message"},
      {kSame, "export", "the chat template is kept as it is, and rows are calibrated one after another",
       "quant_batch_size template_mode load_data_args"},
      {kSame, kFiles, "files are written one after another", "thread_count"},
  };
}

}  // namespace

std::vector<AnswerRow> flags_without_difference() {
  auto all = of_training();
  for (const auto& part : {of_models_and_data(), of_answering(), of_files()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace tern::cli
