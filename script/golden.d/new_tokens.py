#!/usr/bin/env python3
"""Makes tests/data/golden/new-tokens.json: ids of tokenizers that got special tokens with transformers' add_special_tokens.

Usage: new_tokens.py OUTPUT TOKENIZERS      needs: transformers tokenizers

TOKENIZERS holds the tokenizer.json files that are read. Of each: `tokens` as they were given, the `size` of the
vocabulary with them, and of every text its ids without those of the post-processor.
"""
import json
import os
import sys

sys.path.pop(0)  # beside this file lies a tokenizers.py
import transformers

# Among them some that a vocabulary has already, as a token or as an added one.
CASES = {"bl-llama3": ["<new one>", "Ġthe", "<|new|>"], "bert-uncased": ["[NEW]", "[MASK]", "the", "<Große>"],
         "bl-added": ["<new>", "<new>x"], "bl-norm": ["<É>", "<new>"]}
TEXTS = ["a <new one><|new|> b", "[NEW] the [new] [MASK]<Große> x", "<new>x<new> <new>y <É>", "no such token"]


def main():
    output, folder = sys.argv[1:]
    versions = {"made_by": "script/golden.d/new_tokens.py", "transformers": transformers.__version__}
    cases = []
    for name, tokens in CASES.items():
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, f"{name}.json"))
        tokenizer.add_special_tokens({"additional_special_tokens": tokens})
        ids = [tokenizer.encode(text, add_special_tokens=False) for text in TEXTS]
        cases.append({"name": name, "tokens": tokens, "size": len(tokenizer), "ids": ids})
        print(f"{name}: {len(tokenizer)} tokens")
    with open(os.path.join(output, "new-tokens.json"), "w") as file:
        rows = ",\n  ".join(json.dumps(case, ensure_ascii=False) for case in cases)
        file.write(f'{{{json.dumps(versions)[1:-1]},\n "texts": {json.dumps(TEXTS, ensure_ascii=False)},\n "cases": [\n  {rows}\n]}}\n')


if __name__ == "__main__":
    main()
