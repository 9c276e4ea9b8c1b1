#!/usr/bin/env python3
"""One run of the training peer: LoRA (rank 8, every linear layer) with PyTorch, transformers and PEFT.

Usage: train_peer.py MODEL.gguf TEXTS.jsonl --dtype float32|bfloat16 --mode eager|compiled --steps N --threads N

Rows of TEXTS are {"text"}; each is cut to exactly 512 tokens. Prints one JSON line: tokens a second over the steps after
warm-up, and each step's seconds. Attention is SDPA; the same AdamW, clipping and dropout as tern's defaults.
"""
import argparse
import json
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("texts")
parser.add_argument("--dtype", default="float32")
parser.add_argument("--mode", default="eager")
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--warmup", type=int, default=2)
parser.add_argument("--threads", type=int, default=2)
args = parser.parse_args()
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(args.threads)
os.environ.setdefault("KMP_AFFINITY", "granularity=fine,compact,1,0")

import peft  # noqa: E402  (after the thread variables)
import torch  # noqa: E402
import transformers  # noqa: E402

transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(args.threads)
torch.manual_seed(42)
folder, file = os.path.split(os.path.abspath(args.model))
tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=file)
model = transformers.AutoModelForCausalLM.from_pretrained(
    folder, gguf_file=file, dtype=getattr(torch, args.dtype), attn_implementation="sdpa",
    quantization_config=transformers.GgufConfig(dequantize=True))
model = peft.get_peft_model(model, peft.LoraConfig(
    r=8, lora_alpha=32, lora_dropout=0.05, target_modules="all-linear", task_type="CAUSAL_LM"),
    autocast_adapter_dtype=False)  # adapters in the model's dtype and no autocast: the faster way on a cpu
model.train()
rows = [json.loads(line)["text"] for line in open(args.texts)]
batches = [torch.tensor([tokenizer(row)["input_ids"][:512]]) for row in rows]
batches = [ids for ids in batches if ids.shape[1] == 512]
trained = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, foreach=True)
forward = torch.compile(model) if args.mode == "compiled" else model
seconds = []
losses = []
for step in range(args.warmup + args.steps):
    ids = batches[step % len(batches)]
    begin = time.perf_counter()
    loss = forward(input_ids=ids, labels=ids, use_cache=False).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    losses.append(float(loss.detach()))
    seconds.append(time.perf_counter() - begin)
timed = seconds[args.warmup:]
print(json.dumps({
    "tokens_per_second": 512 * len(timed) / sum(timed), "seconds": seconds, "losses": losses,
    "trained_parameters": sum(p.numel() for p in trained), "torch": torch.__version__,
    "transformers": transformers.__version__, "peft": peft.__version__}))
