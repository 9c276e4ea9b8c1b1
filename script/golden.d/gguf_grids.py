#!/usr/bin/env python3
"""Writes checkpoint/iq_grids.cpp: the codebooks of the IQ block formats, from the PyPI package `gguf` (MIT, the ggml authors).

Usage: gguf_grids.py > checkpoint/iq_grids.cpp
"""
import gguf
import numpy as np
from gguf import quants

TABLES = [
    ("kIq2xxsGrid", quants.IQ2_XXS, 2),
    ("kIq2xsGrid", quants.IQ2_XS, 2),
    ("kIq2sGrid", quants.IQ2_S, 2),
    ("kIq3xxsGrid", quants.IQ3_XXS, 4),
    ("kIq3sGrid", quants.IQ3_S, 4),
    ("kIq1sGrid", quants.IQ1_S, 2),
]


def main():
    print("// Made by script/golden.d/gguf_grids.py: the codebooks that define the IQ formats. They are data of the format,")
    print("// Copyright (c) 2023-2024 The ggml authors, MIT licence.")
    print('#include "checkpoint/iq_grids.h"\n\nnamespace tern::checkpoint::blocks {\n\n// clang-format off')
    for name, kind, bits in TABLES:
        kind.init_grid()
        grid = kind.grid.reshape(kind.grid_shape)
        index = {value: i for i, value in enumerate(kind.grid_map)}
        words = [sum(index[value] << (bits * i) for i, value in enumerate(row)) for row in grid]
        print(f"const std::uint16_t {name}[{len(words)}] = {{")
        for i in range(0, len(words), 16):
            print("  " + ",".join(f"0x{w:04x}" for w in words[i:i + 16]) + ",")
        print("};")
    print("// clang-format on\n\n}  // namespace tern::checkpoint::blocks")


if __name__ == "__main__":
    main()
