#!/usr/bin/env python3
"""Writes examples/gsm8k: a slice of GSM8K as it is, and preference pairs made from it with a planted wrong step.

Usage: gsm8k_slice.py GSM8K OUTPUT

GSM8K holds train.jsonl, test.jsonl and LICENSE of https://github.com/openai/grade-school-math (MIT). The slice is the first rows of
each file, byte for byte; pairs are taken at even distances of all that can be made. In a pair the chosen answer is the data set's own; the rejected one has the result of one
step changed, every later step computed on from the wrong value, so that it is wrong in its final answer and nowhere else
than where the mistake leads.
"""
import ast
import hashlib
import json
import operator
import re
import shutil
import sys
from fractions import Fraction
from pathlib import Path

TRAIN, TEST, PAIRS = 512, 64, 200
STEP = re.compile(r"<<([^<>=]*)=([^<>=]*)>>(\$?)([\d,]*\.?\d+)?")
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w])")
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def evaluate(text):
    """The value of a calculator annotation's expression, or None where it is more than the four operations."""
    def value(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return Fraction(str(node.value))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise ValueError(text)
    try:
        return value(ast.parse(re.sub(r"(?<!\d)0+(?=\d)", "", text.replace(",", "").strip()), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError):
        return None


def number(text):
    return Fraction(text.replace(",", ""))


def written(value):
    """A number as GSM8K writes it, or None where it has no short decimal form."""
    if value.denominator == 1:
        return str(value.numerator)
    text = f"{float(value):.2f}".rstrip("0")
    return text if Fraction(text) == value else None


def swap(text, changed):
    return NUMBER.sub(lambda m: changed.get(number(m.group()), m.group()), text)


def plant(question, answer):
    """`answer` with one wrong step, or None where the row does not lend itself to it."""
    body, final = answer.rsplit("\n#### ", 1)
    lines = body.split("\n")
    steps = [m for line in lines for m in STEP.finditer(line)]
    if len(steps) < 2 or any(evaluate(m.group(1)) is None or m.group(4) is None for m in steps):
        return None
    if not re.fullmatch(r"-?[\d,]+", final.strip()):
        return None
    draw = int(hashlib.sha256(question.encode()).hexdigest(), 16)
    victim, off = draw % (len(steps) - 1), [1, 2, 10, -1][draw // 97 % 4]
    given = {number(n) for n in NUMBER.findall(question)}
    changed, count, out = {}, 0, []
    for line in lines:
        pieces, end = [], 0
        for step in STEP.finditer(line):
            pieces.append(swap(line[end:step.start()], changed))
            right = evaluate(step.group(1))
            expression = swap(step.group(1), changed)
            value = evaluate(expression)
            if count == victim:
                value = right + off
            shown = None if value is None or value <= 0 else written(value)
            if shown is None or (count == victim and (right.denominator != 1 or right in given)):
                return None
            if value != right:
                changed[right] = shown
            pieces.append(f"<<{expression}={shown}>>{step.group(3)}{shown}")
            end, count = step.end(), count + 1
        pieces.append(swap(line[end:], changed))
        out.append("".join(pieces))
    wrong = changed.get(number(final))
    return None if wrong is None else "\n".join(out) + "\n#### " + wrong


def write(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def write_tasks(output):
    """Small sets for docs/tasks.md: whether a question is about money, and which solution is a question's."""
    rows = [json.loads(line) for line in (output / "train.jsonl").open(encoding="utf-8")]
    labelled = [{"query": r["question"], "label": int("$" in r["question"])} for r in rows if len(r["question"]) < 300]
    of_both = [r for pair in zip(*([r for r in labelled if r["label"] == label][:64] for label in (0, 1))) for r in pair]
    write(output / "money.jsonl", of_both[:96])
    write(output / "money-test.jsonl", of_both[96:])
    message = lambda text: [{"role": "user", "content": text}]
    short = [r for r in rows if len(r["question"]) + len(r["answer"]) < 400][:48]
    others = lambda i: [short[(i + step) % len(short)]["answer"] for step in (7, 19)]
    write(output / "solutions.jsonl", [
        {"messages": message(r["question"]), "positive_messages": [message(r["answer"])],
         "negative_messages": [message(text) for text in others(i)]} for i, r in enumerate(short)])


def main():
    source, output = Path(sys.argv[1]), Path(sys.argv[2])
    output.mkdir(parents=True, exist_ok=True)
    read = lambda name: [json.loads(line) for line in (source / name).open(encoding="utf-8")]
    spread = lambda rows, count: [rows[i * len(rows) // count] for i in range(count)]
    row = lambda r: {"query": r["question"], "response": r["answer"]}
    for name, count in (("train.jsonl", TRAIN), ("test.jsonl", TEST)):
        with (source / name).open("rb") as lines:
            (output / name).write_bytes(b"".join(line for line, _ in zip(lines, range(count))))
    train = read("train.jsonl")
    pairs = [(r, plant(r["question"], r["answer"])) for r in train]
    pairs = [row(r) | {"rejected_response": wrong} for r, wrong in pairs if wrong]
    write(output / "pairs.jsonl", spread(pairs, PAIRS))
    write_tasks(output)
    shutil.copyfile(source / "LICENSE", output / "LICENSE")
    print(f"{TRAIN} and {TEST} rows; {PAIRS} of {len(pairs)} possible pairs")


if __name__ == "__main__":
    main()
