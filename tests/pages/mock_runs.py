"""Training runs that are made up, for the page of `tern web-ui`: the API of server/runs, over runs that move."""

import json
import math
import time

FORM = {"groups": [
    {"title": "First", "fields": [
        {"name": "model", "type": "text", "default": "", "computed": "", "help": "a directory or a short name", "choices": []},
        {"name": "dataset", "type": "list", "default": "", "computed": "", "help": "files or hub ids", "choices": []},
        {"name": "tuner_type", "type": "choice", "default": "lora", "computed": "", "help": "what to train", "choices": ["lora", "full"]},
        {"name": "learning_rate", "type": "real", "default": "", "computed": "1e-4", "help": "peak learning rate", "choices": []},
        {"name": "max_steps", "type": "integer", "default": "-1", "computed": "", "help": "number of optimizer steps", "choices": []}]},
    {"title": "Saving", "fields": [
        {"name": "save_steps", "type": "integer", "default": "500", "computed": "", "help": "steps between checkpoints", "choices": []},
        {"name": "logging_first_step", "type": "boolean", "default": "true", "computed": "", "help": "log the first step", "choices": []}]}]}
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"


class MockRuns:
    def __init__(self):
        self.begin = time.time()
        self.started = []  # flags that came
        self.stops = []    # bodies that came
        self.generation = 0
        self.runs = {
            "qwen3-4b/v1-20261126-101500": {"state": "running", "total": 400, "rate": 12, "floor": 1.1, "here": True},
            "qwen3-4b/v0-20261126-091200": {"state": "ended", "total": 300, "rate": 0, "floor": 1.32, "here": False},
            "smollm2/v0-20261125-181200": {"state": "stopped", "total": 500, "rate": 0, "floor": 1.7, "here": True, "at": 210},
            "smollm2/v1-20261125-190000": {"state": "failed", "total": 0, "rate": 0, "floor": 1.7, "here": True,
                                           "why": "tern: error: rows.jsonl:3: field \"messages\": expected an array, found a string; mend the row"}}

    def steps(self, run):
        if run["state"] != "running":
            return run.get("at", run["total"])
        return min(run["total"], 20 + int((time.time() - self.begin) * run["rate"]))

    def row(self, run, step):
        noise = math.sin(step * 12.9898) * 43758.5453 % 1 - 0.5
        total = max(1, run["total"])
        row = {"loss": run["floor"] + 1.6 * math.exp(-step / 40) + 0.18 * noise, "token_acc": 0.5 + 0.3 * (1 - math.exp(-step / 60)) + 0.03 * noise,
               "grad_norm": 0.9 + 3 * math.exp(-step / 25) + 0.3 * noise, "learning_rate": 1e-4 * (1 + math.cos(math.pi * step / total)) / 2,
               "epoch": step / 100, "global_step/max_steps": f"{step}/{total}", "elapsed_time": step * 1.5, "remaining_time": (total - step) * 1.5,
               "memory(GiB)": 11.3 + 0.2 * (step > 50), "train_speed(s/it)": 1.5, "tokens_per_second": 2200 + 150 * noise}
        return row

    def rows(self, run):
        rows = []
        for step in range(1, self.steps(run) + 1):
            rows.append(self.row(run, step))
            if step % 50 == 0:
                rows.append({"eval_loss": run["floor"] + 0.15 + 1.5 * math.exp(-step / 45), "eval_runtime": 2.0, "epoch": step / 100,
                             "global_step/max_steps": f"{step}/{run['total']}", "elapsed_time": step * 1.5})
        return rows

    def summary(self, name):
        run = self.runs[name]
        rows = self.rows(run)
        last = {key: value for row in rows for key, value in row.items()}
        step = self.steps(run)
        return {"id": name, "state": run["state"], "why": run.get("why", ""), "pid": 4711 if run["state"] == "running" else 0,
                "started_here": run["here"], "stopping": run.get("stopping", False), "command": f"tern sft --model {name.split('/')[0]}" if run["here"] else None,
                "model": f"/models/{name.split('/')[0]}", "dataset": ["train.jsonl#2000"], "tuner_type": "lora", "learning_rate": 1e-4, "step": step,
                "total_steps": run["total"], "loss": last.get("loss"), "eval_loss": last.get("eval_loss"), "tokens_per_second": last.get("tokens_per_second"),
                "elapsed_time": last.get("elapsed_time"), "remaining_time": last.get("remaining_time"), "begun": 1795688100000, "changed": step or None,
                "checkpoints": [f"checkpoint-{at}" for at in range(100, step + 1, 100)], "best": None}

    def get(self, path, query):
        if path == "/runs":
            return {"output_dir": "/home/me/work/output", "runs": [self.summary(name) for name in self.runs]}
        if path == "/runs/form":
            return FORM
        kind, _, name = path.removeprefix("/runs/").partition("/")
        if name not in self.runs:
            return None
        run = self.runs[name]
        numbers = {key: int(value) for key, _, value in (part.partition("=") for part in query.split("&") if part)}
        if kind == "log":
            rows = self.rows(run)
            again = numbers.get("file", 0) not in (0, 1 + self.generation)
            offset = 0 if again else numbers.get("offset", 0)
            part = rows[offset:offset + 200]
            return {"rows": part, "file": 1 + self.generation, "offset": offset + len(part), "begun_again": again, "more": len(part) == 200}
        if kind == "output":
            text = "".join(f"step {step}/{run['total']}  loss {self.row(run, step)['loss']:.4f}\n" for step in range(1, self.steps(run) + 1))
            return {"text": text[numbers.get("offset", 0):], "offset": len(text)}
        if kind == "samples":
            rows = [{"messages": [{"role": "user", "content": "What is 2+2?"}, {"role": "assistant", "content": HOSTILE}]}, {"query": "a", "response": "b\nc"}]
            return {"files": [{"name": "val_dataset.jsonl", "rows": rows, "more": True}]}
        if kind == "arguments":
            return {"model": "smollm2", "dataset": ["a b.jsonl", "c.jsonl"], "learning_rate": 0.0003, "max_steps": -1, "save_steps": 500, "tuner_type": "full",
                    "resume": None, "logging_first_step": False}
        return None

    def problem(self, flags):
        if "model" not in flags:
            return "tern sft needs --model; see tern sft --help."
        if flags.get("learning_rate") == "fast":
            return '--learning_rate is "fast", and must be a number of at least 0; for example --learning_rate 0.'
        return None

    def post(self, path, body):
        """(status, answer)"""
        if path == "/runs/check":
            problem = self.problem(body["flags"])
            return 200, {"command": None if problem else f"tern sft {json.dumps(body['flags'])}", "problem": problem}
        if path == "/runs/start":
            problem = self.problem(body["flags"])
            if problem:
                return 400, {"error": {"message": problem}}
            self.started.append(body["flags"])
            name = f"{body['flags']['model']}/v9"
            self.runs = {name: {"state": "running", "total": 100, "rate": 5, "floor": 1, "here": True}, **self.runs}
            return 200, {"id": name, "command": "tern sft"}
        self.stops.append(body)
        run = self.runs[body["run"]]
        run["stopping"] = True
        if body.get("at_once"):
            run.update(state="stopped", at=self.steps(run), stopping=False)
        return 200, {}
