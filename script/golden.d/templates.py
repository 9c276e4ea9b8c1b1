#!/usr/bin/env python3
"""Writes what transformers renders for the templates and dialogues of tests/data/templates.

Usage: templates.py DIRECTORY        (needs transformers and jinja2; no torch)

DIRECTORY holds *.jinja, published/*.jinja, dialogues.json and snippets.txt (one template a line). It gets
  renderings.json  for each template and dialogue the XXH3 (64 bits) of the text, or "error" where transformers raises;
                   character spans of {% generation %} blocks where a template has them
  full.json        some of the texts whole
  snippets.json    for each line of snippets.txt the text, or null where Jinja raises

Needs xxhash too. The clock stands still at NOW.
"""
import datetime
import json
import sys
from pathlib import Path

import jinja2
import transformers
import transformers.utils.chat_template_utils as chat
import xxhash

NOW = (2026, 7, 26, 13, 5, 9)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
FULL = ["tool_parallel", "think_inline"]
# What the snippets find as variables.
SNIPPET_VARIABLES = {
    "x": {"a": "str", "n": 3, "f": 1.0, "i": -7, "big": 12345678901, "b": True, "nul": None, "l": [1, "a"],
          "d": {"k": "v"}, "u": "é🎉\u2028"}
}


class StoppedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime(*NOW)


def render(template, dialogue):
    """(text, spans), or None where transformers raises."""
    given = dict(dialogue)
    given.pop("name", None)
    kwargs = {**TOKENS, **(given.pop("kwargs", None) or {})}
    try:
        texts, spans = chat.render_jinja_template(
            [given.pop("messages")], chat_template=template, return_assistant_tokens_mask=True, **given, **kwargs)
    except Exception:  # whatever Jinja, the template or transformers raises: the reader must refuse it too
        return None
    return texts[0], [list(span) for span in spans[0]]


def dump(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def main():
    folder = Path(sys.argv[1])
    chat.datetime = StoppedClock
    dialogues = json.loads((folder / "dialogues.json").read_text(encoding="utf-8"))
    out = {"versions": {"transformers": transformers.__version__, "jinja2": jinja2.__version__}, "now": NOW,
           **TOKENS, "renderings": {}, "generation": {}}
    full = {}
    for path in sorted(folder.glob("*.jinja")) + sorted(folder.glob("published/*.jinja")):
        stem = path.relative_to(folder).with_suffix("").as_posix()
        template = path.read_text(encoding="utf-8")
        digests = {}
        for dialogue in dialogues:
            rendered = render(template, dialogue)
            name = dialogue["name"]
            digests[name] = "error" if rendered is None else xxhash.xxh3_64_hexdigest(rendered[0].encode())
            if rendered and rendered[1]:
                out["generation"].setdefault(stem, {})[name] = rendered[1]
            if rendered and name in FULL and path.parent == folder:
                full.setdefault(stem, {})[name] = rendered[0]
        out["renderings"][stem] = digests
    dump(folder / "renderings.json", out)
    dump(folder / "full.json", full)
    snippets = []
    for line in (folder / "snippets.txt").read_text(encoding="utf-8").splitlines():
        rendered = render(line, {"messages": [{"role": "user", "content": "q"}], "kwargs": SNIPPET_VARIABLES})
        snippets.append([line, rendered and rendered[0]])
    dump(folder / "snippets.json", {"variables": SNIPPET_VARIABLES, "snippets": snippets})


if __name__ == "__main__":
    main()
