#!/usr/bin/env python3
"""The peers of `script/bench text`.

text_peer.py train KIND CORPUS OUT           a tokenizer.json of a KIND that is not shipped at a real size (wordpiece, unigram)
text_peer.py tokenize TOKENIZER DOCUMENTS N  N rounds of Hugging Face's tokenizers on one thread: JSON lines as bench/tokenize.cpp
text_peer.py encode MODEL ROWS PROCESSES     datasets + apply_chat_template: JSON with samples a second and tokens
"""
import json
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"


def documents(path):
    return open(path, "rb").read().decode().split("\0")


def train(kind, corpus, out):
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    if kind == "wordpiece":
        tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tok.normalizer, tok.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        tok.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(vocab_size=8000, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False)
    else:
        tok = Tokenizer(models.Unigram())
        tok.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
        tok.pre_tokenizer, tok.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=8000, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False)
    # Unigram wants every character that it meets in its vocabulary: the rarer ones are left to the unknown token.
    tok.train_from_iterator(("".join(c for c in text if ord(c) < 0x250) for text in documents(corpus)), trainer)
    tok.save(out)


def tokenize(tokenizer, path, rounds):
    import xxhash
    from array import array
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(tokenizer)
    tok.no_truncation()
    tok.no_padding()
    texts = documents(path)
    size = sum(len(text.encode()) for text in texts) / 2**20
    for _ in range(rounds):
        start = time.process_time()  # of one thread, as RAYON_NUM_THREADS says
        encoded = tok.encode_batch_fast(texts)
        seconds = time.process_time() - start
        digest = xxhash.xxh3_64()
        for one in encoded:
            digest.update(array("i", one.ids).tobytes())
        print(json.dumps({"mib_per_second": size / seconds, "digest": "%016x" % digest.intdigest()}), flush=True)


def encode(model, rows, processes):
    import tempfile
    import datasets
    from transformers import AutoTokenizer
    datasets.disable_progress_bars()
    tok = AutoTokenizer.from_pretrained(model)
    with tempfile.TemporaryDirectory() as cache:
        start = time.perf_counter()
        data = datasets.load_dataset("json", data_files=rows, split="train", cache_dir=cache)
        data = data.map(lambda row: {"input_ids": tok.apply_chat_template(row["messages"], tokenize=True, return_dict=False)},
                        remove_columns=data.column_names, num_proc=processes if processes > 1 else None)
        seconds = time.perf_counter() - start
        tokens = sum(map(len, data["input_ids"]))
    print(json.dumps({"samples_per_second": len(data) / seconds, "seconds": seconds, "tokens": tokens}))


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(*sys.argv[2:5])
    elif sys.argv[1] == "tokenize":
        tokenize(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        encode(sys.argv[2], sys.argv[3], int(sys.argv[4]))
