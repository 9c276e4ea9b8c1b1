#!/usr/bin/env python3
"""Tokenising and data encoding against Hugging Face's: text.py TOKENIZE ENCODE_ROWS RESULTS (called by script/bench).

The first two are the programs of bench/tokenize.cpp and bench/encode_rows.cpp. ROUNDS (5) and THREADS (2) come from the environment; runs
alternate and medians count. With TERN_BENCH_WRITE=1 the tables replace those in docs/benchmarks.md.
"""
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = int(os.environ.get("ROUNDS", "5"))
THREADS = int(os.environ.get("THREADS", "2"))
ROOT = Path(__file__).resolve().parents[2]
SCRATCH = Path(os.environ["TERN_BENCH_DIR"]) / "text"
PYTHON = os.environ.get("TERN_BENCH_TEXT_PYTHON", SCRATCH.parent / "venv-text/bin/python")
PEER = ROOT / "script/bench.d/text_peer.py"
SHIPPED = ["llama2", "qwen3", "gpt2"]
TRAINED = ["wordpiece", "unigram"]
KINDS = ["letter", "word", "spaces", "newlines", "digits", "han", "emoji", "marks"]
SIZES = [10**n for n in range(4, 8)]
ROWS = 20000


def run(log, command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=ROOT, **more)
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"load {os.getloadavg()[0]:.2f}: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}\n")
    if done.returncode != 0:
        raise SystemExit(f"bench: {command[0]} failed with status {done.returncode}: see {log}")
    return done.stdout


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def texts():
    """English, source code and all scripts, each some megabytes in documents of a few kilobytes, from what the repository has."""
    sys.path.append(str(ROOT / "script/golden.d"))
    import tokenizer_corpus
    rows = [json.loads(line) for line in open(ROOT / "examples/gsm8k/train.jsonl", encoding="utf-8")]
    english = ["\n".join(row.values()) for row in rows]
    english += [part for path in sorted(ROOT.glob("docs/**/*.md")) for part in path.read_text().split("\n\n")]
    code = [path.read_text() for folder in ("tokenizer", "jinja", "chat", "io", "checkpoint", "hub", "data", "base", "cli", "graph") for path in sorted((ROOT / folder).rglob("*.[ch]*"))]
    scripts = [tokenizer_corpus.string(n).decode("utf-8", "replace").replace("\0", "") for n in range(1, 20000)]
    for name, parts in {"English": english, "code": code, "all scripts": scripts}.items():
        size = sum(map(len, parts))
        yield name, parts * max(1, math.ceil(4e6 / size))


def bench_tokenize(tokenize, folder, log):
    made = {}
    for name in SHIPPED:
        made[name] = folder / f"{name}.json"
        made[name].write_bytes(subprocess.run(["zstd", "-dcq", ROOT / f"tests/data/tokenizers/{name}.json.zst"], check=True, capture_output=True).stdout)
    paths = {}
    for name, parts in texts():
        paths[name] = folder / f"{name.replace(' ', '-')}.txt"
        paths[name].write_text("\0".join(parts))
    everything = folder / "train.txt"
    everything.write_text("\0".join(dict.fromkeys(part for name in ("English", "code") for part in paths[name].read_text().split("\0"))))
    for name in TRAINED:
        made[name] = folder / f"{name}.json"
        if not made[name].exists():
            run(log, [PYTHON, PEER, "train", name, everything, made[name]])
    lines = ["| tokenizer | text | tern MiB/s | tokenizers MiB/s | ratio |", "|---|---|---|---|---|"]
    rows = []
    for name, path in made.items():
        for kind, documents in paths.items():
            ours, theirs, digests = [], [], set()
            for _ in range(ROUNDS):
                for rates, command in ((ours, [tokenize, path, documents, 1]), (theirs, [PYTHON, PEER, "tokenize", path, documents, 1])):
                    row = json_lines(run(log, command))[0]
                    rates.append(row["mib_per_second"])
                    digests.add(row["digest"])
            if len(digests) != 1:
                print(f"bench: {name} on {kind}: the ids differ", file=sys.stderr)
                kind += " (some ids differ)"
            a, b = statistics.median(ours), statistics.median(theirs)
            rows.append({"tokenizer": name, "text": kind, "tern": ours, "peer": theirs})
            lines.append(f"| {name} | {kind} | {a:.1f} ({min(ours):.1f}-{max(ours):.1f}) | {b:.2f} ({min(theirs):.2f}-{max(theirs):.2f}) | {a / b:.1f} |")
            print(f"bench: {lines[-1]}", file=sys.stderr)
    return rows, lines, made


def slope(points):
    """Of log seconds against log bytes: 1 is linear."""
    xs, ys = [math.log(x) for x, _ in points], [math.log(max(y, 1e-9)) for _, y in points]
    x, y = statistics.mean(xs), statistics.mean(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys)) / sum((a - x) ** 2 for a in xs)


def bench_lengths(tokenize, made, log):
    lines = ["| tokenizer | one text of | " + " | ".join(f"10^{round(math.log10(s))} bytes, ms" for s in SIZES) + " | slope |",
             "|---|---|" + "---|" * (len(SIZES) + 1)]
    rows = []
    for name, path in made.items():
        for kind in KINDS:
            got = json_lines(run(log, [tokenize, path, "--lengths", kind, *SIZES]))
            rows += [dict(row, tokenizer=name) for row in got]
            # The shortest one is mostly start-up.
            rate = slope([(row["bytes"], row["seconds"]) for row in got[1:]])
            cells = " | ".join(f"{row['seconds'] * 1000:.1f}" for row in got)
            lines.append(f"| {name} | {kind} | {cells} | {rate:.2f} |")
            print(f"bench: {lines[-1]}", file=sys.stderr)
    return rows, lines


TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def bench_encode(encode, made, folder, log):
    model = folder / "model"
    model.mkdir(exist_ok=True)
    (model / "tokenizer.json").write_bytes(made["qwen3"].read_bytes())
    (model / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "chat_template": TEMPLATE}))
    shipped = [json.loads(line) for line in open(ROOT / "examples/gsm8k/train.jsonl", encoding="utf-8")]
    rows = folder / "rows.jsonl"
    with open(rows, "w", encoding="utf-8") as file:
        for i in range(ROWS):
            row = shipped[i % len(shipped)]
            file.write(json.dumps({"messages": [{"role": "system", "content": "Answer the question, step by step."}, {"role": "user", "content": f"{i}. {row['question']}"},
                                                {"role": "assistant", "content": row["answer"]}]}, ensure_ascii=False) + "\n")
    ours, theirs, tokens = [], [], set()
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as cache:
            row = json_lines(run(log, [encode, model, rows, THREADS, cache]))[-1]
        ours.append(row["samples_per_second"])
        tokens.add(row["tokens"])
        row = json_lines(run(log, [PYTHON, PEER, "encode", model, rows, THREADS]))[-1]
        theirs.append(row["samples_per_second"])
        tokens.add(row["tokens"])
        print(f"bench: encode: tern {ours[-1]:.0f}, peer {theirs[-1]:.0f} samples/s", file=sys.stderr)
    if len(tokens) != 1:
        raise SystemExit(f"bench: encode: the numbers of tokens differ: {tokens}")
    a, b = statistics.median(ours), statistics.median(theirs)
    lines = ["| threads or processes | tern samples/s | datasets + transformers samples/s | ratio |", "|---|---|---|---|",
             f"| {THREADS} | {a:.0f} ({min(ours):.0f}-{max(ours):.0f}) | {b:.0f} ({min(theirs):.0f}-{max(theirs):.0f}) | {a / b:.1f} |"]
    return {"tern": ours, "peer": theirs}, lines


def main(tokenize, encode, results):
    SCRATCH.mkdir(parents=True, exist_ok=True)
    log = Path(results) / "text.log"
    load = os.getloadavg()[0]
    speeds, table, made = bench_tokenize(tokenize, SCRATCH, log)
    lengths, curve = bench_lengths(tokenize, made, log)
    encoding, samples = bench_encode(encode, made, SCRATCH, log)
    note = (f"Median and range of {ROUNDS} rounds; the first and third tables are processor time, the second is time by the clock. "
            f"Load {load:.1f} before, {os.getloadavg()[0]:.1f} after.")
    report = "\n".join(table) + "\n\n" + "\n".join(samples) + "\n\n" + "\n".join(curve) + "\n\n" + note + "\n"
    (Path(results) / "text.json").write_text(json.dumps({"tokenize": speeds, "lengths": lengths, "encode": encoding, "load": load}, indent=1))
    print(report)
    if os.environ.get("TERN_BENCH_WRITE") == "1":
        page = ROOT / "docs/benchmarks.md"
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r"(<!-- text: begin -->\n).*(<!-- text: end -->)", lambda m: m[1] + report + m[2], text, flags=re.S), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:4])
