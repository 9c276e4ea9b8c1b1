#!/usr/bin/env python3
"""Has llama.cpp's converter write encoders, models of embeddings and rerankers as GGUFs, and asks llama.cpp what it makes of them.

Usage: gguf_encoders.py TESTS_DATA_GOLDEN LLAMA.CPP LLAMA_POOLED      needs: safetensors torch transformers, LLAMA.CPP's own gguf

TESTS_DATA_GOLDEN/gguf/NAME.gguf is TESTS_DATA_GOLDEN/NAME (encoders.py, pooling.py, models.py) with all numbers as fp32. LLAMA_POOLED
is llama_pooled.cpp, built: its vectors and logits are compared with transformers', and how far they are apart is printed. Fails where
that is more than 5e-3 of the largest number: llama.cpp looks gelu up in a table of half precision.
qwen3-reranker is qwen3-tied as Qwen3-Reranker is published: "yes" and "no" are the tokens 45 and 110.
"""
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.pop(0)  # this folder's tokenizers.py is not the package
sys.path[:0] = [str(Path(sys.argv[2]) / "gguf-py"), sys.argv[2]]
import gguf  # noqa: E402
import numpy as np  # noqa: E402
from conversion import get_model_class  # noqa: E402
from conversion.base import ModelBase, ModelType, TextModel, get_model_architecture  # noqa: E402
from conversion.qwen import Qwen3Model  # noqa: E402
import sentencepiece  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402

YES, NO = 45, 110
sentencepiece.sentencepiece_model_pb2 = None  # of files that aren't here, in a package that need not be
# name: (the fixture that it is made of, pooling in sentence-transformers' words or none)
MODELS = {"xlm-roberta": ("xlm-roberta", "cls"), "modernbert": ("modernbert", "mean"), "qwen3-embedding": ("qwen3-embedding", "lasttoken"),
          "xlm-roberta-reranker": ("xlm-roberta-reranker", None), "modernbert-reranker": ("modernbert-reranker", None),
          "roberta-seq-cls": ("roberta-seq-cls", None), "bert-reranker": ("bert-reranker", None), "qwen3-reranker": ("qwen3-tied", None)}


def vocabulary_of(model):
    """Tokens without meaning, for models that have no tokenizer: only their number and roles matter."""
    config = model.hparams
    size = config["vocab_size"]
    model.vocab_size = size
    writer = model.gguf_writer
    writer.add_token_type_count(config.get("type_vocab_size", 1))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([f"<{i}>" for i in range(size)])
    writer.add_token_types([gguf.TokenType.NORMAL] * size)
    writer.add_token_merges(["< 1"])
    for role in ("bos", "eos", "pad"):
        if config.get(role + "_token_id") is not None:
            writer.add_token_id = getattr(writer, f"add_{role}_token_id")
            writer.add_token_id(config[role + "_token_id"])


def convert(source, pooling, name, out, scratch):
    folder = Path(scratch) / name
    shutil.copytree(source, folder)
    config = json.loads((folder / "config.json").read_text())
    if config["model_type"] == "modernbert":
        config["layer_norm_eps"] = config["norm_eps"]  # as published ones have it, too
    if config["architectures"][0].endswith("ForMaskedLM"):  # which models of embeddings are not
        config["architectures"] = [config["architectures"][0].replace("ForMaskedLM", "Model")]
        tensors = {n: t for n, t in load_file(folder / "model.safetensors").items() if not n.startswith(("lm_head.", "decoder.", "head."))}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if pooling:
        (folder / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]))
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": pooling}))
    hparams = ModelBase.load_hparams(folder, False)
    kind = get_model_class(get_model_architecture(hparams, ModelType.TEXT))
    if name == "qwen3-reranker":
        Qwen3Model._find_rerank_config = lambda self: vars(self).update(
            is_rerank=True, is_tied_embeddings=True, token_true_id=YES, token_false_id=NO)
    has_pieces = name == "xlm-roberta-reranker"
    if has_pieces:  # the class that the published one names
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "XLMRobertaTokenizerFast", "bos_token": "<s>",
                                                                  "eos_token": "</s>", "sep_token": "</s>", "pad_token": "<pad>"}))
        pieces = json.loads((folder / "tokenizer.json").read_text())
        normalizer = pieces["normalizer"]  # where published ones have it, beside where this one has it
        normalizer["precompiled_charsmap"] = normalizer["normalizers"][0]["precompiled_charsmap"]
        (folder / "tokenizer.json").write_text(json.dumps(pieces))
    made = kind(folder, gguf.LlamaFileType.ALL_F32, out, eager=True)
    if not has_pieces:
        target = getattr(made, "impl", made)
        target.set_vocab = lambda: vocabulary_of(target)
    made.write()
    os.chmod(out, 0o644)


def logits_of(source, name):
    """What transformers computes: tokens, lengths of texts, and one row for each."""
    if name == "qwen3-reranker":
        golden = load_file(source / "golden.safetensors")
        ids, logits = golden["tokens"], golden["logits"]
        lengths = np.array([len(ids)])
        pair = logits[-1:, [YES, NO]]
        odds = np.exp(pair - pair.max())
        return ids, lengths, odds / odds.sum()  # llama.cpp gives these, not their logits
    golden = load_file(source / "pooled.safetensors")
    pooling = MODELS[name][1]
    rows = golden["logits"] if pooling is None else golden["last" if pooling == "lasttoken" else pooling]
    return golden["tokens"], golden["lengths"], rows


def difference(source, name, model, llama, scratch):
    ids, lengths, want = logits_of(source, name)
    worst, begin = 0.0, 0
    for length, row in zip(lengths, want):
        text = ids[begin:begin + length].astype(np.int32)
        text.tofile(f"{scratch}/ids")
        begin += length
        if "roberta" in name and 1 in text:  # padding in a text's midst has a position of its own in transformers alone
            continue
        subprocess.run([llama, model, f"{scratch}/ids", f"{scratch}/row"], check=True)
        got = np.fromfile(f"{scratch}/row", np.float32)[:len(row)]
        worst = max(worst, float(np.abs(got - row).max()))
    return worst / float(np.abs(want).max())


def main():
    logging.disable(logging.WARNING)
    TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"  # known by a hash of what it does, which a tiny one hasn't
    data, llama = Path(sys.argv[1]), sys.argv[3]
    (data / "gguf").mkdir(exist_ok=True)
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        for name, (source, pooling) in MODELS.items():
            out = data / "gguf" / (name + ".gguf")
            convert(data / source, pooling, name, out, scratch)
            if name == "bert-reranker":
                print("bert-reranker: the converter leaves a layer out")
                continue
            worst = difference(data / source, name, str(out), llama, scratch)
            print(f"{name}: {worst:.1e} of the largest number")
            failed = failed or not worst < 5e-3
    return failed


sys.exit(main())
