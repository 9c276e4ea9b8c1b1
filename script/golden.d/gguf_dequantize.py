#!/usr/bin/env python3
"""Writes tests/data/checkpoint/dequantize.json: what the PyPI package `gguf` makes of pseudo-random blocks of every type.

Usage: gguf_dequantize.py OUTPUT      needs: gguf numpy xxhash

Blocks come from splitmix64 seeded by the type's number, so that the test can make the same ones; the expected values are
kept as the xxh3_64 of their little-endian bits, every NaN written as 0x7fc00000, and the bits of the first eight values
of the first blocks for a reader who must find a mistake.
"""
import json
import sys
from importlib.metadata import version

import gguf
import numpy as np
import xxhash

BLOCKS = 4096
MASK = (1 << 64) - 1


def random_bytes(seed, count):
    words = (count + 7) // 8
    state = (np.uint64(seed) + np.arange(1, words + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) & np.uint64(MASK)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (state ^ (state >> np.uint64(31))).view(np.uint8)[:count].copy()


def main():
    np.seterr(all="ignore")
    rows = []
    for kind, (elements, size) in gguf.GGML_QUANT_SIZES.items():
        blocks = random_bytes(int(kind), BLOCKS * size).reshape(BLOCKS, size)
        try:
            values = gguf.dequantize(blocks, kind).astype(np.float32)
        except NotImplementedError:
            continue
        bits = np.ascontiguousarray(values).view(np.uint32).copy()
        bits[np.isnan(values)] = 0x7FC00000
        rows.append({
            "type": kind.name, "blocks": BLOCKS, "xxh3_64": xxhash.xxh3_64_hexdigest(bits.tobytes()),
            "first": [int(x) for x in bits.reshape(-1)[:8]],
        })
    out = {"made_by": "script/golden.d/gguf_dequantize.py", "gguf": version("gguf"), "numpy": np.__version__, "types": rows}
    with open(sys.argv[1], "w") as file:
        json.dump(out, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
