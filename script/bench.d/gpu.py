#!/usr/bin/env python3
"""tern on an NVIDIA GPU beside what the card can do and beside PyTorch: gpu.py TERN OUT.json [PART...] (script/bench gpu).

Parts: rates (copy bandwidth and bf16 products, by PyTorch), infer (prefill and decode of a 7B shape), train (LoRA of it),
full (full training of a 1.5B shape), peer (PyTorch, transformers and PEFT for the same). Weights are random: Qwen2.5's shapes in
bf16, made on the card and kept in SCRATCH (default /dev/shm/tern-bench-gpu). A part that fails is told and the others go on.
"""
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
SCRATCH = Path(os.environ.get("SCRATCH", "/dev/shm/tern-bench-gpu"))
TOKENIZER = ROOT / "tests/data/tokenizers/bl-smollm.json"
SHAPES = {
    "7b": dict(hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28,
               num_key_value_heads=4, vocab_size=152064, tie_word_embeddings=False),
    "1.5b": dict(hidden_size=1536, intermediate_size=8960, num_hidden_layers=28, num_attention_heads=12,
                 num_key_value_heads=2, vocab_size=151936, tie_word_embeddings=True),
}
CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
LENGTH = 2048  # tokens of a training row
STEPS = int(os.environ.get("STEPS", "8"))
WARMUP = 3


def median_seconds(work, repeats=10):
    for _ in range(3):
        work()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def rates(_tern):
    """What the card does at best: bytes read and written of a copy, and bf16 products of random numbers."""
    source = torch.randn(2 << 30, device="cuda", dtype=torch.bfloat16)
    target = torch.empty_like(source)
    copy = median_seconds(lambda: target.copy_(source))
    bytes_moved = 2 * source.numel() * 2
    del source, target
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = median_seconds(lambda: a @ b)
    del a, b
    torch.cuda.empty_cache()
    return {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "copy_gbps": bytes_moved / copy / 1e9,
            "bf16_tflops": 2 * 8192**3 / product / 1e12}


def model(name):
    """The folder of a model of random weights; made once."""
    from safetensors.torch import save_file
    folder = SCRATCH / name
    shape = dict(SHAPES[name])
    shape["num_hidden_layers"] = int(os.environ.get("LAYERS", shape["num_hidden_layers"]))
    if (folder / "config.json").exists():
        return folder, shape
    folder.mkdir(parents=True, exist_ok=True)
    hidden, inner, heads = shape["hidden_size"], shape["intermediate_size"], shape["num_attention_heads"]
    size = hidden // heads
    kv = shape["num_key_value_heads"] * size
    torch.manual_seed(0)

    def matrix(rows, columns):
        return (torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16) * 0.02).cpu()

    parts = {"model.embed_tokens.weight": matrix(shape["vocab_size"], hidden)}
    if not shape["tie_word_embeddings"]:
        parts["lm_head.weight"] = matrix(shape["vocab_size"], hidden)
    parts["model.norm.weight"] = torch.ones(hidden, dtype=torch.bfloat16)
    files = {"head": parts}
    for layer in range(shape["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        parts = {}
        for norm in ("input_layernorm", "post_attention_layernorm"):
            parts[f"{at}{norm}.weight"] = torch.ones(hidden, dtype=torch.bfloat16)
        for part, rows in (("q", hidden), ("k", kv), ("v", kv)):
            parts[f"{at}self_attn.{part}_proj.weight"] = matrix(rows, hidden)
            parts[f"{at}self_attn.{part}_proj.bias"] = torch.zeros(rows, dtype=torch.bfloat16)
        parts[f"{at}self_attn.o_proj.weight"] = matrix(hidden, hidden)
        parts[f"{at}mlp.gate_proj.weight"] = matrix(inner, hidden)
        parts[f"{at}mlp.up_proj.weight"] = matrix(inner, hidden)
        parts[f"{at}mlp.down_proj.weight"] = matrix(hidden, inner)
        files[f"layer{layer}"] = parts
    weight_map = {}
    for index, parts in enumerate(files.values()):
        file = f"model-{index + 1:05d}-of-{len(files):05d}.safetensors"
        save_file(parts, folder / file, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(parts, file))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    (folder / "tokenizer.json").write_bytes(TOKENIZER.read_bytes())
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": CHATML, "eos_token": "<|im_end|>"}))
    config = dict(shape, architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_act="silu",
                  max_position_embeddings=32768, rope_theta=1e6, rms_norm_eps=1e-6, torch_dtype="bfloat16",
                  use_sliding_window=False, sliding_window=None, max_window_layers=28, eos_token_id=shape["vocab_size"] - 1, bos_token_id=0)
    (folder / "config.json").write_text(json.dumps(config))
    return folder, shape


def parameters(shape):
    """Of the products: the embedding isn't one, the head is."""
    hidden, inner = shape["hidden_size"], shape["intermediate_size"]
    kv = shape["num_key_value_heads"] * hidden // shape["num_attention_heads"]
    layer = 2 * hidden * hidden + 2 * kv * hidden + 3 * inner * hidden
    return shape["num_hidden_layers"] * layer + shape["vocab_size"] * hidden


def attention_flops(shape, length):
    """Of the forward pass of one row, causal: two products of half of length x length."""
    return shape["num_hidden_layers"] * 2 * length * length * shape["hidden_size"]


def tern_run(tern, *words):
    done = subprocess.run([tern, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr[-1500:] or done.stdout[-1500:]}")
    return done.stdout + done.stderr


def infer(tern):
    folder, shape = model("7b")
    torch.cuda.empty_cache()
    found = {}
    for prompt, new, batches in ((4096, 1, [1]), (512, 64, [1, 64])):
        out = tern_run(tern, "bench", "--model", folder, "--device", "cuda:0", "--prompt_length", prompt,
                       "--max_new_tokens", new, "--batch_size", *batches, "--json")
        found[f"{prompt}+{new}"] = out[-6000:]
    return found


def rows_file():
    """Rows of one turn, longer than LENGTH tokens: packed rows are full then."""
    path = SCRATCH / "rows.jsonl"
    words = " ".join(f"{i % 977} and {i * 7 % 1013}," for i in range(LENGTH))
    with open(path, "w") as file:
        for row in range(64):
            content = f"{row} {words}"
            file.write(json.dumps({"messages": [{"role": "user", "content": "Count."},
                                                {"role": "assistant", "content": content}]}) + "\n")
    return path


def training(tern, shape_name, words, flops_a_token):
    folder, shape = model(shape_name)
    torch.cuda.empty_cache()
    output = SCRATCH / "out"
    batch = int(os.environ.get("BATCH", "4"))
    begin = time.time()
    text = tern_run(tern, "sft", "--model", folder, "--device", "cuda:0", "--dataset", rows_file(), "--max_length", LENGTH,
                    "--truncation_strategy", "right", "--per_device_train_batch_size", batch,
                    "--gradient_accumulation_steps", 1, "--max_steps", WARMUP + STEPS, "--logging_steps", 1,
                    "--save_strategy", "no", "--output_dir", output, *words)
    logs = sorted(output.glob("**/logging.jsonl"), key=lambda path: path.stat().st_mtime)
    lines = [json.loads(line) for line in logs[-1].read_text().splitlines()] if logs else []
    return {"seconds": time.time() - begin, "tokens_a_step": batch * LENGTH, "flops_a_step": batch *
            (LENGTH * flops_a_token * parameters(shape) + flops_a_token / 2 * attention_flops(shape, LENGTH)),
            "lines": lines[-4:], "tail": text[-1500:]}


def train(tern):
    # No gradients of the frozen weights: 2 forward, 2 backward.
    return training(tern, "7b", ["--train_type", "lora", "--gradient_checkpointing",
                                 os.environ.get("CHECKPOINTING", "false")], 4)


def full(tern):
    return training(tern, "1.5b", ["--train_type", "full", "--gradient_checkpointing",
                                   os.environ.get("CHECKPOINTING", "false")], 6)


def peer(_tern):
    """Seconds of a training step and of a decoding step of transformers and PEFT on the same weights."""
    import peft
    import transformers
    found = {"transformers": transformers.__version__, "peft": peft.__version__}
    folder, shape = model("7b")
    net = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, device_map="cuda",
                                                            attn_implementation="sdpa")
    ids = torch.randint(0, 1000, (1, 512), device="cuda")
    with torch.inference_mode():
        past = net(ids, use_cache=True).past_key_values
        token = ids[:, -1:]

        def step():
            net(token, past_key_values=past, use_cache=True)

        found["decode_seconds"] = median_seconds(step, 20)
        long = torch.randint(0, 1000, (1, 4096), device="cuda")
        found["prefill_4096_seconds"] = median_seconds(lambda: net(long, use_cache=True, logits_to_keep=1), 5)
    net = peft.get_peft_model(net, peft.LoraConfig(r=8, lora_alpha=32, lora_dropout=0.05, target_modules="all-linear",
                                                   task_type="CAUSAL_LM"))
    batch = int(os.environ.get("BATCH", "4"))
    rows = torch.randint(0, 1000, (batch, LENGTH), device="cuda")
    trained = [p for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    net.train()

    def train_step():
        net(input_ids=rows, labels=rows, use_cache=False).loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    found["lora_step_seconds"] = median_seconds(train_step, 4)
    return found


def main():
    tern, out = sys.argv[1], Path(sys.argv[2])
    parts = sys.argv[3:] or ["rates", "infer", "train", "full", "peer"]
    found = {}
    for name in parts:
        begin = time.time()
        try:
            found[name] = globals()[name](tern)
        except Exception as error:  # noqa: BLE001 (told below; a failing part must not cost the others their time)
            found[name] = {"failed": repr(error)[:3000]}
        found[name]["part_seconds"] = time.time() - begin
        print(f"== {name}: {json.dumps(found[name])[:2500]}", flush=True)
        out.write_text(json.dumps(found, indent=1))
    return any("failed" in part for part in found.values())


if __name__ == "__main__":
    sys.exit(main())
