// ms-swift's flags that tern refuses, by what it has instead. Their defaults may be given: they ask for nothing.
#include "cli/flags/answer.h"

namespace tern::cli {
namespace {

constexpr std::string_view kTrain = "pt|sft|rlhf|plan";
constexpr std::string_view kEverywhere =
    "pt|sft|rlhf|plan|infer|deploy|rollout|export|merge-lora|eval|sample|app|web-ui";
constexpr std::string_view kAnswering = "rlhf|infer|deploy|rollout|eval|sample|app";
constexpr std::string_view kFiles = "export|merge-lora";
constexpr auto kRefused = AnswerKind::refused;

std::vector<AnswerRow> of_training() {
  return {
      {kRefused, kTrain, "a batch is not chosen by running out of memory", "auto_find_batch_size=false",
       "see tern plan, which says what fits before the run"},
      {kRefused, kTrain, "the device is named", "use_cpu=false no_cuda=false", "use --device cpu"},
      {kRefused, kTrain, "a step's loss is divided by its tokens on all devices", "average_tokens_across_devices=true"},
      {kRefused, kTrain, "a run that goes on takes its data from where it stopped", "ignore_data_skip=false",
       "use --resume_only_model true for a new run from the checkpoint's weights"},
      {kRefused, kTrain, "the order of rows has flags of its own",
       "sortish_sampler=false train_sampling_strategy=random",
       "use --group_by_length true, or --dataset_shuffle false"},
      {kRefused, kTrain, "one flag says whether rows are shuffled", "train_dataloader_shuffle=true",
       "use --dataset_shuffle false"},
      {kRefused, kTrain, "nothing is generated while training", "predict_with_generate=false",
       "answer the held-out rows with tern infer --adapters CHECKPOINT --load_data_args true --metric acc"},
      {kRefused, kTrain, "wrong numbers are looked for outside a run", "debug",
       "use tern selftest --model MODEL, which names the first op that differs"},
      {kRefused, kTrain, "the names of columns are the data set's", "label_names", "rename them with --columns"},
      {kRefused, kTrain, "a checkpoint is uploaded when it is chosen, not while training",
       "push_to_hub=false hub_model_id hub_always_push=false hub_private_repo=false hub_revision "
       "hub_strategy=every_save",
       "use tern export --push_to_hub true with the checkpoint"},
      {kRefused, kTrain, "LoRA and its variants, and training in full, are what tern trains",
       "adapter_act=gelu adapter_length=128 boft_block_num=0 boft_block_size=4 boft_dropout=0.0 "
       "boft_n_butterfly_factor=1 fourier_n_frequency=2000 fourier_scaling=300.0 reft_args "
       "reft_intervention_type=LoreftIntervention reft_layer_key reft_layers reft_rank=4",
       "use --tuner_type lora with --lora_rank"},
      {kRefused, kTrain, "samples are packed into the fullest sequences", "packing_strategy=binpack"},
      {kRefused, kTrain, "the last batch of a pass counts as much as its tokens", "dataloader_drop_last=false"},
      {kRefused, kTrain, "one flag bounds the passes over the data", "max_epochs",
       "use --num_train_epochs or --max_steps"},
      {kRefused, kTrain, "nothing is sent to SwanLab while training", "swanlab_token",
       "run swanlab login once, and swanlab sync when the run is over"},
      {kRefused, kTrain, "tern sends no messages",
       "swanlab_email_language=zh swanlab_notification_method swanlab_receiver_email swanlab_secret "
       "swanlab_sender_email swanlab_smtp_port swanlab_smtp_server swanlab_webhook_url",
       "have the shell send one when the command ends"},
      {kRefused, kTrain, "tern has its own pages of what a run logged, and files for TensorBoard",
       "trackio_bucket_id trackio_space_id trackio_static_space_id project=huggingface", "use --report_to tensorboard"},
      {kRefused, kTrain, "an old name", "evaluation_strategy", "use --eval_strategy"},
      {kRefused, "pt|sft|rlhf|plan|sample", "rows are named outright", "load_data_args=false",
       "give --dataset and --val_dataset"},
      {kRefused, kTrain, "an old name", "sft_type", "use --tuner_type"},
  };
}

std::vector<AnswerRow> of_models_and_data() {
  return {
      {kRefused, kEverywhere, "weights are always written as safetensors", "safe_serialization=true"},
      {kRefused, kEverywhere, "adapters are PEFT's", "use_swift_lora=false"},
      {kRefused, kEverywhere, "every weight comes from the model's files", "init_strategy"},
      {kRefused, kEverywhere, "a model's settings are flags", "model_kwargs",
       "give each as a flag, as in --max_pixels 1003520"},
      {kRefused, kEverywhere, "one device holds the model", "device_map=auto",
       "name it with --device; several devices come with a later version"},
      {kRefused, kEverywhere, "memory is planned", "max_memory", "see tern plan"},
      {kRefused, kEverywhere, "tern starts its own ranks, without Ray", "use_ray=false ray_exp_name device_groups",
       "set NPROC_PER_NODE, NNODES, NODE_RANK and MASTER_ADDR"},
      {kRefused, kEverywhere, "weights are quantised as bnb, int8 or fp8", "hqq_axis", "use --quant_method bnb"},
      {kRefused, kEverywhere, "a hub's files are fetched again once they have changed there",
       "download_mode=reuse_dataset_if_exists", "remove the data set from the hub's cache to fetch it anew"},
      {kRefused, kEverywhere, "a flag is never ignored", "ignore_args_error=false",
       "remove the flags that tern does not know"},
      {kRefused, kEverywhere, "the chat template says how an answer begins",
       "response_prefix add_non_thinking_prefix=true",
       "use --enable_thinking, or a copy of the template with --template"},
      {kRefused, kEverywhere, "columns have the usual names unless they are renamed",
       "disable_auto_column_mapping=false", "use --columns"},
      {kRefused, kEverywhere, "there is no task decision",
       "decision_drop_instructions=0.0 decision_shuffle_fields=false decision_state_as_text=0.0 "
       "decision_subsample_options=0",
       "use --task_type seq_cls"},
  };
}

std::vector<AnswerRow> of_answering() {
  return {
      {kRefused, kAnswering, "the engine's settings are flags of their own", "vllm_engine_kwargs engine_kwargs",
       "give each as a flag, as in --max_num_seqs 64"},
      {kRefused, kAnswering, "weights are quantised while loading by one flag", "vllm_quantization sglang_quantization",
       "use --quant_method bnb, int8 or fp8"},
      {kRefused, kAnswering, "one flag bounds a sequence", "sglang_context_length lmdeploy_session_len",
       "use --max_model_len"},
      {kRefused, kAnswering, "the cache's dtype is one flag", "sglang_kv_cache_dtype=auto lmdeploy_quant_policy=0",
       "use --kv_cache_dtype"},
      {kRefused, kAnswering, "speculative decoding is one flag",
       "sglang_speculative_algorithm sglang_speculative_num_steps sglang_speculative_eagle_topk "
       "sglang_speculative_num_draft_tokens",
       "use --speculative_config '{\"method\": \"ngram\", \"num_speculative_tokens\": 5}'"},
      {kRefused, "infer", "rows are answered in batches of --max_batch_size", "vllm_max_num_seqs=256 max_num_seqs=256",
       "use --max_batch_size"},
      {kRefused, "infer|sample", "a data set's name says how many of its rows are taken", "val_dataset_sample",
       "write --val_dataset FILE#N"},
      {kRefused, "infer|deploy|rollout|eval|app", "a reranker's score is between 0 and 1",
       "reranker_use_activation=true"},
      {kRefused, "app|web-ui", "no tunnel is opened to other machines", "share=false",
       "use a tunnel of your own to --port"},
      {kRefused, "app", "the page is in English", "lang=en studio_title"},
  };
}

std::vector<AnswerRow> of_files() {
  return {
      {kRefused, kFiles, "tern reads and writes Hugging Face's format, and has no Megatron checkpoints",
       "to_mcore=false to_hf=false mcore_model mcore_adapter test_convert_precision=false test_convert_dtype=float32 "
       "save_missing_weights=false",
       "give the Hugging Face folder as --model"},
      {kRefused, kFiles, "Ollama reads GGUF files", "to_ollama=false", "write one with tern convert MODEL MODEL.gguf"},
      {kRefused, "merge-lora", "merging neither quantises nor uploads",
       "quant_method quant_bits quant_batch_size=1 quant_n_samples=256 group_size=128 bnb_4bit_quant_type=nf4 "
       "bnb_4bit_use_double_quant=true push_to_hub=false hub_model_id hub_private_repo=false "
       "to_cached_dataset=false",
       "use tern export with the merged folder"},
  };
}

std::vector<AnswerRow> of_trl() {
  return {
      {kRefused, "rlhf", "TRL's own setting, which ms-swift's rlhf doesn't take either",
       "activation_offloading=false alpha=0.0 assistant_only_loss=false batch_size cache_implementation "
       "cast_lm_head_to_fp32=false chat_template_kwargs chat_template_path completion_only_loss dataset_kwargs "
       "dataset_text_field=text disable_dropout=true eos_token eval_packing f_alpha_divergence_coef=0.5 "
       "f_divergence_type=reverse_kl generate_during_eval=false generation_kwargs is_encoder_decoder kl_estimator=k1 "
       "local_batch_size local_mini_batch_size log_completions_hub_repo log_unique_prompts=false "
       "mask_truncated_completions=false max_tool_calling_iterations micro_batch_size mini_batch_size "
       "model_adapter_name model_init_kwargs multi_objective_aggregation=sum_then_normalize num_completions_to_print "
       "num_total_batches off_policy_mask_threshold pad_to_multiple_of pad_token padding_value "
       "precompute_ref_batch_size precompute_ref_log_probs=false ref_adapter_name reference_free=false "
       "reward_model_path=EleutherAI/pythia-160m sapo_temperature_neg=1.05 sapo_temperature_pos=1.0 "
       "sft_model_path=EleutherAI/pythia-160m shuffle_dataset=false stop_token stop_token_id "
       "teacher_model_init_kwargs teacher_model_name_or_path total_episodes truncation_mode=keep_start "
       "use_bias_correction_kl=false use_transformers_paged=false use_weighting=false vllm_enable_sleep_mode=false "
       "vllm_group_port=51216 vllm_importance_sampling_cap=3.0 vllm_importance_sampling_correction=true "
       "vllm_importance_sampling_mode=sequence_mask vllm_max_model_length vllm_model_impl=vllm "
       "vllm_structured_outputs_regex world_size"},
  };
}

}  // namespace

std::vector<AnswerRow> flags_refused() {
  auto all = of_training();
  for (const auto& part : {of_models_and_data(), of_answering(), of_files(), of_trl()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace tern::cli
