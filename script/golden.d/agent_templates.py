#!/usr/bin/env python3
"""Writes what ms-swift's agent templates make of tools, calls and results: agent_templates.json.

Usage: agent_templates.py MS_SWIFT DIRECTORY

MS_SWIFT is the unpacked package (pip download --no-deps ms-swift==4.6.0). Only its folder swift/agent_template is
loaded, with what it takes from elsewhere stood in for here: none of the package's dependencies are needed. Left out is
what ms-swift writes with Python's repr in the place of JSON (the arguments of glm4), or as no tokenizer of Mistral's
reads it (its calls, a line each and with an end token).
"""
import copy
import importlib
import json
import sys
import types
from collections import namedtuple
from pathlib import Path

VERSION = "4.6.0"
FORMATS = ["hermes", "qwen3_coder", "qwen3_5", "llama3", "mistral", "deepseek_v3_1", "glm4", "glm4_5"]
INLINE = ["react_en", "react_zh", "qwen_en", "qwen_zh", "qwen_en_parallel", "qwen_zh_parallel"]
SYSTEM = "Be brief."
QUESTION = "How is it in Zürich?"
TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Gets the weather.", "parameters": {
            "type": "object", "properties": {
                "city": {"type": "string", "description": "The city, \"as written\""},
                "days": {"type": "integer", "minimum": 1, "enum": [1, 2]}}, "required": ["city"]}}},
    {"type": "function", "function": {
        "name": "now", "description": "Die Zeit – jetzt", "parameters": {"type": "object", "properties": {}},
        "strict": True}},
]
# Names of Qwen-Agent's for models and for people, parameters as a text, or none.
PLAIN_TOOLS = [{"name_for_model": "draw", "name_for_human": "Painter", "description_for_model": "Draws.", "parameters": "a word"},
               {"name": "now", "description": ""}]
CALLS = [{"name": "get_weather", "arguments": {"city": "Zürich \"HB\"", "days": 2}},
         {"name": "now", "arguments": {"zone": ["CET", 1.5, None, True], "exact": False}}]
RESPONSES = ["{\"sky\": \"clear\"}", "12:00 – noon"]


def load(package):
    swift = types.ModuleType("swift")
    swift.__path__ = [str(package / "swift")]
    engine = types.ModuleType("swift.infer_engine")
    engine.Function = namedtuple("Function", "name arguments")
    template = types.ModuleType("swift.template")
    template.Prompt = list
    template.split_str_parts_by = None
    sys.modules.update({"swift": swift, "swift.infer_engine": engine, "swift.template": template})
    return importlib.import_module("swift.agent_template.mapping").agent_template_map


def written(template, name):
    template.template_meta = types.SimpleNamespace(prompt=["{{QUERY}}"], chat_sep=[])
    question = {"role": "user", "content": QUESTION}
    system = template._format_tools(copy.deepcopy(TOOLS), SYSTEM, question)
    out = {"system": system, "question": question["content"]}
    if name not in ("glm4", "mistral"):
        out["calls"] = template._format_tool_calls([{"content": json.dumps(call)} for call in CALLS])
    if name in ("hermes", "qwen3_coder", "qwen3_5", "mistral"):
        out["responses"] = "".join(template._format_tool_responses("", [{"content": text} for text in RESPONSES])[1])
    return out


def written_inline(template):
    """Calls and results that are lines of the assistant's text, which goes on behind them."""
    question = {"role": "user", "content": QUESTION}
    calls = template._format_tool_calls([{"content": json.dumps(call)} for call in CALLS])
    results = [{"content": text} for text in RESPONSES[:1]] + [{"content": RESPONSES[1] + "\n"}]
    said, shown = template._format_tool_responses("Let me look.\n" + calls, results)
    plain, after_plain = template._format_tool_responses("No call.", results)
    own, after_own = template._format_tool_responses(f"{template.keyword.action} f\n{template.keyword.action_input} 1", results)
    out = {"system": template._format_tools(copy.deepcopy(TOOLS), SYSTEM, question),
           "bare": template._format_tools(copy.deepcopy(PLAIN_TOOLS), None, question), "calls": calls,
           "turn": [said, "".join(shown)], "plain": plain + "".join(after_plain), "own": own + "".join(after_own)}
    try:
        out["standalone"] = QUESTION + "".join(template._format_standalone_tool_responses(results))
    except NotImplementedError:
        pass
    return out


def main():
    formats = load(Path(sys.argv[1]))
    out = {"ms-swift": VERSION, "system": SYSTEM, "question": QUESTION, "tools": TOOLS, "calls": CALLS,
           "responses": RESPONSES, "formats": {name: written(formats[name](), name) for name in FORMATS}, "plain_tools": PLAIN_TOOLS,
           "inline": {name: written_inline(formats[name]()) for name in INLINE}}
    text = json.dumps(out, ensure_ascii=False, indent=0)
    (Path(sys.argv[2]) / "agent_templates.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
