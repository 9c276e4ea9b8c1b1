#!/usr/bin/env python3
"""What transformers makes of plain text with SmolLM2's GGUF, in float32: the mean loss of a token.

Usage: perplexity.py MODEL.gguf FOLDER [TEXT]

Computes FOLDER/tinyshakespeare.jsonl, rows of {"text"} for `tern score`, and writes FOLDER/perplexity.json. Given TEXT,
tinyshakespeare.txt (Shakespeare's plays: public domain), it makes the rows first: PARTS parts of LINES lines each, at
even distances. No special tokens are added, as `tern score` adds none.
"""
import json
import math
import os
import sys

sys.path.pop(0)  # this folder has a tokenizers.py

import torch
import transformers

PARTS, LINES = 12, 40


def main():
    gguf, folder = sys.argv[1:3]
    data = os.path.join(folder, "tinyshakespeare.jsonl")
    if len(sys.argv) > 3:
        lines = open(sys.argv[3], encoding="utf-8").read().split("\n")
        distance = len(lines) // PARTS
        with open(data, "w", encoding="utf-8") as out:
            for part in range(PARTS):
                out.write(json.dumps({"text": "\n".join(lines[part * distance:part * distance + LINES])}) + "\n")
    rows = [json.loads(line)["text"] for line in open(data, encoding="utf-8")]
    where = dict(pretrained_model_name_or_path=os.path.dirname(os.path.abspath(gguf)), gguf_file=os.path.basename(gguf))
    tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
    model = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32).eval()
    total, count = 0.0, 0
    for row in rows:
        ids = torch.tensor([tokenizer(row, add_special_tokens=False)["input_ids"]])
        with torch.no_grad():
            logprobs = torch.log_softmax(model(ids).logits[0, :-1].double(), dim=-1)
        total -= logprobs.gather(1, ids[0, 1:, None]).sum().item()
        count += ids.shape[1] - 1
    result = {"scored_tokens": count, "loss": total / count, "perplexity": math.exp(total / count),
              "torch": torch.__version__, "transformers": transformers.__version__}
    with open(os.path.join(folder, "perplexity.json"), "w", encoding="utf-8") as out:
        out.write(json.dumps(result, indent=1) + "\n")
    print(result)


main()
