#!/usr/bin/env python3
"""Writes the metadata that llama.cpp's conversion makes of the published config.json files of tests/data/configs.

Usage: gguf_configs.py DIRECTORY LLAMA.CPP        (needs torch, transformers and LLAMA.CPP's own gguf)

DIRECTORY holds published.jsonl (configs.py) and gets gguf.jsonl: a line for the first model of each set of keys, with its name,
its metadata (floats as such, to tell them from integers) and the divisors of its rotary frequencies, where it has such tensors.
"""
import json
import logging
import struct
import sys
import tempfile
from pathlib import Path

sys.path.pop(0)  # this folder's tokenizers.py is not the package
sys.path[:0] = [str(Path(sys.argv[2]) / "gguf-py"), sys.argv[2]]
import gguf  # noqa: E402
from conversion import get_model_class  # noqa: E402
from conversion.base import ModelBase, ModelType, get_model_architecture  # noqa: E402

# Of which tern reads no GGUF.
NOT_READ = {"deepseek2"}


def plain(value):
    if value.type == gguf.GGUFValueType.ARRAY:
        return list(value.value)
    return float(value.value) if value.type == gguf.GGUFValueType.FLOAT32 else value.value


def conversion_of(config):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")
        architecture = get_model_architecture(ModelBase.load_hparams(folder, False), ModelType.TEXT)
        model = get_model_class(architecture)(folder, gguf.LlamaFileType.MOSTLY_F16, folder / "none.gguf")
        model.set_gguf_parameters()
        model = getattr(model, "impl", model)
        tensors = {name: [float(each) for each in values] for name, values in model.generate_extra_tensors()}
        metadata = {key: plain(value) for key, value in model.gguf_writer.kv_data[0].items()}
        metadata["general.architecture"] = gguf.MODEL_ARCH_NAMES[model.model_arch]
        return {key: value for key, value in metadata.items() if key != "general.file_type"}, tensors


def main():
    logging.disable(logging.CRITICAL)
    folder = Path(sys.argv[1])
    seen, lines = set(), []
    for line in (folder / "published.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        try:
            metadata, tensors = conversion_of(row["config"])
        except AssertionError:  # Qwen3-Next's needs the tensors
            continue
        keys = (*sorted(metadata), *sorted(tensors))
        if keys in seen or metadata["general.architecture"] in NOT_READ:
            continue
        seen.add(keys)
        lines.append(json.dumps({"model": row["model"], "metadata": metadata, "tensors": tensors}, separators=(",", ":")))
    (folder / "gguf.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


main()
