#!/usr/bin/env python3
"""The learning rates of every `lr_scheduler_type` of transformers. Usage: schedules.py OUT.json

needs: torch transformers"""
import json
import math
import sys

sys.path.pop(0)  # beside this file lies a tokenizers.py
import torch
import transformers
from transformers.optimization import get_scheduler

PEAK, WARMUP, TOTAL = 2e-3, 5, 20
CASES = [
    ("linear", {}), ("cosine", {}), ("cosine", {"num_cycles": 1.25}), ("cosine_with_restarts", {}),
    ("cosine_with_restarts", {"num_cycles": 3}), ("polynomial", {}), ("polynomial", {"lr_end": 1e-4, "power": 2.5}),
    ("constant", {}), ("constant_with_warmup", {}), ("inverse_sqrt", {}), ("inverse_sqrt", {"timescale": 3}),
    ("cosine_with_min_lr", {"min_lr": 1e-4}), ("cosine_with_min_lr", {"min_lr_rate": 0.2, "num_cycles": 0.75}),
    ("cosine_warmup_with_min_lr", {"min_lr_rate": 0.1}),
    ("cosine_warmup_with_min_lr", {"min_lr": 1e-4, "warmup_lr_rate": 0.25}),
    ("warmup_stable_decay", {"num_decay_steps": 7}),
    ("warmup_stable_decay", {"num_decay_steps": 4, "num_stable_steps": 6, "warmup_type": "cosine",
                             "decay_type": "linear", "min_lr_ratio": 0.1}),
    ("warmup_stable_decay", {"num_decay_steps": 8, "warmup_type": "1-sqrt", "decay_type": "1-sqrt"}),
]
ADAPTIVE = [
    ("reduce_lr_on_plateau", {"patience": 2}),
    ("reduce_lr_on_plateau", {"patience": 0, "factor": 0.5, "cooldown": 2, "min_lr": 2e-4, "threshold": 0.01,
                              "threshold_mode": "abs"}),
    ("reduce_lr_on_plateau", {"patience": 1, "mode": "max", "factor": 0.7, "eps": 1e-4}),
    ("greedy", {"patience": 2, "min_lr": 1e-4, "factor": 0.8}),
    ("greedy", {"patience": 0, "min_lr": 1e-3, "max_lr": 3e-3, "factor": 0.7, "cooldown": 1, "warmup": 1,
                "smooth": True, "window_size": 3, "reset_start": 2}),
    ("greedy", {"patience": 1, "mode": "max", "threshold_mode": "rel", "threshold": 0.01, "min_lr": 1e-4}),
]


def made(name, kwargs):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    return optimizer, get_scheduler(name, optimizer, WARMUP, TOTAL, kwargs)


out = {"torch": torch.__version__, "transformers": transformers.__version__, "peak": PEAK, "warmup_steps": WARMUP,
       "total_steps": TOTAL, "by_step": [], "by_loss": []}
for name, kwargs in CASES:
    optimizer, scheduler = made(name, kwargs)
    rates = []
    for _ in range(TOTAL):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    out["by_step"].append({"type": name, "kwargs": kwargs, "rates": rates})
out["losses"] = losses = [round(3 * math.exp(-i / 6) + 1 + 0.2 * math.sin(i * 1.7) + 0.01 * max(0, i - 20), 6) for i in range(40)]
for name, kwargs in ADAPTIVE:
    optimizer, scheduler = made(name, kwargs)
    rates = []
    for loss in losses:
        rates.append(optimizer.param_groups[0]["lr"])
        scheduler.step(loss)
    out["by_loss"].append({"type": name, "kwargs": kwargs, "rates": rates})
with open(sys.argv[1], "w") as file:
    json.dump(out, file, indent=1)
    file.write("\n")
