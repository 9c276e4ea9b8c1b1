#!/usr/bin/env python3
"""Writes what transformers reads in the published config.json files of tests/data/configs.

Usage: configs.py DIRECTORY        (needs transformers and torch)

DIRECTORY holds published.jsonl, a line a model: its name, its licence, where its config.json was read, and that config. Each line
gets under "transformers"
  parameters  how many the language model has, beside its head
  tied        whether the head is the embeddings, where the model is not a part of one that also sees
  windowed    how many layers see a window, and "window", its size
  rotary      of each set of rotary frequencies how many there are, the first, the middle and the last, and the amplitude,
              which cosines and sines are multiplied by
Where transformers raises, that ends it.
"""
import json
import sys
from pathlib import Path

sys.path.pop(0)  # this folder's tokenizers.py is not the package
import torch  # noqa: E402
import transformers  # noqa: E402


def config_of(raw):
    kind = transformers.CONFIG_MAPPING[raw["model_type"]]
    return kind.from_dict({key: value for key, value in raw.items() if key not in ("auto_map", "quantization_config")})


def model_of(config, whole):
    auto = transformers.AutoModelForImageTextToText if whole else transformers.AutoModelForCausalLM
    with torch.device("meta"):
        return auto.from_config(config)


def parameters_of(model, whole):
    return sum(parameter.numel() for name, parameter in model.named_parameters()
               if "lm_head" not in name and (not whole or "language_model" in name))


def rotary_of(model, text):
    """Each set of frequencies, and its amplitude."""
    module = next(module for name, module in model.named_modules()
                  if name.endswith("rotary_emb") and "vision" not in name and "visual" not in name)
    made = type(module)(config=text)
    sets = []
    for name, values in sorted(made.named_buffers()):
        if not name.endswith("inv_freq") or "original" in name:
            continue
        scaling = getattr(made, name.replace("inv_freq", "attention_scaling"), None)
        values = values.double().tolist()
        sets.append({"of": name.removesuffix("inv_freq").rstrip("_"), "count": len(values),
                     "frequencies": [values[0], values[len(values) // 2], values[-1]], "amplitude": float(scaling)})
    return sets


def reading_of(raw):
    config = config_of(raw)
    text = config.get_text_config()
    whole = text is not config
    model = model_of(config, whole)
    types = getattr(text, "layer_types", None) or []
    window = getattr(text, "sliding_window", None) or 0
    windowed = types.count("sliding_attention") if types else text.num_hidden_layers if window else 0
    turns = getattr(text, "position_embedding_type", "rope") != "nope"
    tied = {} if whole else {"tied": config.tie_word_embeddings}
    return {"parameters": parameters_of(model, whole), **tied, "windowed": windowed, "window": window if windowed else 0,
            "rotary": rotary_of(model, text) if turns else []}


def main():
    path = Path(sys.argv[1]) / "published.jsonl"
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        row.pop("transformers", None)
        config = row.pop("config")
        row["transformers"] = reading_of(config)
        row["config"] = config
        lines.append(json.dumps(row, ensure_ascii=False, separators=(",", ":")))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


main()
