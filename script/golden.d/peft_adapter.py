#!/usr/bin/env python3
"""Trains an adapter with tern and loads it with PEFT, over transformers' load of the same GGUF.

Usage: peft_adapter.py OUTPUT MODEL.gguf TERN      needs: torch transformers peft safetensors gguf

MODEL.gguf is what TERN knows as smollm2-135m. Fails unless PEFT takes every tensor bit by bit and adds none of its own.
OUTPUT/ then holds the adapter as `tern sft` wrote it, and peft.safetensors: `tokens`, and PEFT's `logits` of the ids
`ids` at `positions`, with the largest change that the adapter makes to them and all versions in the metadata.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from importlib.metadata import version

sys.path.pop(0)  # beside this file lies a tokenizers.py
import torch
import transformers
from peft import PeftModel, get_peft_model_state_dict
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FILES = ("adapter_config.json", "adapter_model.safetensors")


def rows(count):
    with open(os.path.join(ROOT, "examples", "gsm8k", "train.jsonl")) as file:
        return [json.loads(next(file)) for _ in range(count)]


def train(tern, folder):
    data = os.path.join(folder, "data.jsonl")
    with open(data, "w") as file:
        file.writelines(json.dumps({"query": r["question"], "response": r["answer"]}) + "\n" for r in rows(4))
    output = os.path.join(folder, "out")
    subprocess.run([tern, "sft", "--model", "smollm2-135m", "--dataset", data, "--output_dir", output,
                    "--add_version", "false", "--max_steps", "3", "--gradient_accumulation_steps", "1",
                    "--save_steps", "3", "--learning_rate", "5e-3", "--lora_rank", "1", "--target_modules", "k_proj",
                    "v_proj"], check=True)
    return os.path.join(output, "checkpoint-3")


def load_with_peft(base, adapter):
    stored = load_file(os.path.join(adapter, "adapter_model.safetensors"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # PEFT warns of keys that it misses
        model = PeftModel.from_pretrained(base, adapter).eval()
    loaded = get_peft_model_state_dict(model, save_embedding_layers=False)
    assert loaded.keys() == stored.keys(), loaded.keys() ^ stored.keys()
    for name, tensor in stored.items():
        same = loaded[name].dtype == tensor.dtype and torch.equal(loaded[name].view(torch.int32), tensor.view(torch.int32))
        assert same, f"{name}: other bits"
        assert tensor.any(), f"{name} is zero: it has not been trained"
    return model, len(stored)


def main():
    output, gguf, tern = sys.argv[1:]
    transformers.utils.logging.disable_progress_bar()
    where = dict(pretrained_model_name_or_path=os.path.dirname(os.path.abspath(gguf)), gguf_file=os.path.basename(gguf))
    base = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(**where)
    with tempfile.TemporaryDirectory() as folder:
        adapter = train(tern, folder)
        model, count = load_with_peft(base, adapter)
        os.makedirs(output, exist_ok=True)
        for name in FILES:
            shutil.copyfile(os.path.join(adapter, name), os.path.join(output, name))
    row = rows(5)[-1]
    tokens = torch.tensor(tokenizer.encode(f"{row['question']}\n{row['answer']}", add_special_tokens=False))
    positions = torch.arange(3, len(tokens), 4)
    ids = torch.arange(0, base.config.vocab_size, 96)
    with torch.no_grad():
        logits = model(input_ids=tokens[None]).logits[0, positions][:, ids].contiguous()
        with model.disable_adapter():
            effect = (model(input_ids=tokens[None]).logits[0, positions][:, ids] - logits).abs().max().item()
    names = ("torch", "transformers", "peft", "safetensors", "gguf")
    path = os.path.join(output, "peft.safetensors")
    save_file({"tokens": tokens.int(), "positions": positions.int(), "ids": ids.int(), "logits": logits}, path,
              metadata={"made_by": "script/golden.d/peft_adapter.py", **{name: version(name) for name in names},
                        "bit_equal_tensors": str(count), "effect_of_the_adapter": f"{effect:.3g}"})
    os.chmod(path, 0o644)
    print(f"PEFT took {count} tensors bit by bit; the adapter changes logits by up to {effect:.3g}")


if __name__ == "__main__":
    main()
