#!/usr/bin/env python3
"""Writes tests/data/golden/loss-scale.json: the parts of answers and their weights by ms-swift's own loss scales.

Usage: loss_scale.py OUTPUT_FILE SWIFT
SWIFT: the unpacked package (pip download --no-deps ms-swift==4.6.0; unzip): its functions are run, without what it imports.
"""
import ast
import json
import os
import re
import sys
import typing

OUT, SWIFT = sys.argv[1:]


def functions(path, names, scope):
    tree = ast.parse(open(os.path.join(SWIFT, path), encoding="utf-8").read())
    tree.body = [node for node in tree.body if getattr(node, "name", "") in names]
    exec(compile(tree, path, "exec"), scope)
    return scope


scope = {"re": re, **{name: getattr(typing, name) for name in ("Dict", "List", "Optional", "Tuple")}}
functions("swift/template/utils.py", ("_split_str_by_regex", "split_str_parts_by"), scope)
calculate = functions("swift/loss_scale/utils.py", ("calculate_loss_scale",), scope)["calculate_loss_scale"]


def weigh(name, query, text):
    table = json.load(open(os.path.join(SWIFT, f"swift/loss_scale/config/{name}.json"), encoding="utf-8"))
    return calculate(query, text, table["response"], table["query"]) if "response" in table else calculate(query, text, table)


def chain(names, query, text):
    parts = [(text, 1.0)]
    for name in names.split("+"):
        parts = [(piece, weight * share) for part, weight in parts for piece, share in zip(*weigh(name, query, part))]
    return parts


TEXTS = {
    "react": ["Thought: add.\nAction: sum\nAction Input: {\"a\": 1}\nObservation: 3\nThought: done\nFinal Answer: 3",
              "No marks at all.", "Action:Action: twice", "before Action: x"],
    "alpha_umi": ["Thought: a\nNext: b\nAction: c"],
    "qwen": ["✿FUNCTION✿: f\n✿ARGS✿: {}\n✿RESULT✿: 1\n✿RETURN✿: ok"],
    "agentflan": ["Name: f Arguments: {} Observation: x", "Command run"],
    "hermes": ["I call.\n<tool_call>\n{\"name\": \"f\"}\n</tool_call>\n<tool_call>x</tool_call> end", "<tool_call></tool_call>", "plain"],
    "ignore_empty_think": ["<think>\n\n</think>\n\nYes.", "<think>why</think>Yes.", "</think>\n\nYes.", "A\n<think></think>B", "<think></think><think></think>",
                           "<|channel>thought\n<channel|>x"],
    "ignore_think_prefix": ["<think>\nwhy</think>", "no"],
    "hermes+ignore_empty_think": ["<think>\n\n</think>\n\n<tool_call>f</tool_call>"],
    "ignore_empty_think+hermes": ["<think>\n\n</think>\n\n<tool_call>f</tool_call> and"],
    "react+hermes": ["Action: <tool_call>f</tool_call>\nObservation: <tool_call>g</tool_call>"],
}
cases = [{"chain": names, "query": query, "response": text, "parts": chain(names, query, text)}
         for names, texts in TEXTS.items() for text in texts
         for query in ["Why?"] + (["What is the value of x?"] if names == "agentflan" else [])]
with open(OUT, "w", encoding="utf-8") as file:
    file.write("[" + ",\n ".join(json.dumps(case, ensure_ascii=False) for case in cases) + "]\n")
