#!/usr/bin/env python3
"""Asks llama.cpp for the logits of the tiny models as `tern convert` writes them in GGUF, and compares with transformers'.

Usage: gguf_models.py TESTS_DATA_GOLDEN LLAMA_LOGITS TERN      needs: numpy safetensors

LLAMA_LOGITS is llama_logits.cpp, built. Prints each model's largest difference; fails where one is above 1e-5 of the largest
logit, 5e-5 for longrope and for latent vectors, or 5e-3 where llama.cpp looks gelu up in a table of half precision. What llama.cpp does not compute is left out: windows of architectures that it gives none, and models that tern says a GGUF
cannot express.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.pop(0)  # beside this file lies a tokenizers.py
import numpy as np
from safetensors.numpy import load_file

# What llama.cpp has no tensors for: a bias of Qwen3's o_proj; an OLMo 2 without a head of its own. And what it takes for
# granted: Mamba-2 twice as wide as the stream in Granite 4; that Gemma 4's shared layers read the last ones that share.
UNKNOWN = {"qwen3-untied", "olmo2-tied", "granite-h-untied", "gemma4-tied"}
WITHOUT_WINDOW = {"mistral", "mixtral", "phi3", "qwen2", "qwen3"}  # model types whose window llama.cpp ignores


def byte_symbols():
    """GPT-2's characters for the 256 bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    return [chr(b) for b in shown] + [chr(256 + i) for i in range(len(hidden))]


def tokenizer(size):
    """A byte-level tokenizer of so many tokens: only its being there matters."""
    symbols = byte_symbols()
    vocab = {symbols[i] if i < len(symbols) else f"<{i}>": i for i in range(size - 1)}
    vocab[symbols[0] + symbols[1]] = size - 1
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocab,
                      "merges": [[symbols[0], symbols[1]]]}}


def difference(folder, llama, tern, scratch):
    config = json.load(open(f"{folder}/config.json", encoding="utf-8"))
    golden = load_file(f"{folder}/golden.safetensors")
    model, gguf = f"{scratch}/model", f"{scratch}/model.gguf"
    shutil.rmtree(model, ignore_errors=True)
    os.mkdir(model)
    for name in ("config.json", "model.safetensors"):
        shutil.copy(f"{folder}/{name}", model)
    json.dump(tokenizer(config["vocab_size"]), open(f"{model}/tokenizer.json", "w", encoding="utf-8"))
    convert = subprocess.run([tern, "convert", model, gguf, "--outtype", "f32", "--exist_ok", "true"],
                             capture_output=True, text=True)
    if convert.returncode == 3 and "keep this model as a directory" in convert.stderr:
        return None
    convert.check_returncode()
    ids = golden["tokens"].astype(np.int32)
    window = config.get("sliding_window")
    if window and config["model_type"] in WITHOUT_WINDOW:
        ids = ids[:window]
    ids.tofile(f"{scratch}/ids")
    subprocess.run([llama, gguf, f"{scratch}/ids", f"{scratch}/logits"], check=True)
    got = np.fromfile(f"{scratch}/logits", np.float32).reshape(len(ids), -1)
    want = golden["logits"][: len(ids)]
    longrope = config.get("rope_parameters", {}).get("rope_type") == "longrope"  # angles in float32, of longer periods
    # Of latent vectors llama.cpp's norms have the model's eps, 1e-5 here, and transformers' 1e-6, which published models have in
    # both places: with one eps they agree to 2e-6.
    latent = config["model_type"].startswith(("deepseek", "mistral4"))
    bound = 5e-3 if config["model_type"].startswith("gemma") else 5e-5 if longrope or latent else 1e-5
    return float(np.abs(got - want).max() / np.abs(want).max()), len(ids), bound


def main():
    data, llama, tern = sys.argv[1:4]
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        for name in sorted(os.listdir(data)):
            if not os.path.exists(f"{data}/{name}/golden.safetensors"):
                continue
            if name in UNKNOWN:
                print(f"{name}: not llama.cpp's")
                continue
            found = difference(f"{data}/{name}", llama, tern, scratch)
            if found is None:
                print(f"{name}: a GGUF cannot say it")
                continue
            largest, tokens, bound = found
            print(f"{name}: {largest:.1e} of the largest logit, {tokens} tokens")
            failed = failed or not largest < bound
    return failed


sys.exit(main())
