#!/usr/bin/env python3
"""Writes tests/data/checkpoint/quantize.json: what the references make of pseudo-random values.

Usage: gguf_quantize.py OUTPUT LIBGGML      needs: gguf numpy xxhash, and libggml-base.so of llama-cpp-python

F16, BF16, Q8_0, Q4_0, Q4_1: the xxh3_64 of the blocks that the PyPI package `gguf` writes. Q4_K, Q6_K: the sum of squared
errors of ggml's own quantisation (quantize_row_*_ref), which ours may not exceed.
"""
import ctypes
import json
import sys
from importlib.metadata import version

import gguf
import numpy as np
import xxhash

from gguf_dequantize import random_bytes

COUNT = 1 << 16


def test_values():
    """Sums of four uniforms, each run of 32 scaled by its own power of two: exact in float64, rounded once."""
    words = random_bytes(77, COUNT * 8).view(np.uint64).reshape(-1, 1)
    parts = (words >> np.array([0, 16, 32, 48], dtype=np.uint64)) & np.uint64(0xFFFF)
    values = parts.astype(np.float64).sum(axis=-1) / 65536.0 - 2.0
    exponent = (np.arange(COUNT) // 32 * 7919 % 13).astype(np.float64) - 8
    return (values * 2.0**exponent).astype(np.float32)


def main():
    kinds = gguf.GGMLQuantizationType
    values = test_values()
    out = {"made_by": "script/golden.d/gguf_quantize.py", "gguf": version("gguf"), "numpy": np.__version__, "count": COUNT,
           "values_xxh3_64": xxhash.xxh3_64_hexdigest(values.tobytes()), "exact": {}, "squared_error": {}}
    for kind in (kinds.F16, kinds.BF16, kinds.Q8_0, kinds.Q4_0, kinds.Q4_1):
        blocks = np.ascontiguousarray(gguf.quantize(values, kind))
        out["exact"][kind.name] = xxhash.xxh3_64_hexdigest(blocks.tobytes())
    library = ctypes.CDLL(sys.argv[2])
    for kind, name in ((kinds.Q4_K, "quantize_row_q4_K_ref"), (kinds.Q6_K, "quantize_row_q6_K_ref")):
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = np.zeros(COUNT // elements * size, dtype=np.uint8)
        function = getattr(library, name)
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        function(values.ctypes.data, blocks.ctypes.data, COUNT)
        back = gguf.dequantize(blocks, kind).astype(np.float64)
        out["squared_error"][kind.name] = float(((back - values) ** 2).sum())
    with open(sys.argv[1], "w") as file:
        json.dump(out, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
