#!/usr/bin/env python3
"""Makes tests/data/golden/peft: adapters of every kind that PEFT has of linear layers, over tiny models of models.py.

Usage: peft_variants.py OUTPUT [NAME...]      needs: torch transformers peft safetensors

OUTPUT/<model>/ was made by models.py. OUTPUT/peft/<name>/ holds adapter/, as PEFT wrote it before any training (its halves
and magnitudes random), and golden.safetensors:
  logits [24, vocab]: of the model's first tokens, with the adapter; merged [24, vocab]: after PEFT merged it
  losses, grad_norms [20]: 20 steps of AdamW on the model's training samples, norms before clipping; parameters are decayed
    where transformers' Trainer decays them
  trained/<PEFT's name>: the adapter as PEFT would save it after these
  initial/<PEFT's name>: what pairs began as that are made of the weights, before they were changed at random
The model's name and the versions stand in the metadata.
"""
import os
import shutil
import sys

sys.path.append(sys.path.pop(0))  # beside this file lies a tokenizers.py
import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from safetensors.torch import load_file
from transformers import get_cosine_schedule_with_warmup
from transformers.trainer_pt_utils import get_parameter_names

from models import BETAS, CLIP, DECAY, EPS, PEAK, PER_STEP, SAMPLES, STEPS, load, settle_adapter, step_loss, targets, write

LOGITS = 24
# As transformers' Trainer.get_decay_parameter_names has it.
UNDECAYED = [r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)"]

VARIANTS = {
    "dora": ("llama-tied", dict(use_dora=True)),
    # Biases beside the magnitudes.
    "dora-biased": ("llama-untied", dict(use_dora=True, use_rslora=True)),
    # Rows that the model has in another order than the file.
    "dora-rows": ("qwen3-next-untied", dict(use_dora=True)),
    # Patterns in the order of the alphabet, in which PEFT writes them: of several that match, the first counts.
    "patterns": ("llama-tied", dict(
        use_rslora=True, rank_pattern={"q_proj": 3, "layers.1.mlp.down_proj": 1, "^model.layers.0.self_attn.v_proj": 5},
        alpha_pattern={"k_proj": 16, "layers.0.mlp.up_proj": 1, "mlp..*_proj": 5})),
    "layers": ("qwen3-tied", dict(target_modules=["q_proj", "mlp.down_proj", "v_proj"], layers_to_transform=[1],
                                  layers_pattern="layers", exclude_modules=["model.layers.1.self_attn.v_proj"])),
    "regex": ("qwen3-tied", dict(target_modules=r"model\.layers\.\d+\.(mlp|self_attn)\.(up|o)_proj",
                                 exclude_modules=r".*\.0\.mlp.*")),
    # Of base weights without what the pairs began as, which PEFT finds anew where it loads them.
    "pissa": ("llama-tied", dict(init_lora_weights="pissa")),
    "olora": ("llama-untied", dict(init_lora_weights="olora", use_rslora=True)),
    "pissa-dora": ("qwen3-next-untied", dict(init_lora_weights="pissa", use_dora=True)),
}


def samples_of(golden):
    lengths = golden["lengths"].tolist()
    return list(zip(golden["ids"].long().split(lengths), golden["supervised"].bool().split(lengths)))


def train(model, samples):
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    decayed = set(get_parameter_names(model, [torch.nn.LayerNorm], UNDECAYED))
    groups = [{"params": [p for name, p in named.items() if name in decayed], "weight_decay": DECAY},
              {"params": [p for name, p in named.items() if name not in decayed], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW([g for g in groups if g["params"]], lr=PEAK, betas=BETAS, eps=EPS)
    schedule = get_cosine_schedule_with_warmup(optimizer, 0, STEPS)
    losses, norms = [], []
    for step in range(STEPS):
        begin = step * PER_STEP % SAMPLES
        loss = step_loss(model, samples[begin:begin + PER_STEP])
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(list(named.values()), CLIP).item())
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return torch.tensor(losses), torch.tensor(norms)


def make(output, name):
    base, changes = VARIANTS[name]
    folder = os.path.join(output, "peft", name)
    shutil.rmtree(folder, ignore_errors=True)
    golden = load_file(os.path.join(output, base, "golden.safetensors"))
    model = load(os.path.join(output, base))
    torch.manual_seed(sum(map(ord, name)))
    options = dict(r=2, lora_alpha=6, lora_dropout=0.0, target_modules=targets(model), init_lora_weights=False,
                   task_type="CAUSAL_LM")
    peft = get_peft_model(model, LoraConfig(**{**options, **changes})).float()
    out = {}
    if changes.get("init_lora_weights"):
        out = {f"initial/{kind}": tensor.clone() for kind, tensor in
               get_peft_model_state_dict(peft, save_embedding_layers=False).items() if ".lora_" in kind and kind.endswith("weight")}
    with torch.no_grad():
        for kind, parameter in peft.named_parameters():
            if "lora_magnitude_vector" in kind:
                parameter.mul_(1 + 0.2 * torch.randn_like(parameter))
            elif "lora_" in kind and changes.get("init_lora_weights"):
                parameter.add_(torch.randn(parameter.shape) * 0.1)
            elif "lora_" in kind:
                parameter.copy_(torch.randn(parameter.shape) * 0.1)
    peft.save_pretrained(os.path.join(folder, "adapter"))
    settle_adapter(os.path.join(folder, "adapter"))
    tokens = golden["tokens"].long()[None, :LOGITS]
    with torch.no_grad():
        peft.eval()
        out["logits"] = peft(input_ids=tokens).logits[0]
        peft.merge_adapter()
        out["merged"] = peft(input_ids=tokens).logits[0]
        peft.unmerge_adapter()
    peft.train()
    out["losses"], out["grad_norms"] = train(peft, samples_of(golden))
    trained = get_peft_model_state_dict(peft, save_embedding_layers=False)
    out.update({f"trained/{kind}": tensor for kind, tensor in trained.items()})
    write(out, os.path.join(folder, "golden.safetensors"), {"made_by": "script/golden.d/peft_variants.py", "model": base})
    print(f"{name}: {len(trained)} tensors, merged is off by {(out['merged'] - out['logits']).abs().max():.1e}, 20 steps "
          f"{out['losses'][0]:.4f} to {out['losses'][-1]:.4f}")


def main():
    output, *names = sys.argv[1:]
    for name in names or VARIANTS:
        make(output, name)


if __name__ == "__main__":
    main()
