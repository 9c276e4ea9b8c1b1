#!/usr/bin/env python3
"""Writes which parts of Jinja published chat templates use: what tern's reader of templates has to know.

Usage: template_constructs.py DIRECTORY LLAMA_CPP_TEMPLATES        (needs jinja2 alone)

DIRECTORY is tests/data/templates, whose *.jinja and published/*.jinja are read; LLAMA_CPP_TEMPLATES is
vendor/llama.cpp/models/templates of the llama-cpp-python source package. constructs.json in DIRECTORY gets, for each
kind of construct, {name: how many templates use it}.
"""
import collections
import json
import re
import sys
from pathlib import Path

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.defaults import DEFAULT_FILTERS, DEFAULT_TESTS

# What is read without a template that uses it, because it completes a family that templates use: the other order of the
# same comparison, the same filter's other name, the method of a filter's name, the other letter cases.
BESIDE = {
    "filters": {"capitalize": "lower", "title": "lower", "count": "length", "d": "default", "first": "last",
                "float": "int", "max": "min", "select": "reject"},
    "tests": {**{name: "equalto" for name in ("==", "eq", "!=", "ne", "<", "lt", "lessthan", "<=", "le", ">", "gt",
                                              "greaterthan", ">=", "ge", "in")},
              "float": "number", "integer": "number"},
    "methods": {"lower": "|lower", "upper": "|upper", "capitalize": "|capitalize", "title": "|title", "join": "|join",
                "rsplit": "split", "keys": "items", "values": "items"},
}


class Generation(jinja2.ext.Extension):
    """transformers' tag around what the assistant wrote."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


KINDS = ("tags", "filters", "tests", "functions", "methods", "attributes", "operators", "arguments", "literals",
         "escapes", "formats")
OPERATORS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**", "Neg": "unary -",
             "Pos": "unary +", "And": "and", "Or": "or", "Not": "not", "Concat": "~", "CondExpr": "if else"}
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "lteq": "<=", "gt": ">", "gteq": ">=", "in": "in", "notin": "not in"}


class Collector:
    def __init__(self):
        self.found = {kind: set() for kind in KINDS}

    def add(self, kind, name):
        self.found[kind].add(name)

    def arguments(self, what, node):
        """The shape of a call: how many arguments stand in order, and the names of the others."""
        for index in range(len(node.args)):
            self.add("arguments", f"{what}({index + 1})")
        for keyword in node.kwargs:
            self.add("arguments", f"{what}({keyword.key}=)")
        if node.dyn_args is not None:
            self.add("arguments", f"{what}(*)")
        if node.dyn_kwargs is not None:
            self.add("arguments", f"{what}(**)")

    def call(self, node, macros):
        callee = node.node
        if isinstance(callee, nodes.Getattr):
            loop = isinstance(callee.node, nodes.Name) and callee.node.name == "loop"
            self.add("methods", ("loop." if loop else "") + callee.attr)
            self.arguments("." + callee.attr, node)
            if callee.attr == "format" and isinstance(callee.node, nodes.Const):
                self.add("formats", "{}: " + " ".join(re.findall(r"\{[^}]*\}", callee.node.value)))
        elif isinstance(callee, nodes.Name) and callee.name in macros:
            self.arguments("macro", node)
            for keyword in node.kwargs:
                self.found["arguments"].discard(f"macro({keyword.key}=)")
                self.add("arguments", "macro(name=)")
        elif isinstance(callee, nodes.Name):
            self.add("functions", callee.name)
            names = "namespace", "dict"
            if callee.name in names and node.kwargs:
                self.add("arguments", f"{callee.name}(name=)")
            if callee.name not in names or node.args:
                self.arguments(callee.name, node)
            if callee.name == "strftime_now" and node.args and isinstance(node.args[0], nodes.Const):
                self.add("formats", "strftime: " + node.args[0].value)

    def subscript(self, node):
        if isinstance(node.arg, nodes.Slice):
            given = [name for name in ("start", "stop", "step") if getattr(node.arg, name) is not None]
            self.add("operators", "slice " + ":".join(given or ["all"]))
        else:
            self.add("operators", "[tuple]" if isinstance(node.arg, nodes.Tuple) else "[]")

    def statement(self, node):
        if isinstance(node, nodes.For):
            self.add("tags", "for")
            if node.test is not None:
                self.add("tags", "for if")
            if node.else_:
                self.add("tags", "for else")
            if node.recursive:
                self.add("tags", "for recursive")
            if isinstance(node.target, nodes.Tuple):
                self.add("tags", "for a, b")
        elif isinstance(node, nodes.If):
            for name, given in (("if", True), ("elif", node.elif_), ("else", node.else_)):
                if given:
                    self.add("tags", name)
        elif isinstance(node, (nodes.Assign, nodes.AssignBlock)):
            target = {"NSRef": "namespace.member", "Tuple": "a, b", "Name": "a"}[type(node.target).__name__]
            block = isinstance(node, nodes.AssignBlock)
            self.add("tags", f"set {target}" + (" block" if block else ""))
            if block and node.filter is not None:
                self.add("tags", "set block with filter")
        elif isinstance(node, nodes.Macro):
            self.add("tags", "macro")
            if node.defaults:
                self.add("tags", "macro with defaults")
        elif isinstance(node, nodes.Break | nodes.Continue):
            self.add("tags", type(node).__name__.lower())
        elif isinstance(node, (nodes.CallBlock, nodes.FilterBlock, nodes.With, nodes.ScopedEvalContextModifier,
                               nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends, nodes.Block)):
            self.add("tags", type(node).__name__.lower())

    def expression(self, node, macros):
        kind = type(node).__name__
        if kind in OPERATORS:
            self.add("operators", OPERATORS[kind] + (" without else" if kind == "CondExpr" and not node.expr2 else ""))
        elif isinstance(node, nodes.Compare):
            for operand in node.ops:
                self.add("operators", COMPARISONS[operand.op])
            if len(node.ops) > 1:
                self.add("operators", "chained comparison")
        elif isinstance(node, nodes.Filter):
            self.add("filters", node.name)
            self.arguments("|" + node.name, node)
            if node.name in ("map", "select", "reject") and node.args:
                self.add("filters" if node.name == "map" else "tests", node.args[0].value)
            if node.name in ("selectattr", "rejectattr") and len(node.args) > 1:
                self.add("tests", node.args[1].value)
            if node.name == "format" and isinstance(node.node, nodes.Const):
                self.add("formats", "|format: " + " ".join(re.findall(r"%[^a-zA-Z%]*[a-zA-Z%]", node.node.value)))
        elif isinstance(node, nodes.Test):
            self.add("tests", node.name)
            self.arguments("is " + node.name, node)
        elif isinstance(node, nodes.Call):
            self.call(node, macros)
        elif isinstance(node, nodes.Getitem):
            self.subscript(node)
        elif isinstance(node, nodes.Getattr):
            if isinstance(node.node, nodes.Name) and node.node.name == "loop":
                self.add("attributes", "loop." + node.attr)
        elif isinstance(node, (nodes.Const, nodes.List, nodes.Dict, nodes.Tuple)):
            value = type(node.value).__name__ if isinstance(node, nodes.Const) else kind.lower()
            if not (isinstance(node, nodes.Tuple) and node.ctx != "load"):
                self.add("literals", value)

    def template(self, source):
        environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True,
                                         extensions=[Generation, jinja2.ext.loopcontrols])
        tree = environment.parse(source)
        # Macros, and names that the template sets: what they give when called is the template's own.
        macros = {node.name for node in tree.find_all(nodes.Macro)}
        for node in tree.find_all(nodes.Node):
            self.statement(node)
            self.expression(node, macros)
        previous = ""
        for _, kind, text in environment.lex(source):
            if kind == "block_begin" or kind == "variable_begin" or kind == "comment_begin":
                self.add("tags", text.strip())
            elif kind == "block_end" or kind == "variable_end":
                self.add("tags", text.strip() or text)
            elif kind == "name" and text == "generation" and previous == "block_begin":
                self.add("tags", "generation")
            elif kind == "raw_begin":
                self.add("tags", "raw")
            elif kind == "string":
                for escape in re.findall(r"\\(.)", text, re.S):
                    self.add("escapes", "\\" + escape)
            if kind != "whitespace":
                previous = kind
        return self.found


def main():
    folder, llama = Path(sys.argv[1]), Path(sys.argv[2])
    paths = sorted(folder.glob("*.jinja")) + sorted(folder.glob("published/*.jinja")) + sorted(llama.glob("*.jinja"))
    # A published template stands in llama.cpp's folder too, under its own name: it counts once.
    unique = {path.name: path for path in paths}
    counts = {kind: collections.Counter() for kind in KINDS}
    for path in unique.values():
        for kind, names in Collector().template(path.read_text(encoding="utf-8")).items():
            counts[kind].update(names)
    # What there is to choose from: Jinja's filters and tests, and str's methods.
    jinja = {"filters": sorted(DEFAULT_FILTERS), "tests": sorted(name for name in DEFAULT_TESTS),
             "methods": sorted(name for name in dir(str) if not name.startswith("_"))}
    out = {"jinja2": jinja2.__version__, "templates": len(unique),
           "jinja": {kind: dict.fromkeys(names, 0) for kind, names in jinja.items()}, "beside": BESIDE,
           **{kind: dict(sorted(counts[kind].items())) for kind in KINDS}}
    (folder / "constructs.json").write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
