"""A real `tern deploy` of the bundled model on a free port of loopback, while tests of clients ask it."""
import os
import socket
import subprocess
import sys
import time
import unittest
import urllib.request

MODEL = "smollm2-135m"
KEY = "secret"


class Server:
    base = ""


server = Server()


def main(*flags):
    """Runs the calling module's tests, or those that are named behind TERN, the first argument. Ends with 0 where all passed
    and the server ended well. `flags` are more of the server's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server.base = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([sys.argv[1], "deploy", "--model", MODEL, "--host", "127.0.0.1", "--port", str(port),
                                "--api_key", KEY, "--quiet", "--kv_cache_memory", "1GB", *flags])
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(server.base + "/health").close()
                break
            except OSError:
                time.sleep(0.1)
        result = unittest.main(argv=sys.argv[:1] + sys.argv[2:], exit=False, verbosity=2).result
    finally:
        process.terminate()
        ended = process.wait(60)
    failed = len(result.failures) + len(result.errors)
    print(f"[  PASSED  ] {result.testsRun - failed} tests; the server ended with {ended}")
    sys.stdout.flush()
    sys.stderr.flush()
    # Without the interpreter's own end, in which libraries of clients have crashed.
    os._exit(1 if failed or ended else 0)
