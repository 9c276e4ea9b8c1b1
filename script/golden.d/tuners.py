#!/usr/bin/env python3
"""Makes tests/data/golden/tuners: what PEFT trains beside LoRA on linear layers.

Usage: tuners.py OUTPUT [CASE...]      needs: torch transformers peft safetensors

OUTPUT/tuners/<case>/ holds PEFT's adapter as it begins (adapter_config.json, adapter_model.safetensors) of the tiny model
OUTPUT/<model> that golden.safetensors names in its metadata, and of 20 steps of AdamW over that model's samples, as models.py
takes them: losses, grad_norms [20], logits [8, vocab] of the last of 64 tokens with the trained adapter, and
trained/<name>, of each of its tensors every so many numbers that there are at most 256.
"""
import os
import sys
import warnings
import zlib

sys.path.append(sys.path.pop(0))  # beside this file lies a tokenizers.py
import torch
from peft import LoraConfig, PeftModel, VeraConfig, get_peft_model, get_peft_model_state_dict
from safetensors.torch import load_file, save_file

import models as tiny

CASES = {
    # "norm" is every module whose name ends so.
    "saved-untied": ("llama-untied", dict(target_modules=["q_proj"], modules_to_save=["lm_head", "embed_tokens", "norm"])),
    "saved-linear": ("qwen3-untied", dict(target_modules=["q_proj", "v_proj"], modules_to_save=["v_proj", "q_norm"])),
    # Copies of one matrix, each trained on its own; or one copy beside the matrix.
    "saved-tied-both": ("llama-tied", dict(target_modules=["q_proj"], modules_to_save=["lm_head", "embed_tokens"])),
    "saved-tied-embedding": ("llama-tied", dict(target_modules=["q_proj"], modules_to_save=["embed_tokens"])),
    "saved-tied-head": ("llama-tied", dict(target_modules=["q_proj"], modules_to_save=["lm_head"])),
    "embedding-untied": ("llama-untied", dict(target_modules=["q_proj", "embed_tokens", "lm_head"])),
    "embedding-tied": ("llama-tied", dict(target_modules=["embed_tokens", "lm_head"])),
    # Beside pairs, and of modules without one; or only of those that have one.
    "biases": ("qwen2-untied", dict(target_modules=["q_proj", "o_proj"], bias="all")),
    "biases-adapted": ("qwen2-tied", dict(target_modules=["q_proj", "o_proj"], bias="lora_only")),
    # Of a router as well, and of a module that is saved whole, whose bias PEFT writes three times.
    "biases-saved": ("gpt-oss-untied", dict(target_modules=["q_proj"], modules_to_save=["v_proj"], bias="all")),
    "experts-both": ("qwen2-moe-untied", dict(target_modules=["q_proj"], target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    "experts-down": ("glm4-moe-tied", dict(target_modules=["q_proj"], target_parameters=["experts.down_proj"])),
    # Rows and columns changed places, and gates and ups take turns.
    "experts-transposed": ("gpt-oss-untied", dict(target_modules=["q_proj"], target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    # Of a model that got rows for new tokens.
    "tokens-saved": ("llama-untied", dict(target_modules=["q_proj"], modules_to_save=["embed_tokens", "lm_head"], tokens=3)),
    "tokens-kept": ("llama-tied", dict(target_modules=["q_proj", "v_proj"], tokens=3)),
    "tokens-adapted": ("llama-tied", dict(target_modules=["q_proj", "embed_tokens"], tokens=3)),
    # Layers of several shapes.
    "vera": ("qwen2-tied", dict(target_modules=["q_proj", "v_proj", "down_proj"], modules_to_save=["norm"], vera=dict(r=6, projection_prng_key=7))),
    "embedding-scaled": ("gemma3-tied", dict(target_modules=["embed_tokens", "o_proj"])),
}


# What PEFT calls a module that is saved whole once more, where biases or embeddings are saved as well.
COPIES = tuple(f".{owner}.{kind}" for owner in ("original_module", "modules_to_save") for kind in ("bias", "weight"))
PROJECTIONS = ("base_model.vera_A", "base_model.vera_B")
KEPT_LOGITS, KEPT_NUMBERS = 8, 256


def stride(count):
    return -(-count // KEPT_NUMBERS)


def random_halves(model, scale=0.08):
    """Neither half of a pair is zero, so that both have a gradient at the first step."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name or "vera_lambda" in name:
                p.copy_(torch.randn(p.shape) * scale)


def load_with_tokens(base, count):
    """With rows for so many new tokens, as ms-swift adds them."""
    model = tiny.load(base)
    if count > 0:
        model.resize_token_embeddings(-(-(model.config.vocab_size + count) // 128) * 128)
    return model


def make(output, case):
    name, options = CASES[case]
    options = dict(options)
    vera = options.pop("vera", None)
    tokens = options.pop("tokens", 0)
    whole = tokens > 0  # PEFT's own "auto" says so of a model whose vocabulary grew
    torch.manual_seed(zlib.crc32(case.encode()))
    base = os.path.join(output, name)
    folder = os.path.join(output, "tuners", case)
    numbers = load_file(os.path.join(base, "golden.safetensors"))
    lengths = numbers["lengths"].tolist()
    samples = list(zip(numbers["ids"].long().split(lengths), numbers["supervised"].bool().split(lengths)))
    config = VeraConfig(task_type="CAUSAL_LM", **options, **vera) if vera else LoraConfig(r=2, lora_alpha=4, lora_dropout=0.0, init_lora_weights=False, task_type="CAUSAL_LM", **options)
    model = get_peft_model(load_with_tokens(base, tokens), config)
    random_halves(model)
    model.save_pretrained(folder, save_embedding_layers=whole)
    tiny.settle_adapter(folder)
    path = os.path.join(folder, "adapter_model.safetensors")
    begun = load_file(path)
    if tokens:  # large, and of no effect
        begun = {key: tensor for key, tensor in begun.items() if not key.endswith(COPIES)}
        save_file(begun, path, metadata={"format": "pt"})
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*adapter keys.*")  # of some that it misses
        model = PeftModel.from_pretrained(load_with_tokens(base, tokens), folder, is_trainable=True)
    model.train()
    out = {}
    out["losses"], out["grad_norms"] = tiny.train(model, samples)
    with torch.no_grad():
        out["logits"] = model.eval()(input_ids=numbers["tokens"].long()[None, :tiny.LORA_TOKENS]).logits[0, -KEPT_LOGITS:]
    trained = get_peft_model_state_dict(model, save_embedding_layers=whole)
    trained = {key: tensor for key, tensor in trained.items() if not tokens or not key.endswith(COPIES)}
    assert trained.keys() == begun.keys(), trained.keys() ^ begun.keys()
    for key, tensor in trained.items():
        if key.endswith(COPIES) or key in PROJECTIONS:
            continue
        if tokens and key.endswith(("embed_tokens.weight", "lm_head.weight", "embed_tokens.base_layer.weight")) \
                and "modules_to_save" not in options:
            continue  # of more rows, and not trained
        assert not torch.equal(tensor, begun[key]), f"{key} has not been trained"
        out[f"trained/{key}"] = tensor.flatten()[::stride(tensor.numel())]
    tiny.write(out, os.path.join(folder, "golden.safetensors"), {"model": name, "tokens": str(tokens)} if tokens else {"model": name})
    size = sum(os.path.getsize(os.path.join(folder, each)) for each in os.listdir(folder))
    print(f"{case}: {len(begun)} tensors, 20 steps {out['losses'][0]:.4f} to {out['losses'][-1]:.4f}, {size >> 10} KB")


def main():
    output, *cases = sys.argv[1:]
    for case in cases or CASES:
        make(output, case)


if __name__ == "__main__":
    main()
