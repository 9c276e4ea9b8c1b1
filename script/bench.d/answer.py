#!/usr/bin/env python3
"""From exec to the first byte of an answer to a prompt of 32 tokens: answer.py TERN (called by script/bench).

tern with and without the kept choices of kernels, and llama.cpp's own llama-completion with its best flags, by turns; the
median of ROUNDS (5). The file, SmolLM2's Q4_1, is in the page cache. Both get the same text as it is, without a chat template,
and tern's own tokenizer is asked that it has 32 tokens.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = int(os.environ.get("ROUNDS", "5"))
THREADS = os.environ.get("THREADS", "2")
SCRATCH = Path(os.environ["TERN_BENCH_DIR"])
HOME = Path(os.environ.get("TERN_HOME", Path.home() / ".cache/tern"))
MODEL = HOME / "models/smollm2-135m/SmolLM2-135M-Instruct.Q4_1.gguf"
LLAMA = Path(os.environ.get("TERN_BENCH_LLAMA", SCRATCH / "llama.cpp-0.3.36/bin")) / "llama-completion"
TOKENS = 32
PROMPT = ("The three primary colours are red, yellow and blue. If you mix red and yellow, you get orange. If you mix blue and "
          "yellow, you get the")


def first_byte(command, text="", variables=None):
    """Seconds from exec to the first byte on stdout; None where it gave no answer."""
    environment = dict(os.environ, **(variables or {}))
    begin = time.perf_counter()
    with subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, env=environment) as process:
        process.stdin.write(text.encode())
        process.stdin.close()
        byte = os.read(process.stdout.fileno(), 1)
        seconds = time.perf_counter() - begin
        process.stdout.read()
    return seconds if process.returncode == 0 and byte else None


def main():
    tern = Path(sys.argv[1]).resolve()
    counted = subprocess.run([tern, "tokenize", "--model", MODEL, "--json"], input=PROMPT, capture_output=True, text=True)
    ids = json.loads(counted.stdout)
    length = len(ids["ids"] if isinstance(ids, dict) else ids)
    if length != TOKENS:
        sys.exit(f"bench: the prompt has {length} tokens, not {TOKENS}")
    ours = [tern, "infer", "--model", MODEL, "--use_chat_template", "false", "--stream", "true", "--max_new_tokens", 8,
            "--temperature", 0, "--threads", THREADS, "--device", "cpu"]
    theirs = [LLAMA, "-m", MODEL, "-p", PROMPT, "-n", 8, "-no-cnv", "--no-display-prompt", "--temp", 0, "-t", THREADS, "-c", 2048]
    variants = {"llama.cpp": ["--no-warmup"], "llama.cpp, not repacked": ["--no-warmup", "--no-repack"]}
    times = {}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            for label in ("tern, no kept choices", "tern"):
                times.setdefault(label, []).append(first_byte(ours, PROMPT, {"TERN_CACHE_DIR": folder}))
        for label, flags in variants.items():
            times.setdefault(label, []).append(first_byte(theirs + flags))
    print("from exec to the first byte of an answer, milliseconds, median (least-most)")
    for label, seconds in times.items():
        if None in seconds:
            print(f"{label:26}no answer")
            continue
        print(f"{label:26}{1000 * statistics.median(seconds):6.0f} ({1000 * min(seconds):.0f}-{1000 * max(seconds):.0f})")


main()
