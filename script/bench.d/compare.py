#!/usr/bin/env python3
"""Runs tern and its peers in turn and prints the ratios: compare.py train|infer|all TERN (called by script/bench).

ROUNDS (5), THREADS (2), BATCHES (1 16), DTYPES (float32 bfloat16) and MODES (eager compiled) come from the environment. Raw logs and results.json go to bench/results/<time>/. With
TERN_BENCH_WRITE=1 the tables replace those in docs/benchmarks.md.
"""
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = int(os.environ.get("ROUNDS", "5"))
THREADS = os.environ.get("THREADS", "2")
STEPS, WARMUP, LENGTH = 8, 2, 512
PROMPT, NEW = 512, 128
BATCHES = [int(word) for word in os.environ.get("BATCHES", "1 16").split()]
DTYPES = os.environ.get("DTYPES", "float32 bfloat16").split()
MODES = os.environ.get("MODES", "eager compiled").split()
ROOT = Path(__file__).resolve().parents[2]
SCRATCH = Path(os.environ["TERN_BENCH_DIR"])
HOME = Path(os.environ.get("TERN_HOME", Path.home() / ".cache/tern"))
MODEL = HOME / "models/smollm2-135m/SmolLM2-135M-Instruct.Q4_1.gguf"
RESULTS = ROOT / "bench/results" / time.strftime("%Y%m%d-%H%M%S")


class Failed(Exception):
    pass


def run(name, command):
    """Runs under GNU time; gives stdout and the peak resident set in GiB. The log keeps everything."""
    load = os.getloadavg()[0]
    done = subprocess.run(["/usr/bin/time", "-v", *map(str, command)], capture_output=True, text=True, cwd=ROOT)
    log = RESULTS / f"{name}.log"
    log.write_text(f"load before: {load:.2f}\ncommand: {' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    if done.returncode != 0:
        raise Failed(f"{name} failed with status {done.returncode}: see {log}")
    peak = int(re.search(r"Maximum resident set size \(kbytes\): (\d+)", done.stderr).group(1))
    return done.stdout, peak / 2**20


def median(values):
    return statistics.median(values)


def spread(values):
    return f"{min(values):.0f}-{max(values):.0f}"


# --- training ---------------------------------------------------------------------------------------------------------

def train_tern(name, tern, texts, dtype):
    with tempfile.TemporaryDirectory() as folder:
        command = [tern, "pt", "--model", MODEL, "--dataset", texts, "--max_length", LENGTH, "--truncation_strategy", "right",
                   "--tuner_type", "lora", "--lora_rank", 8, "--lora_dropout", 0.05, "--gradient_checkpointing", "false",
                   "--per_device_train_batch_size", 1, "--gradient_accumulation_steps", 1, "--learning_rate", 1e-4,
                   "--max_steps", WARMUP + STEPS, "--logging_steps", 1, "--save_strategy", "no", "--add_version", "false",
                   "--threads", THREADS, "--device", "cpu", "--output_dir", folder]
        if dtype == "float32":
            command += ["--torch_dtype", "float32"]
        _, peak = run(name, command)
        rows = [json.loads(line) for line in open(Path(folder) / "logging.jsonl")]
    at = {int(row["global_step/max_steps"].split("/")[0]): row["elapsed_time"] for row in rows if "loss" in row}
    return LENGTH * STEPS / (at[WARMUP + STEPS] - at[WARMUP]), peak


def train_peer(name, texts, dtype, mode):
    python = os.environ.get("TERN_BENCH_PYTHON", SCRATCH / "venv/bin/python")
    out, peak = run(name, [python, ROOT / "script/bench.d/train_peer.py", MODEL, texts, "--dtype", dtype, "--mode", mode,
                           "--steps", STEPS, "--warmup", WARMUP, "--threads", THREADS])
    result = json.loads(out.strip().splitlines()[-1])
    return result["tokens_per_second"], peak, result


def bench_train(tern):
    texts = SCRATCH / "texts.jsonl"
    subprocess.run([sys.executable, ROOT / "script/bench.d/peer_texts.py", ROOT / "examples/gsm8k/train.jsonl", texts],
                   check=True)
    rows, versions = [], {}
    for dtype in DTYPES:
        trial = {}
        for mode in MODES:
            try:
                trial[mode] = train_peer(f"train-{dtype}-peer-trial-{mode}", texts, dtype, mode)[0]
            except Failed as error:
                print(f"bench: {error}; left out", file=sys.stderr)
        if not trial:
            raise Failed("no mode of the training peer ran")
        best = max(trial, key=trial.get)
        tern_rates, tern_peaks, peer_rates, peer_peaks = [], [], [], []
        for i in range(ROUNDS):
            rate, peak = train_tern(f"train-{dtype}-tern-{i}", tern, texts, dtype)
            tern_rates.append(rate)
            tern_peaks.append(peak)
            rate, peak, info = train_peer(f"train-{dtype}-peer-{i}", texts, dtype, best)
            peer_rates.append(rate)
            peer_peaks.append(peak)
            versions = {key: info[key] for key in ("torch", "transformers", "peft")}
            print(f"bench: train {dtype} round {i + 1}/{ROUNDS}: tern {tern_rates[-1]:.0f}, peer {rate:.0f} tokens/s",
                  file=sys.stderr)
        rows.append({"dtype": dtype, "peer_mode": best, "trial": trial, "tern": tern_rates, "tern_gib": tern_peaks,
                     "peer": peer_rates, "peer_gib": peer_peaks})
    lines = ["| products in | tern tokens/s | PyTorch tokens/s | ratio | tern peak GiB | PyTorch peak GiB | ratio |",
             "|---|---|---|---|---|---|---|"]
    for row in rows:
        a, b = median(row["tern"]), median(row["peer"])
        m, n = median(row["tern_gib"]), median(row["peer_gib"])
        lines.append(f"| {row['dtype']} | {a:.0f} ({spread(row['tern'])}) | {b:.0f} ({spread(row['peer'])}, "
                     f"{row['peer_mode']}) | {a / b:.2f} | {m:.2f} | {n:.2f} | {m / n:.2f} |")
    note = "Peer: " + ", ".join(f"{key} {value}" for key, value in versions.items())
    return {"rows": rows, "versions": versions}, "\n".join(lines) + "\n\n" + note + "."


# --- inference --------------------------------------------------------------------------------------------------------

def infer_tern(name, tern, batches):
    out, _ = run(name, [tern, "bench", "--model", MODEL, "--prompt_length", PROMPT, "--max_new_tokens", NEW, "--batch_size",
                        *batches, "--threads", THREADS, "--device", "cpu", "--json"])
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {(row["phase"], row["batch"]): row["tokens_per_second"] for row in rows if row.get("phase") in ("prefill", "decode")}


def infer_peer(name, batches, flags):
    folder = Path(os.environ.get("TERN_BENCH_LLAMA", SCRATCH / "llama.cpp-0.3.36/bin"))
    out, _ = run(name, [folder / "llama-batched-bench", "-m", MODEL, "-c", (PROMPT + NEW) * max(batches), "-b", 2048, "-ub", 512,
                        "-npp", PROMPT, "-ntg", NEW, "-npl", ",".join(map(str, batches)), "-t", THREADS, "-tb", THREADS,
                        "--output-format", "jsonl", *flags])
    rates = {}
    for line in out.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            rates["prefill", row["pl"]] = row["speed_pp"]
            rates["decode", row["pl"]] = row["speed_tg"]
    if not rates:
        raise Failed(f"{name} printed no rates")
    return rates


def bench_infer(tern):
    batches = BATCHES
    configurations = {"flash attention": ["-fa", "on"], "no flash attention": ["-fa", "off"],
                      "flash attention, not repacked": ["-fa", "on", "--no-repack"]}
    trial = {}
    for label, flags in configurations.items():
        try:
            trial[label] = infer_peer("infer-peer-trial-" + label.replace(" ", "-").replace(",", ""), batches, flags)
        except Failed as error:
            print(f"bench: {error}; left out", file=sys.stderr)
    if not trial:
        raise Failed("no configuration of the inference peer ran")
    cases = sorted(next(iter(trial.values())), key=lambda case: (case[1], case[0] != "prefill"))
    best = {case: max(trial, key=lambda label, case=case: trial[label][case]) for case in cases}
    ours, theirs = {case: [] for case in cases}, {case: [] for case in cases}
    for i in range(ROUNDS):
        for case, rate in infer_tern(f"infer-tern-{i}", tern, batches).items():
            ours[case].append(rate)
        for label in sorted(set(best.values())):
            rates = infer_peer(f"infer-peer-{i}-{label.replace(' ', '-').replace(',', '')}", batches, configurations[label])
            for case in cases:
                if best[case] == label:
                    theirs[case].append(rates[case])
        print(f"bench: infer round {i + 1}/{ROUNDS} done", file=sys.stderr)
    lines = ["| phase | sequences | tern tokens/s | llama.cpp tokens/s | ratio | llama.cpp as |", "|---|---|---|---|---|---|"]
    for case in cases:
        a, b = median(ours[case]), median(theirs[case])
        lines.append(f"| {case[0]} | {case[1]} | {a:.0f} ({spread(ours[case])}) | {b:.0f} ({spread(theirs[case])}) | "
                     f"{a / b:.2f} | {best[case]} |")
    raw = {"trial": {label: {f"{p} {b}": r for (p, b), r in rates.items()} for label, rates in trial.items()},
           "tern": {f"{p} {b}": r for (p, b), r in ours.items()}, "peer": {f"{p} {b}": r for (p, b), r in theirs.items()}}
    return raw, "\n".join(lines) + "\n\nPeer: llama.cpp of llama-cpp-python 0.3.36, built natively."


# --- report -----------------------------------------------------------------------------------------------------------

def machine(tern):
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    flags = next((line for line in open("/proc/cpuinfo") if line.startswith("flags")), "")
    known = [name for name in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16") if f" {name}" in flags]
    version = subprocess.run([tern, "--version"], capture_output=True, text=True).stdout.splitlines()
    return (f"{cpu}, {os.cpu_count()} CPUs ({', '.join(known)}), Linux {platform.release().split('-')[0]}; {THREADS} threads; "
            f"{version[0] if version else 'tern'}; {time.strftime('%Y-%m-%d')}; median of {ROUNDS} rounds")


def write_page(name, text):
    page = ROOT / "docs/benchmarks.md"
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    old = page.read_text()
    if begin not in old or end not in old:
        raise Failed(f"{page}: no place for the figures of {name}")
    page.write_text(old[:old.index(begin) + len(begin)] + "\n" + text + "\n" + old[old.index(end):])


def main():
    what, tern = sys.argv[1], Path(sys.argv[2]).resolve()
    RESULTS.mkdir(parents=True, exist_ok=True)
    busy = os.getloadavg()[0]
    if busy > 0.5:
        print(f"bench: load is {busy:.1f}: other work on this machine makes these figures worthless", file=sys.stderr)
    results = {"machine": machine(tern), "load": [busy]}
    for name, measure in (("train", bench_train), ("infer", bench_infer)):
        if what not in (name, "all"):
            continue
        results[name], table = measure(tern)
        results["load"].append(os.getloadavg()[0])
        text = f"{results['machine']}; load {busy:.1f} before.\n\n{table}"
        (RESULTS / f"{name}.md").write_text(text + "\n")
        print(f"\n{name}\n{text}")
        if os.environ.get("TERN_BENCH_WRITE") == "1":
            write_page(name, text)
    (RESULTS / "results.json").write_text(json.dumps(results, indent=1))
    print(f"\nraw logs: {RESULTS}")


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"bench: {error}")
