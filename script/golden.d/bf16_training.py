#!/usr/bin/env python3
"""Trains an adapter on SmolLM2 with PyTorch and PEFT, in float32 and in bfloat16 as transformers' Trainer does it.

Usage: bf16_training.py OUTPUT MODEL.gguf      needs: torch transformers peft safetensors gguf

MODEL.gguf is what tern knows as smollm2-135m. OUTPUT/ then holds the adapter that both runs begin with, in PEFT's files,
and numbers.safetensors: `ids` of all samples end to end, their `lengths`, and which are `supervised`, the losses of the steps, one sample each
(`float32/loss`, `bfloat16/loss`), and how far the adapter of bfloat16 is from that of float32 at the end, relative to
what float32 changed (`bfloat16/drift`).
"""
import json
import os
import sys
from importlib.metadata import version

sys.path.pop(0)  # beside this file lies a tokenizers.py
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
STEPS, LENGTH, RATE = 20, 96, 2e-3
MODULES = [f"model.layers.{layer}.{name}" for layer in (5, 15, 25)
           for name in ("self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj")]


def texts():
    with open(os.path.join(ROOT, "examples", "gsm8k", "train.jsonl")) as file:
        rows = [json.loads(next(file)) for _ in range(STEPS)]
    return [f"{row['question']}\n{row['answer']}" for row in rows]


def base(where, dtype):
    # Expanded: over packed weights transformers computes in float32 whatever the dtype.
    return AutoModelForCausalLM.from_pretrained(**where, dtype=dtype, attn_implementation="sdpa",
                                                quantization_config=GgufConfig(dequantize=True))


def make_adapter(where, folder):
    torch.manual_seed(0)
    config = LoraConfig(r=2, lora_alpha=8, lora_dropout=0.0, target_modules=MODULES, task_type="CAUSAL_LM")
    model = get_peft_model(base(where, torch.float32), config)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.02)
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "README.md"))


def train(where, folder, samples, dtype):
    model = PeftModel.from_pretrained(base(where, dtype), folder, is_trainable=True)
    trained = [p for p in model.parameters() if p.requires_grad]
    assert all(p.dtype == torch.float32 for p in trained)  # PEFT keeps adapters in float32
    before = [p.detach().clone() for p in trained]
    optimizer = torch.optim.AdamW(trained, lr=RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    losses = []
    for ids in samples:
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            loss = model(input_ids=ids[None], labels=ids[None]).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, before, [p.detach() for p in trained]


def main():
    output, gguf = sys.argv[1:]
    transformers.utils.logging.disable_progress_bar()
    where = dict(pretrained_model_name_or_path=os.path.dirname(os.path.abspath(gguf)), gguf_file=os.path.basename(gguf))
    tokenizer = AutoTokenizer.from_pretrained(**where)
    samples = [torch.tensor(tokenizer.encode(text, add_special_tokens=False)[:LENGTH]) for text in texts()]
    os.makedirs(output, exist_ok=True)
    make_adapter(where, output)
    exact, before, end = train(where, output, samples, torch.float32)
    narrow, _, narrow_end = train(where, output, samples, torch.bfloat16)
    flat = lambda tensors: torch.cat([t.flatten() for t in tensors]).double()
    drift = (flat(narrow_end) - flat(end)).norm() / (flat(end) - flat(before)).norm()
    numbers = {
        "ids": torch.cat(samples).to(torch.int32),
        "supervised": torch.ones(sum(len(s) for s in samples), dtype=torch.int32),
        "lengths": torch.tensor([len(s) for s in samples], dtype=torch.int32),
        "float32/loss": torch.tensor(exact),
        "bfloat16/loss": torch.tensor(narrow),
        "bfloat16/drift": drift.float()[None],
    }
    versions = {name: version(name) for name in ("torch", "transformers", "peft")}
    save_file(numbers, os.path.join(output, "numbers.safetensors"), {"made by": json.dumps(versions)})
    apart = (numbers["float32/loss"] - numbers["bfloat16/loss"]).abs()
    print(f"losses {exact[0]:.4f} to {exact[-1]:.4f}; bfloat16 apart: mean {apart.mean():.2e}, drift {drift:.3f}")


main()
