#!/usr/bin/env python3
"""The pages over an API that is made up: what server/pages/assets holds, KaTeX, and answers that provoke what a page must show.

  tests/pages/mock_server.py [--port 8123]

The last user message chooses the answer: "maths", "code", "thoughts", "tools", "xss", "long", "slow", "error", "busy", "break";
anything else gets a few lines. --key K asks for a key.
"""

import argparse
import hashlib
import json
import math
import os
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote
from pathlib import Path

from mock_runs import MockRuns

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "server/pages/assets"
KATEX = Path(os.environ.get("TERN_KATEX_DIR", "/usr/share/javascript/katex"))
SAMPLES = Path(__file__).resolve().parent / "samples"
TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8",
         "svg": "image/svg+xml", "txt": "text/plain; charset=utf-8", "woff2": "font/woff2"}


def policy():
    """The header that the server sends, read where it is said."""
    header = (ROOT / "server/pages/pages.h").read_text()
    value = re.search(r"kPagePolicy =((?:\s*\"[^\"]*\")+);", header).group(1)
    return "".join(re.findall(r'"([^"]*)"', value))


def page_file(path):
    if path in ("/", "/dashboard", "/web-ui"):
        return ASSETS / ("chat.html" if path == "/" else f"{path[1:]}.html")
    if path.startswith("/pages/katex/"):
        return KATEX / path.removeprefix("/pages/katex/")
    return ASSETS / path.removeprefix("/pages/") if path.startswith("/pages/") else None


class Metrics:
    """Counters that grow as if some clients were busy."""

    BOUNDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24]

    def __init__(self):
        self.begin = time.time()

    def histogram(self, name, median, count):
        lines, seen = [f"# TYPE {name} histogram"], 0.0
        for bound in self.BOUNDS:
            seen = count / (1 + (median / bound) ** 2.2)
            lines.append(f'{name}_bucket{{le="{bound}",model_name="mock"}} {int(seen)}')
        lines += [f'{name}_bucket{{le="+Inf",model_name="mock"}} {int(count)}', f'{name}_sum{{model_name="mock"}} {count * median}',
                  f'{name}_count{{model_name="mock"}} {int(count)}']
        return lines

    def text(self):
        t = time.time() - self.begin
        wave = 1 + 0.5 * math.sin(t / 3)
        gauges = {"num_requests_running": int(12 * wave), "num_requests_waiting": max(0, int(9 * wave) - 8),
                  "kv_cache_usage_perc": 0.31 * wave}
        counters = {"prompt_tokens_total": int(900 * t + 400 * wave), "generation_tokens_total": int(640 * t + 300 * wave),
                    "prefix_cache_queries_total": int(900 * t), "prefix_cache_hits_total": int(410 * t), "num_preemptions_total": int(t / 40)}
        lines = []
        for kind, values in (("gauge", gauges), ("counter", counters)):
            for name, value in values.items():
                lines += [f"# HELP vllm:{name} of the mock", f"# TYPE vllm:{name} {kind}", f'vllm:{name}{{model_name="mock"}} {value}']
        for reason, share in (("stop", 1.8), ("length", 0.4), ("abort", 0.1)):
            lines.append(f'vllm:request_success_total{{finished_reason="{reason}",model_name="mock"}} {int(share * t)}')
        for name, median, rate in (("time_to_first_token_seconds", 0.09, 2.3), ("inter_token_latency_seconds", 0.021, 640),
                                   ("e2e_request_latency_seconds", 1.6, 2.3)):
            lines += self.histogram("vllm:" + name, median, rate * t)
        return "\n".join(lines) + "\n"


def sample(name):
    return (SAMPLES / f"{name}.md").read_text()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body, content_type="application/json", headers=()):
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def error(self, status, message, headers=()):
        self.reply(status, json.dumps({"error": {"message": message, "type": "mock", "code": status}}), headers=headers)

    def allowed(self):
        key = self.server.key
        if key is None or self.headers.get("Authorization") == f"Bearer {key}":
            return True
        self.error(401, "Invalid API key")
        return False

    def do_GET(self):
        path = self.path.split("?")[0]
        file = page_file(path)
        if file is not None and file.is_file():
            body = file.read_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
            self.reply(200, body, TYPES[file.suffix[1:]], [("ETag", etag), ("Content-Security-Policy", policy())])
        elif path == "/v1/models" and self.allowed():
            models = [{"id": "smollm2-135m", "object": "model", "parent": None}, {"id": "pirate", "object": "model", "parent": "smollm2-135m"}]
            self.reply(200, json.dumps({"object": "list", "data": models}))
        elif path == "/metrics" and self.allowed():
            self.reply(200, self.server.metrics.text() if self.server.with_metrics else "", "text/plain; version=0.0.4")
        elif path.startswith("/runs") and self.allowed():
            answer = self.server.runs.get(unquote(path), self.path.partition("?")[2])
            self.reply(200, json.dumps(answer)) if answer is not None else self.error(400, f"there is no run {path}")
        elif path not in ("/v1/models", "/metrics") and not path.startswith("/runs"):
            self.error(404, f"no route {path}")

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        if not self.allowed():
            return
        if self.path.startswith("/runs/"):
            status, answer = self.server.runs.post(self.path, request)
            return self.reply(status, json.dumps(answer))
        content = request["messages"][-1]["content"]
        text = content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)
        word = text.split()[0].lower() if text.split() else ""
        if word == "busy":
            self.error(429, "queue full", [("Retry-After", "7")])
        elif word == "error":
            self.error(400, '"temperature": expected at most 2, found 3.')
        else:
            self.stream(word, text, request)

    def event(self, data):
        chunk = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.flush()

    def delta(self, delta, finish=None):
        self.event(json.dumps({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))

    def stream(self, word, text, request):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            self.answer(word, text, request)
        except (BrokenPipeError, ConnectionResetError):
            self.server.gone.append(word)
            self.close_connection = True

    def answer(self, word, text, request):
        self.delta({"role": "assistant", "content": ""})
        pause = 0.05 if word == "slow" else 0.002
        if word == "thoughts":
            for piece in re.findall(r"\s*\S+", sample("thoughts")):
                self.delta({"reasoning": piece})
                time.sleep(pause)
        if word == "tools":
            self.delta({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ""}}]})
            for piece in ('{"city": "Ber', 'gen", "days": 3, ', '"unit": "celsius"}'):
                self.delta({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
            return self.end("tool_calls", 24)
        names = {"code": "code", "maths": "maths", "xss": "xss", "long": "long"}
        if word in names:
            answer = sample(names[word])
        elif word == "slow":
            answer = " ".join(f"word {n}" for n in range(400))
        else:
            answer = f"You said: {text}\n\nThat's message {len(request['messages'])} of this dialogue."
        pieces = re.findall(r"\s*\S{1,6}", answer) + ["\n"]
        for at, piece in enumerate(pieces):
            if word == "break" and at == 3:
                self.close_connection = True
                return self.connection.close()
            self.delta({"content": piece})
            time.sleep(pause)
        self.end("stop", len(pieces))

    def end(self, finish, count):
        self.delta({}, finish)
        usage = {"prompt_tokens": 24, "completion_tokens": count, "total_tokens": 24 + count, "prompt_tokens_details": {"cached_tokens": 16}}
        self.event(json.dumps({"object": "chat.completion.chunk", "choices": [], "usage": usage}))
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")


class MockServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port=0, key=None, with_metrics=True):
        super().__init__(("127.0.0.1", port), Handler)
        self.key = key
        self.with_metrics = with_metrics
        self.metrics = Metrics()
        self.runs = MockRuns()
        self.requests = []  # bodies that came
        self.gone = []      # answers whose client went away
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        pass  # a client that goes away is part of what is tested

    def start(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--key")
    parser.add_argument("--no_metrics", action="store_true")
    options = parser.parse_args()
    server = MockServer(options.port, options.key, not options.no_metrics)
    print(server.url, flush=True)
    server.serve_forever()
