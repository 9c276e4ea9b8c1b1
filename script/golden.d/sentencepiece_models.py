#!/usr/bin/env python3
"""Small sentencepiece models and their ids for tests/unit/text, made by the PyPI package `sentencepiece` (0.2).

Usage: sentencepiece_models.py DIR    writes DIR/<name>.model.zst and DIR/<name>.golden

A .golden file is text. `full N ids` lines hold string N of tokenizer_corpus.py, `digest BLOCK hash` lines the xxh3_64 of
1000 strings' ids, each as count and ids, little-endian 32 bit. Each byte that is no UTF-8 is replaced by U+FFFD first: the
library does so too, but spares these the character map, which it does not spare a U+FFFD of the text.
"""
import io
import os
import struct
import subprocess
import sys

import sentencepiece
import xxhash

import tokenizer_corpus

STRINGS, BLOCK, FULL = 20000, 1000, 12
SYMBOLS = ["ADDED", "<tool_call>", "newword", "\u2581\u2581", "\u00e9t\u00e9", "  "]

# Every choice that a model makes about text, spread over both kinds.
MODELS = {
    "bpe-bytes": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                      allow_whitespace_only_pieces=True, split_digits=True),
    "bpe-nmt": dict(model_type="bpe", normalization_rule_name="nmt_nfkc", user_defined_symbols=SYMBOLS),
    "bpe-no-prefix": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=False,
                          user_defined_symbols=SYMBOLS),
    "bpe-spaces": dict(model_type="bpe", normalization_rule_name="identity", add_dummy_prefix=False, remove_extra_whitespaces=False,
                       split_by_whitespace=False, user_defined_symbols=SYMBOLS),
    "uni-bytes": dict(model_type="unigram", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                      user_defined_symbols=SYMBOLS),
    "uni-nmt": dict(model_type="unigram", normalization_rule_name="nmt_nfkc"),
    "uni-cased": dict(model_type="unigram", normalization_rule_name="nmt_nfkc_cf", add_dummy_prefix=False, byte_fallback=True,
                      user_defined_symbols=SYMBOLS),
    "uni-spaces": dict(model_type="unigram", normalization_rule_name="identity", add_dummy_prefix=False, remove_extra_whitespaces=False,
                       split_by_whitespace=False),
    "uni-suffix": dict(model_type="unigram", normalization_rule_name="identity", treat_whitespace_as_suffix=True,
                       user_defined_symbols=SYMBOLS),
}


def train(options):
    lines = []
    for n in range(1, 4000):
        text = tokenizer_corpus.string(n)
        kept = "".join(c for c in text.decode("utf-8", "ignore") if 9 <= ord(c) < 0x180 or 0x410 <= ord(c) < 0x450 or 0x3041 <= ord(c) < 0x3060)
        lines += [line for line in kept.splitlines() if n % 97]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, vocab_size=900,
                                             hard_vocab_limit=False, character_coverage=0.98, num_threads=1, minloglevel=2,
                                             max_sentencepiece_length=12, pad_id=3, **options)
    return model.getvalue()


def golden(model):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    lines, digest = [], xxhash.xxh3_64()
    for n in range(STRINGS):
        ids = processor.encode(tokenizer_corpus.repaired(tokenizer_corpus.string(n)))
        digest.update(struct.pack("<%dI" % (len(ids) + 1), len(ids), *ids))
        if n < FULL:
            lines.append("full %d %s" % (n, ",".join(map(str, ids)) or "-"))
        if (n + 1) % BLOCK == 0:
            lines.append("digest %d %016x" % (n // BLOCK, digest.intdigest()))
            digest.reset()
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, options in MODELS.items():
        path = os.path.join(sys.argv[1], name)
        model = train(options)
        with open(path + ".model", "wb") as f:
            f.write(model)
        with open(path + ".golden", "w") as f:
            f.write(golden(model))
        subprocess.run(["zstd", "-q", "-19", "-f", "--rm", path + ".model"], check=True)
