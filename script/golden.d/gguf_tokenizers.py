#!/usr/bin/env python3
"""Small GGUF vocabularies of each kind, and llama.cpp's ids for each pre-tokenizer that it knows, for tests/unit/text.

Usage: gguf_tokenizers.py DIR LLAMA_IDS LLAMA_VOCAB_CPP [BLOCKS]

LLAMA_IDS is llama_ids.cpp built against llama.cpp; LLAMA_VOCAB_CPP its src/llama-vocab.cpp, which is asked for the names.
Writes DIR/<vocabulary>.gguf.zst and DIR/llama.golden. In that file, `case VOCABULARY key=value ...` names a vocabulary and
what is changed in it (a pre-tokenizer's name, say); then follow `text HEX FLAGS IDS` lines (FLAGS: 1 for add_special, 2 for
parse_special) and `digest BLOCK HASH REFUSED` lines: the xxh3_64 of 1000 corpus strings' ids, for FLAGS 0, 1, 2, 3 in turn,
each as count and ids, but for the strings on which an assertion of llama.cpp fails. Broken bytes of the corpus are replaced by U+FFFD first, as llama.cpp does itself for some kinds only.
Kinds have all 20 blocks, pre-tokenizers BLOCKS (5: regular expressions take llama.cpp a minute for all), other names of one
that has several 1.
"""
import concurrent.futures
import io
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

here = sys.path.pop(0)  # a file here has the library's name
import gguf
import sentencepiece
import xxhash
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

sys.path.append(here)
import tokenizer_corpus

BLOCK, WHOLE = 1000, 20  # strings, blocks
NAMED = int(sys.argv[4]) if len(sys.argv) > 4 else 5
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
META = "\u2581"
# Texts in which one split differs from the next, or one rule of special tokens does.
TEXTS = ["I'll I'LL don't 1234567 ab12345cd, x+y=z!?  \n\n  tab\tend   ", "<|im_start|>user\n hi <|im_end|>\n<|endoftext|>  z</s> y",
         "newwordYesterday ADDED <|im_start <mask>  <unk>", "\u6f22\u5b57\u304b\u306a\u30ab\u30ca \ud55c\uad6d\uc5b4 \u00e9t\u00e9 E\u0301\u0323 \u0663\u0664\u0665\u0666 \u2460\uff11\uff12\uff13\uff14",
         "CamelCase HTTPServer x\u017f \u0130\u0131 \u3000\u00a0\u2028 \u300c\u3002\u300d \u2026\u2014 /a/b\r\n\r\n", "<s>IMGIMGABZ<sentinel:12>\n\n\n\nint x = 0x1F;//\r\n"]


def train_lines():
    for n in range(1, 3000):
        if n % 97:
            yield tokenizer_corpus.repaired(tokenizer_corpus.string(n)).decode()[:400]


def byte_pairs():
    """Merges that reach over every border that a split could set, so that each split shows in the ids."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    special = ["<unk>", "<s>", "</s>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<mask>", "[MASK]", "<|fim_prefix|>", "[UNK]", "<pad>"]
    trainer = trainers.BpeTrainer(vocab_size=3200, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tok.train_from_iterator(list(train_lines()) + TEXTS * 40, trainer)
    return to_lists(tok, special)


def character_pairs():
    """The same over characters, with bytes for the rest."""
    tok = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tok.normalizer = normalizers.Replace(" ", META)
    special = ["<unk>", "<s>", "</s>", "<eos>", "<bos>", "<|tool_response>", "<mask>", "<pad>", "<|im_start|>", "<|im_end|>", "<turn|>"]
    special += ["<0x%02X>" % b for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=2200, special_tokens=special, limit_alphabet=400, show_progress=False)
    lines = [text.replace("\0", "") for text in train_lines()]  # at a NUL, llama.cpp takes a token to end
    tok.train_from_iterator(lines + TEXTS * 40, trainer)
    return to_lists(tok, special)


def to_lists(tok, special):
    model = json.loads(tok.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    merges = [" ".join(m) if isinstance(m, list) else m for m in model["merges"]]
    types = [BYTE if re.fullmatch("<0x..>", t) else CONTROL if t in special else NORMAL for t in tokens]
    for text, kind in {"<unk>": UNKNOWN, "<|im_end|>": NORMAL, "<mask>": USER, "<|fim_prefix|>": NORMAL, "[UNK]": USER}.items():
        if text in tokens:
            types[tokens.index(text)] = kind
    for text, kind in {"ADDED": USER, "newword": USER, "wordYesterday": USER, "<|im_": USER, "<tool_call>": USER, "[EOT]": UNUSED}.items():
        if text in tokens:
            types[tokens.index(text)] = kind
        else:
            tokens.append(text)
            types.append(kind)
    return dict(tokens=tokens, merges=merges, types=types)


def word_pieces():
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer()
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tok.train_from_iterator(list(train_lines()) + TEXTS * 40, trainers.WordPieceTrainer(vocab_size=2500, special_tokens=special, limit_alphabet=700, show_progress=False))
    vocab = tok.get_vocab()
    words = sorted(vocab, key=vocab.get)
    tokens = [t if t in special else t[2:] if t.startswith("##") else META + t for t in words]
    keep = dict.fromkeys(tokens)
    return dict(tokens=list(keep), types=[UNKNOWN if t == "[UNK]" else CONTROL if t in special else NORMAL for t in keep])


def sentence_pieces(options):
    out = io.BytesIO()
    kept = lambda t: "".join(c for c in t if 9 <= ord(c) < 0x180 or 0x410 <= ord(c) < 0x450 or 0x3041 <= ord(c) < 0x3060)
    lines = [line for text in train_lines() for line in kept(text).splitlines()]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, vocab_size=900, hard_vocab_limit=False,
                                             character_coverage=0.98, num_threads=1, minloglevel=2, max_sentencepiece_length=12,
                                             user_defined_symbols=["ADDED", "<tool_call>", "newword", "wordYesterday"], **options)
    model = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
    size = model.get_piece_size()
    kind = lambda i: UNKNOWN if model.is_unknown(i) else CONTROL if model.is_control(i) else BYTE if model.is_byte(i) else (
        USER if model.id_to_piece(i) in ("ADDED", "<tool_call>", "newword", "wordYesterday") else NORMAL)
    return dict(tokens=[model.id_to_piece(i) for i in range(size)], scores=[model.get_score(i) for i in range(size)],
                types=[kind(i) for i in range(size)]), out.getvalue()


def charsmap_of(model):
    """normalizer_spec.precompiled_charsmap: field 2 of field 3, found by walking the protocol buffer."""
    def varint(data, at):
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value, at
    def fields(data):
        at = 0
        while at < len(data):
            tag, at = varint(data, at)
            if tag & 7 == 2:
                size, at = varint(data, at)
                yield tag >> 3, data[at:at + size]
                at += size
            else:
                at = varint(data, at)[1] if tag & 7 == 0 else at + (4 if tag & 7 == 5 else 8)
    return next(v for n, spec in fields(model) if n == 3 for m, v in fields(spec) if m == 2)


def vocabularies():
    bytes_, characters, words = byte_pairs(), character_pairs(), word_pieces()
    spm, _ = sentence_pieces(dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                                  control_symbols=["<|endoftext|>"]))  # which Phi-3's rules ask for
    uni, uni_model = sentence_pieces(dict(model_type="unigram", normalization_rule_name="nmt_nfkc", unk_id=2, eos_id=1, pad_id=0, bos_id=-1))
    at = lambda v, text: v["tokens"].index(text)
    return {
        "bytes": dict(bytes_, model="gpt2", ids=dict(bos=at(bytes_, "<s>"), eos=at(bytes_, "</s>"))),
        "characters": dict(characters, model="gpt2", ids=dict(bos=at(characters, "<bos>"), eos=at(characters, "<eos>"))),
        "words": dict(words, model="bert", ids=dict(bos=at(words, "[CLS]"), seperator=at(words, "[SEP]"), unknown=at(words, "[UNK]"))),
        "spm": dict(spm, model="llama", ids={}),
        "uni": dict(uni, model="t5", ids={}, charsmap=charsmap_of(uni_model)),
    }


def write(path, vocabulary, changes):
    v = dict(vocabulary)
    w = gguf.GGUFWriter(path, changes.get("architecture", "llama"))
    if "name" in changes:
        w.add_name(changes["name"])
    key = "tokenizer.ggml."
    w.add_string(key + "model", changes.get("model", v["model"]))
    if "pre" in changes:
        w.add_string(key + "pre", changes["pre"])
    w.add_array(key + "tokens", [t.encode() for t in v["tokens"]])
    w.add_array(key + "token_type", v["types"])
    if "scores" in v:
        w.add_array(key + "scores", [float(s) for s in v["scores"]])
    if "merges" in v and changes.get("merges") != "0":
        w.add_array(key + "merges", [m.encode() for m in v["merges"]])
    if "charsmap" in v and changes.get("charsmap") != "0":
        w.add_array(key + "precompiled_charsmap", v["charsmap"])
    if changes.get("ids") != "0":
        for name, number in v["ids"].items():
            w.add_uint32(key + name + "_token_id", number)
    for name, full in FLAGS.items():
        if name in changes:
            w.add_bool(key + full, changes[name] == "1")
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


FLAGS = {"add_bos": "add_bos_token", "add_eos": "add_eos_token", "add_space_prefix": "add_space_prefix",
         "remove_extra_whitespaces": "remove_extra_whitespaces", "lowercase": "normalizer.lowercase", "strip_accents": "normalizer.strip_accents"}


def names_of(source):
    """The names that llama.cpp compares tokenizer_pre with; those of one branch are alike."""
    start = source.index('} else if (tokenizer_pre == "default")') if '} else if (tokenizer_pre == "default")' in source else source.index('tokenizer_pre == "default"')
    end = source.index("unknown pre-tokenizer type", start)
    groups = []
    for branch in re.split(r"else if", source[start:end]):
        found = re.findall(r'tokenizer_pre == "([^"]+)"', branch)
        if found:
            groups.append(found)
    return groups


def cases(groups):
    """(vocabulary, changes, blocks of the corpus)"""
    characters = ("gemma4", "granite-embed-multi-311m", "sarvam-moe")
    out = [("bytes", {}, 1)]
    for group in groups:
        for i, name in enumerate(group):
            if name != "whitespace":  # of a kind of its own, below
                out.append(("characters" if name in characters else "bytes", {"pre": name}, NAMED if i == 0 else 1))
    out += [
        ("bytes", {"pre": "kimi-k2", "merges": "0"}, 1), ("bytes", {"pre": "llama-bpe", "ids": "0"}, 1),
        ("bytes", {"pre": "qwen2", "add_bos": "1", "add_eos": "1"}, 1), ("bytes", {"pre": "gpt-2", "name": "Modern-BERT base"}, 1),
        ("characters", {"pre": "whitespace", "model": "whitespace"}, WHOLE), ("characters", {"pre": "whitespace", "model": "whitespace", "lowercase": "1"}, 1),
        ("characters", {"model": "gemma4"}, WHOLE), ("characters", {"pre": "gpt-2"}, 1),
        ("spm", {}, WHOLE), ("spm", {"add_space_prefix": "0", "add_bos": "0", "add_eos": "1"}, WHOLE), ("spm", {"name": "Phi-3 mini"}, WHOLE),
        ("words", {}, WHOLE), ("words", {"lowercase": "0"}, WHOLE), ("words", {"strip_accents": "0", "add_bos": "0"}, WHOLE),
        ("uni", {}, WHOLE), ("uni", {"add_space_prefix": "1", "remove_extra_whitespaces": "1"}, WHOLE), ("uni", {"remove_extra_whitespaces": "1"}, WHOLE),
        ("uni", {"add_space_prefix": "1", "add_eos": "0", "charsmap": "0"}, WHOLE), ("uni", {"architecture": "nomic-bert-moe", "add_space_prefix": "1"}, 1),
    ]
    return out


def ids_of(tool, vocabulary, changes, corpus):
    with tempfile.TemporaryDirectory() as folder:
        model, answers = os.path.join(folder, "v.gguf"), os.path.join(folder, "ids")
        write(model, vocabulary, changes)
        subprocess.run([tool, corpus, model, answers], check=True)
        data = open(answers, "rb").read()
    at, out = 0, []
    while at < len(data):
        (count,) = struct.unpack_from("<I", data, at)
        if count == 0xFFFFFFFF:
            out.append(None)
            at += 4
            continue
        out.append(data[at:at + 4 + 4 * count])
        at += 4 + 4 * count
    return out


def main(folder, tool, source):
    os.makedirs(folder, exist_ok=True)
    groups = names_of(open(source, encoding="utf-8").read())
    vocabulary = vocabularies()
    for name, content in vocabulary.items():
        path = os.path.join(folder, name + ".gguf")
        write(path, content, {})
        subprocess.run(["zstd", "-q", "-19", "-f", "--rm", path], check=True)
    texts = [t.encode() for t in TEXTS] + [tokenizer_corpus.repaired(tokenizer_corpus.string(n)) for n in range(WHOLE * BLOCK)]
    with tempfile.TemporaryDirectory() as scratch:
        paths = {blocks: os.path.join(scratch, str(blocks)) for blocks in (1, NAMED, WHOLE)}
        for blocks, path in paths.items():
            with open(path, "wb") as corpus:
                for text in texts[:len(TEXTS) + blocks * BLOCK]:
                    corpus.write(struct.pack("<I", len(text)) + text)
        jobs = cases(groups)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            answers = list(pool.map(lambda job: ids_of(tool, vocabulary[job[0]], job[1], paths[job[2]]), jobs))
    lines, seen = [], {}
    for (name, changes, blocks), ids in zip(jobs, answers):
        title = " ".join([name] + ["%s=%s" % (k, v.replace(" ", "_")) for k, v in changes.items()])
        lines.append("case " + title)
        for i, text in enumerate(texts[:len(TEXTS)]):
            flags = 3 if i % 2 else 0
            if ids[4 * i + flags] is None:
                continue
            numbers = struct.unpack("<%dI" % (len(ids[4 * i + flags]) // 4), ids[4 * i + flags])[1:]
            lines.append("text %s %d %s" % (text.hex(), flags, ",".join(map(str, numbers)) or "-"))
        whole = []
        for block in range(blocks):
            first = 4 * (len(TEXTS) + block * BLOCK)
            refused = [n for n in range(BLOCK) if None in ids[first + 4 * n:first + 4 * n + 4]]
            kept = (ids[first + 4 * n + i] for n in range(BLOCK) if n not in refused for i in range(4))
            whole.append(xxhash.xxh3_64(b"".join(kept)).hexdigest())
            lines.append("digest %d %s %s" % (block, whole[-1], ",".join(map(str, refused)) or "-"))
        seen.setdefault((name, whole[0]), []).append(title)
    with open(os.path.join(folder, "llama.golden"), "w") as f:
        f.write("\n".join(lines) + "\n")
    for alike in seen.values():
        if len(alike) > 1:
            print("alike:", ", ".join(alike))
    print(len(jobs), "cases,", len(seen), "kinds of ids,", sum(map(len, groups)), "names")


if __name__ == "__main__":
    main(*sys.argv[1:4])
