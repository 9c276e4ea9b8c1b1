#!/usr/bin/env python3
"""Trains the tiny model llama-tied with the losses of tokens that ms-swift has, by ms-swift's own code.

Usage: token_losses.py GOLDEN SWIFT      needs: torch transformers peft safetensors gguf

GOLDEN/llama-tied is as models.py makes it; SWIFT is the folder `swift` of ms-swift, of which per_token_loss_func and
MeanMetric are run, and what its trainer does around them is followed.

GOLDEN/token-losses.safetensors:
  weights [tokens]: what --loss_scale made of llama-tied's training samples; channels [samples]: math, code, none
  <plain|dft>.<full|lora>.losses, .grad_norms, .loss_math, .loss_code, .loss_None [20]: of each step, as logged
  <plain|dft>.<full|lora>.eval_loss, .eval_loss_math, .eval_loss_code, .eval_loss_None [1]: of all samples, afterwards
"""
import ast
import os
import sys
import types

sys.path.append(sys.path.pop(0))  # beside this file lies a tokenizers.py
import torch
import torch.distributed as dist
import torch.nn.functional as F
from peft import PeftModel
from safetensors.torch import load_file

import models

CHANNELS = ("math", "code", None)


def definitions(path, names, scope):
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    tree.body = [node for node in tree.body if getattr(node, "name", "") in names]
    exec(compile(tree, path, "exec"), scope)
    return scope


def mean_loss(model, samples, swift, dft, metrics):
    """The loss of a step, and its tokens' losses added to `metrics`: compute_loss of swift/trainers/seq2seq_trainer.py."""
    targets = sum(int((labels != -100).sum()) for _, labels, _, _ in samples)
    total = 0.0
    for ids, labels, weights, channel in samples:
        outputs = types.SimpleNamespace(logits=model(input_ids=ids[None]).logits)
        losses = swift["per_token_loss_func"](outputs, labels[None], enable_dft_loss=dft)
        losses = losses * torch.roll(weights[None], shifts=-1, dims=-1).view(-1)
        mask = torch.roll(labels[None], shifts=-1, dims=-1).view(-1) != -100
        metrics.setdefault(f"loss_{channel}", swift["MeanMetric"](nan_value=None, device="cpu")).update(losses.detach()[mask])
        total = total + losses.sum()
    return total / targets


def main():
    golden, source = sys.argv[1:]
    swift = definitions(os.path.join(source, "trainers", "utils.py"), ("per_token_loss_func",), {"torch": torch, "F": F})
    import abc
    swift |= definitions(os.path.join(source, "metrics", "utils.py"), ("Metric", "MeanMetric"),
                         {"torch": torch, "dist": dist, "np": __import__("numpy"), "ABC": abc.ABC, "abstractmethod": abc.abstractmethod})
    folder = os.path.join(golden, "llama-tied")
    numbers = load_file(os.path.join(folder, "golden.safetensors"))
    torch.manual_seed(11)
    lengths = numbers["lengths"].tolist()
    channels = torch.tensor([0, 1, 2, 0, 1, 0, 2, 1])
    weights = torch.tensor([0.5, 1.0, 2.5])[torch.randint(3, numbers["ids"].shape)] * numbers["supervised"]
    samples = []
    for ids, supervised, weight, channel in zip(numbers["ids"].long().split(lengths), numbers["supervised"].split(lengths),
                                                weights.split(lengths), channels.tolist()):
        labels = torch.where(supervised.bool(), ids, -100)
        labels[0] = -100  # as ms-swift has it: nothing predicts the first token
        samples.append((ids, labels, weight, CHANNELS[channel]))
    out = {"weights": weights, "channels": channels.int()}
    for loss in ("plain", "dft"):
        for kind in ("full", "lora"):
            model = models.load(folder)
            if kind == "lora":
                model = PeftModel.from_pretrained(model, os.path.join(folder, "adapter"), is_trainable=True)
            logged = []

            def step_loss(model, samples):
                metrics = {}
                value = mean_loss(model, samples, swift, loss == "dft", metrics)
                logged.append({name: metric.compute()["value"] for name, metric in metrics.items()})
                return value

            models.step_loss = step_loss
            losses, norms = models.train(model, samples)
            found = {"losses": losses, "grad_norms": norms}
            for name in ("loss_math", "loss_code", "loss_None"):
                found[name] = torch.tensor([row[name] for row in logged])
            metrics = {}
            with torch.no_grad():
                found["eval_loss"] = mean_loss(model.eval(), samples, swift, loss == "dft", metrics)[None]
            found |= {f"eval_{name}": torch.tensor([metric.compute()["value"]]) for name, metric in metrics.items()}
            out |= {f"{loss}.{kind}.{name}": value for name, value in found.items()}
            print(f"{loss} {kind}: loss {losses[0]:.4f} to {losses[-1]:.4f}, held out {found['eval_loss'].item():.4f}")
    models.write(out, os.path.join(golden, "token-losses.safetensors"), {"made_by": "script/golden.d/token_losses.py"})


if __name__ == "__main__":
    main()
