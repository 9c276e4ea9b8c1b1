#!/usr/bin/env python3
"""Writes records of an event file as PyTorch's SummaryWriter frames them, in hex; with a tern, also checks that
TensorBoard's own reader finds in a run's event file what its logging.jsonl tells, a resumed run's included.

Usage: event_files.py FILE [TERN]
"""
import glob
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import tensorboard
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

ROWS = Path(__file__).parents[2] / "examples/gsm8k"


def records():
    with tempfile.TemporaryDirectory() as folder, mock.patch("time.time", lambda: 1.0):
        writer = SummaryWriter(folder)
        writer.add_scalar("train/loss", 0.5, 300, walltime=1.0)
        writer.add_text("args", "{}", 0, walltime=1.0)
        writer.close()
        data = Path(glob.glob(folder + "/*")[0]).read_bytes()
    out = []
    while data:
        size = 16 + struct.unpack("<Q", data[:8])[0]
        out.append(data[:size].hex())
        data = data[size:]
    return out


def sft(tern, folder, *more):
    subprocess.run([tern, "sft", "--model", "smollm2-135m", "--dataset", f"{ROWS}/train.jsonl#16", "--val_dataset", f"{ROWS}/test.jsonl#4",
                    "--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "1", "--max_length", "128", "--logging_steps", "1",
                    "--save_steps", "2", "--eval_steps", "2", "--output_dir", folder, "--add_version", "false", *more], check=True)


def check(folder):
    rows = [json.loads(line) for line in open(folder + "/logging.jsonl")]
    reader = EventAccumulator(folder + "/runs", size_guidance={"scalars": 0}).Reload()
    told = {}
    for row in rows:
        step = row["global_step/max_steps"].split("/")[0]
        for key, value in row.items():
            trains = "loss" in row and not key.startswith("eval_")
            if isinstance(value, (int, float)) and (trains or key.startswith("eval_")):
                tag = "eval/" + key[5:] if key.startswith("eval_") else "train/" + key
                told.setdefault(tag, []).append((int(step), struct.unpack("f", struct.pack("f", value))[0]))
    assert sorted(told) == sorted(reader.Tags()["scalars"]), (sorted(told), reader.Tags())
    for tag, values in told.items():
        found = [(event.step, event.value) for event in reader.Scalars(tag)]
        assert found == values, (tag, found, values)
    assert "args/text_summary" in reader.Tags()["tensors"]
    return len(told["train/loss"])


def main():
    version, scalar, text = records()
    json.dump({"made_with": f"torch {torch.__version__}, tensorboard {tensorboard.__version__}", "version": version, "scalar": scalar,
               "text": text}, open(sys.argv[1], "w"), indent=1)
    if len(sys.argv) > 2:
        with tempfile.TemporaryDirectory() as folder:
            sft(sys.argv[2], folder, "--max_steps", "4")
            assert check(folder) == 4
            # As if killed behind its checkpoint: the steps are taken again, and stand there once.
            sft(sys.argv[2], folder, "--max_steps", "6", "--resume_from_checkpoint", folder + "/checkpoint-2")
            assert check(folder) == 6
        print("TensorBoard reads tern's event files")


main()
