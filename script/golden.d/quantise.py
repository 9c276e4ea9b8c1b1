#!/usr/bin/env python3
"""Writes tests/data/golden/quantised-at-load.safetensors: what bitsandbytes and transformers make of a weight when they
quantise it while loading.

Usage: quantise.py OUTPUT_FILE      needs: torch bitsandbytes transformers safetensors numpy
"""
import sys
from types import SimpleNamespace

import bitsandbytes
import bitsandbytes.functional as bnb
import torch
import transformers
from safetensors.torch import save_file
from transformers.integrations.finegrained_fp8 import Fp8Quantize


def nf4(weight):
    packed, state = bnb.quantize_4bit(weight, blocksize=64, compress_statistics=False, quant_type="nf4")
    out = {"nf4.data": packed.flatten(), "nf4.absmax": state.absmax}
    packed, state = bnb.quantize_4bit(weight, blocksize=64, compress_statistics=True, quant_type="nf4")
    return out | {"nf4_twice.data": packed.flatten(), "nf4_twice.absmax": state.absmax, "nf4_twice.map": state.state2.code,
                  "nf4_twice.offset": state.offset.reshape(1), "nf4_twice.nested": state.state2.absmax,
                  "nf4_twice.values": bnb.dequantize_4bit(packed, state)}


def int8(weight):
    codes, absmax, _ = bnb.int8_vectorwise_quant(weight)
    return {"int8.data": codes, "int8.absmax": absmax}


def fp8(weight):
    config = SimpleNamespace(weight_block_size=(128, 128), scale_fmt="float")
    made = Fp8Quantize(SimpleNamespace(quantization_config=config))._quantize_one("l.weight", weight)
    return {"fp8.data": made["l.weight"].view(torch.uint8), "fp8.scale": made["l.weight_scale_inv"]}


def main():
    torch.manual_seed(42)
    weight = torch.randn(256, 128) * torch.logspace(-3, 0, 256)[:, None]
    weight[:, 100] *= 30  # an outlier of each row
    weight[5, :64] = 0
    weight = weight.to(torch.bfloat16).float()
    out = {"weight": weight} | nf4(weight) | int8(weight) | fp8(weight)
    versions = {"torch": torch.__version__, "bitsandbytes": bitsandbytes.__version__, "transformers": transformers.__version__}
    save_file({name: tensor.contiguous() for name, tensor in out.items()}, sys.argv[1], versions)


if __name__ == "__main__":
    main()
