#!/usr/bin/env python3
"""The pages in headless Chromium over tests/pages/mock_server.py: what a user does, and what a hostile model writes.

  tests/pages/pages_test.py [NAME...] [--shots DIRECTORY]
"""

import argparse
import inspect
import json
import sys
import time
import traceback
from pathlib import Path

from chromium import Chromium, PageError
from mock_server import MockServer
import runs_test

IDLE = "document.querySelector('#stop').hidden"
TEXT = "[...document.querySelectorAll('.message.assistant')].at(-1).querySelector(':scope > .markdown').innerText"


def expect(condition, what):
    if not condition:
        raise PageError(what)


def equal(found, expected, what):
    expect(found == expected, f"{what}: expected {expected!r}, found {found!r}")


class Run:
    def __init__(self, browser, server, shots):
        self.browser, self.server, self.shots = browser, server, shots

    def open(self, path="/", **how):
        self.browser.new_page(**how)
        self.browser.open(self.server.url + path)

    def begin(self, text):
        self.browser.run("document.getElementById('text').focus()")
        self.browser.type(text)
        self.browser.enter()

    def ask(self, text):
        count = self.browser.run("document.querySelectorAll('.message.assistant').length")
        self.begin(text)
        self.browser.wait(f"document.querySelectorAll('.message.assistant').length > {count} && {IDLE}", what=f"the answer to {text!r}")

    def shot(self, name):
        if self.shots:
            time.sleep(0.3)
            self.browser.screenshot(str(Path(self.shots) / f"{name}.png"))

    def last_request(self):
        return self.server.requests[-1]


def test_sends_and_streams(run):
    run.open()
    run.ask("hello there")
    equal(run.browser.run(TEXT).split("\n")[0], "You said: hello there", "the answer")
    request = run.last_request()
    equal(request["model"], "smollm2-135m", "the model")
    equal(request["messages"], [{"role": "user", "content": "hello there"}], "the messages")
    equal(sorted(request), ["messages", "model", "stream", "stream_options"], "the fields of a request without settings")
    stats = run.browser.run("document.querySelector('.stats').textContent")
    expect("tokens/s" in stats and "first token" in stats, f"the figures below the answer: {stats!r}")
    run.ask("again")
    equal([m["role"] for m in run.last_request()["messages"]], ["user", "assistant", "user"], "the dialogue")
    run.shot("chat")


def test_lines_and_keys(run):
    run.open()
    run.browser.run("document.getElementById('text').focus()")
    run.browser.type("one")
    run.browser.enter(shift=True)
    run.browser.type("two")
    run.browser.enter()
    run.browser.wait(f"document.querySelector('.message.assistant') && {IDLE}")
    equal(run.last_request()["messages"][0]["content"], "one\ntwo", "Shift+Enter")
    run.browser.key("O", 2 + 8, 79)
    run.browser.wait("document.querySelectorAll('.message').length === 0", what="Ctrl+Shift+O to begin a chat")
    equal(run.browser.run("document.activeElement.id"), "text", "the focus in a new chat")


def test_stop(run):
    run.open()
    run.begin("slow words")
    run.browser.wait(f"!{IDLE} && document.querySelector('.assistant .markdown p')", what="the answer to begin")
    run.browser.escape()
    run.browser.wait(IDLE, what="Esc to stop the answer")
    expect("stopped" in run.browser.run("document.querySelector('.stats').textContent"), "the answer says that it was stopped")
    run.begin("slow again")
    run.browser.wait(f"!{IDLE} && document.querySelectorAll('.assistant .markdown p').length === 2", what="the second answer")
    run.browser.click("#stop")
    run.browser.wait(IDLE, what="the button to stop the answer")
    deadline = time.time() + 10
    while run.server.gone.count("slow") < 2 and time.time() < deadline:
        time.sleep(0.05)
    equal(run.server.gone.count("slow"), 2, "answers that the server saw broken off")


def test_edit_and_regenerate(run):
    run.open()
    run.ask("first")
    run.ask("second")
    run.browser.run("document.querySelector('.message.user [aria-label^=Edit]').click()")
    run.browser.run("document.querySelector('.editor textarea').select()")
    run.browser.type("changed")
    run.browser.enter()
    run.browser.wait(f"document.querySelectorAll('.message').length === 2 && {IDLE}", what="what followed the edited message to go")
    equal(run.last_request()["messages"], [{"role": "user", "content": "changed"}], "the edited dialogue")
    count = len(run.server.requests)
    run.browser.run("document.querySelector('[aria-label=\"Answer again\"]').click()")
    run.browser.wait(IDLE)
    equal(len(run.server.requests), count + 1, "requests after another answer was asked for")
    equal(run.last_request()["messages"], [{"role": "user", "content": "changed"}], "the dialogue that is answered again")
    equal(run.browser.run("document.querySelectorAll('.message').length"), 2, "messages")


def test_history(run):
    run.open()
    run.ask("first chat")
    run.browser.click("#new-chat")
    run.ask("second chat")
    run.browser.reload()
    run.browser.wait("document.querySelectorAll('.dialogue').length === 2 && document.querySelectorAll('.message').length === 2", what="the history after a reload")
    run.browser.run("document.querySelectorAll('.dialogue')[1].querySelector('.title').click()")
    equal(run.browser.run("document.querySelector('.bubble').innerText"), "first chat", "the chat that was opened")
    run.browser.run("document.querySelectorAll('.dialogue')[1].querySelector('[title=Rename]').click()")
    run.browser.run("document.querySelector('.dialogue input').select()")
    run.browser.type("renamed")
    run.browser.enter()
    run.browser.wait("[...document.querySelectorAll('.dialogue .title')].some((e) => e.innerText === 'renamed')", what="the new name")
    run.browser.run("document.querySelectorAll('.dialogue')[0].querySelector('[title=Delete]').click()")
    run.browser.run("document.querySelector('.dialogue .danger').click()")
    run.browser.wait("document.querySelectorAll('.dialogue').length === 1", what="the chat to be deleted")
    equal(run.browser.run("Object.keys(localStorage).filter((k) => k.startsWith('tern.dialogue')).length"), 1, "chats that are kept")


def test_history_while_answering(run):
    """Broken if an answer that comes brought a deleted chat back, or an old name."""
    run.open()
    run.begin("slow one")
    run.browser.wait("document.querySelector('.assistant .markdown p') && document.querySelector('.dialogue')")
    run.browser.click("#new-chat")
    run.browser.run("document.querySelector('.dialogue [title=Rename]').click()")
    run.browser.run("document.querySelector('.dialogue input').select()")
    run.browser.type("renamed")
    run.browser.enter()
    equal(run.browser.run(f"[{IDLE}, document.querySelectorAll('.message').length]"), [False, 0], "a new chat while an answer comes")
    run.browser.run("document.querySelector('.dialogue .title').click()")
    run.browser.wait("document.querySelector('.assistant .markdown p').innerText.length > 20", what="the answer to go on in its chat")
    run.browser.escape()
    run.browser.wait(IDLE)
    equal(run.browser.run("document.querySelector('.dialogue .title').innerText"), "renamed", "the name after the answer")
    run.browser.run("""{const create = URL.createObjectURL; URL.createObjectURL = (blob) => {blob.text().then((t) => {window.exported = t;}); return create.call(URL, blob);};}""")
    run.browser.click("#export")
    run.browser.wait("window.exported")
    exported = json.loads(run.browser.run("window.exported"))
    equal([m["role"] for m in exported["messages"]], ["user", "assistant"], "the exported messages")
    equal(exported["title"], "renamed", "the exported title")
    run.begin("slow two")
    run.browser.wait("document.querySelectorAll('.assistant .markdown p').length === 2")
    run.browser.run("document.querySelector('.dialogue [title=Delete]').click()")
    run.browser.run("document.querySelector('.dialogue .danger').click()")
    run.browser.wait(IDLE, what="the answer to end with its chat")
    time.sleep(0.2)
    equal(run.browser.run("[document.querySelectorAll('.dialogue').length, Object.keys(localStorage).filter((k) => k.startsWith('tern.dialogue')).length]"),
          [0, 0], "chats after the only one was deleted")


def test_settings_reach_the_request(run):
    run.open()
    values = {"temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "max_tokens": 128, "seed": 7, "presence_penalty": 0.5,
              "frequency_penalty": -0.5, "repetition_penalty": 1.1}
    fill = "const e = document.getElementById('set-' + {0}); e.value = {1}; e.dispatchEvent(new Event('input'));"
    for name, value in {**values, "system": "Be brief."}.items():
        run.browser.run("{" + fill.format(json.dumps(name), json.dumps(str(value))) + "}")
    run.browser.run("{const m = document.getElementById('model'); m.value = 'pirate'; m.dispatchEvent(new Event('change'));}")
    run.ask("hello")
    request = run.last_request()
    equal({name: request.get(name) for name in values}, values, "the settings")
    equal(request["messages"][0], {"role": "system", "content": "Be brief."}, "the system prompt")
    equal(request["model"], "pirate", "the adapter")
    run.browser.run("{" + fill.format('"top_p"', '"2"') + "}")
    equal(run.browser.run("document.getElementById('set-top_p-error').textContent"), "At most 1.", "a value that can't be")
    run.ask("hello")
    expect("top_p" not in run.last_request(), "a value that can't be was sent")


def test_key(run):
    run.server.key = "secret"
    try:
        run.open()
        run.browser.wait("document.getElementById('notice').textContent.includes('API key')", what="the key to be asked for")
        run.ask("hello")
        expect("asks for an API key" in run.browser.run("document.querySelector('.problem').innerText"), "401 in plain words")
        run.browser.run("document.querySelector('.problem button').click()")
        run.browser.run("{const e = document.getElementById('set-key'); e.value = 'secret'; e.dispatchEvent(new Event('change'));}")
        run.browser.wait("document.getElementById('model').value === 'smollm2-135m'", what="the models, once the key is right")
        run.browser.run("[...document.querySelectorAll('.problem button')].at(-1).click()")
        run.browser.wait(f"{IDLE} && document.querySelector('.assistant .markdown p')")
        expect("secret" not in run.browser.run("JSON.stringify(localStorage)"), "the key is kept beyond the tab")
    finally:
        run.server.key = None
        run.browser.problems = [p for p in run.browser.problems if "401" not in p]


def test_errors_in_plain_words(run):
    run.open()
    for word, words in (("busy", "queue is full. Try again in 7 s."), ("error", '"temperature": expected at most 2'), ("break", "broke off")):
        run.ask(word)
        problem = "[...document.querySelectorAll('.problem')].at(-1).innerText"
        expect(words in run.browser.run(problem), f"{word}: {run.browser.run(problem)!r}")
    run.shot("errors")
    run.browser.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    run.ask("anyone there?")
    expect("can't be reached" in run.browser.run("[...document.querySelectorAll('.problem')].at(-1).innerText"), "a server that is gone")
    run.browser.problems = []  # each of these is logged by the browser itself


def test_thoughts_and_tools(run):
    run.open()
    run.ask("thoughts")
    equal(run.browser.run("[...document.querySelectorAll('.thoughts')].map((e) => [e.hidden, e.open, e.querySelector('summary').innerText.trim()])"),
          [[False, False, "Thoughts"]], "the thoughts, closed")
    expect("The user greets me" not in run.browser.run(TEXT), "thoughts within the answer")
    run.shot("thoughts")
    run.ask("tools please")
    expect('"city": "Bergen"' in run.browser.run("[...document.querySelectorAll('.calls')].at(-1).innerText"), "the call as JSON")
    run.browser.run("document.querySelector('.calls textarea').focus()")
    run.browser.type("rain")
    run.browser.run("document.querySelector('.calls .result button').click()")
    run.browser.wait(f"{IDLE} && document.querySelectorAll('.message.assistant').length === 3")
    messages = run.last_request()["messages"]
    equal(messages[-1], {"role": "tool", "tool_call_id": "call_1", "content": "rain"}, "the tool's result")
    equal(json.loads(messages[-2]["tool_calls"][0]["function"]["arguments"]), {"city": "Bergen", "days": 3, "unit": "celsius"}, "the call that is sent back")
    expect("reasoning" not in json.dumps(messages), "thoughts are sent back")


def test_markdown(run):
    run.open(height=1700)
    run.ask("code")
    found = run.browser.run("(() => {const a = document.querySelector('.assistant > .markdown'); const n = (s) => a.querySelectorAll(s).length;"
                            "return [n('pre'), n('ol'), n('ul ul'), n('table'), n('td'), n('blockquote'), n('input'), n('strong'), n('em'), n('del'), n('a')];})()")
    equal(found, [5, 1, 1, 1, 6, 1, 2, 1, 2, 1, 2], "pre, ol, nested ul, table, td, blockquote, boxes, strong, em, del, links")
    equal(run.browser.run("[...document.querySelectorAll('.markdown a')].map((a) => a.getAttribute('href'))"),
          ["https://example.org/a_(b)", "https://example.org/bare"], "links")
    source = (Path(__file__).parent / "samples/code.md").read_text()
    first = source.split("```cpp\n")[1].split("\n```")[0]
    equal(run.browser.run("document.querySelector('pre').textContent"), first, "code, to the character")
    equal(run.browser.run("document.querySelectorAll('pre .code-comment')[1].textContent.split('\\n').length"), 2, "lines of a comment")
    run.shot("markdown")


# Examples of CommonMark's and GitHub's specifications, and what a chat needs: source, HTML.
MARKDOWN = [
    ("*foo bar*", "<p><em>foo bar</em></p>"), ("a * foo bar*", "<p>a * foo bar*</p>"), ('a*"foo"*', '<p>a*"foo"*</p>'),
    ("foo*bar*", "<p>foo<em>bar</em></p>"), ("_foo*", "<p>_foo*</p>"), ("foo_bar_baz", "<p>foo_bar_baz</p>"), ("**foo**bar", "<p><strong>foo</strong>bar</p>"),
    ("*foo**bar**baz*", "<p><em>foo<strong>bar</strong>baz</em></p>"), ("***foo** bar*", "<p><em><strong>foo</strong> bar</em></p>"),
    ("*foo**", "<p><em>foo</em>*</p>"), ("****foo****", "<p><strong><strong>foo</strong></strong></p>"), ("*foo [bar](https://a.b/*)*", '<p><em>foo <a>bar</a></em></p>'),
    ("**foo [bar](https://a.b/)**", "<p><strong>foo <a>bar</a></strong></p>"), ("\\*not*", "<p>*not*</p>"), ("`` foo ` bar ``", "<p><code>foo ` bar</code></p>"),
    ("`foo\\`bar`", "<p><code>foo\\</code>bar`</p>"), ("*foo`*`", "<p>*foo<code>*</code></p>"), ("~~a~~ ~b~", "<p><del>a</del> <del>b</del></p>"),
    ("# a #", "<h2>a</h2>"), ("#a", "<p>#a</p>"), ("a\n===", "<h2>a</h2>"), ("***", "<hr>"), ("- a\n- b", "<ul><li>a</li><li>b</li></ul>"),
    ("- a\n\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"), ("- a\n  - b\n- c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"),
    ("2. a\n3. b", '<ol start="2"><li>a</li><li>b</li></ol>'), ("- a\n+ b", "<ul><li>a</li></ul><ul><li>b</li></ul>"), ("a\n1984. b", "<p>a<br>1984. b</p>"),
    ("> a\nb\n> c", "<blockquote><p>a<br>b<br>c</p></blockquote>"), ("> - a\n>\n> b", "<blockquote><ul><li>a</li></ul><p>b</p></blockquote>"),
    ("a  \nb", "<p>a<br>b</p>"), ("&amp; &copy; &nope; &#35;", "<p>&amp; \u00a9 &amp;nope; #</p>"), ("x<br>y H<sub>2</sub>O <b>z</b>", "<p>x<br>y H<sub>2</sub>O &lt;b&gt;z&lt;/b&gt;</p>"),
    ("1. a\n\n   b\n2. c", "<ol><li><p>a</p><p>b</p></li><li><p>c</p></li></ol>"), ("**\u6587\u5b57**\uff0c\u5b57", "<p><strong>\u6587\u5b57</strong>\uff0c\u5b57</p>"),
    ("[a](b)", "<p>[a](b)</p>"), ("[a][b] [ ] x[0](1)", "<p>[a][b] [ ] x[0](1)</p>"), ("a | b\nc", "<p>a | b<br>c</p>"), ("", ""), ("   \n \n", ""),
]


def test_markdown_examples(run):
    run.open()
    found = run.browser.run("(async (all) => {const {MarkdownView} = await import('/pages/markdown.js'); return all.map((text) => {"
                            " const view = new MarkdownView(); view.update(text); view.element.querySelectorAll('a').forEach((a) =>"
                            " [...a.attributes].forEach(({name}) => a.removeAttribute(name))); return view.element.innerHTML;});})"
                            f"({json.dumps([source for source, _ in MARKDOWN])})")
    wrong = [(source, expected, html) for (source, expected), html in zip(MARKDOWN, found) if html != expected]
    equal(wrong, [], "source, expected and found")


def test_growing_text(run):
    """A text that comes in pieces ends as the whole does, and what is complete isn't made anew."""
    run.open()
    source = "\n".join((Path(__file__).parent / f"samples/{name}.md").read_text() for name in ("code", "xss", "thoughts", "long"))
    found = run.browser.run(f"(async (text) => {{const {{MarkdownView}} = await import('/pages/markdown.js'); const grown = new MarkdownView();"
                            " let first = null; let kept = true;"
                            " for (let end = 0; end < text.length; end += 11) {grown.update(text.slice(0, end)); if (end > 200) {"
                            " first ??= grown.element.firstChild; kept &&= first === grown.element.firstChild;}}"
                            " grown.update(text); const whole = new MarkdownView(); whole.update(text);"
                            f" return [grown.element.innerHTML === whole.element.innerHTML, kept];}})({json.dumps(source)})")
    equal(found, [True, True], "the same as the whole; the first paragraph kept")


def test_maths(run):
    run.open()
    run.ask("maths")
    run.browser.wait("document.querySelectorAll('.katex').length >= 7", what="KaTeX to be loaded and to draw")
    equal(run.browser.run("document.querySelectorAll('.maths-source').length"), 2, "formulas that can't be read, shown as they are")
    equal(run.browser.run("document.querySelectorAll('.maths-display').length"), 3, "display maths")
    expect("$5 and not $10" in run.browser.run(TEXT), "sums of money are no maths")
    expect(run.browser.run("document.fonts.check('16px KaTeX_Main')"), "KaTeX's fonts")
    run.shot("maths")
    run.open(dark=True)
    run.ask("maths")
    run.browser.wait("document.querySelectorAll('.katex').length >= 7")
    run.shot("maths_dark")


def test_hostile_text(run):
    run.open(height=1200)
    run.ask("xss")
    run.browser.wait("document.querySelectorAll('.katex').length > 0")
    time.sleep(0.3)
    run.shot("hostile")
    equal(run.browser.run("window.hacked"), None, "what the model's text set")
    inside = "document.querySelector('.message.assistant > .markdown')"
    equal(run.browser.run(f"{inside}.querySelectorAll('script, img, iframe, svg[onload], style, form, object, embed').length"), 0, "elements of the model's")
    bad = run.browser.run(f"[...{inside}.querySelectorAll('*')].flatMap((e) => [...e.attributes].filter((a) => /^on/i.test(a.name) ||"
                          " (/^(href|src)$/.test(a.name) && !/^https:/.test(a.value))).map((a) => a.name + '=' + a.value))")
    equal(bad, [], "handlers and addresses")
    text = run.browser.run(f"{inside}.textContent")
    for probe in ("<script>window.hacked = 1</script>", '<img src=x onerror="window.hacked = 2">', "[a](javascript:window.hacked=3)",
                  '<iframe src="https://evil.example"></iframe>', "<script>window.hacked = 10</script>", "<style>body{display:none}</style>"):
        expect(probe in text, f"{probe} isn't shown as text")
    run.begin("<img src=x onerror='window.hacked=20'>")
    run.browser.wait(IDLE)
    run.browser.reload()
    run.browser.wait("document.querySelectorAll('.message').length === 4")
    equal(run.browser.run("window.hacked"), None, "what the user's text, the title and the history set")


def test_hostile_sizes(run):
    """Broken if some text took quadratic or exponential time: each has 60,000 characters."""
    run.open()
    result = run.browser.run("""(async () => {
      const {MarkdownView} = await import('/pages/markdown.js');
      const slow = [];
      for (const piece of ['[', '![', '*a ', '**a', '_', '`', '``` ', '$', '$$ ', '\\\\(', '<', '&', '[](', '](', '> ', '- ', '1. ', '|a', '| - ', '# ',
                           ' ', '\\n', '    x\\n', '* * ', '~~', 'http://', '[a](b ', '\\\\begin{align}', '*_', '((', '= ', '"', "'''", '[[a](b)']) {
        for (const text of [piece.repeat(60000 / piece.length), '# ' + piece.repeat(60000 / piece.length), '```js\\n' + piece.repeat(60000 / piece.length)]) {
          const begin = performance.now();
          new MarkdownView().update(text);
          if (performance.now() - begin > 3000) slow.push([piece, Math.round(performance.now() - begin)]);
        }
      }
      return slow;
    })()""")
    equal(result, [], "texts that take over three seconds")


def test_images(run):
    run.open()
    make = """(async (how) => {
      const canvas = document.createElement('canvas'); canvas.width = 40; canvas.height = 30;
      canvas.getContext('2d').fillRect(5, 5, 20, 20);
      const blob = await new Promise((resolve) => canvas.toBlob(resolve));
      const transfer = new DataTransfer(); transfer.items.add(new File([blob], 'a.png', {type: 'image/png'}));
      if (how === 'drop') window.dispatchEvent(new DragEvent('drop', {dataTransfer: transfer}));
      if (how === 'paste') window.dispatchEvent(new ClipboardEvent('paste', {clipboardData: transfer}));
      if (how === 'file') {const f = document.getElementById('files'); f.files = transfer.files; f.dispatchEvent(new Event('change'));}
    })"""
    for count, how in enumerate(("drop", "paste", "file"), 1):
        run.browser.run(f"{make}('{how}')")
        run.browser.wait(f"document.querySelectorAll('#attached img').length === {count}", what=f"the image by {how}")
    run.browser.run("document.querySelector('#attached button').click()")
    run.ask("what is this?")
    parts = run.last_request()["messages"][0]["content"]
    equal([part["type"] for part in parts], ["image_url", "image_url", "text"], "the parts")
    expect(parts[0]["image_url"]["url"].startswith("data:image/png;base64,iVBOR"), "the image as a data: URL")
    equal(run.browser.run("document.querySelectorAll('.bubble img').length"), 2, "images in the message")
    run.shot("images")


def test_phone(run):
    run.open(width=390, height=800, phone=True)
    run.ask("code")
    equal(run.browser.run("document.documentElement.scrollWidth <= 390 && document.getElementById('scroll').scrollWidth <= 390"), True, "the width")
    equal(run.browser.run("document.getElementById('drawer').hidden"), True, "the drawer at first")
    run.shot("phone")
    run.browser.click("#open-drawer")
    equal(run.browser.run("document.getElementById('drawer').hidden"), False, "the drawer, opened")
    run.shot("phone_drawer")
    run.browser.escape()
    equal(run.browser.run("document.getElementById('drawer').hidden"), True, "the drawer after Esc")


def test_theme(run):
    run.open(dark=True)
    equal(run.browser.run("document.documentElement.dataset.theme"), "dark", "the system's theme")
    run.browser.click("[data-theme-toggle]")
    equal(run.browser.run("document.documentElement.dataset.theme"), "light", "the chosen theme")
    run.browser.reload()
    run.browser.wait("document.documentElement.dataset.theme === 'light'", what="the chosen theme after a reload")


def test_names_for_readers(run):
    run.open()
    run.ask("tools")
    unnamed = run.browser.run("[...document.querySelectorAll('button, input, textarea, select, a')].filter((e) => !e.hidden && e.type !== 'file' &&"
                              " !(e.innerText.trim() || e.getAttribute('aria-label') || e.labels?.length)).map((e) => e.outerHTML.slice(0, 100))")
    equal(unnamed, [], "controls without a name")


TILES = "Object.fromEntries([...document.querySelectorAll('.tile')].map((e) => [e.children[0].innerText, e.children[1].innerText]))"


def test_dashboard_figures(run):
    """Figures from two readings that are given, as the mock's own move."""
    run.open("/dashboard")
    found = run.browser.run("""(async () => {
      const {Reading, rate, quantile, growth} = await import('/pages/metrics.js');
      const text = (n, buckets) => `# HELP x\\n# TYPE x counter\\nvllm:x_total{model_name="a",engine="0"} ${n}\\nvllm:x_total{model_name="b}\\\\"c"} 1e1 1700000000\\n` +
        buckets.map(([le, v]) => `vllm:h_seconds_bucket{le="${le}",model_name="a"} ${v}`).join('\\n') + '\\nvllm:g NaN\\nnot a line\\n';
      const first = new Reading(text(5, [['0.1', 10], ['0.2', 10], ['+Inf', 10]]), 1000);
      const second = new Reading(text(25, [['0.1', 20], ['0.2', 30], ['+Inf', 30]]), 3000);
      const third = new Reading(text(3, [['0.1', 0], ['0.2', 0], ['+Inf', 10]]), 5000);
      const h = 'vllm:h_seconds';
      return [first.value('vllm:x_total'), first.value('vllm:none'), rate(first, second, 'vllm:x_total'), rate(second, third, 'vllm:x_total'),
        quantile(first, second, 0.5, h), quantile(first, second, 0.75, h), quantile(first, first, 0.5, h), quantile(null, third, 0.5, h),
        quantile(second, third, 0.5, h), first.by_label('vllm:x_total', 'model_name').map(([name]) => name)];
    })()""")
    equal([round(v, 6) if isinstance(v, float) else v for v in found], [15, None, 10, None, 0.1, 0.15, None, 0.2, None, ["a", 'b}"c']],
          "sum, absent, rate, rate after a restart, p50, p75, nothing new, beyond the bounds, after a restart, labels")


def test_dashboard_live(run):
    run.open("/dashboard", height=1250)
    run.browser.wait("document.querySelectorAll('.line').length >= 12", timeout=30, what="twelve lines")
    tiles = run.browser.run(TILES)
    generated = float(tiles["Generated tokens/s"])
    expect(400 < generated < 900, f"the mock generates 640 tokens a second and some: {tiles}")
    equal(tiles["Prefix hits"], "46%", "410 of 900 tokens are found in the cache")
    expect("stop" in run.browser.run("document.getElementById('totals').innerText"), "requests by how they ended")
    time.sleep(12)
    run.shot("dashboard")
    run.browser.click("[data-theme-toggle]")
    run.browser.click("#span button")
    run.shot("dashboard_dark")
    run.browser.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    run.browser.wait("document.getElementById('problem').innerText.includes(\"can't be reached\")", what="the server to be missed")
    run.browser.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    run.browser.wait("document.getElementById('problem').hidden && document.getElementById('state').innerText === 'Live'", what="the server to be back")
    run.browser.problems = []


def test_dashboard_without_data(run):
    run.server.with_metrics = False
    run.open("/dashboard", height=1250)
    run.browser.wait("document.getElementById('state').innerText === 'Live'")
    equal(run.browser.run("document.querySelectorAll('.nothing').length"), 6, "charts that say that there's nothing yet")
    equal(set(run.browser.run(TILES).values()), {"\u2013"}, "tiles")
    expect("NaN" not in run.browser.run("document.body.innerText") and "undefined" not in run.browser.run("document.body.innerText"), "words for no data")
    run.shot("dashboard_empty")


def test_dashboard_key(run):
    run.server.key = "secret"
    run.open("/dashboard", width=390, height=800, phone=True)
    run.browser.wait("!document.getElementById('key-form').hidden", what="the key to be asked for")
    run.browser.type("secret")
    run.browser.enter()
    run.browser.wait("document.getElementById('state').innerText === 'Live' && document.getElementById('key-form').hidden")
    equal(run.browser.run("document.documentElement.scrollWidth <= 390"), True, "the width")
    time.sleep(5)
    run.shot("dashboard_phone")
    run.browser.problems = [problem for problem in run.browser.problems if "401" not in problem]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--shots")
    options = parser.parse_args()
    if options.shots:
        Path(options.shots).mkdir(parents=True, exist_ok=True)
    tests = [(name[5:], test) for name, test in {**globals(), **vars(runs_test)}.items() if name.startswith("test_") and inspect.isfunction(test)]
    tests = [(name, test) for name, test in tests if not options.names or name in options.names]
    failed = 0
    browser = Chromium()
    try:
        for name, test in tests:
            server = MockServer().start()
            try:
                test(Run(browser, server, options.shots))
                equal(browser.problems, [], "errors in the console")
                equal([url for url in browser.urls if not url.startswith((server.url + "/", "data:", "blob:"))], [], "requests to other hosts")
                print(f"passed {name}", flush=True)
            except PageError as error:
                failed += 1
                print(f"FAILED {name}: {error}", flush=True)
            except Exception:  # the next test still says something
                failed += 1
                print(f"FAILED {name}: {traceback.format_exc()}", flush=True)
            finally:
                server.shutdown()
                server.server_close()
    finally:
        browser.close()
    passed = len(tests) - failed
    print(f"{100 * passed // max(1, len(tests))}% tests passed, {failed} tests failed out of {len(tests)}")
    return 1 if failed or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
