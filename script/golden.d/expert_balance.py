#!/usr/bin/env python3
"""Trains tiny mixtures of experts with the loss that balances them, by transformers' load_balancing_loss_func.

Usage: expert_balance.py GOLDEN      needs: torch transformers peft safetensors gguf

GOLDEN/<model>/ is as models.py makes it. The function gets the routers' logits of a whole step, end to end by layer, and
counts COEFFICIENT in the loss.

GOLDEN/expert-balance.safetensors, by <model>.<full|lora>: .losses, .grad_norms, .aux_loss [20]: of each step;
.eval_loss, .eval_aux_loss [1]: of all samples, afterwards.
"""
import os
import sys

sys.path.append(sys.path.pop(0))  # beside this file lies a tokenizers.py
import torch
from peft import PeftModel
from safetensors.torch import load_file

import models

COEFFICIENT = 0.1
MODELS = ("mixtral", "qwen2-moe-tied", "qwen3-moe-tied", "granite-moe-tied", "gpt-oss-tied", "qwen3-next-untied",
          "qwen3.5-moe-untied")


def base_of(model):
    return model.base_model.model if isinstance(model, PeftModel) else model


def losses_of(model, samples):
    """The mean cross entropy and the balance of all samples together."""
    base = base_of(model)
    balance = sys.modules[type(base).__module__].load_balancing_loss_func
    targets = sum(int(supervised[1:].sum()) for _, supervised in samples)
    total, routers = 0.0, None
    for ids, supervised in samples:
        out = model(input_ids=ids[None], output_router_logits=True)
        losses = torch.nn.functional.cross_entropy(out.logits[0, :-1], ids[1:], reduction="none")
        total = total + losses[supervised[1:]].sum()
        routers = [[] for _ in out.router_logits] if routers is None else routers
        for layer, logits in zip(routers, out.router_logits):
            layer.append(logits.reshape(-1, logits.shape[-1]))
    gates = tuple(torch.cat(layer) for layer in routers)
    config = base.config
    return total / targets, balance(gates, gates[0].shape[-1], config.num_experts_per_tok)


def main():
    golden = sys.argv[1]
    path = os.path.join(golden, "expert-balance.safetensors")
    out = {}
    for name in MODELS:
        folder = os.path.join(golden, name)
        numbers = load_file(os.path.join(folder, "golden.safetensors"))
        lengths = numbers["lengths"].tolist()
        samples = list(zip(numbers["ids"].long().split(lengths), numbers["supervised"].bool().split(lengths)))
        for kind in ("full", "lora"):
            model = models.load(folder)
            if kind == "lora":
                model = PeftModel.from_pretrained(model, os.path.join(folder, "adapter"), is_trainable=True)
            balances = []

            def step_loss(model, samples):
                loss, balance = losses_of(model, samples)
                balances.append(balance.item())
                return loss + COEFFICIENT * balance

            models.step_loss = step_loss
            losses, norms = models.train(model, samples)
            with torch.no_grad():
                loss, balance = losses_of(model.eval(), samples)
            out |= {f"{name}.{kind}.{key}": value for key, value in
                    {"losses": losses, "grad_norms": norms, "aux_loss": torch.tensor(balances),
                     "eval_loss": (loss + COEFFICIENT * balance)[None], "eval_aux_loss": balance[None]}.items()}
            print(f"{name} {kind}: loss {losses[0]:.4f} to {losses[-1]:.4f}, balance {balances[0]:.4f} to {balances[-1]:.4f}")
    models.write(out, path, {"made_by": "script/golden.d/expert_balance.py", "coefficient": str(COEFFICIENT)})


if __name__ == "__main__":
    main()
