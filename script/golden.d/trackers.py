#!/usr/bin/env python3
"""Writes what wandb and SwanLab write themselves, as fixtures: a run of wandb offline, and the checksum of records that
SwanLab's own writer framed. With a tern, also checks that both tools' own readers find in a run's files what its
logging.jsonl tells, a resumed run's included.

Usage: trackers.py FOLDER [TERN]
"""
import glob
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from swanlab.converter.wb.wbdatastore import WBDataStoreReader
from swanlab.proto.swanlab.record.v1.record_pb2 import Record as SwanlabRecord
from swanlab.sdk.internal.core_python.store import DataStoreReader, DataStoreWriter
from wandb.proto.wandb_internal_pb2 import Record as WandbRecord

ROWS = Path(__file__).parents[2] / "examples/gsm8k"
# Around the borders of blocks: 32768 bytes with 7 of each piece's head, and the file's own 7.
SIZES = [10, 32768 - 7 - 17 - 7 - 3, 0, 5, 32761, 100000, 65522, 1]


def frame():
    with tempfile.TemporaryDirectory() as folder:
        writer = DataStoreWriter()
        writer.open(folder + "/log")
        for place, size in enumerate(SIZES):
            writer.write(bytes([97 + place]) * size)
        writer.close()
        data = Path(folder, "log").read_bytes()
    return {"sizes": SIZES, "length": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def wandb_run(target):
    code = """
import wandb
run = wandb.init(project="p", name="n", config={"lr": 1e-4, "args": {"a": [1, 2], "b": None}},
                 settings=wandb.Settings(x_disable_stats=True, x_disable_meta=True, console="off", host="host"))
run.define_metric("train/global_step")
run.define_metric("*", step_metric="train/global_step", step_sync=True)
for step in (5, 10, 15):
    run.log({"train/loss": 1 / step, "train/global_step": step})
run.finish()
"""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, env={**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true"})
        shutil.copy(glob.glob(folder + "/wandb/offline-run-*/*.wandb")[0], target)


def tag(key):
    return "eval/" + key[5:] if key.startswith("eval_") else "train/" + key


def logged(folder):
    """(tag, step, value) of logging.jsonl; an evaluation tells only what it measured."""
    out = []
    for line in Path(folder, "logging.jsonl").read_text().splitlines():
        row = json.loads(line)
        if "last_model_checkpoint" in row:
            continue
        step = int(row["global_step/max_steps"].split("/")[0])
        for key, value in row.items():
            if key != "global_step/max_steps" and ("loss" in row or key.startswith("eval_")):
                out.append((tag(key), step, value))
    return sorted(out)


def one(pattern):
    found = glob.glob(pattern)
    assert len(found) == 1, found
    return found[0]


def check_wandb(work, folder):
    records = []
    with WBDataStoreReader() as reader:  # stops at nothing that is damaged or cut short
        reader.open(one(f"{work}/wandb/offline-run-*/*.wandb"))
        while (data := reader.scan()) is not None:
            record = WandbRecord()
            record.ParseFromString(data)
            records.append(record)
    assert [r.num for r in records] == list(range(1, len(records) + 1))
    kinds = [r.WhichOneof("record_type") for r in records]
    assert kinds[:3] == ["header", "run", "environment"] and kinds[-1] == "exit" and kinds.count("exit") == 1, kinds
    run = records[1].run
    assert run.project == "tern-check" and run.display_name == "named", run
    updates = [run.config] + [r.config for r in records if r.WhichOneof("record_type") == "config"]
    config = {item.key: json.loads(item.value_json) for update in updates for item in update.update}
    args = json.loads(Path(folder, "args.json").read_text())
    assert args.items() <= config.items()
    steps = [m for m in records if m.WhichOneof("record_type") == "metric"]
    assert steps[1].metric.glob_name == "*" and steps[1].metric.step_metric == "train/global_step" and steps[1].metric.options.step_sync
    rows, found = [], []
    for record in records:
        if record.WhichOneof("record_type") != "history":
            continue
        values = {item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
        assert record.history.step.num == values["_step"] == len(rows), values
        assert values["_runtime"] >= 0 and values["_timestamp"] > 1.7e9
        rows.append(values)
        found += [(key, values["train/global_step"], value) for key, value in values.items() if not key.startswith("_") and key != "train/global_step"]
    assert sorted(found) == logged(folder), "wandb's numbers are not those of logging.jsonl"
    files = one(f"{work}/wandb/offline-run-*/files")
    assert Path(files, "config.yaml").exists() and json.loads(Path(files, "wandb-metadata.json").read_text())["program"] == "tern"


class Server(BaseHTTPRequestHandler):
    """As much of wandb's server as `wandb sync` needs; keeps the rows of history that it's sent."""
    history = []

    def log_message(self, *_):
        pass

    def reply(self, value):
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.reply({})

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.reply({})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        if self.path.endswith("/file_stream"):
            rows = json.loads(body).get("files", {}).get("wandb-history.jsonl", {"content": []})
            Server.history += [json.loads(row) for row in rows["content"]]
            return self.reply({})
        query = json.loads(body) if self.path.endswith("/graphql") else {"query": ""}
        if "upsertBucket" in query["query"]:
            project = {"id": "p", "name": "tern-check", "entity": {"id": "e", "name": "e"}}
            return self.reply({"data": {"upsertBucket": {"inserted": True, "bucket": {
                "id": "b", "name": query["variables"]["name"], "displayName": "named", "config": "{}", "historyLineCount": 0, "project": project}}}})
        if "createRunFiles" in query["query"]:
            url = f"http://127.0.0.1:{self.server.server_port}/upload/"
            files = [{"name": name, "uploadUrl": url + name} for name in query["variables"]["files"]]
            return self.reply({"data": {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}})
        self.reply({"data": {"viewer": {"id": "v", "entity": "e", "username": "u", "flags": "{}", "teams": {"edges": []}}, "serverInfo": {"features": []}}})


def check_sync(work, folder):
    """`wandb sync` uploads the run, and the rows are those of the log."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Server.history = []
    environment = {**os.environ, "WANDB_BASE_URL": f"http://127.0.0.1:{server.server_port}", "WANDB_API_KEY": "0" * 40, "HOME": work}
    subprocess.run([str(Path(sys.executable).parent / "wandb"), "sync", one(f"{work}/wandb/offline-run-*")], cwd=work, check=True, env=environment, capture_output=True)
    server.shutdown()
    found = [(key, row["train/global_step"], value) for row in Server.history for key, value in row.items() if not key.startswith("_") and key != "train/global_step"]
    assert sorted(found) == logged(folder), "what wandb sync sent is not what logging.jsonl tells"
    assert glob.glob(f"{work}/wandb/offline-run-*/*.wandb.synced"), "wandb sync did not come to its end"


def check_swanlab(work, folder):
    reader = DataStoreReader()
    reader.open(one(f"{work}/swanlog/run-*/*.swanlab"))
    records = []
    for data in reader:
        record = SwanlabRecord()
        record.ParseFromString(data)
        records.append(record)
    kinds = [r.WhichOneof("record") if "record" in [o.name for o in r.DESCRIPTOR.oneofs] else r.ListFields()[-1][0].name for r in records]
    assert kinds[0] == "start" and kinds[-1] == "finish" and kinds.count("finish") == 1, kinds
    assert records[0].start.project == "ms-swift" and records[0].start.name == "named too", records[0]
    numbers = [r.num for r in records if r.num > 0]
    assert numbers == list(range(1, len(numbers) + 1))
    columns, found = set(), []
    for record in records:
        if record.HasField("column"):
            assert record.column.column_key not in columns
            columns.add(record.column.column_key)
        if record.HasField("scalar"):
            scalar = record.scalar
            assert scalar.key in columns
            if scalar.key == "train/global_step":
                assert scalar.value.number == scalar.step
            elif not scalar.key.startswith("single_value/"):
                found.append((scalar.key, scalar.step, scalar.value.number))
        if record.HasField("save"):
            assert Path(record.save.source_path).exists()
    assert sorted(found) == logged(folder), "SwanLab's numbers are not those of logging.jsonl"


def check(tern):
    tern = str(Path(tern).resolve())
    with tempfile.TemporaryDirectory() as work:
        def sft(*more):
            subprocess.run([tern, "sft", "--model", "smollm2-135m", "--dataset", f"{ROWS}/train.jsonl#16", "--val_dataset", f"{ROWS}/test.jsonl#4",
                            "--max_length", "160", "--truncation_strategy", "right", "--gradient_accumulation_steps", "2", "--max_steps", "4",
                            "--save_steps", "2", "--eval_steps", "2", "--logging_steps", "1", "--report_to", "wandb", "swanlab", "--run_name", "named",
                            "--swanlab_exp_name", "named too", "--output_dir", f"{work}/out", "--add_version", "false", "--quiet", "true", *more],
                           cwd=work, check=True, env={**os.environ, "WANDB_PROJECT": "tern-check", "WANDB_MODE": "offline"})
        for more in ([], ["--resume_from_checkpoint", f"{work}/out/checkpoint-2"]):
            sft(*more)
            check_wandb(work, f"{work}/out")
            check_sync(work, f"{work}/out")
            check_swanlab(work, f"{work}/out")
    print("trackers: wandb and SwanLab read what tern wrote")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "swanlab-framing.json").write_text(json.dumps(frame(), indent=1) + "\n")
    wandb_run(folder / "offline.wandb")
    if len(sys.argv) > 2:
        check(sys.argv[2])
