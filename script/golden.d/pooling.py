#!/usr/bin/env python3
"""Makes the models of tests/data/golden that are asked of whole texts, and what transformers computes with them.

Usage: pooling.py OUTPUT      needs: torch transformers safetensors

OUTPUT/<model>/ holds config.json, model.safetensors and pooled.safetensors:
  tokens, lengths [texts]: texts end to end, of very different lengths
  of qwen3-embedding, a model without a head: cls, last, mean [texts, hidden], as sentence-transformers pools what
    transformers gives
  of qwen3-seq-cls, a classification: logits [texts, labels]; one text ends with the token of padding
Texts go through the model together, padded on the right.
"""
import os
import sys
from importlib.metadata import version

sys.path.pop(0)  # beside this file lies a tokenizers.py
import torch
from safetensors.torch import save_file
from transformers import Qwen3Config, Qwen3ForSequenceClassification, Qwen3Model

VOCAB, PAD, LENGTHS = 160, 0, (23, 1, 64, 9, 40)
CONFIG = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, head_dim=16, max_position_embeddings=512, rms_norm_eps=1e-5, bos_token_id=1,
              eos_token_id=2, pad_token_id=PAD, initializer_range=0.125, tie_word_embeddings=True,
              attn_implementation="eager")
LABELS = ["negative", "neutral", "positive"]


def random_norms(model):
    with torch.no_grad():  # transformers starts norms at one, which would hide mistakes
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model.float().eval()


def padded(texts):
    ids = torch.full((len(texts), max(LENGTHS)), PAD)
    mask = torch.zeros_like(ids)
    for row, text in enumerate(texts):
        ids[row, :len(text)] = text
        mask[row, :len(text)] = 1
    return ids, mask


def write(folder, model, texts, found):
    model.save_pretrained(folder)
    os.chmod(os.path.join(folder, "model.safetensors"), 0o644)
    out = {"tokens": torch.cat(texts).int(), "lengths": torch.tensor(LENGTHS, dtype=torch.int32), **found}
    path = os.path.join(folder, "pooled.safetensors")
    save_file({name: tensor.contiguous() for name, tensor in out.items()}, path, metadata={
        "made_by": "script/golden.d/pooling.py", **{name: version(name) for name in ("torch", "transformers", "safetensors")}})
    os.chmod(path, 0o644)
    print(os.path.basename(folder), {name: tuple(tensor.shape) for name, tensor in found.items()})


def make_embedding(folder):
    torch.manual_seed(1)
    model = random_norms(Qwen3Model(Qwen3Config(**CONFIG)))
    texts = [torch.randint(3, VOCAB, (length,)) for length in LENGTHS]
    ids, mask = padded(texts)
    with torch.no_grad():
        hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
    wide = mask[..., None].float()
    found = {"cls": hidden[:, 0], "last": hidden[torch.arange(len(texts)), mask.sum(1) - 1],
             "mean": (hidden * wide).sum(1) / wide.sum(1)}
    write(folder, model, texts, found)


def make_classification(folder):
    torch.manual_seed(2)
    config = Qwen3Config(**CONFIG, id2label=dict(enumerate(LABELS)), label2id={name: i for i, name in enumerate(LABELS)})
    model = random_norms(Qwen3ForSequenceClassification(config))
    texts = [torch.randint(3, VOCAB, (length,)) for length in LENGTHS]
    texts[3][-2:] = PAD
    ids, mask = padded(texts)
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=mask).logits
    write(folder, model, texts, {"logits": logits})


if __name__ == "__main__":
    make_embedding(os.path.join(sys.argv[1], "qwen3-embedding"))
    make_classification(os.path.join(sys.argv[1], "qwen3-seq-cls"))
