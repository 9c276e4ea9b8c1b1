#!/usr/bin/env python3
"""Writes tests/data/golden/interleave.json: what datasets.interleave_datasets makes of data sets, mapped and streamed.

Usage: interleave.py OUTPUT_FILE      needs: datasets
"""
import json
import sys
from importlib.metadata import version

from datasets import Dataset, interleave_datasets

CASES = [([5, 9, 3], [0.2, 0.5, 0.3], 42), ([40, 7], [0.25, 0.75], 7), ([1, 12, 4], [0.1, 0.45, 0.45], 0),
         ([30, 30], [0.5, 0.5], 2**40 + 5), ([6], [1.0], 3), ([1500, 400], [0.8, 0.2], 42), ([5, 9], [0.0, 1.0], 1)]


def mixed(lengths, p, seed, strategy, streams):
    sets = [Dataset.from_dict({"set": [i] * n, "row": list(range(n))}) for i, n in enumerate(lengths)]
    if streams:
        sets = [one.to_iterable_dataset() for one in sets]
    return [[row["set"], row["row"]] for row in interleave_datasets(sets, p, seed=seed, stopping_strategy=strategy)]


cases = []
for lengths, p, seed in CASES:
    for strategy in ("first_exhausted", "all_exhausted"):
        if strategy == "all_exhausted" and min(p) == 0:
            continue  # never ends
        rows = mixed(lengths, p, seed, strategy, False)
        assert rows == mixed(lengths, p, seed, strategy, True), (lengths, p, seed, strategy)
        cases.append({"rows": lengths, "p": p, "seed": seed, "stopping_strategy": strategy, "sets": "".join(str(s) for s, _ in rows),
                      "last": rows[-1], "row_sum": sum(r for _, r in rows)})
made = {"made_by": "script/golden.d/interleave.py", "datasets": version("datasets"), "numpy": version("numpy"), "cases": cases}
with open(sys.argv[1], "w", encoding="utf-8") as file:
    file.write(json.dumps(made).replace('{"rows"', '\n {"rows"') + "\n")
