#!/usr/bin/env python3
"""Makes tests/data/golden: tiny random models and what transformers, PyTorch and PEFT compute with them.

Usage: models.py OUTPUT [MODEL.gguf [NAME...]]      needs: torch transformers peft safetensors gguf

OUTPUT/<model>/ holds config.json and model.safetensors (the model), adapter/ (a LoRA that PEFT wrote, both halves random)
and golden.safetensors:
  tokens [300]; logits [300, vocab]
  ids, supervised [tokens], lengths [samples]: training samples end to end; supervised[t] is 1 where token t is a target
  loss [1], gradient/<parameter>: of the first step's samples, the sum of cross entropies over the number of targets
  lora.logits [64, vocab]: of the first tokens, with the adapter
  lora.loss, lora.gradient/<PEFT's name>: the same loss with the adapter, and of its parameters
  full.losses, full.grad_norms, lora.losses, lora.grad_norms [20]: 20 steps of AdamW, norms before clipping
  float32_error/<one of those>, of the models whose golden numbers are computed in float64: see add_float32_errors
Samples go through the model one by one, without padding. Versions stand in each file's metadata.

OUTPUT/<model>/bf16.safetensors: logits [64, vocab] of the first tokens, of the model stored in bfloat16 and loaded in float32.

With NAMEs, only those tiny models. With MODEL.gguf alone, OUTPUT/smollm2.safetensors: 320 tokens of GSM8K, and at each of `positions` the distribution of the
next token: its `top` ids with their log-probabilities, and the log of the mass that is left in each class id mod 16.
"""
import json
import math
import os
import sys
import tempfile
import zlib
from importlib.metadata import version

sys.path.append(sys.path.pop(0))  # beside this file lies a tokenizers.py
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors import safe_open
from safetensors.torch import load_file, save_file
import transformers
from transformers import (AutoModelForCausalLM, AutoTokenizer, Cohere2Config, Cohere2ForCausalLM, CohereConfig, CohereForCausalLM,
                          DeepseekV2Config, DeepseekV2ForCausalLM, DeepseekV3Config, DeepseekV32Config, DeepseekV32ForCausalLM,
                          DeepseekV3ForCausalLM, Gemma3Config, Gemma3ForConditionalGeneration, Mistral3Config,
                          Mistral3ForConditionalGeneration, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration,
                          Qwen3VLConfig, Qwen3VLForConditionalGeneration, FalconH1Config, FalconH1ForCausalLM, Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM,
                          Gemma3TextConfig, Glm4Config, Glm4ForCausalLM, Glm4MoeConfig, Glm4MoeForCausalLM, GptOssConfig, GptOssForCausalLM, GraniteConfig, GraniteForCausalLM, GraniteMoeConfig, GraniteMoeForCausalLM, GraniteMoeHybridConfig,
                          GraniteMoeHybridForCausalLM, Lfm2Config, Lfm2ForCausalLM, Lfm2MoeConfig, Lfm2MoeForCausalLM, LlamaConfig, LlamaForCausalLM, Mxfp4Config, Ministral3Config, Ministral3ForCausalLM, Mistral4Config, Mistral4ForCausalLM, Gemma4Config, Gemma4ForCausalLM, Gemma4ForConditionalGeneration, Gemma4TextConfig, Llama4Config, Llama4ForCausalLM, Llama4ForConditionalGeneration, Llama4TextConfig,
                          MistralConfig, MistralForCausalLM, MixtralConfig, MixtralForCausalLM, Olmo2Config,
                          Olmo2ForCausalLM, Olmo3Config, Olmo3ForCausalLM, Phi3Config, Phi3ForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen2MoeConfig, Qwen2MoeForCausalLM, Qwen3Config, Qwen3ForCausalLM,
                          Qwen3_5Config, Qwen3_5ForCausalLM, Qwen3_5ForConditionalGeneration, Qwen3_5MoeForCausalLM,
                          Qwen3_5MoeTextConfig, Qwen3_5TextConfig, Qwen3NextConfig, Qwen3NextForCausalLM,
                          Qwen3MoeConfig, Qwen3MoeForCausalLM, SmolLM3Config, SmolLM3ForCausalLM, get_cosine_schedule_with_warmup,
                          Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration)

from float64 import in_float64
from random_weights import save_as_published

VOCAB, HIDDEN, LAYERS, TOKENS, LORA_TOKENS = 160, 64, 2, 300, 64
STEPS, SAMPLES, PER_STEP = 20, 8, 4
PEAK, BETAS, EPS, DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
LATENT = ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"]
DELTA = ["in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "in_proj_qkvz", "in_proj_ba", "out_proj"]
MLP = ["gate_proj", "up_proj", "down_proj"]
SHORT_CONV = ["in_proj", "w1", "w2", "w3"]
SHARED_MLP = ["input_linear", "output_linear"]
PER_LAYER = ["per_layer_input_gate", "per_layer_projection", "per_layer_model_projection"]
COMMON = dict(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=96, num_hidden_layers=LAYERS,
              num_attention_heads=4, max_position_embeddings=512, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2,
              initializer_range=0.125, attn_implementation="eager")
SMALL = {**COMMON, "hidden_size": 32, "intermediate_size": 48}
NO_MLP = {key: value for key, value in SMALL.items() if key != "intermediate_size"}
LFM2 = {**{key: value for key, value in SMALL.items() if key != "rms_norm_eps"}, "norm_eps": 1e-5, "pad_token_id": 0}
COHERE = {**{key: value for key, value in SMALL.items() if key != "rms_norm_eps"}, "layer_norm_eps": 1e-5, "pad_token_id": 0}
# The root of whose hidden size is no whole number.
GEMMA = {**COMMON, "hidden_size": 40, "intermediate_size": 64, "num_hidden_layers": 4}

MODELS = {
    # Scaled rope whose bands lie within the text; grouped heads; one matrix for embedding and head.
    "llama-tied": lambda: LlamaForCausalLM(LlamaConfig(
        **COMMON, num_key_value_heads=2, tie_word_embeddings=True,
        rope_parameters={"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 64})),
    # A head size of its own, one key-value head, biases everywhere.
    "llama-untied": lambda: LlamaForCausalLM(LlamaConfig(
        **COMMON, num_key_value_heads=1, head_dim=24, tie_word_embeddings=False, attention_bias=True, mlp_bias=True)),
    # A window that the text and some training samples exceed.
    "mistral": lambda: MistralForCausalLM(MistralConfig(
        **COMMON, num_key_value_heads=2, tie_word_embeddings=False, sliding_window=37)),
    # Biases on q, k and v alone.
    "qwen2-tied": lambda: Qwen2ForCausalLM(Qwen2Config(
        **COMMON, num_key_value_heads=2, tie_word_embeddings=True)),
    # The second layer alone has a window, which the text exceeds.
    "qwen2-untied": lambda: Qwen2ForCausalLM(Qwen2Config(
        **COMMON, num_key_value_heads=1, tie_word_embeddings=False, use_sliding_window=True, sliding_window=37,
        max_window_layers=1, rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})),
    # Norms over each head, whose size is its own.
    "qwen3-tied": lambda: Qwen3ForCausalLM(Qwen3Config(
        **COMMON, num_key_value_heads=2, head_dim=24, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})),
    # Biases on every projection of attention.
    "qwen3-untied": lambda: Qwen3ForCausalLM(Qwen3Config(
        **COMMON, num_key_value_heads=4, head_dim=32, tie_word_embeddings=False, attention_bias=True)),
    # Every factor away from one, and that of attention away from one over the root of the head's size.
    "granite-tied": lambda: GraniteForCausalLM(GraniteConfig(
        **COMMON, num_key_value_heads=2, tie_word_embeddings=True, embedding_multiplier=3.0, attention_multiplier=0.11,
        residual_multiplier=0.6, logits_scaling=1.7)),
    # Factors on the other side of one, as whole numbers where they may be; biases everywhere.
    "granite-untied": lambda: GraniteForCausalLM(GraniteConfig(
        **COMMON, num_key_value_heads=1, tie_word_embeddings=False, attention_bias=True, mlp_bias=True,
        embedding_multiplier=12, attention_multiplier=0.4, residual_multiplier=1.3, logits_scaling=0.8)),
    # Two windows that the text and some training samples exceed; caps that scores and logits feel; all that a GGUF can say.
    "gemma2-tied": lambda: Gemma2ForCausalLM(Gemma2Config(
        **GEMMA, num_key_value_heads=2, head_dim=24, query_pre_attn_scalar=24, sliding_window=11,
        attn_logit_softcapping=1.0, final_logit_softcapping=1.5)),
    # What a GGUF has no word for: a scale of its own, no caps, other layers with windows, a head of its own.
    "gemma2-untied": lambda: Gemma2ForCausalLM(Gemma2Config(
        **GEMMA, num_key_value_heads=1, head_dim=16, query_pre_attn_scalar=7, sliding_window=37,
        attn_logit_softcapping=None, final_logit_softcapping=None, tie_word_embeddings=False,
        layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"])),
    # More than one period of the implied six layers; two bases, one of them scaled; all that a GGUF can say.
    "gemma3-tied": lambda: Gemma3ForCausalLM(Gemma3TextConfig(
        **{**GEMMA, "num_hidden_layers": 7, "hidden_size": 32, "intermediate_size": 48}, num_key_value_heads=2,
        head_dim=16, query_pre_attn_scalar=16, sliding_window=11,
        rope_parameters={"full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}})),
    # What a GGUF has no word for: a scale of its own and layers in no pattern; capped logits; a head of its own.
    "gemma3-untied": lambda: Gemma3ForCausalLM(Gemma3TextConfig(
        **GEMMA, num_key_value_heads=1, head_dim=24, query_pre_attn_scalar=7, sliding_window=37,
        final_logit_softcapping=1.5, tie_word_embeddings=False,
        layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"])),
    # Experts in each layer, weights that add up to one; all that a GGUF can say.
    "qwen3-moe-tied": lambda: Qwen3MoeForCausalLM(Qwen3MoeConfig(
        **COMMON, num_key_value_heads=2, head_dim=24, tie_word_embeddings=True, num_experts=8, num_experts_per_tok=3,
        moe_intermediate_size=32, norm_topk_prob=True)),
    # A layer without experts between two with them; weights as the softmax gives them; a window; biases.
    "qwen3-moe-untied": lambda: Qwen3MoeForCausalLM(Qwen3MoeConfig(
        **{**COMMON, "num_hidden_layers": 3}, num_key_value_heads=1, head_dim=32, tie_word_embeddings=False,
        attention_bias=True, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=False,
        mlp_only_layers=[1], use_sliding_window=True, sliding_window=37)),
    # A window that the text and some training samples exceed.
    "mixtral": lambda: MixtralForCausalLM(MixtralConfig(
        **SMALL, num_key_value_heads=2, tie_word_embeddings=False, num_local_experts=4, num_experts_per_tok=2,
        sliding_window=37)),
    # A shared expert with a gate of its own; weights that add up to less than one; all that a GGUF can say.
    "qwen2-moe-untied": lambda: Qwen2MoeForCausalLM(Qwen2MoeConfig(
        **COMMON, num_key_value_heads=2, tie_word_embeddings=False, num_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=32, shared_expert_intermediate_size=48, norm_topk_prob=False)),
    # Experts in every other layer alone; weights that add up to one; no biases.
    "qwen2-moe-tied": lambda: Qwen2MoeForCausalLM(Qwen2MoeConfig(
        **{**COMMON, "num_hidden_layers": 3}, num_key_value_heads=4, tie_word_embeddings=True, num_experts=4,
        num_experts_per_tok=3, moe_intermediate_size=24, shared_expert_intermediate_size=40, norm_topk_prob=True,
        decoder_sparse_step=2, qkv_bias=False)),
    # As many key-value heads as heads, and fewer: what is normed over all heads has other widths.
    "olmo2-untied": lambda: Olmo2ForCausalLM(Olmo2Config(
        **SMALL, tie_word_embeddings=False, rope_parameters={"rope_type": "default", "rope_theta": 500000.0})),
    "olmo2-tied": lambda: Olmo2ForCausalLM(Olmo2Config(
        **SMALL, num_key_value_heads=2, tie_word_embeddings=True)),
    # Five layers, of which the fourth is turned by no position, as in a GGUF.
    "smollm3-tied": lambda: SmolLM3ForCausalLM(SmolLM3Config(
        **{**SMALL, "num_hidden_layers": 5}, num_key_value_heads=2, tie_word_embeddings=True, pad_token_id=0)),
    # Others than the fourth. (A bias of keys that no position turns has no gradient but rounding.)
    "smollm3-untied": lambda: SmolLM3ForCausalLM(SmolLM3Config(
        **SMALL, num_key_value_heads=1, tie_word_embeddings=False, pad_token_id=0, mlp_bias=True,
        no_rope_layers=[0, 1])),
    # Frequencies slowed down by YaRN, with every border among the pairs of a head; all that a GGUF can say.
    "qwen3-yarn": lambda: Qwen3ForCausalLM(Qwen3Config(
        **SMALL, num_key_value_heads=2, head_dim=32, tie_word_embeddings=True,
        rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                         "original_max_position_embeddings": 128})),
    # What a GGUF has no word for: borders and an attention factor of its own.
    "llama-yarn": lambda: LlamaForCausalLM(LlamaConfig(
        **SMALL, num_key_value_heads=2, head_dim=32, tie_word_embeddings=False,
        rope_parameters={"rope_type": "yarn", "rope_theta": 500.0, "factor": 8.0, "beta_fast": 12.0, "beta_slow": 2.0,
                         "truncate": False, "mscale": 0.7, "mscale_all_dim": 0.3,
                         "original_max_position_embeddings": 64})),
    # Half of each head is turned, in neighbouring pairs; biases on q, k and v; four norms a layer.
    "glm4-untied": lambda: Glm4ForCausalLM(Glm4Config(
        **SMALL, num_key_value_heads=2, head_dim=16, tie_word_embeddings=False, pad_token_id=0)),
    # A quarter of each head; no biases.
    "glm4-tied": lambda: Glm4ForCausalLM(Glm4Config(
        **SMALL, num_key_value_heads=1, head_dim=24, tie_word_embeddings=True, pad_token_id=0, attention_bias=False,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25})),
    # One matrix for queries, keys and values, and one for gate and up; a window that the text exceeds.
    "phi3-untied": lambda: Phi3ForCausalLM(Phi3Config(
        **SMALL, num_key_value_heads=2, tie_word_embeddings=False, pad_token_id=0, sliding_window=37)),
    # As many key-value heads as heads; positions turn a part of each head.
    "phi3-tied": lambda: Phi3ForCausalLM(Phi3Config(
        **SMALL, tie_word_embeddings=True, pad_token_id=0,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.75})),
    # Windows in all layers but the fourth, whose positions alone YaRN slows down; all that a GGUF can say.
    "olmo3-untied": lambda: Olmo3ForCausalLM(Olmo3Config(
        **{**SMALL, "num_hidden_layers": 5}, num_key_value_heads=2, tie_word_embeddings=False, pad_token_id=0,
        sliding_window=11,
        rope_parameters={"full_attention": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                                            "original_max_position_embeddings": 128},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})),
    # Experts in groups after a dense layer, weights that add up to a factor; half of each head is turned, after its norm.
    "glm4-moe-untied": lambda: Glm4MoeForCausalLM(Glm4MoeConfig(
        **{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=2, head_dim=16, tie_word_embeddings=False,
        pad_token_id=0, use_qk_norm=True, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=24,
        n_shared_experts=1, n_group=4, topk_group=2, routed_scaling_factor=2.5, norm_topk_prob=True, num_mtp_layers=0)),
    # Experts in each layer, of one group; weights as the sigmoid gives them; two shared ones; biases, no norms of heads.
    "glm4-moe-tied": lambda: Glm4MoeForCausalLM(Glm4MoeConfig(
        **SMALL, num_key_value_heads=1, head_dim=24, tie_word_embeddings=True, pad_token_id=0, attention_bias=True,
        n_routed_experts=5, num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=2, first_k_dense_replace=0,
        norm_topk_prob=False, num_mtp_layers=0,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25})),
    # Every factor away from one; the softmax of the chosen ones' logits.
    "granite-moe-tied": lambda: GraniteMoeForCausalLM(GraniteMoeConfig(
        **SMALL, num_key_value_heads=2, tie_word_embeddings=True, num_local_experts=6, num_experts_per_tok=3,
        embedding_multiplier=3.0, attention_multiplier=0.11, residual_multiplier=0.6, logits_scaling=1.7)),
    # Factors on the other side of one; biases of attention.
    "granite-moe-untied": lambda: GraniteMoeForCausalLM(GraniteMoeConfig(
        **SMALL, num_key_value_heads=1, tie_word_embeddings=False, attention_bias=True, num_local_experts=4,
        num_experts_per_tok=2, embedding_multiplier=12, attention_multiplier=0.4, residual_multiplier=1.3,
        logits_scaling=0.8)),
    # Three gated delta networks and one layer that attends; two heads of values share one of keys; all that a GGUF can say.
    # (llama.cpp takes the norms' epsilon for that of the L2 norm of keys, 1e-6, as in all published files.)
    "qwen3.5-untied": lambda: Qwen3_5ForCausalLM(Qwen3_5TextConfig(
        **{**SMALL, "num_hidden_layers": 4, "rms_norm_eps": 1e-6}, num_key_value_heads=2, head_dim=16, tie_word_embeddings=False,
        linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=32, linear_value_head_dim=32,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25,
                         "mrope_interleaved": True, "mrope_section": [1, 1, 0]})),
    # What a GGUF has no word for: heads of values of their own size; biases. Another kernel, and layers in no pattern.
    "qwen3.5-tied": lambda: Qwen3_5ForCausalLM(Qwen3_5TextConfig(
        **{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=1, head_dim=24, tie_word_embeddings=True,
        attention_bias=True, layer_types=["full_attention", "linear_attention", "linear_attention"],
        linear_conv_kernel_dim=3, linear_num_key_heads=1, linear_num_value_heads=3, linear_key_head_dim=8,
        linear_value_head_dim=12,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5})),
    # The same with experts, whose weights add up to one, and a shared one with a gate of its own; as many heads of values
    # as of keys.
    "qwen3.5-moe-untied": lambda: Qwen3_5MoeForCausalLM(Qwen3_5MoeTextConfig(
        **{**NO_MLP, "num_hidden_layers": 3, "rms_norm_eps": 1e-6}, num_key_value_heads=2, head_dim=16, tie_word_embeddings=False,
        layer_types=["linear_attention", "full_attention", "linear_attention"], linear_num_key_heads=2,
        linear_num_value_heads=2, linear_key_head_dim=16, linear_value_head_dim=16, num_experts=6,
        num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25,
                         "mrope_section": [1, 1, 0]})),
    # Projections that go by heads of keys; experts in each layer; all that a GGUF can say.
    "qwen3-next-untied": lambda: Qwen3NextForCausalLM(Qwen3NextConfig(
        **{**SMALL, "num_hidden_layers": 3, "rms_norm_eps": 1e-6}, num_key_value_heads=2, head_dim=16,
        tie_word_embeddings=False, layer_types=["linear_attention", "linear_attention", "full_attention"],
        linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16, num_experts=6,
        num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25})),
    # A layer without experts; weights as the softmax gives them; heads of values of their own size.
    "qwen3-next-tied": lambda: Qwen3NextForCausalLM(Qwen3NextConfig(
        **{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=1, head_dim=24, tie_word_embeddings=True,
        layer_types=["full_attention", "linear_attention", "linear_attention"], linear_conv_kernel_dim=2,
        linear_num_key_heads=1, linear_num_value_heads=3, linear_key_head_dim=8, linear_value_head_dim=12, num_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=24, norm_topk_prob=False,
        mlp_only_layers=[1],
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5})),
    # Short convolutions around a layer that attends; a width of the mlp by its formula; all that a GGUF can say.
    "lfm2-tied": lambda: Lfm2ForCausalLM(Lfm2Config(
        **{**LFM2, "num_hidden_layers": 3}, num_key_value_heads=2, tie_word_embeddings=True,
        layer_types=["conv", "full_attention", "conv"], block_multiple_of=24, block_ffn_dim_multiplier=1.25)),
    # A head of its own; biases and a longer kernel of the convolution; the width itself.
    "lfm2-untied": lambda: Lfm2ForCausalLM(Lfm2Config(
        **LFM2, num_key_value_heads=4, tie_word_embeddings=False, layer_types=["full_attention", "conv"],
        conv_bias=True, conv_L_cache=5, block_auto_adjust_ff_dim=False)),
    # Sinks, biases everywhere, a window that the text exceeds; all that a GGUF can say. (llama.cpp rounds YaRN's borders,
    # which lie on whole features here: below 0 and at 3.9999998.)
    "gpt-oss-untied": lambda: GptOssForCausalLM(GptOssConfig(
        **{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=2, head_dim=16, tie_word_embeddings=False,
        num_local_experts=6, num_experts_per_tok=3, sliding_window=37, swiglu_limit=7.0,
        rope_parameters={"rope_type": "yarn", "rope_theta": 415.0117, "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
                         "truncate": False, "original_max_position_embeddings": 128})),
    # What a GGUF has no word for: a limit of its own, which gate and up exceed, and layers in no pattern.
    "gpt-oss-tied": lambda: GptOssForCausalLM(GptOssConfig(
        **SMALL, num_key_value_heads=1, head_dim=24, tie_word_embeddings=True, num_local_experts=4,
        num_experts_per_tok=2, sliding_window=11, swiglu_limit=0.6, attention_bias=False,
        layer_types=["full_attention", "sliding_attention"],
        rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 8.0, "beta_fast": 12.0, "beta_slow": 2.0,
                         "truncate": False, "original_max_position_embeddings": 128})),
    # Latent vectors of queries, and of keys and values; heads of three sizes; experts in groups by their best two after a
    # dense layer; YaRN, which scales scores, too.
    "deepseek-v3-untied": lambda: DeepseekV3ForCausalLM(DeepseekV3Config(
        **{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=20, qk_nope_head_dim=16, qk_rope_head_dim=8,
        v_head_dim=12, tie_word_embeddings=False, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=24,
        n_shared_experts=1, n_group=4, topk_group=2, first_k_dense_replace=1, num_mtp_layers=0,
        rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 8.0, "mscale": 1.0, "mscale_all_dim": 0.7,
                         "original_max_position_embeddings": 64})),
    # Queries without a latent vector; biases; experts in each layer, of one group.
    "deepseek-v3-tied": lambda: DeepseekV3ForCausalLM(DeepseekV3Config(
        **SMALL, num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=16, v_head_dim=24,
        attention_bias=True, tie_word_embeddings=True, n_routed_experts=5, num_experts_per_tok=2,
        moe_intermediate_size=16, n_shared_experts=2, n_group=1, topk_group=1, first_k_dense_replace=0,
        norm_topk_prob=False, routed_scaling_factor=1.3, num_mtp_layers=0)),
    # Experts by their softmax, in groups by their best.
    "deepseek-v2-untied": lambda: DeepseekV2ForCausalLM(DeepseekV2Config(
        **SMALL, q_lora_rank=12, kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
        tie_word_embeddings=False, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=24,
        n_shared_experts=1, topk_method="group_limited_greedy", n_group=4, topk_group=2, first_k_dense_replace=1,
        routed_scaling_factor=3.0)),
    # As the small one has it: greedy, queries without a latent vector; YaRN.
    "deepseek-v2-tied": lambda: DeepseekV2ForCausalLM(DeepseekV2Config(
        **SMALL, q_lora_rank=None, kv_lora_rank=24, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8,
        tie_word_embeddings=True, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
        n_shared_experts=2, topk_method="greedy", first_k_dense_replace=0,
        rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "mscale": 0.707,
                         "mscale_all_dim": 0.707, "original_max_position_embeddings": 128})),
    # Attention and mlp side by side behind one layer norm; every key is seen; all that a GGUF can say.
    "cohere-tied": lambda: CohereForCausalLM(CohereConfig(
        **COHERE, num_key_value_heads=2, logit_scale=0.4)),
    # What a GGUF has no word for: biases and a head of its own.
    "cohere-untied": lambda: CohereForCausalLM(CohereConfig(
        **COHERE, num_key_value_heads=1, tie_word_embeddings=False, attention_bias=True, logit_scale=1.3)),
    # Windows in all layers but the fourth, which no position turns; all that a GGUF can say.
    "cohere2-tied": lambda: Cohere2ForCausalLM(Cohere2Config(
        **{**COHERE, "num_hidden_layers": 5}, num_key_value_heads=2, sliding_window=11, logit_scale=0.25)),
    # Layers in no pattern; a head of its own.
    "cohere2-untied": lambda: Cohere2ForCausalLM(Cohere2Config(
        **COHERE, num_key_value_heads=4, tie_word_embeddings=False, sliding_window=37, logit_scale=1.7,
        layer_types=["full_attention", "sliding_attention"])),
    # Mamba-2 around a layer that attends, which no position turns; every factor away from one; no experts; all that a
    # GGUF can say.
    "granite-h-tied": lambda: GraniteMoeHybridForCausalLM(GraniteMoeHybridConfig(
        **{**SMALL, "num_hidden_layers": 3}, shared_intermediate_size=48, num_key_value_heads=2, tie_word_embeddings=True,
        layer_types=["linear_attention", "full_attention", "linear_attention"], num_local_experts=0,
        num_experts_per_tok=0, mamba_n_heads=4, mamba_d_state=16, mamba_chunk_size=32, embedding_multiplier=3.0, attention_multiplier=0.11,
        residual_multiplier=0.6, logits_scaling=1.7)),
    # Experts, and an mlp of its own width; groups of heads that share a state's input and output; all that a GGUF can say.
    "granite-h-untied": lambda: GraniteMoeHybridForCausalLM(GraniteMoeHybridConfig(
        **{**SMALL, "num_hidden_layers": 3}, shared_intermediate_size=40, num_key_value_heads=4, tie_word_embeddings=False,
        layer_types=["full_attention", "linear_attention", "linear_attention"], num_local_experts=5,
        num_experts_per_tok=2, mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=24, mamba_expand=3, mamba_d_conv=3, mamba_chunk_size=32,
        position_embedding_type="rope", embedding_multiplier=12, attention_multiplier=0.4, residual_multiplier=1.3,
        logits_scaling=0.8)),
    # What a GGUF has no word for: biases, and convolutions without; no layer attends but the last.
    "granite-h-biased": lambda: GraniteMoeHybridForCausalLM(GraniteMoeHybridConfig(
        **SMALL, shared_intermediate_size=24, num_key_value_heads=1, tie_word_embeddings=True, attention_bias=True,
        layer_types=["linear_attention", "full_attention"], num_local_experts=0, mamba_n_heads=2, mamba_d_state=8,
        mamba_chunk_size=32, mamba_conv_bias=False, mamba_proj_bias=True, position_embedding_type="rope")),
    # Attention and Mamba-2 side by side, every factor away from one; heads of their own width, no norm of what they give.
    "falcon-h1-untied": lambda: FalconH1ForCausalLM(FalconH1Config(
        **SMALL, num_key_value_heads=2, head_dim=12, tie_word_embeddings=False, mamba_d_ssm=48, mamba_n_heads=4,
        mamba_d_state=16, mamba_chunk_size=32, mamba_norm_before_gate=False, key_multiplier=0.4,
        attention_in_multiplier=1.2, attention_out_multiplier=0.9, ssm_in_multiplier=1.25, ssm_out_multiplier=0.6,
        ssm_multipliers=[0.7, 0.8, 1.3, 1.4, 0.9], mlp_multipliers=[0.8, 1.3], embedding_multiplier=3.0,
        lm_head_multiplier=0.6)),
    # Groups of heads, normed before the gate, biases everywhere; all heads as wide as twice the stream.
    "falcon-h1-tied": lambda: FalconH1ForCausalLM(FalconH1Config(
        **SMALL, num_key_value_heads=1, tie_word_embeddings=True, mamba_d_ssm=None, mamba_n_heads=4, mamba_n_groups=2,
        mamba_d_state=8, mamba_d_conv=3, mamba_chunk_size=32, mamba_rms_norm=True, mamba_norm_before_gate=True,
        attention_bias=True, mlp_bias=True, projectors_bias=True, mamba_proj_bias=True, ssm_out_multiplier=1.5)),
    # All that a GGUF can say: no factors. One group, normed after the gate.
    "falcon-h1-plain": lambda: FalconH1ForCausalLM(FalconH1Config(
        **SMALL, num_key_value_heads=2, tie_word_embeddings=False, mamba_d_ssm=64, mamba_n_heads=2, mamba_d_state=24,
        mamba_chunk_size=32, mamba_rms_norm=True, mamba_norm_before_gate=False)),
    # Factors of long texts, as every text is longer than the border; a part of each head; all that a GGUF can say.
    "phi3-long": lambda: Phi3ForCausalLM(Phi3Config(
        **SMALL, num_key_value_heads=2, tie_word_embeddings=True, pad_token_id=0, original_max_position_embeddings=4,
        rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
                         "long_factor": [1.5, 2.25, 9.0], "short_factor": [1.0, 1.25, 3.0]})),
    # Factors of short texts, as none is longer than the border; an attention factor of its own.
    "phi3-short": lambda: Phi3ForCausalLM(Phi3Config(
        **SMALL, num_key_value_heads=4, tie_word_embeddings=False, pad_token_id=0, original_max_position_embeddings=512,
        rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 1.0, "attention_factor": 1.25,
                         "long_factor": [1.5, 2.25, 9.0, 20.0], "short_factor": [1.0, 1.25, 3.0, 6.5]})),
    # Pairs of the whole head, of which the slow ones stand still; all that a GGUF can say.
    "llama-proportional": lambda: LlamaForCausalLM(LlamaConfig(
        **SMALL, num_key_value_heads=2, head_dim=24, tie_word_embeddings=True,
        rope_parameters={"rope_type": "proportional", "rope_theta": 1000.0, "factor": 2.0, "partial_rotary_factor": 0.3})),
    # Queries that grow at several borders within the text; all that a GGUF can say.
    "ministral3-tied": lambda: Ministral3ForCausalLM(Ministral3Config(
        **SMALL, num_key_value_heads=2, head_dim=16, tie_word_embeddings=True, pad_token_id=0,
        rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 16.0, "original_max_position_embeddings": 32,
                         "max_position_embeddings": 512, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0,
                         "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.4})),
    # What a GGUF has no word for: a window, and an mscale that is not one.
    "ministral3-untied": lambda: Ministral3ForCausalLM(Ministral3Config(
        **SMALL, num_key_value_heads=1, head_dim=24, tie_word_embeddings=False, pad_token_id=0, sliding_window=37,
        rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 8.0, "original_max_position_embeddings": 16,
                         "beta_fast": 12.0, "beta_slow": 2.0, "mscale": 0.7, "mscale_all_dim": 0.3,
                         "llama_4_scaling_beta": 0.1})),
    # DeepSeek-V3's form with queries that grow, and a softmax over experts in groups by their best two.
    "mistral4-untied": lambda: Mistral4ForCausalLM(Mistral4Config(
        **{**SMALL, "num_hidden_layers": 3}, q_lora_rank=24, kv_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=8,
        v_head_dim=16, tie_word_embeddings=False, pad_token_id=0, n_routed_experts=8, num_experts_per_tok=3,
        moe_intermediate_size=24, n_group=4, topk_group=2, first_k_dense_replace=1, routed_scaling_factor=1.7,
        num_key_value_heads=4,
        rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 8.0, "original_max_position_embeddings": 64,
                         "mscale": 1.0, "mscale_all_dim": 0.7, "llama_4_scaling_beta": 0.4})),
    # As the published one has it: one group, experts in each layer; queries without a latent vector, biases.
    "mistral4-tied": lambda: Mistral4ForCausalLM(Mistral4Config(
        **SMALL, q_lora_rank=None, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8,
        attention_bias=True, tie_word_embeddings=True, pad_token_id=0, n_routed_experts=5, num_experts_per_tok=2,
        moe_intermediate_size=16, norm_topk_prob=False, num_key_value_heads=4,
        rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 16.0, "original_max_position_embeddings": 32,
                         "max_position_embeddings": 512, "mscale": 1.0, "mscale_all_dim": 1.0,
                         "llama_4_scaling_beta": 0.1})),
    # As the small ones: embeddings of each layer; two last layers that read the keys and values of earlier ones, and are
    # twice as wide; capped logits. (Gates of few features may all be nearly closed, and a norm then makes much of rounding.)
    "gemma4-tied": lambda: Gemma4ForCausalLM(Gemma4TextConfig(
        **{**SMALL, "num_hidden_layers": 6}, num_key_value_heads=1, head_dim=8, global_head_dim=16, sliding_window=11,
        hidden_size_per_layer_input=32, vocab_size_per_layer_input=VOCAB, num_kv_shared_layers=2, use_double_wide_mlp=True,
        final_logit_softcapping=3.0, layer_types=["sliding_attention", "full_attention", "full_attention",
                                                  "sliding_attention", "sliding_attention", "full_attention"],
        rope_parameters={"full_attention": {"rope_type": "proportional", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}})),
    # As the large ones: values of global layers are what their keys are made of, in fewer heads; a head of its own.
    "gemma4-untied": lambda: Gemma4ForCausalLM(Gemma4TextConfig(
        **{**SMALL, "num_hidden_layers": 4}, num_key_value_heads=2, head_dim=12, global_head_dim=24, sliding_window=37,
        num_global_key_value_heads=1, attention_k_eq_v=True, hidden_size_per_layer_input=0, tie_word_embeddings=False,
        layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        rope_parameters={"full_attention": {"rope_type": "proportional", "rope_theta": 1000.0, "partial_rotary_factor": 0.5},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})),
    # Tokens see the keys that an indexer chooses, fewer than any but the shortest samples have; a part of its heads turns; YaRN.
    "deepseek-v32-untied": lambda: DeepseekV32ForCausalLM(DeepseekV32Config(
        **{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=20, qk_nope_head_dim=16, qk_rope_head_dim=8,
        v_head_dim=12, tie_word_embeddings=False, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=24,
        n_shared_experts=1, n_group=4, topk_group=2, first_k_dense_replace=1, index_topk=14, index_n_heads=16, index_head_dim=20,
        rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 8.0, "mscale": 1.0, "mscale_all_dim": 0.7,
                         "original_max_position_embeddings": 64})),
    # Heads of the indexer that turn whole; biases; experts in each layer, of one group.
    "deepseek-v32-tied": lambda: DeepseekV32ForCausalLM(DeepseekV32Config(
        **SMALL, num_key_value_heads=4, q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=16, v_head_dim=24,
        attention_bias=True, tie_word_embeddings=True, n_routed_experts=5, num_experts_per_tok=2,
        moe_intermediate_size=16, n_shared_experts=2, n_group=1, topk_group=1, first_k_dense_replace=0,
        index_topk=17, index_n_heads=9, index_head_dim=16, norm_topk_prob=False, routed_scaling_factor=1.3)),
    # Experts beside the mlp of each layer, with norms, a router and factors of their own.
    "gemma4-moe": lambda: Gemma4ForCausalLM(Gemma4TextConfig(
        **{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=2, head_dim=12, global_head_dim=24, sliding_window=37,
        num_global_key_value_heads=1, attention_k_eq_v=True, hidden_size_per_layer_input=0, tie_word_embeddings=True,
        enable_moe_block=True, num_experts=6, top_k_experts=2, moe_intermediate_size=20,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        rope_parameters={"full_attention": {"rope_type": "proportional", "rope_theta": 1000.0, "partial_rotary_factor": 0.5},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})),
    # Short convolutions and attention, with experts after the first layer that a bias balances; all that a GGUF can say.
    "lfm2-moe-tied": lambda: Lfm2MoeForCausalLM(Lfm2MoeConfig(
        **{**LFM2, "num_hidden_layers": 4}, num_key_value_heads=2, tie_word_embeddings=True, num_dense_layers=1, num_experts=6,
        num_experts_per_tok=2, moe_intermediate_size=24, layer_types=["conv", "full_attention", "conv", "full_attention"])),
    # What a GGUF has no word for: weights that are scaled and don't add up, no bias of the choice, a bias of convolutions.
    "lfm2-moe-untied": lambda: Lfm2MoeForCausalLM(Lfm2MoeConfig(
        **{**LFM2, "num_hidden_layers": 3}, num_key_value_heads=1, tie_word_embeddings=False, num_dense_layers=0, num_experts=5,
        num_experts_per_tok=3, moe_intermediate_size=16, use_expert_bias=False, norm_topk_prob=False, routed_scaling_factor=1.4,
        conv_bias=True, conv_L_cache=4, layer_types=["full_attention", "conv", "conv"])),
    # As V3 is published, and all that a GGUF can say: groups, YaRN with one factor in both places.
    "deepseek-v3-plain": lambda: DeepseekV3ForCausalLM(DeepseekV3Config(
        **{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=20, qk_nope_head_dim=16, qk_rope_head_dim=8,
        v_head_dim=12, tie_word_embeddings=False, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=24,
        n_shared_experts=1, n_group=4, topk_group=2, first_k_dense_replace=1, num_mtp_layers=0,
        rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 8.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                         "original_max_position_embeddings": 64})),
    # Every second layer without positions, whose queries grow within the text; chunks that it crosses, as some samples do;
    # experts in every second layer, two for each token: what a GGUF has no word for.
    "llama4-untied": lambda: Llama4ForCausalLM(Llama4TextConfig(
        **{**SMALL, "num_hidden_layers": 4}, intermediate_size_mlp=40, num_key_value_heads=2, head_dim=12, tie_word_embeddings=False,
        num_local_experts=4, num_experts_per_tok=2, interleave_moe_layer_step=2, no_rope_layer_interval=2,
        attention_chunk_size=37, floor_scale=16, attn_scale=0.3,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0})),
    # All that a GGUF can say: the fourth layer without positions, experts in each; Llama 3's scaling without a band between.
    "llama4-tied": lambda: Llama4ForCausalLM(Llama4TextConfig(
        **{**SMALL, "num_hidden_layers": 5}, intermediate_size_mlp=40, num_key_value_heads=1, head_dim=8, tie_word_embeddings=True,
        num_local_experts=3, num_experts_per_tok=1, interleave_moe_layer_step=1,
        rope_parameters={"rope_type": "llama3", "rope_theta": 1000.0, "factor": 16.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 1.0, "original_max_position_embeddings": 64})),
    # Neither norms nor growth; layers in no pattern, of which one turns and sees all, and one does neither.
    "llama4-plain": lambda: Llama4ForCausalLM(Llama4TextConfig(
        **{**SMALL, "num_hidden_layers": 3}, intermediate_size_mlp=24, num_key_value_heads=4, head_dim=8, tie_word_embeddings=False,
        num_local_experts=5, num_experts_per_tok=3, moe_layers=[0, 2], no_rope_layers=[1, 1, 0], attention_chunk_size=64,
        layer_types=["full_attention", "chunked_attention", "chunked_attention"], use_qk_norm=False,
        attn_temperature_tuning=False,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0})),
    # As V3.2 is published, and all that a GGUF can say: YaRN with one factor in both places, no biases.
    "deepseek-v32-plain": lambda: DeepseekV32ForCausalLM(DeepseekV32Config(
        **{**SMALL, "num_hidden_layers": 3}, num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=20, qk_nope_head_dim=16, qk_rope_head_dim=8,
        v_head_dim=12, tie_word_embeddings=False, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=24,
        n_shared_experts=1, n_group=4, topk_group=2, first_k_dense_replace=1, index_topk=14, index_n_heads=16, index_head_dim=64,
        rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 8.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                         "original_max_position_embeddings": 64})),
    # The same of Mistral 4.
    "mistral4-plain": lambda: Mistral4ForCausalLM(Mistral4Config(
        **{**SMALL, "num_hidden_layers": 3}, q_lora_rank=24, kv_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=8,
        v_head_dim=16, tie_word_embeddings=False, pad_token_id=0, n_routed_experts=8, num_experts_per_tok=3,
        moe_intermediate_size=24, n_group=4, topk_group=2, first_k_dense_replace=1, routed_scaling_factor=1.7,
        num_key_value_heads=4,
        rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 8.0, "original_max_position_embeddings": 64,
                         "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.4})),
}


def of_qwen3_5(text):
    vision = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=text.config.hidden_size,
                  num_position_embeddings=4)
    return Qwen3_5ForConditionalGeneration(Qwen3_5Config(text_config=text.config.to_dict(), vision_config=vision))


def of_qwen3_vl(text):
    vision = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=text.config.hidden_size,
                  num_position_embeddings=4, deepstack_visual_indexes=[0])
    return Qwen3VLForConditionalGeneration(Qwen3VLConfig(
        text_config={**text.config.to_dict(), "rope_parameters": {
            "rope_type": "default", "rope_theta": text.config.rope_parameters["rope_theta"], "mrope_section": [4, 4, 4]}},
        vision_config=vision, tie_word_embeddings=text.config.tie_word_embeddings))


def of_qwen2_5_vl(text):
    vision = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=text.config.hidden_size,
                  fullatt_block_indexes=[0])
    return Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(
        text_config={**text.config.to_dict(), "rope_parameters": {
            "rope_type": "default", "rope_theta": text.config.rope_parameters["rope_theta"], "mrope_section": [2, 3, 3]}},
        vision_config=vision, tie_word_embeddings=text.config.tie_word_embeddings))


def of_gemma3(text):
    vision = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4)
    return Gemma3ForConditionalGeneration(Gemma3Config(text_config=text.config.to_dict(), vision_config=vision,
                                                       mm_tokens_per_image=4, image_token_index=150))


def of_gemma4(text):
    vision = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
                  head_dim=8, global_head_dim=8, patch_size=4, position_embedding_size=16)
    return Gemma4ForConditionalGeneration(Gemma4Config(text_config=text.config.to_dict(), vision_config=vision, audio_config=None,
                                                       image_token_id=0, video_token_id=1, audio_token_id=2))


def of_mistral3(text):
    vision = dict(model_type="pixtral", hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                  head_dim=8, image_size=8, patch_size=4)
    return Mistral3ForConditionalGeneration(Mistral3Config(
        text_config=text.config.to_dict(), vision_config=vision, tie_word_embeddings=text.config.tie_word_embeddings,
        image_token_index=150))


def of_qwen3_vl_moe(text):
    vision = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=text.config.hidden_size,
                  num_position_embeddings=4, deepstack_visual_indexes=[0])
    return Qwen3VLMoeForConditionalGeneration(Qwen3VLMoeConfig(
        text_config={**text.config.to_dict(), "norm_topk_prob": True, "use_sliding_window": False, "rope_parameters": {
            "rope_type": "default", "rope_theta": text.config.rope_parameters["rope_theta"], "mrope_section": [6, 5, 5]}},
        vision_config=vision, tie_word_embeddings=text.config.tie_word_embeddings))


def of_llama4(text):
    vision = dict(hidden_size=16, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, vision_output_dim=16,
                  image_size=8, patch_size=4, projector_input_dim=16, projector_output_dim=16)
    return Llama4ForConditionalGeneration(Llama4Config(
        text_config=text.config.to_dict(), vision_config=vision, image_token_index=150,
        tie_word_embeddings=text.config.tie_word_embeddings))


def whole_model(make, text):
    """The language model `text` as the published checkpoint has it, among other parts."""
    whole = make(text)
    if not hasattr(whole, "model"):  # Llama 4's holds the whole class
        whole.language_model.load_state_dict(text.state_dict())
        return whole.float().eval()
    whole.model.language_model.load_state_dict(text.model.state_dict())
    whole.lm_head.load_state_dict(text.lm_head.state_dict())
    return whole.float().eval()


WHOLES = {"qwen3.5-whole": (of_qwen3_5, "qwen3.5-untied"), "qwen3-vl-whole": (of_qwen3_vl, "qwen3-tied"),
          "qwen2.5-vl-whole": (of_qwen2_5_vl, "qwen2-untied"), "gemma3-whole": (of_gemma3, "gemma3-tied"),
          "mistral3-whole": (of_mistral3, "mistral"), "ministral3-whole": (of_mistral3, "ministral3-tied"),
          "mistral4-whole": (of_mistral3, "mistral4-untied"), "gemma4-whole": (of_gemma4, "gemma4-tied"),
          "qwen3-vl-moe-whole": (of_qwen3_vl_moe, "qwen3-moe-untied"),
          "llama4-whole": (of_llama4, "llama4-untied")}


def make_mxfp4(output, name):
    """gpt-oss as it is published, its experts' weights as MXFP4, and the logits of what transformers expands it to."""
    folder = os.path.join(output, name)
    torch.manual_seed(1)
    model = GptOssForCausalLM(GptOssConfig(
        **{**COMMON, "intermediate_size": 32}, num_key_value_heads=2, head_dim=16, tie_word_embeddings=False, num_local_experts=4,
        num_experts_per_tok=2, sliding_window=37, rope_parameters={
            "rope_type": "yarn", "rope_theta": 1000.0, "factor": 8.0, "truncate": False,
            "original_max_position_embeddings": 128})).bfloat16()
    tensors = {key: value for key, value in model.state_dict().items() if not key.endswith(("experts.gate_up_proj", "experts.down_proj"))}
    for layer in range(LAYERS):
        for kind, rows, columns in (("gate_up_proj", 64, HIDDEN), ("down_proj", HIDDEN, 32)):
            at = f"model.layers.{layer}.mlp.experts.{kind}"
            tensors[at + "_blocks"] = torch.randint(0, 256, (4, rows, columns // 32, 16), dtype=torch.uint8)
            tensors[at + "_scales"] = torch.randint(121, 125, (4, rows, columns // 32), dtype=torch.uint8)
            tensors[at + "_bias"] = 0.2 * torch.randn(4, rows).bfloat16()
    os.makedirs(folder, exist_ok=True)
    model.config.save_pretrained(folder)
    with open(os.path.join(folder, "config.json")) as file:
        config = {**json.load(file), "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": [
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}}
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=2)
        file.write("\n")
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    os.chmod(os.path.join(folder, "model.safetensors"), 0o644)
    expanded = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", quantization_config=Mxfp4Config(dequantize=True)).float().eval()
    tokens = torch.randint(3, VOCAB, (TOKENS,))
    with torch.no_grad():
        logits = expanded(input_ids=tokens[None, :LORA_TOKENS]).logits[0]
    write({"tokens": tokens.int(), "logits": logits}, os.path.join(folder, "whole.safetensors"), {})
    print(f"{name}: logits to {logits.abs().max():.2f}")


MXFP4 = "gpt-oss-mxfp4"


def versions():
    names = ("torch", "transformers", "peft", "safetensors", "gguf")
    return {"made_by": "script/golden.d/models.py", **{name: version(name) for name in names}}


def random_model(name, seed):
    torch.manual_seed(seed)
    model = MODELS[name]().float().eval()
    with torch.no_grad():  # transformers starts norms at one and biases at zero, which would hide mistakes
        for kind, parameter in model.named_parameters():
            if parameter.dim() == 1 or kind.endswith("_bias"):
                parameter.add_(0.2 * torch.randn_like(parameter))
                if name.startswith(("gemma", "qwen3.5", "qwen3-next")):  # a GGUF holds 1 + weight, from which these come back to the bit
                    parameter.copy_(torch.round(parameter * 2**16) / 2**16)
            if name.startswith("gemma4") and kind.endswith("q_norm.weight"):  # where the scale of scores lies
                parameter.mul_(len(parameter)**-0.5)
        for name, parameter in model.named_parameters():
            if name.endswith("A_log"):  # states that last, and one that does not; -exp of these comes back to the bit
                parameter.copy_(torch.tensor([-4.0, -3.0, 2.25, -2.0])[:len(parameter)])
        for name, buffer in model.named_buffers():
            if name.endswith(("e_score_correction_bias", "expert_bias")):
                buffer.copy_(0.2 * torch.randn_like(buffer))
            if name.endswith("layer_scalar"):
                buffer.copy_((1.0 + 0.2 * torch.randn_like(buffer)).bfloat16())  # as published
    return model


def random_samples():
    """Samples of very different lengths and shares of targets, as (ids, 0/1 per token)."""
    samples = []
    for length in (23, 60, 9, 41, 52, 14, 33, 5):
        ids = torch.randint(3, VOCAB, (length,))
        begin = int(torch.randint(1, length, ()))
        supervised = torch.arange(length) >= begin
        if length > 40:  # two turns
            supervised |= (torch.arange(length) >= 4) & (torch.arange(length) < 11)
        samples.append((ids, supervised))
    return samples


def step_loss(model, samples):
    targets = sum(int(supervised[1:].sum()) for _, supervised in samples)
    total = 0.0
    for ids, supervised in samples:
        logits = model(input_ids=ids[None]).logits[0, :-1]
        losses = torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none")
        total = total + losses[supervised[1:]].sum()
    return total / targets


def gradients(model, samples):
    model.zero_grad()
    loss = step_loss(model, samples)
    loss.backward()
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.requires_grad and p.grad is not None}
    model.zero_grad()
    return loss.detach(), dict(parts_of_experts(found))


def parts_of_experts(found):
    """transformers joins the gate's and the up projection's weights of all experts, which checkpoints keep apart."""
    transposed = any(".feed_forward.experts." in name for name in found)  # Llama 4: columns are rows
    for name, gradient in found.items():
        if transposed and ".experts." in name:
            gradient = gradient.mT
        module, _, last = name.rpartition(".")
        is_bias = last.endswith("_bias")
        if has_fused_biases(found) and module.endswith(".experts"):  # gpt-oss: columns are rows, gates and ups in turn
            gradient = gradient if is_bias else gradient.mT
            kind = "bias" if is_bias else "weight"
            rows = {"gate_proj": gradient[:, ::2], "up_proj": gradient[:, 1::2]} if "gate_up" in last else {"down_proj": gradient}
            yield from ((f"{module}.{projection}.{kind}", part) for projection, part in rows.items())
        elif last == "gate_up_proj":
            gate, up = gradient.chunk(2, dim=1)
            yield f"{module}.gate_proj.weight", gate
            yield f"{module}.up_proj.weight", up
        elif module.endswith(".experts"):
            yield f"{name}.weight", gradient
        else:
            yield name, gradient


def has_fused_biases(found):
    return any(name.endswith(".experts.gate_up_proj_bias") for name in found)


def train(model, samples, begin_step=lambda step: None):
    """`begin_step` may choose what takes gradients, of what did when training began."""
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    trained = list(named.values())
    # VeRA's factors are vectors that transformers' Trainer decays.
    decays = {name: p.dim() >= 2 and not name.endswith("bias") or "vera_lambda" in name for name, p in named.items()}
    groups = [{"params": [p for name, p in named.items() if decays[name]], "weight_decay": DECAY},
              {"params": [p for name, p in named.items() if not decays[name]], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW([g for g in groups if g["params"]], lr=PEAK, betas=BETAS, eps=EPS)
    schedule = get_cosine_schedule_with_warmup(optimizer, 0, STEPS)
    losses, norms = [], []
    for step in range(STEPS):
        begin_step(step)
        begin = step * PER_STEP % SAMPLES
        loss = step_loss(model, samples[begin:begin + PER_STEP])
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(trained, CLIP).item())
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return torch.tensor(losses), torch.tensor(norms)


def write(tensors, path, metadata):
    save_file({n: t.contiguous() for n, t in tensors.items()}, path, metadata={**versions(), **metadata})
    os.chmod(path, 0o644)


def peft_name(name):
    return name.replace(".default.", ".")


def seed_of(output, name):
    """A fixture keeps the seed that it has, wherever its model stands among the others; a new one gets its name's."""
    path = os.path.join(output, name, "golden.safetensors")
    if not os.path.exists(path):
        return zlib.crc32(name.encode())
    with safe_open(path, "pt") as fixture:
        return int(fixture.metadata()["seed"])


def make_tiny(output, name, seed):
    folder = os.path.join(output, name)
    model = random_model(name, seed)
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "generation_config.json"))
    if not name.startswith(("qwen3.5", "qwen3-next", "gemma4")):
        return make_golden(folder, model, lambda: load(folder), seed)
    # The chunked delta rule is off by 2e-5 of its decay's gradients in float32, and Gemma 4 by as much of some.
    model.set_experts_implementation("eager")
    twin = load(folder)
    twin.set_experts_implementation("eager")
    with in_float64():
        if name.startswith("gemma4"):  # frequencies, too
            for one in (model, twin):
                one.model.rotary_emb = type(one.model.rotary_emb)(one.config)
        make_golden(folder, model.double(), lambda: twin, seed)
    add_float32_errors(folder)


def make_golden(folder, model, twin, seed):
    """`twin` gives the same model once more, for the adapter."""
    name = os.path.basename(folder)
    samples = random_samples()
    tokens = torch.randint(3, VOCAB, (TOKENS,))
    out = {"tokens": tokens.int()}
    with torch.no_grad():
        out["logits"] = model(input_ids=tokens[None]).logits[0].contiguous()
    out["ids"] = torch.cat([ids for ids, _ in samples]).int()
    out["supervised"] = torch.cat([supervised for _, supervised in samples]).int()
    out["lengths"] = torch.tensor([len(ids) for ids, _ in samples], dtype=torch.int32)
    loss, found = gradients(model, samples[:PER_STEP])
    out["loss"] = loss[None]
    out.update({f"gradient/{n}": g for n, g in found.items()})

    # Random halves (B is not zero), so that the gradient of A is not zero at the first step.
    peft = get_peft_model(twin(), LoraConfig(
        r=4, lora_alpha=8, lora_dropout=0.0, target_modules=targets(model), init_lora_weights=False, task_type="CAUSAL_LM"))
    with torch.no_grad():
        for n, p in peft.named_parameters():
            if "lora_" in n:
                p.copy_(torch.randn(p.shape) * 0.08)
    peft.save_pretrained(os.path.join(folder, "adapter"))
    settle_adapter(os.path.join(folder, "adapter"))
    peft = peft.to(next(model.parameters()).dtype)
    with torch.no_grad():
        out["lora.logits"] = peft.eval()(input_ids=tokens[None, :LORA_TOKENS]).logits[0].contiguous()
    peft.train()
    loss, found = gradients(peft, samples[:PER_STEP])
    out["lora.loss"] = loss[None]
    out.update({f"lora.gradient/{peft_name(n)}": g for n, g in found.items()})
    out["lora.losses"], out["lora.grad_norms"] = train(peft, samples)
    out["full.losses"], out["full.grad_norms"] = train(model, samples)
    out = {n: t.to(torch.empty(0).dtype) if t.is_floating_point() else t for n, t in out.items()}
    write(out, os.path.join(folder, "golden.safetensors"), {"seed": str(seed)})
    print(f"{name}: loss {out['loss'].item():.4f}, logits to {out['logits'].abs().max():.2f}, 20 steps full "
          f"{out['full.losses'][0]:.4f} to {out['full.losses'][-1]:.4f}, LoRA {out['lora.losses'][0]:.4f} to "
          f"{out['lora.losses'][-1]:.4f}")


def add_float32_errors(folder):
    """Beside what was computed in float64, what PyTorch's own float32 is off by, over theirs: the norm of a gradient's
    difference, where it is above 2e-6, and each of the 20 losses and norms."""
    path = os.path.join(folder, "golden.safetensors")
    out = load_file(path)
    lengths = out["lengths"].tolist()
    samples = list(zip(out["ids"].long().split(lengths), out["supervised"].bool().split(lengths)))
    model = load(folder)
    adapted = PeftModel.from_pretrained(load(folder), os.path.join(folder, "adapter"), is_trainable=True)
    for prefix, one, rename in (("gradient/", model, str), ("lora.gradient/", adapted, peft_name)):
        for name, gradient in gradients(one, samples[:PER_STEP])[1].items():
            want = out[prefix + rename(name)].double()
            error = ((gradient.double() - want).norm() / want.norm()).float()
            if error > 2e-6:
                out[f"float32_error/{prefix}{rename(name)}"] = error[None]
    for kind, one in (("full", model), ("lora", adapted)):
        for part, values in zip(("losses", "grad_norms"), train(one, samples)):
            want = out[f"{kind}.{part}"]
            out[f"float32_error/{kind}.{part}"] = (values - want).abs() / want
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    save_file(out, path, metadata=metadata)
    os.chmod(path, 0o644)


AS_PUBLISHED = {"qwen3-vl-moe-whole"}


def make_whole(output, name):
    """A checkpoint with other parts, whose logits are those of its language model."""
    folder = os.path.join(output, name)
    torch.manual_seed(1)
    make, text = WHOLES[name]
    whole = whole_model(make, load(os.path.join(output, text)))
    if name in AS_PUBLISHED:
        save_as_published(whole, folder)
    else:
        whole.save_pretrained(folder)
    os.remove(os.path.join(folder, "generation_config.json"))
    tokens = load_file(os.path.join(output, text, "golden.safetensors"))["tokens"]
    with torch.no_grad():
        logits = whole(input_ids=tokens.long()[None, :LORA_TOKENS]).logits[0]
    write({"tokens": tokens, "logits": logits}, os.path.join(folder, "whole.safetensors"), {})


def targets(model):
    """Linear layers. PEFT takes the names of an mlp's for those of these models' experts, which are not."""
    names = {name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    if model.config.model_type in ("qwen3_moe", "mixtral", "glm4_moe", "granitemoe", "gpt_oss"):
        return ATTENTION
    if model.config.model_type in ("deepseek_v2", "deepseek_v3", "deepseek_v32", "mistral4"):
        return [name for name in [*ATTENTION, *LATENT] if name in names]
    if model.config.model_type in ("qwen3_5_moe_text", "qwen3_next"):
        return [*ATTENTION, *(name for name in DELTA if name in names)]
    if model.config.model_type == "gemma4_text" and model.config.enable_moe_block:
        return ATTENTION
    if model.config.model_type == "lfm2_moe":
        return ["q_proj", "k_proj", "v_proj", "in_proj"]
    if model.config.model_type == "granitemoehybrid" and model.config.num_local_experts > 0:
        return [*ATTENTION, "in_proj", "out_proj"]
    if model.config.model_type == "falcon_h1":  # PEFT refuses out_proj
        return [*ATTENTION, "in_proj", *MLP]
    return [name for name in [*ATTENTION, *DELTA, *SHARED_MLP, "qkv_proj", *MLP, *SHORT_CONV, "gate_up_proj", "shared_expert_gate", *PER_LAYER] if name in names]


def load(folder):
    """By its class: the automatic one knows Mistral 4 within Mistral 3 alone."""
    with open(os.path.join(folder, "config.json")) as file:
        name = json.load(file)["architectures"][0]
    return getattr(transformers, name).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


def make_bf16(output, name):
    folder = os.path.join(output, name)
    tokens = load_file(os.path.join(folder, "golden.safetensors"))["tokens"].long()[:LORA_TOKENS]
    with tempfile.TemporaryDirectory() as stored, torch.no_grad():
        load(folder).bfloat16().save_pretrained(stored)
        model = load(stored).eval()
        assert all(p.dtype == torch.float32 for p in model.parameters())
        logits = model(input_ids=tokens[None]).logits[0]
    write({"logits": logits}, os.path.join(folder, "bf16.safetensors"), {})


def settle_adapter(folder):
    """Takes out of PEFT's files what differs from one machine and run to the next."""
    os.remove(os.path.join(folder, "README.md"))
    path = os.path.join(folder, "adapter_config.json")
    with open(path) as file:
        config = json.load(file)
    config["base_model_name_or_path"] = None
    for key in ("target_modules", "exclude_modules"):
        if isinstance(config.get(key), list):
            config[key] = sorted(config[key])
    with open(path, "w") as file:
        json.dump(config, file, indent=2)
        file.write("\n")


CLASSES, TOP, SMOL_TOKENS, EVERY = 16, 256, 320, 4


def coarse(logprobs, top):
    """Log-probabilities of `top`, and of the rest by class of id mod CLASSES."""
    rest = logprobs.clone().scatter_(1, top, -math.inf)
    classes = torch.stack([torch.logsumexp(rest[:, c::CLASSES], 1) for c in range(CLASSES)], 1)
    return torch.gather(logprobs, 1, top), classes


def divergence(p, q):
    return (p.exp() * (p - q)).sum(1).mean().item()


def make_smollm2(output, gguf):
    where = dict(pretrained_model_name_or_path=os.path.dirname(os.path.abspath(gguf)), gguf_file=os.path.basename(gguf))
    tokenizer = AutoTokenizer.from_pretrained(**where)
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32, attn_implementation="eager").eval()
    examples = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "gsm8k")
    text = gsm8k_text(examples)
    tokens = torch.tensor(tokenizer.encode(text, add_special_tokens=False))[:SMOL_TOKENS]
    positions = torch.arange(EVERY - 1, len(tokens), EVERY)
    with torch.no_grad():
        logits = model(input_ids=tokens[None]).logits[0, positions].double()
        bf16 = model.bfloat16()(input_ids=tokens[None]).logits[0, positions].double()
    reference = torch.log_softmax(logits, 1)
    top = reference.topk(TOP, 1).indices.sort(1).values
    fine, classes = coarse(reference, top)
    other = torch.log_softmax(bf16, 1)
    seen = divergence(torch.cat([fine, classes], 1), torch.cat(coarse(other, top), 1))
    whole = divergence(reference, other)
    print(f"smollm2: {len(tokens)} tokens; PyTorch's own bfloat16 is at a mean KL of {whole:.3e}, of which the file "
          f"shows {seen:.3e}")
    write({"tokens": tokens.int(), "positions": positions.int(), "top": top.int(), "top_logprobs": fine.float(),
           "class_logprobs": classes.float()}, os.path.join(output, "smollm2.safetensors"),
          {"bf16_kl": f"{whole:.6e}", "bf16_kl_seen": f"{seen:.6e}"})


def gsm8k_text(examples):
    with open(os.path.join(examples, "test.jsonl")) as file:
        rows = [json.loads(line) for line in file]
    return "\n".join(f"{row['question']}\n{row['answer']}" for row in rows[:6])


def main():
    output = sys.argv[1]
    transformers.utils.logging.disable_progress_bar()
    torch.use_deterministic_algorithms(True)
    for name in MODELS:
        if len(sys.argv) < 4 or name in sys.argv[3:]:
            make_tiny(output, name, seed_of(output, name))
            make_bf16(output, name)
    for name in WHOLES:
        if len(sys.argv) < 4 or name in sys.argv[3:]:
            make_whole(output, name)
    if len(sys.argv) < 4 or MXFP4 in sys.argv[3:]:
        make_mxfp4(output, MXFP4)
    if len(sys.argv) == 3:
        make_smollm2(output, sys.argv[2])


if __name__ == "__main__":
    main()
