"""Headless Chromium by the DevTools protocol over its pipe: needs nothing but Python's own library."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


class PageError(Exception):
    pass


class Chromium:
    def __init__(self):
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        if program is None:
            raise PageError("no chromium here: apt-get install chromium fonts-dejavu-core")
        self.profile = tempfile.mkdtemp(prefix="tern-pages-")
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", f"--user-data-dir={self.profile}", "about:blank"]
        # Chromium speaks on descriptors 3 and 4.
        shell = f'exec 3<&{to_read} 4>&{to_write}; exec "$@"'
        self.process = subprocess.Popen(["bash", "-c", shell, "chromium", program, *flags], pass_fds=(to_read, to_write),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.number = 0
        self.rest = b""
        self.problems = []  # console errors, exceptions, refused requests
        self.urls = []      # everything that was asked for
        self.session = None
        self.context = None  # as a new profile: each page has its own storage

    def close(self):
        self.process.terminate()
        self.process.wait(20)
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self, deadline):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.from_browser], [], [], max(0, deadline - time.time()))
            if not ready:
                raise PageError("Chromium doesn't answer")
            piece = os.read(self.from_browser, 1 << 20)
            if not piece:
                raise PageError("Chromium ended")
            self.rest += piece
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def note(self, event):
        method, params = event.get("method"), event.get("params", {})
        if event.get("sessionId") != self.session:
            return  # of a page that was left
        if method == "Runtime.exceptionThrown":
            self.problems.append(params["exceptionDetails"].get("exception", {}).get("description", str(params)))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(f'{params["entry"]["text"]} {params["entry"].get("url", "")}')
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.problems.append(json.dumps(params["args"])[:400])
        elif method == "Network.requestWillBeSent":
            self.urls.append(params["request"]["url"])

    def call(self, method, timeout=30, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session is not None:
            request["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(request).encode() + b"\0")
        deadline = time.time() + timeout
        while True:
            answer = self.message(deadline)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise PageError(f'{method}: {answer["error"]["message"]}')
                return answer["result"]
            self.note(answer)

    def new_page(self, width=1200, height=800, dark=False, phone=False):
        self.session = None
        if self.context is not None:
            self.call("Target.disposeBrowserContext", browserContextId=self.context)
        self.context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=self.context)["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.problems, self.urls = [], []

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'", what=f"{url} to load")

    def reload(self):
        self.run("window.before_reload = true")
        self.call("Page.reload")
        self.wait("!window.before_reload && document.readyState === 'complete'", what="the page to load again")

    def run(self, script):
        """The value of an expression; promises are awaited."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in result:
            raise PageError(f'{script}: {result["exceptionDetails"].get("exception", {}).get("description")}')
        return result["result"].get("value")

    def wait(self, condition, timeout=20, what=None):
        deadline = time.time() + timeout
        while time.time() < deadline:
            if self.run(f"(() => {{try {{return Boolean({condition});}} catch {{return false;}}}})()"):
                return
            time.sleep(0.03)
        raise PageError(f"waited {timeout} s in vain for {what or condition}")

    def type(self, text):
        self.call("Input.insertText", text=text)

    def key(self, key, modifiers=0, code=0, text=None):
        """modifiers: 1 alt, 2 control, 8 shift"""
        common = {"key": key, "modifiers": modifiers, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def enter(self, shift=False):
        self.key("Enter", 8 if shift else 0, 13, "\r")

    def escape(self):
        self.key("Escape", 0, 27)

    def click(self, selector):
        box = self.run(f"(() => {{const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'nearest'}});"
                       " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2];})()")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left" if kind != "mouseMoved" else "none", clickCount=1)

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
