#!/usr/bin/env python3
"""Twenty steps of each optimizer by PyTorch, transformers and bitsandbytes. Usage: optimizers.py OUT.safetensors [CASE...]

needs: torch transformers bitsandbytes galore-torch q-galore-torch safetensors. With CASEs, the others are kept.

OUT holds <case>/<parameter>, the parameters after twenty steps; of 8192 numbers and more, 4096 of them. They begin as 0.5 sin(i + 1); the gradient of element i of
the p-th parameter in step t (from 1) is 0.02 (1 + i % 7) sin(0.37 i + 1.3 t + p), the rate 0.01 (1 - t / 40), weight decay
0.1 of matrices and 0 of vectors, and gradients are clipped to a norm of 1.
"""
import sys
from importlib.metadata import version

sys.path.pop(0)  # beside this file lies a tokenizers.py
import bitsandbytes
import galore_torch
import numpy
import q_galore_torch
import torch
from bitsandbytes.optim.optimizer import Optimizer2State
from safetensors.torch import load_file, save_file
from transformers.optimization import Adafactor

SHAPES = {"wide": (16, 24), "tall": (24, 16), "vector": (33,)}
LARGE = {"large": (64, 70), "vector": (33,)}  # enough elements for 8 bits
WIDE = {"large": (64, 1024), "vector": (33,)}  # whose projection of rank 4 has enough of them
STEPS, DECAY = 20, 0.1


def orthogonalised(grad, coefficients, steps, eps):
    """torch.optim._muon's Newton-Schulz in fp32: there it is rounded to bf16, which would hide mistakes."""
    a, b, c = coefficients
    x = grad.T if grad.size(0) > grad.size(1) else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if grad.size(0) > grad.size(1) else x


torch.optim._muon._zeropower_via_newtonschulz = orthogonalised


def split(groups):
    matrices = [p for p in groups if p.dim() >= 2]
    vectors = [p for p in groups if p.dim() < 2]
    return [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}]


def muon(**arguments):
    return lambda parameters: [
        torch.optim.Muon([p for p in parameters if p.dim() == 2], lr=1, weight_decay=DECAY,
                         adjust_lr_fn="match_rms_adamw", **arguments),
        torch.optim.AdamW([p for p in parameters if p.dim() != 2], lr=1, betas=(0.9, 0.95), weight_decay=0.0)]


def adafactor(**arguments):
    return lambda parameters: [Adafactor(split(parameters), lr=1, relative_step=False, **arguments)]


def leading_vectors(self, weights, rank, type):
    """GaLoreProjector's, in fp64 and with a sign: that of the largest component of the vector of the shorter side."""
    u, s, vh = torch.linalg.svd(weights.double(), full_matrices=False)
    shorter = u.T if weights.shape[0] <= weights.shape[1] else vh
    signs = torch.sign(shorter.gather(1, shorter.abs().argmax(dim=1, keepdim=True))).squeeze(1)
    u, vh = (u * signs)[:, :rank].float(), (vh * signs[:, None])[:rank].float()
    return {"left": u, "right": vh, "full": [u, vh]}[type]


galore_torch.galore_projector.GaLoreProjector.get_orthogonal_matrix = leading_vectors
q_galore_torch.q_galore_projector.GaLoreProjector.get_orthogonal_matrix = leading_vectors
torch.cuda.synchronize = lambda: None  # q-galore-torch waits for a GPU


def galore(**arguments):
    def make(parameters):
        matrices, vectors = split(parameters)
        groups = [{**matrices, "rank": 3, "scale": 0.7, **arguments}, vectors]
        return [galore_torch.GaLoreAdamW(groups, lr=1, betas=(0.9, 0.95), eps=1e-8, no_deprecation_warning=True)]
    return make


class QGalore(q_galore_torch.QGaLoreAdamW8bit):
    """Its step over today's bitsandbytes, whose arguments are others."""

    def __init__(self, groups, **arguments):
        Optimizer2State.__init__(self, "adam", groups, weight_decay=0.0, optim_bits=8, args=None, **arguments)

    def update_step(self, group, p, gindex, pindex, flag_use_float_grad=False):
        Optimizer2State.update_step(self, group, p, gindex, pindex)


def q_galore(**arguments):
    def make(parameters):
        matrices, vectors = split(parameters)
        groups = [{**matrices, "rank": 4, "scale": 0.7, "proj_type": "std", "update_proj_gap": 2, "queue_size": 2,
                   "cos_threshold": 0.2, "gamma_proj": 2, **arguments}, vectors]
        return [QGalore(groups, lr=1, betas=(0.9, 0.95), eps=1e-8)]
    return make


CASES = {
    "adamw": (SHAPES, lambda parameters: [torch.optim.AdamW(split(parameters), lr=1, betas=(0.9, 0.95))]),
    "sgd": (SHAPES, lambda parameters: [torch.optim.SGD(split(parameters), lr=1)]),
    "sgd-momentum": (SHAPES, lambda parameters: [torch.optim.SGD(split(parameters), lr=1, momentum=0.9, dampening=0.2)]),
    "sgd-nesterov": (SHAPES, lambda parameters: [torch.optim.SGD(split(parameters), lr=1, momentum=0.8, nesterov=True)]),
    "lion": (SHAPES, lambda parameters: [bitsandbytes.optim.Lion32bit(split(parameters), lr=1, betas=(0.9, 0.95))]),
    "adafactor": (SHAPES, adafactor(scale_parameter=False)),
    "adafactor-scaled": (SHAPES, adafactor(scale_parameter=True, beta1=0.9, clip_threshold=0.5, decay_rate=-0.7)),
    "muon": (SHAPES, muon()),
    "muon-plain": (SHAPES, muon(nesterov=False, ns_steps=3, momentum=0.8)),
    **{f"galore-{kind}": (SHAPES, galore(proj_type=kind, update_proj_gap=7))
       for kind in ("std", "reverse_std", "left", "right", "full")},
    "q-galore": (SHAPES, q_galore(quant=False, quant_n_bit=4, quant_group_size=32)),
    **{f"q-galore-{bits}-bits": (SHAPES, q_galore(quant=True, quant_n_bit=bits, quant_group_size=32)) for bits in (2, 3, 4, 8)},
    "q-galore-large": (WIDE, q_galore(quant=True, quant_n_bit=4, quant_group_size=256)),
    "adamw_8bit": (LARGE, lambda parameters: [bitsandbytes.optim.AdamW8bit(split(parameters), lr=1, betas=(0.9, 0.95))]),
}

chosen = sys.argv[2:] or list(CASES)
out = load_file(sys.argv[1]) if sys.argv[2:] else {}
for name in chosen:
    shapes, make = CASES[name]
    parameters = {}
    for key, shape in shapes.items():
        count = int(numpy.prod(shape))
        values = (0.5 * numpy.sin(numpy.arange(count) + 1.0)).astype(numpy.float32).reshape(shape)
        parameters[key] = torch.nn.Parameter(torch.from_numpy(values))
    optimizers = make(list(parameters.values()))
    for t in range(1, STEPS + 1):
        for p, parameter in enumerate(parameters.values()):
            i = numpy.arange(parameter.numel())
            gradient = 0.02 * (1 + i % 7) * numpy.sin(0.37 * i + 1.3 * t + p)
            parameter.grad = torch.from_numpy(gradient.astype(numpy.float32)).reshape(parameter.shape)
        torch.nn.utils.clip_grad_norm_(list(parameters.values()), 1.0)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = 0.01 * (1 - t / 40)
            optimizer.step()
    for key, parameter in parameters.items():
        for optimizer in optimizers:
            projector = optimizer.state[parameter].get("projector") if hasattr(optimizer, "initialized") else None
            if projector is not None:
                print(f"{name} {key}: a projection for {projector.update_proj_gap} steps, found {projector.svd_count} times")
        values = parameter.detach().clone().contiguous()
        out[f"{name}/{key}"] = values if values.numel() < 8192 else values.flatten()[::values.numel() // 4096].clone()
versions = {peer: version(peer) for peer in ("torch", "transformers", "bitsandbytes", "galore-torch", "q-galore-torch", "numpy")}
save_file(out, sys.argv[1], versions)
