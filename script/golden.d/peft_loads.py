#!/usr/bin/env python3
"""Trains adapters of every kind with tern and loads them with PEFT.

Usage: peft_loads.py TERN [CASE...]      needs: torch transformers peft safetensors

Each is trained over a tiny model of tests/data/golden, with a tokenizer of a word for each of its rows. Fails unless PEFT
takes every tensor of the file, bit by bit, and misses none, and unless PEFT's outputs are those of the model that `tern
merge-lora` made, which transformers loads. Writes nothing into the tree.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings

sys.path.pop(0)  # beside this file lies a tokenizers.py
import torch
import transformers
from peft import PeftModel, get_peft_model_state_dict
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "data", "golden")
WORDS = 160
TOLERANCE = 2e-4

# The model, and flags beside those of every run.
CASES = {
    "lora": ("llama-tied", ["--lora_rank", "4"]),
    "pissa": ("llama-tied", ["--lora_rank", "4", "--init_weights", "pissa"]),
    "olora": ("llama-untied", ["--lora_rank", "4", "--init_weights", "olora"]),
    "dora": ("llama-untied", ["--use_dora", "true"]),
    "biases": ("qwen2-untied", ["--lora_bias", "all", "--target_modules", "q_proj", "down_proj"]),
    "biases-adapted": ("qwen2-tied", ["--lora_bias", "lora_only", "--target_modules", "q_proj"]),
    "vera": ("qwen2-tied", ["--tuner_type", "vera", "--vera_rank", "16"]),
    "tokens": ("llama-untied", ["--new_special_tokens", "<new>", "<newer>", "--modules_to_save", "embed_tokens", "lm_head"]),
    "tokens-kept": ("llama-tied", ["--new_special_tokens", "<new>"]),
    "classes": ("llama-tied", ["--task_type", "seq_cls", "--num_labels", "3"]),
    "classes-pissa": ("llama-untied", ["--task_type", "seq_cls", "--num_labels", "3", "--init_weights", "pissa"]),
}


def make_base(name, folder):
    base = os.path.join(folder, "base")
    shutil.copytree(os.path.join(GOLDEN, name), base, ignore=shutil.ignore_patterns("adapter", "golden*", "bf16*"))
    with open(os.path.join(base, "config.json")) as file:
        config = json.load(file)
    config.update(pad_token_id=0, eos_token_id=1, bos_token_id=2)
    with open(os.path.join(base, "config.json"), "w") as file:
        json.dump(config, file)
    words = {f"w{i}": i for i in range(WORDS)}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                 "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
                 "model": {"type": "WordLevel", "vocab": words, "unk_token": "w3"}}
    with open(os.path.join(base, "tokenizer.json"), "w") as file:
        json.dump(tokenizer, file)
    with open(os.path.join(base, "tokenizer_config.json"), "w") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "w1", "pad_token": "w0"}, file)
    return base


def train(tern, base, folder, flags):
    classes = "seq_cls" in flags
    rows = []
    for row in range(8):
        text = " ".join(f"w{4 + (row * 7 + i * i) % 150}" for i in range(12)) + (" <new> w9" if "<new>" in flags else "")
        rows.append({"query": text, "label": row % 3} if classes else {"messages": [{"role": "assistant", "content": text}]})
    data = os.path.join(folder, "data.jsonl")
    with open(data, "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    output = os.path.join(folder, "out")
    subprocess.run([tern, "sft" if classes else "pt", "--model", base, "--dataset", data, "--output_dir", output, "--quiet", "true",
                    "--add_version", "false", "--max_steps", "3", "--gradient_accumulation_steps", "1", "--torch_dtype", "float32",
                    "--learning_rate", "5e-3", "--per_device_train_batch_size", "4", *flags], check=True)
    merged = os.path.join(folder, "merged")
    adapter = os.path.join(output, "checkpoint-3")
    subprocess.run([tern, "merge-lora", "--adapters", adapter, "--output_dir", merged, "--quiet", "true"], check=True)
    return adapter, merged


def check(tern, case):
    name, flags = CASES[case]
    classes = "seq_cls" in flags
    of_class = AutoModelForSequenceClassification if classes else AutoModelForCausalLM
    with tempfile.TemporaryDirectory() as folder:
        base = make_base(name, folder)
        adapter, merged_folder = train(tern, base, folder, flags)
        options = dict(dtype=torch.float32, attn_implementation="eager")
        more = dict(num_labels=3) if classes else {}
        model = of_class.from_pretrained(base, **options, **more)
        merged = of_class.from_pretrained(merged_folder, **options).eval()
        tokenizer = AutoTokenizer.from_pretrained(merged_folder)
        stored = load_file(os.path.join(adapter, "adapter_model.safetensors"))
        grown = any(tensor.shape[0] > WORDS for key, tensor in stored.items() if "embed_tokens" in key)
        if grown:
            model.resize_token_embeddings(256)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # PEFT warns of keys that it misses
            warnings.filterwarnings("ignore", message=".*(is_gradient_checkpointing|tie_word_embeddings).*")
            model = PeftModel.from_pretrained(model, adapter).eval()
        loaded = model.state_dict()
        for key, tensor in stored.items():
            twin = key if key in loaded else None
            for at, old in ((".weight", ".default.weight"), ("", ".default"), (".weight", ".modules_to_save.default.weight"),
                            ("", ".default.weight")):
                candidate = key[:len(key) - len(at)] + old if key.endswith(at) else None
                twin = candidate if candidate in loaded else twin
            assert twin is not None, f"{case}: PEFT has no place for {key}"
            assert torch.equal(loaded[twin].float(), tensor), f"{case}: {key}: other bits"
        mine = get_peft_model_state_dict(model, save_embedding_layers=False)
        kept = {key for key in mine if not key.endswith((".original_module.bias", ".modules_to_save.bias"))}
        assert kept <= stored.keys(), f"{case}: {kept - stored.keys()}"
        ids = torch.tensor([tokenizer.encode("w5 w77 w12 w9 " + ("<new> w8" if grown else "w8"), add_special_tokens=False)])
        if grown:
            assert WORDS in ids and merged.config.vocab_size == 256 == merged.get_input_embeddings().weight.shape[0], case
            assert merged.get_output_embeddings().weight.shape[0] == 256, case
        with torch.no_grad():
            apart = (model(input_ids=ids).logits - merged(input_ids=ids).logits).abs().max().item()
        assert apart <= TOLERANCE, f"{case}: PEFT's outputs and those of the merged model are {apart} apart"
        print(f"{case}: PEFT takes {len(stored)} tensors, and the merged model is {apart:.1e} from it")


def main():
    tern, *cases = sys.argv[1:]
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    for case in cases or CASES:
        check(os.path.abspath(tern), case)


if __name__ == "__main__":
    main()
