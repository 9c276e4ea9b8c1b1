#!/usr/bin/env python3
"""Golden encodings for tests/unit/text, made by Hugging Face's `tokenizers` (0.23).

Usage: tokenizers.py generate DIR         write the mixed tokenizers: every component of the format, trained on a small text
       tokenizers.py golden DIR FILE ...  for each tokenizer.json: DIR/<name>.golden

A .golden file is text. `full N ids offsets decoded` lines hold string N in full; `digest BLOCK hash` lines the xxh3_64 of
100 strings' encodings, each written as add_special_tokens 0 then 1: count, ids, offsets, decoded length, decoded, all
integers little-endian 32 bit. String N is tokenizer_corpus.string(N), decoded from UTF-8 with errors="replace".
"""
import json
import os
import struct
import sys

here = sys.path.pop(0)  # this file has the library's name
import xxhash
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

sys.path.append(here)
import tokenizer_corpus

STRINGS, BLOCK, FULL = 20000, 100, 12

TEXT = """the quick brown fox jumps over the lazy dog and the newer stronger faster ones were walking talking thinking
I'm sure they'll don't we've it's he'd 123 4567 89 12.5 caf\u00e9 na\u00efve r\u00e9sum\u00e9 \u00dcber stra\u00dfe
\u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440 \u043a\u0430\u043a \u0434\u0435\u043b\u0430 \u4f60\u597d \u4e16\u754c \u4eca\u65e5\u306f \u3053\u3093\u306b\u3061\u306f \uc548\ub155\ud558\uc138\uc694
def main(argv): return [x for x in range(10) if x % 2 == 0]; print("hello, world!") https://example.org/path?q=1
\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u05e9\u05dc\u05d5\u05dd \u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \U0001f600 \U0001f44d\U0001f3fd e\u0301 a\u030a \ufb01
""".split("\n") * 3

N, P, D = normalizers, pre_tokenizers, decoders
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
MANY = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = [Regex(r"[\r\n]"), Regex(r"\s?\p{L}+"), Regex(r"\s?\p{P}+"), Regex("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+")]
WORDS = Regex(r"\w+|[^\w\s]+")

CLS_SEP = dict(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1")
BOS = dict(single="<s> $A", pair="<s> $A <s>:1 $B:1")
LLAMA_DECODER = lambda: D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])


def charsmap():
    """A small precompiled map in sentencepiece's layout: a double array over a handful of replacements."""
    entries = {"\ufb01": "fi", "\u2460": "1", "\u00a0": " ", "e\u0301": "\u00e9", "\u200b": "", "\uff21": "A", "\t": " ", "\u33a0": "cm2",
               "\u30ab\u3099": "\u30ac", "\u0130": "i\u0307", "\r": ""}
    blob, values = b"", {}
    for key, value in entries.items():
        values[key.encode()] = len(blob)
        blob += value.encode() + b"\0"
    return double_array(values, blob)


def double_array(values, blob):
    trie = {}
    for key, value in values.items():
        node = trie
        for byte in key:
            node = node.setdefault(byte, {})
        node[None] = value
    units, used = [0] * 4096, [False] * 4096
    used[0] = True

    def place(node, at):  # children of the node at unit `at` go to base ^ byte; a leaf's value to base ^ 0
        labels = [0 if k is None else k for k in node]
        base = next(b for b in range(256 if at else 0, 4096 - 256) if all(not used[b ^ x] for x in labels) and (at ^ b) < (1 << 21)
                    and (b ^ 0) != 0)
        offset = at ^ base
        units[at] |= offset << 10
        if None in node:
            units[at] |= 1 << 8
        for k in node:
            used[base ^ (0 if k is None else k)] = True
        for k, child in node.items():
            if k is None:
                units[base] = child | (1 << 31)
            else:
                units[base ^ k] = k
                place(child, base ^ k)

    place(trie, 0)
    raw = struct.pack("<%dI" % len(units), *units)
    return struct.pack("<I", len(raw)) + raw + blob


def train(kind, normalizer=None, pre=None, size=300, special=(), **model):
    tok = Tokenizer({"bpe": models.BPE, "unigram": models.Unigram, "wordpiece": models.WordPiece, "wordlevel": models.WordLevel}[kind](**model))
    if normalizer:
        tok.normalizer = normalizer
    if pre:
        tok.pre_tokenizer = pre
    options = dict(vocab_size=size, special_tokens=list(special), show_progress=False)
    if kind == "bpe":
        if '"ByteLevel"' in tok.to_str():
            options["initial_alphabet"] = P.ByteLevel.alphabet()
            options["vocab_size"] = size + 200
        options.update({k: model[k] for k in ("continuing_subword_prefix", "end_of_word_suffix") if k in model})
        trainer = trainers.BpeTrainer(**options)
    elif kind == "unigram":
        trainer = trainers.UnigramTrainer(unk_token=special[0], **options)
    elif kind == "wordpiece":
        trainer = trainers.WordPieceTrainer(**options)
    else:
        trainer = trainers.WordLevelTrainer(**options)
    tok.train_from_iterator(TEXT, trainer)
    return tok


def edit(tok, change):
    data = json.loads(tok.to_str())
    change(data)
    return Tokenizer.from_str(json.dumps(data))


def with_bytes(data):
    vocab = data["model"]["vocab"]
    if isinstance(vocab, list):
        vocab += [["<0x%02X>" % b, -20.0] for b in range(256)]
    else:
        base = max(vocab.values()) + 1
        vocab.update({"<0x%02X>" % b: base + b for b in range(256)})
    data["model"]["byte_fallback"] = True


def set_model(**fields):
    return lambda data: data["model"].update(fields)


ADDED = [AddedToken("newword", normalized=True), AddedToken("<mask>", lstrip=True, special=True), AddedToken("<|extra|>", rstrip=True),
         AddedToken("Yesterday", single_word=True, normalized=True), AddedToken("\u00e9t\u00e9", normalized=True),
         AddedToken("ADDED", normalized=True, lstrip=True, rstrip=True), AddedToken("<tool_call>", normalized=False)]


def added(tok, tokens=ADDED):
    for token in tokens:
        (tok.add_special_tokens if token.special else tok.add_tokens)([token])
    return tok


def post(tok, template, names):
    tok.post_processor = processors.TemplateProcessing(special_tokens=[(n, tok.token_to_id(n)) for n in names], **template)
    return tok


def decoder(tok, d):
    tok.decoder = d
    return tok


def byte_level(pre, **kw):
    return decoder(train("bpe", pre=pre, **kw), D.ByteLevel())


def split(pattern, behavior="isolated", invert=False):
    return P.Split(Regex(pattern) if isinstance(pattern, str) else pattern, behavior, invert)


def generated():
    bl = lambda **kw: P.ByteLevel(**{"add_prefix_space": False, **kw})
    plain = lambda **kw: bl(use_regex=False, **kw)
    specials = ["<unk>", "<s>", "</s>", "<pad>"]
    bert = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    out = {}
    # Byte-level BPE under each split expression.
    out["bl-gpt2"] = byte_level(bl())
    out["bl-prefix"] = byte_level(bl(add_prefix_space=True))
    out["bl-llama3"] = byte_level(P.Sequence([split(LLAMA3), plain()]))
    out["bl-cl100k"] = byte_level(P.Sequence([split(CL100K), plain()]))
    out["bl-many-digits"] = byte_level(P.Sequence([split(MANY), plain()]))
    out["bl-o200k"] = byte_level(P.Sequence([split(O200K), plain()]))
    out["bl-smollm"] = byte_level(P.Sequence([P.Digits(individual_digits=True), bl()]))
    out["bl-deepseek"] = byte_level(P.Sequence([split(r) for r in DEEPSEEK] + [P.Digits(individual_digits=True), plain()]))
    out["bl-no-regex"] = byte_level(plain())
    out["bl-ignore-merges"] = edit(byte_level(P.Sequence([split(LLAMA3), plain()])), set_model(ignore_merges=True))
    out["bl-nfc"] = byte_level(bl(), normalizer=N.NFC())
    out["bl-nfkc-lower"] = byte_level(bl(), normalizer=N.Sequence([N.NFKC(), N.Lowercase()]))
    out["bl-removed"] = byte_level(P.Sequence([split(LLAMA3, "removed", True), plain()]))
    out["bl-merged-next"] = byte_level(P.Sequence([split(r"\p{N}", "merged_with_next"), bl()]))
    out["bl-merged-previous"] = byte_level(P.Sequence([split(r"\s", "merged_with_previous"), plain()]))
    out["bl-contiguous"] = byte_level(P.Sequence([split(r"[\p{P}\p{S}]", "contiguous"), plain()]))
    out["bl-twice"] = byte_level(P.Sequence([bl(), P.Punctuation()]))
    out["bl-whitespace"] = byte_level(P.Sequence([P.WhitespaceSplit(), bl(add_prefix_space=True)]))
    out["bl-added"] = added(byte_level(bl()))
    out["bl-added-nfkc"] = added(byte_level(bl(), normalizer=N.Sequence([N.NFKC(), N.Lowercase()])))
    out["bl-norm"] = decoder(train("bpe", normalizer=N.ByteLevel(), pre=P.Split(Regex("\u0120"), "merged_with_next")), D.ByteLevel())
    roberta = added(byte_level(bl(add_prefix_space=True), special=["<s>", "</s>"]))
    roberta.post_processor = processors.RobertaProcessing(("</s>", roberta.token_to_id("</s>")), ("<s>", roberta.token_to_id("<s>")))
    out["bl-roberta"] = roberta
    trim = byte_level(bl(), special=["<s>"])
    template = processors.TemplateProcessing(special_tokens=[("<s>", 0)], **BOS)
    trim.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), template])
    out["bl-trim-bos"] = trim
    # BPE over characters.
    llama_norm = N.Sequence([N.Prepend("\u2581"), N.Replace(" ", "\u2581")])
    out["llama"] = post(decoder(edit(train("bpe", normalizer=llama_norm, special=specials, unk_token="<unk>", fuse_unk=True), with_bytes),
                                LLAMA_DECODER()), BOS, ["<s>"])
    out["llama-meta-first"] = decoder(edit(train("bpe", pre=P.Metaspace(prepend_scheme="first", split=False), special=specials,
                                                 unk_token="<unk>", fuse_unk=True), with_bytes), LLAMA_DECODER())
    out["llama-unk"] = decoder(train("bpe", normalizer=llama_norm, special=specials, unk_token="<unk>"), LLAMA_DECODER())
    out["llama-fuse-unk"] = decoder(train("bpe", normalizer=llama_norm, special=specials, unk_token="<unk>", fuse_unk=True), LLAMA_DECODER())
    out["gemma"] = decoder(edit(train("bpe", normalizer=N.Replace(" ", "\u2581"), pre=P.Split(" ", "merged_with_previous"), special=specials,
                                      unk_token="<unk>", fuse_unk=True), with_bytes), D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse()]))
    out["bpe-no-unk"] = train("bpe", pre=P.Whitespace())
    out["bpe-suffix"] = decoder(train("bpe", pre=P.BertPreTokenizer(), special=["<unk>"], unk_token="<unk>", end_of_word_suffix="</w>"), D.BPEDecoder())
    out["bpe-suffix-clip"] = decoder(train("bpe", normalizer=N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()]),
                                           pre=P.Sequence([P.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", True)]),
                                           special=["<unk>"], unk_token="<unk>", end_of_word_suffix="</w>"), D.BPEDecoder("</w>"))
    out["bpe-prefix"] = decoder(train("bpe", pre=P.Whitespace(), special=["[UNK]"], unk_token="[UNK]", continuing_subword_prefix="##"),
                                D.WordPiece())
    out["bpe-prefix-bytes"] = edit(train("bpe", pre=P.Whitespace(), special=["[UNK]"], unk_token="[UNK]", continuing_subword_prefix="##"), with_bytes)
    out["bpe-metaspace"] = decoder(train("bpe", pre=P.Metaspace(), special=["<unk>"], unk_token="<unk>"), D.Metaspace())
    out["bpe-scripts"] = train("bpe", pre=P.Sequence([P.UnicodeScripts(), P.Digits(individual_digits=False)]), special=["<unk>"], unk_token="<unk>")
    out["bpe-fixed"] = train("bpe", pre=P.FixedLength(length=4), special=["<unk>"], unk_token="<unk>")
    out["bpe-delimiter"] = train("bpe", pre=P.CharDelimiterSplit("e"), special=["<unk>"], unk_token="<unk>")
    out["bpe-added-meta"] = added(decoder(train("bpe", pre=P.Metaspace(prepend_scheme="first"), special=specials, unk_token="<unk>"),
                                          D.Metaspace(prepend_scheme="first")))
    # Unigram.
    uni = dict(special=["<unk>", "<s>", "</s>"])
    out["t5"] = post(decoder(train("unigram", normalizer=N.Precompiled(charsmap()), pre=P.Sequence([P.WhitespaceSplit(), P.Metaspace()]), **uni),
                             D.Metaspace()), dict(single="$A </s>", pair="$A </s> $B </s>"), ["</s>"])
    out["xlmr"] = added(post(decoder(train("unigram", normalizer=N.Sequence([N.Precompiled(charsmap()), N.Replace(Regex(" {2,}"), " ")]), pre=P.Metaspace(), **uni),
                                     D.Metaspace()), dict(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>"), ["<s>", "</s>"]))
    out["uni-bytes"] = decoder(edit(train("unigram", normalizer=N.Replace(" ", "\u2581"), **uni), with_bytes), LLAMA_DECODER())
    out["uni-albert"] = decoder(train("unigram", normalizer=N.Sequence([N.Replace("``", '"'), N.Replace("''", '"'), N.NFKD(), N.StripAccents(), N.Lowercase(),
                                      N.Replace(Regex(" {2,}"), " ")]), pre=P.Metaspace(), **uni), D.Metaspace())
    out["uni-nmt"] = train("unigram", normalizer=N.Sequence([N.Nmt(), N.NFKC()]), pre=P.Metaspace(prepend_scheme="never"), **uni)
    out["uni-strip"] = train("unigram", normalizer=N.Sequence([N.Strip(), N.Replace(Regex(r"\s+"), " ")]), pre=P.Metaspace(split=False), **uni)
    out["uni-plain"] = train("unigram", **uni)
    out["uni-added"] = added(train("unigram", normalizer=N.Lowercase(), pre=P.Metaspace(prepend_scheme="first"), **uni))
    # WordPiece.
    wp = dict(special=bert, unk_token="[UNK]")
    bertish = lambda tok: post(decoder(tok, D.WordPiece()), CLS_SEP, ["[CLS]", "[SEP]"])
    out["bert-uncased"] = bertish(train("wordpiece", normalizer=N.BertNormalizer(), pre=P.BertPreTokenizer(), **wp))
    out["bert-cased"] = bertish(train("wordpiece", normalizer=N.BertNormalizer(lowercase=False), pre=P.BertPreTokenizer(), **wp))
    out["bert-accents"] = bertish(train("wordpiece", normalizer=N.BertNormalizer(strip_accents=False), pre=P.BertPreTokenizer(), **wp))
    out["bert-no-clean"] = bertish(train("wordpiece", normalizer=N.BertNormalizer(clean_text=False, handle_chinese_chars=False), pre=P.BertPreTokenizer(), **wp))
    processing = train("wordpiece", normalizer=N.BertNormalizer(), pre=P.BertPreTokenizer(), **wp)
    processing.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    out["bert-processing"] = added(decoder(processing, D.WordPiece(cleanup=False)))
    out["wp-whitespace"] = decoder(train("wordpiece", pre=P.Whitespace(), **wp), D.WordPiece())
    out["wp-short"] = edit(train("wordpiece", pre=P.WhitespaceSplit(), **wp), set_model(max_input_chars_per_word=5))
    out["wp-punctuation"] = train("wordpiece", normalizer=N.NFD(), pre=P.Sequence([P.WhitespaceSplit(), P.Punctuation("merged_with_previous")]), **wp)
    out["wp-contiguous"] = train("wordpiece", normalizer=N.NFKD(), pre=P.Sequence([P.WhitespaceSplit(), P.Punctuation("contiguous")]), **wp)
    # WordLevel, and the rest of the decoders and normalizers.
    wl = dict(special=["[UNK]"], unk_token="[UNK]", size=120)
    out["wl-whitespace"] = train("wordlevel", pre=P.Whitespace(), **wl)
    out["wl-digits"] = train("wordlevel", pre=P.Sequence([P.Whitespace(), P.Digits(individual_digits=True)]), **wl)
    out["wl-lower-strip"] = added(train("wordlevel", normalizer=N.Sequence([N.Strip(right=False), N.Lowercase(), N.NFC()]), pre=P.WhitespaceSplit(), **wl))
    out["wl-ctc"] = decoder(train("wordlevel", pre=P.Split("", "isolated"), special=["<unk>", "<pad>", "|"], unk_token="<unk>", size=80),
                            D.CTC(pad_token="<pad>", word_delimiter_token="|"))
    out["wl-bytes"] = train("wordlevel", pre=P.ByteLevel(add_prefix_space=True), **wl)
    out["wl-strip-decoder"] = decoder(train("wordlevel", pre=P.Whitespace(), **wl), D.Sequence([D.Replace(Regex("[aeiou]"), "_"), D.Strip("_", 1, 1), D.Fuse()]))
    out["norm-replace-empty"] = train("bpe", normalizer=N.Sequence([N.Replace(Regex(r"(?<=\p{L})(?=\p{N})"), "-"), N.Lowercase()]), pre=P.Whitespace(), special=["<unk>"], unk_token="<unk>")
    out["norm-filter"] = train("bpe", normalizer=N.Sequence([N.StripAccents(), N.Replace(Regex(r"\p{P}"), ""), N.Prepend("> ")]), pre=P.Whitespace(),
                               special=["<unk>"], unk_token="<unk>")
    out["regex-words"] = train("bpe", pre=P.Split(WORDS, "isolated"), special=["<unk>"], unk_token="<unk>")
    out["regex-bounds"] = train("bpe", pre=P.Split(Regex(r"\b"), "isolated"), special=["<unk>"], unk_token="<unk>")
    out["regex-lines"] = train("bpe", pre=P.Split(Regex(r"^\s*|\h{2,}$"), "merged_with_next"), special=["<unk>"], unk_token="<unk>")
    return out


def encode_record(tok, text, special):
    e = tok.encode(text, add_special_tokens=special)
    decoded = tok.decode(e.ids, skip_special_tokens=special).encode()
    flat = [x for pair in e.offsets for x in pair]
    return e, struct.pack("<%dI" % (2 + 3 * len(e.ids)), len(e.ids), *e.ids, *flat, len(decoded)) + decoded


def golden(path, out):
    tok = Tokenizer.from_file(path)
    tok.no_truncation()
    tok.no_padding()
    lines, digest = [], xxhash.xxh3_64()
    for n in range(STRINGS):
        text = tokenizer_corpus.string(n).decode("utf-8", "replace")
        for special in (False, True):
            try:
                e, record = encode_record(tok, text, special)
            except BaseException as error:  # Rust panics included: some inputs have no answer
                digest.update(b"error")
                continue
            digest.update(record)
            if n < FULL and special:
                lines.append("full %d %s %s %s" % (n, ",".join(map(str, e.ids)) or "-", ",".join("%d-%d" % o for o in e.offsets) or "-",
                                                   tok.decode(e.ids).encode().hex() or "-"))
        if (n + 1) % BLOCK == 0:
            lines.append("digest %d %016x" % (n // BLOCK, digest.intdigest()))
            digest.reset()
    open(out, "w").write("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "generate":
        for name, tok in generated().items():
            with open(os.path.join(sys.argv[2], name + ".json"), "w") as f:
                json.dump(json.loads(tok.to_str()), f, ensure_ascii=False, separators=(",", ":"))
    else:
        for path in sys.argv[3:]:
            name = os.path.basename(path).removesuffix(".json")
            golden(path, os.path.join(sys.argv[2], name + ".golden"))
