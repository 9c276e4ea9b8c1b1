#!/usr/bin/env python3
"""Three real processes of tern behind nginx, with examples/deploy/nginx.conf as it is but for its ports.

nginx_test.py TERN NGINX. Dialogues go on turn by turn while one process is killed, one is asked to end, and both come back.
Starts everything on free ports of loopback, and ends it.
"""
import collections
import http.client
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
tern, nginx = sys.argv[1:3]
WORDS = "river stone winter lamp orchard copper meadow harbour violet engine".split()


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def ask(port, path, body=None, timeout=120):
    """Status and text; an answer that breaks off in its middle raises."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        if body is None:
            connection.request("GET", path)
        else:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


class Process:
    def __init__(self, folder, port):
        self.folder, self.port = folder, port
        self.log = folder / f"access-{port}.jsonl"
        self.start()

    def start(self):
        with open(self.folder / f"log-{self.port}", "ab") as log:
            self.child = subprocess.Popen(
                [tern, "deploy", "--model", "smollm2-135m", "--host", "127.0.0.1", "--port", str(self.port),
                 "--max_model_len", "1024", "--max_num_seqs", "16", "--kv_cache_memory", "200MB",
                 "--access_log", str(self.log)], stdout=log, stderr=log)

    def wait_until_it_serves(self):
        for _ in range(1200):
            try:
                if ask(self.port, "/health")[0] == 200:
                    return
            except OSError:
                pass
            if self.child.poll() is not None:
                raise RuntimeError((self.folder / f"log-{self.port}").read_text())
            time.sleep(0.1)
        raise RuntimeError("no /health")

    def end(self, how=signal.SIGTERM):
        self.child.send_signal(how)
        return self.child.wait(timeout=90)

    def requests(self):
        if not self.log.exists():
            return []
        rows = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [row for row in rows if row["path"] == "/v1/chat/completions"]


class Dialogue(threading.Thread):
    """Asks turn after turn; keeps (begin, end, what went wrong) of each."""

    def __init__(self, port, number, until):
        super().__init__(daemon=True)
        self.port, self.number, self.until = port, number, until
        self.asked = []

    def run(self):
        turn = 0
        while not self.until.is_set():
            if turn % 8 == 0:
                about = " ".join(WORDS[(self.number * 7 + turn // 8 * 3 + i * (self.number + 2)) % len(WORDS)] for i in range(80))
                messages = [{"role": "system", "content": f"Dialogue {self.number}, part {turn // 8}. {about}"}]
            messages.append({"role": "user", "content": f"Go on with {WORDS[turn % len(WORDS)]}."})
            begin, wrong = time.monotonic(), None
            try:
                wrong = self.turn(messages, turn % 2 == 1)
            except (OSError, http.client.HTTPException, ValueError) as error:
                wrong = f"{type(error).__name__}: {error}"
            self.asked.append((begin, time.monotonic(), wrong))
            if wrong:
                messages.pop()
            turn += 1

    def turn(self, messages, stream):
        status, text = ask(self.port, "/v1/chat/completions",
                           {"messages": messages, "max_tokens": 24, "temperature": 0, "stream": stream})
        if status != 200:
            return f"{status}: {text[:200]}"
        if stream:
            if not text.endswith("data: [DONE]\n\n"):
                return "the stream broke off"
            chunks = [json.loads(line[6:]) for line in text.split("\n\n") if line.startswith("data: {")]
            answer = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])
        else:
            answer = json.loads(text)["choices"][0]["message"]["content"]
        messages.append({"role": "assistant", "content": answer})
        return None


class BehindNginx(unittest.TestCase):
    def setUp(self):
        self.nginx = None
        self.scratch = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self.scratch.name)
        front, *ports = free_ports(4)
        self.front = front
        conf = (SOURCE / "examples/deploy/nginx.conf").read_text()
        for written, here in zip(("8000", "127.0.0.1:8001", "127.0.0.1:8002", "127.0.0.1:8003"),
                                 (f"127.0.0.1:{front}", *(f"127.0.0.1:{port}" for port in ports))):
            conf, count = re.subn(rf"\b{re.escape(written)}\b(?=[ ;])", here, conf)
            self.assertEqual(count, 1, written)
        # nginx is unpacked, not installed: the folders of its package aren't there.
        paths = "".join(f"  {kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        paths += f"  access_log {folder}/access.log;\n"
        conf, count = re.subn(r"(?m)^http \{\n", lambda found: found[0] + paths, conf)
        self.assertEqual(count, 1, "http")
        (folder / "nginx.conf").write_text(conf)
        self.processes = [Process(folder, port) for port in ports]
        self.addCleanup(self.end_all)
        for process in self.processes:
            process.wait_until_it_serves()
        self.error_log = open(folder / "nginx.log", "wb")
        self.nginx = subprocess.Popen([nginx, "-p", str(folder), "-c", "nginx.conf", "-g", "daemon off; user root;"],
                                      stderr=self.error_log)
        for _ in range(100):
            try:
                if ask(front, "/health")[0] == 200:
                    break
            except OSError:
                self.assertIsNone(self.nginx.poll(), (folder / "nginx.log").read_text())
                time.sleep(0.1)

    def end_all(self):
        if self.nginx:
            self.nginx.terminate()
            self.nginx.wait()
            self.error_log.close()
        for process in self.processes:
            if process.child.poll() is None:
                process.end(signal.SIGKILL)
        self.scratch.cleanup()

    def test_one_is_killed_and_one_ends_under_load(self):
        until = threading.Event()
        dialogues = [Dialogue(self.front, number, until) for number in range(12)]
        for dialogue in dialogues:
            dialogue.start()

        def go_on(seconds, turns):
            """So long, and until so many turns more were answered: a slow machine takes longer."""
            more = sum(len(dialogue.asked) for dialogue in dialogues) + turns
            time.sleep(seconds)
            for _ in range(3000):
                if sum(len(dialogue.asked) for dialogue in dialogues) >= more:
                    return
                time.sleep(0.1)
            self.fail(f"not {turns} turns in five minutes")

        go_on(20, 48)
        before = [process.requests() for process in self.processes]
        killed = time.monotonic()
        self.processes[0].end(signal.SIGKILL)
        go_on(10, 6)
        self.processes[0].start()
        self.processes[0].wait_until_it_serves()
        back = len(self.processes[0].requests())
        go_on(8, 24)
        # Another is asked to end: what it has begun is answered, and nothing fails.
        self.assertEqual(self.processes[1].end(), 0)
        go_on(8, 6)
        until.set()
        for dialogue in dialogues:
            dialogue.join(timeout=120)
        asked = [turn for dialogue in dialogues for turn in dialogue.asked]
        failed = [turn for turn in asked if turn[2]]
        for begin, _, wrong in failed:
            self.assertLess(begin, killed, f"{wrong}: begun {begin - killed:.3f} s after one was killed")
        self.assertLess(len(failed), len(dialogues))
        # Each has had its share, and of a dialogue all turns: those behind the first find what came before them.
        self.assertTrue(all(before), [len(rows) for rows in before])
        rows = [row for process in before for row in process if row["status"] == 200]
        found = sum(row["cached_tokens"] > 0.6 * row["prompt_tokens"] for row in rows)
        first = sum(at % 8 == 0 and end < killed for each in dialogues for at, (_, end, _) in enumerate(each.asked))
        self.assertGreater(found, 0.85 * (len(rows) - first), f"{found} of {len(rows)}, {first} of them first turns")
        # Who came back has its share again.
        self.assertGreater(len(self.processes[0].requests()), back)
        counts = collections.Counter(wrong for _, _, wrong in failed)
        print(f"{len(asked)} requests over three processes, {len(failed)} failed, all in flight on the one that was killed "
              f"{dict(counts)}; {found} of {len(rows)} found their beginning")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
