#!/usr/bin/env python3
"""Makes tests/data/golden/swift: how ms-swift's own code trains tiny models where PEFT has no say.

Usage: swift_tuners.py OUTPUT SWIFT LORA_GA [CASE...]      needs: torch transformers peft safetensors

OUTPUT/<model> are as models.py makes them; SWIFT is the folder `swift` of ms-swift, whose classes run here, and LORA_GA a
checkout of github.com/lxline/LoRA-GA, which ms-swift asks for.

OUTPUT/swift/lisa.safetensors: 20 steps of full tuning of the model that its metadata names, with LISA's callback: losses,
grad_norms [20], norms before clipping; layers [20, 2], that trained; trained/<parameter>, every so many numbers that there
are at most 256. The callback draws by tern's bits, as numpy's depend on all that was drawn before.

OUTPUT/swift/lora-ga-<direction>-<scale>.safetensors: LoRA of rank 8 and alpha 32 over all linear layers, by the gradients of
the first two batches of two samples: begun/<PEFT's name> as it begins, then 20 steps: losses, grad_norms [20],
trained/<PEFT's name>, logits [8, vocab] of the last of 64 tokens. torch.svd_lowrank gives the signs of tern.
"""
import importlib.util
import os
import sys
import types

sys.path.append(sys.path.pop(0))  # beside this file lies a tokenizers.py
import numpy
import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from safetensors.torch import load_file

import models as tiny

KEPT_NUMBERS, SEED, STREAM = 256, 42, 0x6C697361
MASK = (1 << 64) - 1


def stub(name, **members):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(members)


def module_of(swift, name):
    """One of ms-swift's modules, without what its packages import."""
    path = os.path.join(swift, *name.split(".")[1:]) + ".py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mix_key(a, b):
    x = (a + 0x9E3779B97F4A7C15 * (b + 1)) & MASK
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def philox(key, counter):
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    c = list(counter)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k1, p0 & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def choice(step, population, count):
    """tern's draw before the step behind `step` ones."""
    values, key = list(population), mix_key(mix_key(SEED, STREAM), step)
    for i in range(count):
        other = i + int((philox(key, (i, 0, 0, 0))[0] >> 8) / 2**24 * (len(values) - i))
        values[i], values[other] = values[other], values[i]
    return sorted(values[:count])


def opened(output, name):
    base = os.path.join(output, name)
    numbers = load_file(os.path.join(base, "golden.safetensors"))
    lengths = numbers["lengths"].tolist()
    return tiny.load(base).train(), list(zip(numbers["ids"].long().split(lengths), numbers["supervised"].bool().split(lengths)))


def some(tensor):
    return tensor.detach().flatten()[::-(-tensor.numel() // KEPT_NUMBERS)].clone()


def lisa(output, swift, peer):
    name = "smollm3-tied"
    model, samples = opened(output, name)
    class Callback:
        def __init__(self, args, trainer):
            pass

    stub("accelerate.utils", extract_model_from_parallel=lambda model, **kwargs: model)
    stub("swift.callbacks", __path__=[])
    stub("swift.callbacks.base", TrainerCallback=Callback)
    module = module_of(swift, "swift.callbacks.lisa")
    step = 0
    module.np = types.SimpleNamespace(random=types.SimpleNamespace(
        choice=lambda population, count, replace: numpy.array(choice(step, population, count))))
    args = types.SimpleNamespace(tuner_type="full", lisa_activated_layers=2, lisa_step_interval=6)
    callback = module.LISACallback(args, None)
    layers = []

    def begin_step(number):
        nonlocal step
        step = number
        if number == 0:  # the optimizer has all parameters by now
            callback.on_train_begin(args, None, None, model=model)
        callback.on_step_begin(args, types.SimpleNamespace(global_step=number), None)
        layers.append(callback.active_layers_indices.tolist())

    out = {}
    out["losses"], out["grad_norms"] = tiny.train(model, samples, begin_step)
    out["layers"] = torch.tensor(layers, dtype=torch.int32)
    for key, parameter in model.named_parameters():
        out[f"trained/{key}"] = some(parameter)
    tiny.write(out, os.path.join(output, "swift", "lisa.safetensors"), {"model": name})
    print(f"lisa: 20 steps {out['losses'][0]:.4f} to {out['losses'][-1]:.4f}, layers {layers}")


def signed_svd(matrix, q, niter, original=torch.svd_lowrank):
    """Exact where q is the shorter side, as here; the largest component of that side's vectors is above 0."""
    assert q >= min(matrix.shape)
    u, s, v = original(matrix, q=min(matrix.shape), niter=niter)
    shorter = u if u.shape[0] <= v.shape[0] else v
    signs = torch.sign(shorter.gather(0, shorter.abs().argmax(dim=0, keepdim=True)))
    return u * signs, s, v * signs


def lora_ga(direction, scale):
    name, rank, alpha = "olmo2-tied", 8, 32

    def make(output, swift, peer):
        model, samples = opened(output, name)
        spec = importlib.util.spec_from_file_location(
            "lora_ga_model", os.path.join(peer, "src", "lora_ga", "lora_ga_utils", "lora_ga_model.py"))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        torch.manual_seed(SEED)
        for begin in (0, 2):
            tiny.step_loss(model, samples[begin:begin + 2]).backward()
        linears = [key for key, each in model.named_modules() if isinstance(each, torch.nn.Linear) and "lm_head" not in key]
        grads = {key: model.get_submodule(key).weight.grad / 2 for key in linears}
        model.zero_grad()
        config = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=0.0, init_lora_weights=False, task_type="CAUSAL_LM",
                            target_modules=sorted({key.split(".")[-1] for key in linears}))
        model = get_peft_model(model, config)
        torch.svd_lowrank, original = signed_svd, torch.svd_lowrank
        settings = types.SimpleNamespace(direction=direction, scale=scale, stable_gamma=16, dtype="fp32")
        with torch.no_grad():
            for key in linears:
                layer = model.base_model.model.get_submodule(key)
                layer.kwargs = {"grad": grads[key], "peft_config": settings}
                module.lora_ga_layer_init(layer, "default")
        torch.svd_lowrank = original
        out = {f"begun/{key}": some(each) for key, each in get_peft_model_state_dict(model).items()}
        out["losses"], out["grad_norms"] = tiny.train(model, samples)
        for key, each in get_peft_model_state_dict(model).items():
            out[f"trained/{key}"] = some(each)
        tokens = load_file(os.path.join(output, name, "golden.safetensors"))["tokens"].long()[None, :tiny.LORA_TOKENS]
        with torch.no_grad():
            out["logits"] = model.eval()(input_ids=tokens).logits[0, -8:]
        file = f"lora-ga-{direction}-{scale}.safetensors"
        tiny.write(out, os.path.join(output, "swift", file), {"model": name})
        print(f"{file}: 20 steps {out['losses'][0]:.4f} to {out['losses'][-1]:.4f}")

    return make


CASES = {"lisa": lisa, **{f"lora-ga-{direction}-{scale}": lora_ga(direction, scale) for direction, scale in (
    ("ArB2r", "stable"), ("ArBr", "gd"), ("A2rBr", "weightS"), ("ArB2r", "unit"))}}


def main():
    output, swift, peer, *cases = sys.argv[1:]
    os.makedirs(os.path.join(output, "swift"), exist_ok=True)
    stub("swift", __path__=[swift])
    for case in cases or CASES:
        CASES[case](output, swift, peer)


if __name__ == "__main__":
    main()
