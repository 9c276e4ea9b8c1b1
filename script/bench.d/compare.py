#!/usr/bin/env python3
"""Runs tern and its peers in turn and prints the ratios: compare.py train|infer|all TERN (called by script/bench).

ROUNDS (5), THREADS (2), BATCHES (1 16), FILES (q4_1; also q8_0 bf16 f16 q4_k_m q6_k), DTYPES (float32 bfloat16) and MODES
(eager compiled) come from the environment. Raw logs and results.json go to bench/results/<time>/. With TERN_BENCH_WRITE=1 the
tables replace those in docs/benchmarks.md.
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
FILES = os.environ.get("FILES", "q4_1").split()
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

LLAMA = Path(os.environ.get("TERN_BENCH_LLAMA", SCRATCH / "llama.cpp-0.3.36/bin"))
OPENVINO = os.environ.get("TERN_BENCH_OPENVINO", SCRATCH / "openvino/bin/python")
LLAMA_AS = {"llama.cpp, flash attention": ["-fa", "on"], "llama.cpp, no flash attention": ["-fa", "off"],
            "llama.cpp, flash attention, not repacked": ["-fa", "on", "--no-repack"],
            "llama.cpp, no flash attention, not repacked": ["-fa", "off", "--no-repack"]}
OPENVINO_AS = {"OpenVINO": "default", "OpenVINO, bf16": "bf16"}


def model_file(name, tern):
    """The GGUF of that name: SmolLM2's own, what tern converts it to, or a random Qwen3-0.6B by llama.cpp's quantiser."""
    if name == "q4_1":
        return MODEL
    folder = SCRATCH / "files"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.gguf"
    if path.exists():
        return path
    if name in ("q8_0", "bf16", "f16"):
        subprocess.run([tern, "convert", MODEL, path, "--outtype", name], check=True, stdout=subprocess.DEVNULL)
        return path
    whole = folder / "qwen3-0.6b-f16.gguf"
    if not whole.exists():
        python = os.environ.get("TERN_BENCH_PYTHON", SCRATCH / "venv/bin/python")
        subprocess.run([python, ROOT / "script/bench.d/random_qwen3.py", MODEL, whole], check=True)
    subprocess.run([LLAMA / "llama-quantize", whole, path, name.upper(), THREADS], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return path


def infer_tern(name, tern, model, batches):
    out, _ = run(name, [tern, "bench", "--model", model, "--prompt_length", PROMPT, "--max_new_tokens", NEW, "--batch_size",
                           *batches, "--threads", THREADS, "--device", "cpu", "--json"])
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    peak = max(row["peak_memory"] for row in rows) / 2**30  # without the 128 MiB that measure how fast the machine reads
    return {(row["phase"], row["batch"]): row["tokens_per_second"] for row in rows if row.get("phase") in ("prefill", "decode")}, peak


def infer_llama(name, model, batches, flags):
    out, peak = run(name, [LLAMA / "llama-batched-bench", "-m", model, "-c", (PROMPT + NEW) * max(batches), "-b", 2048, "-ub", 512,
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
    return rates, peak


def infer_openvino(name, model, batches, precision):
    out, peak = run(name, [OPENVINO, ROOT / "script/bench.d/openvino_peer.py", model, "--prompt", PROMPT, "--new", NEW, "--batch",
                           *batches, "--threads", THREADS, "--precision", precision])
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {(row["phase"], row["batch"]): row["tokens_per_second"] for row in rows}, peak


def infer_peer(name, label, model, batches):
    name += "-" + re.sub("[^a-z0-9]+", "-", label.lower())
    if label in LLAMA_AS:
        return infer_llama(name, model, batches, LLAMA_AS[label])
    return infer_openvino(name, model, batches, OPENVINO_AS[label])


def bench_file(name, tern):
    model = model_file(name, tern)
    trial = {}
    for label in [*LLAMA_AS, *OPENVINO_AS]:
        try:
            trial[label] = infer_peer(f"infer-{name}-trial", label, model, BATCHES)[0]
        except Failed as error:
            print(f"bench: {error}; left out", file=sys.stderr)
    if not trial:
        raise Failed("no peer ran")
    cases = sorted(next(iter(trial.values())), key=lambda case: (case[1], case[0] != "prefill"))
    best = {case: max(trial, key=lambda label, case=case: trial[label][case]) for case in cases}
    ours, theirs = {case: [] for case in cases}, {case: [] for case in cases}
    for i in range(ROUNDS):
        for case, rate in infer_tern(f"infer-{name}-tern-{i}", tern, model, BATCHES)[0].items():
            ours[case].append(rate)
        for label in sorted(set(best.values())):
            rates = infer_peer(f"infer-{name}-{i}", label, model, BATCHES)[0]
            for case in cases:
                if best[case] == label:
                    theirs[case].append(rates[case])
        print(f"bench: infer {name} round {i + 1}/{ROUNDS} done", file=sys.stderr)
    # What one sequence takes, file pages included.
    memory = infer_tern(f"infer-{name}-tern-memory", tern, model, [1])[1]
    of_llama = [label for label in trial if label in LLAMA_AS]
    smallest = min((infer_peer(f"infer-{name}-memory", label, model, [1])[1] for label in of_llama), default=0.0)
    lines = []
    for case in cases:
        a, b = median(ours[case]), median(theirs[case])
        others = "; ".join(f"{label} {rates[case]:.0f}" for label, rates in trial.items() if label != best[case])
        lines.append(f"| {name} | {case[0]} | {case[1]} | {a:.0f} ({spread(ours[case])}) | {b:.0f} ({spread(theirs[case])}) | "
                     f"{a / b:.2f} | {best[case]} | {others} |")
    text = {f"{p} {b}": {"tern": ours[p, b], "peer": theirs[p, b], "as": best[p, b]} for p, b in cases}
    raw = {"cases": text, "trial": {label: {f"{p} {b}": r for (p, b), r in rates.items()} for label, rates in trial.items()},
           "peak_mib": {"tern": 1024 * memory, "llama.cpp": 1024 * smallest}}
    return raw, lines, f"{name} {1024 * memory:.0f} MiB, llama.cpp {1024 * smallest:.0f} MiB"


def bench_infer(tern):
    raw, lines, memory = {}, [], []
    for name in FILES:
        raw[name], rows, peak = bench_file(name, tern)
        lines += rows
        memory.append(peak)
    head = ["| file | phase | sequences | tern tokens/s | best peer tokens/s | ratio | that peer | the others, tried once |",
            "|---|---|---|---|---|---|---|---|"]
    note = ("Peers: llama.cpp of llama-cpp-python 0.3.36, built natively, and OpenVINO GenAI 2026.4.1. Peak memory of one "
            f"sequence of {PROMPT} + {NEW}: " + "; ".join(memory) + ".")
    return raw, "\n".join(head + lines) + "\n\n" + note


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
