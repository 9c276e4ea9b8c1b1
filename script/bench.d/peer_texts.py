#!/usr/bin/env python3
"""Writes rows {"text"} of more than 512 tokens each, joined from the shipped slice of GSM8K: peer_texts.py ROWS.jsonl OUT"""
import json
import sys

out, text = [], ""
for line in open(sys.argv[1], encoding="utf-8"):
    row = json.loads(line)
    text += "\n".join(str(value) for value in row.values()) + "\n\n"
    if len(text) > 4000:  # characters; under five a token
        out.append(text)
        text = ""
with open(sys.argv[2], "w", encoding="utf-8") as file:
    for text in out[:64]:
        file.write(json.dumps({"text": text}) + "\n")
