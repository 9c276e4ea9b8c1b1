// ms-swift's flags that wait for a capability, by its name. Their defaults may be given: they ask for nothing.
#include "cli/flags/answer.h"

namespace tern::cli {
namespace {

constexpr std::string_view kTrain = "pt|sft|rlhf|plan";
constexpr std::string_view kAnswering = "rlhf|infer|deploy|rollout|eval|sample|app";
constexpr auto kWaits = AnswerKind::waits;

std::vector<AnswerRow> of_training() {
  return {
      {kWaits, kTrain, "more tuners",
       "lora_dtype adalora_beta1=0.85 adalora_beta2=0.85 adalora_deltaT=1 "
       "adalora_init_r=12 adalora_orth_reg_weight=0.5 adalora_target_r=8 adalora_tfinal=0 adalora_tinit=0 "
       "llamapro_num_groups llamapro_num_new_blocks=4 "
       "gradient_checkpointing_kwargs "
       "label_smoothing_factor=0.0"},
      {kWaits, kTrain, "more optimizers", "optim_target_modules"},
      {kWaits, kTrain, "more of the loop's logs", "eval_metric callbacks"},
      {kWaits, kTrain, "evaluating",
       "eval_dataset eval_dataset_args eval_generation_config eval_limit eval_use_evalscope=false extra_eval_args"},
      {kWaits, kTrain, "several devices",
       "deepspeed_autotp_size zero_hpz_partition_size ds3_gather_for_generation=true fsdp_config accelerator_config "
       "parallelism_config"},
  };
}

std::vector<AnswerRow> of_models_and_data() {
  return {
      {kWaits, kTrain, "more ways to weigh tokens", "disable_ignore_empty_think=false"},
      {kWaits, kTrain, "training on images",
       "freeze_llm=false freeze_vit=true freeze_aligner=true vit_lr aligner_lr vit_gradient_checkpointing norm_bbox"},
      {kWaits, "infer|deploy|rollout|eval|sample|app", "structured answers from the command line",
       "structured_outputs_regex"},
      {kWaits, "rollout|eval|sample|app", "more tasks", "task_type"},
      {kWaits, "export", "exporting", "bnb_4bit_quant_type=nf4 task_type"},
  };
}

std::vector<AnswerRow> of_answering() {
  return {
      {kWaits, kAnswering, "several devices",
       "vllm_data_parallel_size=1 vllm_pipeline_parallel_size=1 vllm_tensor_parallel_size=1 "
       "vllm_enable_expert_parallel=false sglang_tp_size=1 sglang_pp_size=1 sglang_dp_size=1 sglang_ep_size=1 "
       "sglang_enable_ep_moe=false sglang_enable_dp_attention=false lmdeploy_tp=1"},
      {kWaits, "deploy|rollout|eval|app", "more of serving", "owned_by=swift result_path"},
      {kWaits, "rollout", "aligning", "context_manager gym_env use_gym_env=false max_turns multi_turn_scheduler"},
      {kWaits, "eval", "evaluating",
       "api_key eval_backend=Native eval_dataset_args eval_generation_config extra_eval_args={} host=0.0.0.0 port=8000 "
       "local_dataset=false max_logprobs=20 served_model_name ssl_certfile ssl_keyfile vllm_max_num_seqs=256 "
       "vllm_speculative_config vllm_reasoning_parser"},
      {kWaits, "sample", "sampling",
       "cache_files data_range easy_query_threshold n_best_to_keep=5 num_sampling_batch_size=1 num_sampling_batches "
       "orm_model output_file override_exist_file=false prm_model prm_threshold=0.0 resume=false "
       "sampler_engine=transformers sampler_type=sample"},
  };
}

std::vector<AnswerRow> of_aligning() {
  return {
      {kWaits, "rlhf", "aligning",
       "advantage_estimator=grpo advantage_reweight async_generate=false chord_enable_phi_function=false "
       "chord_mu_decay_steps chord_mu_peak chord_mu_valley chord_mu_warmup_steps chord_sft_dataset "
       "chord_sft_per_device_train_batch_size completion_length_limit_scope=per_round cosine_max_len "
       "cosine_max_len_value_correct=0.5 cosine_max_len_value_wrong=0.0 cosine_min_len_value_correct=1.0 "
       "cosine_min_len_value_wrong=-0.5 delta discopop_tau=0.05 enable_flattened_weight_sync=true "
       "fipo_clip_high_only=true fipo_clip_range=0.2 fipo_decay_rate=32.0 fipo_safety_threshold=4.0 "
       "generation_batch_size gkd_logits_topk gym_env importance_sampling_level=token kl_in_reward ld_alpha lmbda=0.5 "
       "local_rollout_forward_batch_size=64 log_entropy=false log_rollout_offpolicy_metrics=false loss_weights "
       "max_resample_times=3 max_turns min_p=0.0 missing_eos_penalty move_model_batches multi_turn_scheduler "
       "num_generations_eval num_mini_batches=1 num_sample_generations=10 off_policy_sequence_mask_delta "
       "offload_model=false offload_optimizer=false offload_teacher_model=false real_tau=0.5 ref_adapters "
       "ref_model_mixup_alpha=0.6 ref_model_revision ref_model_sync_steps=512 ref_model_type "
       "repetition_max_penalty=-1.0 repetition_n_grams=3 repetition_penalty=1.0 response_length reward_adapters "
       "reward_model_plugin reward_model_revision reward_model_type reward_template rlsd_lambda=0.5 "
       "rlsd_lambda_decay_steps=0 rlsd_lambda_warmup_steps=0 rlsd_negative_only=false rlsd_reweight_clip_range=0.2 "
       "rollout_importance_sampling_mode rollout_importance_sampling_threshold=2.0 sdar_gate_beta=5.0 "
       "sdar_loss_coef=0.0 seq_kd=false sft_alpha=0 sleep_level=0 soft_cache_length soft_max_length "
       "steps_per_generation stop_words structured_outputs_regex sync_ref_model=false tau_neg=1.05 tau_pos=1.0 "
       "teacher_adapters teacher_deepspeed teacher_kl_coef=1.0 teacher_model teacher_model_revision "
       "teacher_model_server teacher_model_type teacher_tag_key=dataset top_entropy_quantile=1.0 top_k=-1 top_p=1.0 "
       "use_gym_env=false use_vllm=false vllm_enable_prefix_caching=true vllm_max_num_seqs vllm_mode "
       "vllm_reasoning_parser vllm_server_base_url vllm_server_group_port vllm_server_host "
       "vllm_server_pass_dataset=false vllm_server_port=8000 vllm_server_timeout=240.0 vllm_speculative_config "
       "wandb_log_unique_prompts=false"},
  };
}

}  // namespace

std::vector<AnswerRow> flags_waiting() {
  auto all = of_training();
  for (const auto& part : {of_models_and_data(), of_answering(), of_aligning()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace tern::cli
