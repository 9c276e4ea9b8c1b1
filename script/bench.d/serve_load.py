#!/usr/bin/env python3
"""Load on a server that speaks OpenAI's /v1/completions, streamed: tokens per second in all, and times.

serve_load.py URL --model NAME [NAME...] --streams 16 --prompt 256 --new 64 [--requests N] [--shared TOKENS]. As many requests at once
as streams, each a prompt of its own of token ids (or the same first TOKENS), greedy, no end of text; of several models or
adapters each request takes the next one. --beside TOKENS sends prompts of so many tokens meanwhile, one after the other, which
count for themselves alone. Prints one line of JSON.
"""
import argparse
import json
import random
import socket
import statistics
import sys
import threading
import time
from urllib.parse import urlparse


def ask(host, port, body):
    """Times at which tokens came, from the request's first byte."""
    begin = time.perf_counter()
    with socket.create_connection((host, port)) as connection:
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n" \
               f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode() + body)
        times, usage, text = [], None, connection.makefile("rb")
        for line in text:
            if not line.startswith(b"data: {"):
                if line.startswith(b"HTTP/1.1 ") and b" 200 " not in line:
                    raise SystemExit(f"serve_load: {line.decode().strip()}: {text.read().decode()}")
                continue
            event = json.loads(line[6:])
            if event.get("usage"):
                usage = event["usage"]
            if event.get("choices") and event["choices"][0].get("text"):
                times.append(time.perf_counter() - begin)
    return times, usage, time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--model", nargs="+", default=["m"])
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--requests", type=int)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--shared", type=int, default=0)
    parser.add_argument("--beside", type=int, default=0)
    given = parser.parse_args()
    where = urlparse(given.url)
    draw = random.Random(time.time_ns())
    shared = [draw.randrange(1000, 40000) for _ in range(given.shared)]
    total = given.requests or given.streams * 2

    def request(model, prompt, new):
        return json.dumps({"model": model, "prompt": prompt, "max_tokens": new, "temperature": 0, "ignore_eos": True,
                           "stream": True, "stream_options": {"include_usage": True}}).encode()

    def drawn(count):
        return [draw.randrange(1000, 40000) for _ in range(count)]

    bodies = [request(given.model[i % len(given.model)], shared + drawn(given.prompt - len(shared)), given.new) for i in range(total)]
    results, lock = [], threading.Lock()
    long_first, over = [], threading.Event()

    def long_prompts():
        while not over.is_set():
            times, _, _ = ask(where.hostname, where.port, request(given.model[0], drawn(given.beside), 1))
            if times:
                long_first.append(times[0])

    def client():
        while True:
            with lock:
                if not bodies:
                    return
                body = bodies.pop()
            try:
                result = ask(where.hostname, where.port, body)
            except OSError as error:
                print(f"serve_load: {error}", file=sys.stderr)
                return
            with lock:
                results.append(result)

    begin = time.perf_counter()
    threads = [threading.Thread(target=client) for _ in range(given.streams)]
    for thread in threads:
        thread.start()
    if given.beside:
        beside = threading.Thread(target=long_prompts)
        beside.start()
    for thread in threads:
        thread.join()
    over.set()
    took = time.perf_counter() - begin
    if len(results) < total:
        raise SystemExit(f"serve_load: {total - len(results)} of {total} requests were not answered")
    if given.beside and not long_first:
        raise SystemExit("serve_load: no long prompt had its first token before the others ended; give them more --new")
    generated = sum(usage["completion_tokens"] for _, usage, _ in results)
    first = [times[0] for times, _, _ in results if times]
    gaps = sorted(b - a for times, _, _ in results for a, b in zip(times, times[1:]))
    print(json.dumps({
        "streams": given.streams, "requests": total, "seconds": round(took, 3),
        "generated_per_second": round(generated / took, 1),
        "total_per_second": round((generated + total * given.prompt) / took, 1),
        "first_token_ms": round(1000 * statistics.median(first), 1),
        "gap_p50_ms": round(1000 * gaps[len(gaps) // 2], 2) if gaps else None,
        "gap_p99_ms": round(1000 * gaps[int(len(gaps) * 0.99)], 2) if gaps else None,
        **({"long_prompts": len(long_first), "long_first_token_ms": round(1000 * statistics.median(long_first), 1)}
           if long_first else {})}))


if __name__ == "__main__":
    main()
