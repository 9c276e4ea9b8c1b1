#!/usr/bin/env python3
"""Writes tests/data/checkpoint/quantized/: a tiny checkpoint of each quantisation method, with what its formula gives, and
under models/ a tiny Llama whose linear layers are quantised so.

Usage: quantized_checkpoints.py OUTPUT_DIRECTORY      needs: numpy ml_dtypes safetensors

Codes, scales and zero points are drawn at random and packed as the methods' own tools pack them; the expected values are
computed from the unpacked ones, so packing and formula are both checked. Sources: AutoAWQ (awq/utils/packing_utils.py),
AutoGPTQ (qlinear_cuda_old.py), compressed-tensors (quantization/lifecycle/forward.py), bitsandbytes (functional.py),
transformers (integrations/finegrained_fp8.py, integrations/mxfp4.py).
"""
import json
import os
import sys

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

RNG = np.random.default_rng(42)


def save(directory, tensors, quantization, expected):
    os.makedirs(directory, exist_ok=True)

    def write(name, values):
        save_file({k: np.ascontiguousarray(v) for k, v in values.items()}, os.path.join(directory, name))

    write("model.safetensors", tensors)
    write("expected.safetensors", {k: v.astype(np.float32) for k, v in expected.items()})
    with open(os.path.join(directory, "config.json"), "w") as file:
        json.dump({"model_type": "llama", "quantization_config": quantization}, file, indent=1)
        file.write("\n")


def pack(fields, bits, axis):
    """Little-endian fields of `bits` along `axis` into 32-bit words."""
    moved = np.moveaxis(fields, axis, -1).astype(np.uint64)
    stream = (moved[..., None] >> np.arange(bits, dtype=np.uint64)) & np.uint64(1)
    stream = stream.reshape(*moved.shape[:-1], -1, 32)
    words = (stream << np.arange(32, dtype=np.uint64)).sum(axis=-1).astype(np.uint32)
    return np.moveaxis(words, -1, axis).view(np.int32)


def fp8(directory):
    n, k, rows, columns = 20, 24, 8, 16
    weight = RNG.normal(0, 50, (n, k)).astype(ml_dtypes.float8_e4m3fn)
    scale = RNG.uniform(1e-3, 2e-3, (-(-n // rows), -(-k // columns))).astype(np.float32)
    spread = np.repeat(np.repeat(scale, rows, 0), columns, 1)[:n, :k]
    norm = RNG.normal(0, 1, (k,)).astype(ml_dtypes.bfloat16)
    save(directory, {"l.q_proj.weight": weight, "l.q_proj.weight_scale_inv": scale, "l.norm.weight": norm},
         {"quant_method": "fp8", "weight_block_size": [rows, columns]},
         {"l.q_proj.weight": weight.astype(np.float32) * spread, "l.norm.weight": norm.astype(np.float32)})


def awq(directory):
    n, k, group = 16, 64, 32
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    codes = RNG.integers(0, 16, (k, n))
    zeros = RNG.integers(0, 16, (k // group, n))
    scales = RNG.uniform(0.01, 0.1, (k // group, n)).astype(np.float16)
    shuffle = lambda x: x.reshape(x.shape[0], -1, 8)[:, :, order].reshape(x.shape)
    expected = (codes - np.repeat(zeros, group, 0)) * np.repeat(scales.astype(np.float32), group, 0)
    save(directory, {"l.q_proj.qweight": pack(shuffle(codes), 4, 1), "l.q_proj.qzeros": pack(shuffle(zeros), 4, 1), "l.q_proj.scales": scales},
         {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm", "zero_point": True}, {"l.q_proj.weight": expected.T})


def gptq(directory, bits, act_order, version):
    n, k, group = 32, 64, 32
    codes = RNG.integers(0, 1 << bits, (k, n))
    zeros = RNG.integers(1, 1 << bits, (k // group, n))
    scales = RNG.uniform(0.01, 0.1, (k // group, n)).astype(np.float16)
    groups = np.arange(k) // group
    if act_order:
        groups = RNG.permutation(groups)
    expected = (codes - zeros[groups]) * scales.astype(np.float32)[groups]
    tensors = {"l.q_proj.qweight": pack(codes, bits, 0), "l.q_proj.qzeros": pack(zeros - (1 if version == 1 else 0), bits, 1), "l.q_proj.scales": scales}
    if act_order:
        tensors["l.q_proj.g_idx"] = groups.astype(np.int32)
    save(directory, tensors, {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": act_order,
                              "checkpoint_format": "gptq" if version == 1 else "gptq_v2"}, {"l.q_proj.weight": expected.T})


def compressed(directory):
    n, k, group = 8, 32, 16
    tensors, expected = {}, {}
    for name, dtype, shape in (("row8", np.int8, (n, 1)), ("rowf", ml_dtypes.float8_e4m3fn, (n, 1)), ("whole", ml_dtypes.float8_e4m3fn, (1,)),
                               ("group", np.int8, (n, k // group)), ("zero", np.int8, (n, 1))):
        weight = RNG.integers(-128, 128, (n, k)).astype(np.int8) if dtype == np.int8 else RNG.normal(0, 50, (n, k)).astype(dtype)
        scale = RNG.uniform(1e-3, 2e-3, shape).astype(ml_dtypes.bfloat16)
        spread = np.broadcast_to(np.repeat(scale.astype(np.float32), group, 1) if name == "group" else scale.astype(np.float32), (n, k))
        tensors[f"{name}.weight"] = weight
        tensors[f"{name}.weight_scale"] = scale
        offset = 0
        if name == "zero":
            tensors["zero.weight_zero_point"] = RNG.integers(-20, 20, (n, 1)).astype(np.int8)
            offset = tensors["zero.weight_zero_point"].astype(np.float32)
        expected[f"{name}.weight"] = (weight.astype(np.float32) - offset) * spread
    save(directory, tensors, {"quant_method": "compressed-tensors", "format": "int-quantized"}, expected)


NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495,
       0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
       0.7229568362236023, 1.0]


def nf4(directory):
    n, k, block = 6, 96, 64
    tensors, expected = {}, {}
    levels = np.array(NF4, dtype=np.float32)
    for name, nested in (("single", False), ("double", True)):
        codes = RNG.integers(0, 16, n * k)
        blocks = n * k // block
        state = {"quant_type": "nf4", "blocksize": block, "dtype": "bfloat16", "shape": [n, k]}
        if nested:
            map8 = np.sort(RNG.uniform(-1, 1, 256)).astype(np.float32)
            absmax = RNG.integers(0, 256, blocks).astype(np.uint8)
            nested_block, offset = 4, 0.04375
            nested_absmax = RNG.uniform(0.01, 0.02, -(-blocks // nested_block)).astype(np.float32)
            scale = map8[absmax] * np.repeat(nested_absmax, nested_block)[:blocks] + np.float32(offset)
            state |= {"nested_blocksize": nested_block, "nested_offset": offset, "nested_dtype": "float32"}
            tensors[f"{name}.weight.nested_absmax"] = nested_absmax
            tensors[f"{name}.weight.nested_quant_map"] = map8
        else:
            absmax = scale = RNG.uniform(0.01, 0.1, blocks).astype(np.float32)
        tensors[f"{name}.weight"] = ((codes[::2] << 4) | codes[1::2]).astype(np.uint8).reshape(-1, 1)
        tensors[f"{name}.weight.absmax"] = absmax
        tensors[f"{name}.weight.quant_map"] = levels
        tensors[f"{name}.weight.quant_state.bitsandbytes__nf4"] = np.frombuffer(json.dumps(state).encode(), dtype=np.uint8)
        expected[f"{name}.weight"] = (levels[codes] * np.repeat(scale.astype(np.float32), block)).reshape(n, k)
    save(directory, tensors, {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, expected)


def mxfp4(directory):
    experts, n, k = 2, 4, 64
    levels = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0], dtype=np.float32)
    codes = RNG.integers(0, 16, (experts, n, k // 32, 32))
    scales = RNG.integers(110, 140, (experts, n, k // 32)).astype(np.uint8)
    expected = np.ldexp(levels[codes], scales.astype(np.int32)[..., None] - 127).reshape(experts, n, k)
    save(directory, {"m.gate_up_proj_blocks": (codes[..., ::2] | (codes[..., 1::2] << 4)).astype(np.uint8), "m.gate_up_proj_scales": scales},
         {"quant_method": "mxfp4"}, {"m.gate_up_proj": expected})


def awq_linear(name, n, k):
    shuffle = lambda x: x.reshape(x.shape[0], -1, 8)[:, :, [0, 2, 4, 6, 1, 3, 5, 7]].reshape(x.shape)
    return {f"{name}.qweight": pack(shuffle(RNG.integers(0, 16, (k, n))), 4, 1),
            f"{name}.qzeros": pack(shuffle(RNG.integers(6, 10, (k // 32, n))), 4, 1),
            f"{name}.scales": RNG.uniform(0.02, 0.05, (k // 32, n)).astype(np.float16)}


def gptq_linear(name, n, k):
    return {f"{name}.qweight": pack(RNG.integers(0, 16, (k, n)), 4, 0),
            f"{name}.qzeros": pack(RNG.integers(5, 9, (k // 32, n)), 4, 1),
            f"{name}.scales": RNG.uniform(0.02, 0.05, (k // 32, n)).astype(np.float16),
            f"{name}.g_idx": RNG.permutation(np.arange(k) // 32).astype(np.int32),
            f"{name}.bias": np.zeros(n, dtype=np.float16)}  # AutoGPTQ writes them where the model has none


def fp8_linear(name, n, k):
    return {f"{name}.weight": RNG.normal(0, 50, (n, k)).astype(ml_dtypes.float8_e4m3fn),
            f"{name}.weight_scale_inv": RNG.uniform(2e-3, 4e-3, (-(-n // 16), -(-k // 16))).astype(np.float32)}


def int8_linear(name, n, k):
    return {f"{name}.weight": RNG.integers(-128, 128, (n, k)).astype(np.int8),
            f"{name}.weight_scale": RNG.uniform(1e-3, 3e-3, (n, 1)).astype(np.float32)}


def fp8_rows_linear(name, n, k):
    return {f"{name}.weight": RNG.normal(0, 50, (n, k)).astype(ml_dtypes.float8_e4m3fn),
            f"{name}.weight_scale": RNG.uniform(2e-3, 4e-3, (n, 1)).astype(ml_dtypes.bfloat16)}


def fp8_whole_linear(name, n, k):
    return {f"{name}.weight": RNG.normal(0, 50, (n, k)).astype(ml_dtypes.float8_e4m3fn),
            f"{name}.weight_scale_inv": RNG.uniform(2e-3, 4e-3, (1,)).astype(ml_dtypes.bfloat16),
            f"{name}.activation_scale": RNG.uniform(1, 2, (1,)).astype(ml_dtypes.bfloat16)}


def gptq_in_order_linear(name, n, k):
    return gptq_linear(name, n, k) | {f"{name}.g_idx": (np.arange(k) // 32).astype(np.int32)}


def nf4_linear(name, n, k, nested_block=4):
    state = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [n, k], "nested_blocksize": nested_block,
             "nested_offset": 0.2, "nested_dtype": "float32"}
    blocks = n * k // 64
    return {f"{name}.weight": RNG.integers(0, 256, (n * k // 2, 1)).astype(np.uint8),
            f"{name}.weight.absmax": RNG.integers(0, 256, blocks).astype(np.uint8),
            f"{name}.weight.nested_absmax": RNG.uniform(0.05, 0.1, -(-blocks // nested_block)).astype(np.float32),
            f"{name}.weight.nested_quant_map": np.sort(RNG.uniform(-1, 1, 256)).astype(np.float32),
            f"{name}.weight.quant_map": np.array(NF4, dtype=np.float32),
            f"{name}.weight.quant_state.bitsandbytes__nf4": np.frombuffer(json.dumps(state).encode(), dtype=np.uint8)}


def mxfp4_linear(name, n, k):
    return {f"{name}.weight_blocks": RNG.integers(0, 256, (n, k // 32, 16)).astype(np.uint8),
            f"{name}.weight_scales": RNG.integers(121, 124, (n, k // 32)).astype(np.uint8)}


LINEARS = {"awq": (awq_linear, {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"}),
           "gptq": (gptq_linear, {"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "gptq"}),
           "fp8": (fp8_linear, {"quant_method": "fp8", "weight_block_size": [16, 16]}),
           "int8": (int8_linear, {"quant_method": "compressed-tensors", "format": "int-quantized"}),
           "nf4": (nf4_linear, {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}),
           "mxfp4": (mxfp4_linear, {"quant_method": "mxfp4"}),
           # As their tools write them: a scale for a row, inputs in order, 256 scales that share one.
           "fp8_rows": (fp8_rows_linear, {"quant_method": "compressed-tensors", "format": "float-quantized"}),
           "gptq_in_order": (gptq_in_order_linear, {"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "gptq"}),
           "nf4_256": (lambda name, n, k: nf4_linear(name, n, k, 256),
                       {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}),
           # As Ministral 3 is published.
           "fp8_whole": (fp8_whole_linear, {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None})}


def tiny_model(directory, method):
    """A Llama of one layer whose linear layers are quantised."""
    hidden, wide, kv, vocab = 32, 64, 16, 48
    linear, quantization = LINEARS[method]
    tensors = {}
    for name, n, k in (("self_attn.q_proj", hidden, hidden), ("self_attn.k_proj", kv, hidden), ("self_attn.v_proj", kv, hidden),
                       ("self_attn.o_proj", hidden, hidden), ("mlp.gate_proj", wide, hidden), ("mlp.up_proj", wide, hidden),
                       ("mlp.down_proj", hidden, wide)):
        tensors |= linear(f"model.layers.0.{name}", n, k)
    for name, size in (("layers.0.input_layernorm", hidden), ("layers.0.post_attention_layernorm", hidden), ("norm", hidden)):
        tensors[f"model.{name}.weight"] = RNG.normal(1, 0.2, (size,)).astype(ml_dtypes.bfloat16)
    tensors["model.embed_tokens.weight"] = RNG.normal(0, 1, (vocab, hidden)).astype(ml_dtypes.bfloat16)
    os.makedirs(directory, exist_ok=True)
    save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, os.path.join(directory, "model.safetensors"))
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "intermediate_size": wide,
              "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": vocab,
              "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
              "quantization_config": quantization}
    with open(os.path.join(directory, "config.json"), "w") as file:
        json.dump(config, file, indent=1)
        file.write("\n")


def main():
    out = sys.argv[1]
    fp8(os.path.join(out, "fp8"))
    awq(os.path.join(out, "awq"))
    for bits in (2, 3, 4, 8):
        gptq(os.path.join(out, f"gptq{bits}"), bits, act_order=bits % 2 == 0, version=2 if bits == 8 else 1)
    compressed(os.path.join(out, "compressed"))
    nf4(os.path.join(out, "nf4"))
    mxfp4(os.path.join(out, "mxfp4"))
    for method in LINEARS:
        tiny_model(os.path.join(out, "models", method), method)


if __name__ == "__main__":
    main()
