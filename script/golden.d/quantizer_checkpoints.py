#!/usr/bin/env python3
"""Writes tests/data/checkpoint/quantized/models/: a tiny Llama in the formats of more quantisers, with what they expand it to.

Usage: quantizer_checkpoints.py OUTPUT_DIRECTORY AUTOAWQ
AUTOAWQ: the unpacked source of AutoAWQ (pip download --no-deps --no-build-isolation autoawq==0.2.9)
needs: torch==2.15.0 transformers==5.23.0 compressed-tensors==0.20.0 bitsandbytes==0.50.2 loguru safetensors numpy

compressed-tensors writes and expands its own; so do bitsandbytes' functions for fp4 and int8, and AutoAWQ's class for gemv.
GPTQModel 7.7 doesn't import without a GPU's tools: its words are packed here as pack_original of nn_modules/qlinear/__init__.py
has them, and made version 1 as convert_gptq_v2_to_v1_format_module of utils/model.py does. Groups in another order
(weight_g_idx), which compressed-tensors wrote until August 2026, are added to what it writes.
"""
import importlib.util
import json
import os
import sys
import types

sys.path.pop(0)  # this folder's tokenizers.py is not the package

import bitsandbytes.functional as bnb
import numpy as np
import torch
from compressed_tensors.compressors.model_compressors.model_compressor import ModelCompressor
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
from compressed_tensors.compressors.naive_quantized.base import NaiveQuantizationCompressor
from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme, QuantizationStatus, apply_quantization_config
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

OUT = sys.argv[1]


def tiny(kv_heads=1):
    torch.manual_seed(7)
    config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=kv_heads,
                         vocab_size=48, max_position_embeddings=64, rms_norm_eps=1e-5, tie_word_embeddings=True)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.1 if parameter.ndim == 2 else 0.2) + (0 if parameter.ndim == 2 else 1))
        model.model.embed_tokens.weight.mul_(10)
    return model.to(torch.bfloat16)


def linears(model):
    return {name: module for name, module in model.named_modules() if isinstance(module, torch.nn.Linear) and name != "lm_head"}


def finish(name, expected, quantization=None, tensors=None, model=None):
    """expected: what the weights are in fp32; tensors: the file's, where the model didn't write it itself."""
    directory = os.path.join(OUT, name)
    os.makedirs(directory, exist_ok=True)
    if tensors is not None:
        save_file({k: v.contiguous() for k, v in tensors.items()}, os.path.join(directory, "model.safetensors"))
        config = model.config.to_dict() | {"quantization_config": quantization}
        with open(os.path.join(directory, "config.json"), "w") as file:
            json.dump(config, file, indent=1, sort_keys=True)
            file.write("\n")
    save_file({k: v.float().contiguous() for k, v in expected.items()}, os.path.join(directory, "expected.safetensors"))


def plain(model, without):
    return {k: v for k, v in model.state_dict().items() if k != "lm_head.weight" and k.removesuffix(".weight") not in without}


def weights(bits, **more):
    return {"num_bits": bits, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32} | more


def compressed(name, groups, ignore=("lm_head",), order=False):
    """groups: {name: (targets, weights, input_activations)}"""
    model = tiny()
    config = QuantizationConfig(config_groups={key: QuantizationScheme(targets=targets, weights=args, input_activations=activations)
                                               for key, (targets, args, activations) in groups.items()}, ignore=list(ignore))
    apply_quantization_config(model, config)
    expected = plain(model, [])
    with torch.no_grad():
        for path, module in linears(model).items():
            scheme = getattr(module, "quantization_scheme", None)
            if scheme is None:
                continue
            args, weight = scheme.weights, module.weight
            n, k = weight.shape
            if args.strategy == "block":
                rows, columns = args.block_structure
                parts = weight.reshape(n // rows, rows, k // columns, columns).permute(0, 2, 1, 3).flatten(2)
            else:
                parts = weight.reshape(n, -1, args.group_size) if args.strategy == "group" else weight.reshape(n, 1, k)
            scale, zero = calculate_qparams(parts.amin(-1), parts.amax(-1), args)
            module.weight_scale.copy_(scale.reshape(module.weight_scale.shape))
            if hasattr(module, "weight_zero_point"):
                module.weight_zero_point.copy_(zero.reshape(module.weight_zero_point.shape))
            module.quantization_status = QuantizationStatus.FROZEN
            kind = PackedQuantizationCompressor if PackedQuantizationCompressor.can_compress(type(module), scheme) and \
                not (scheme.input_activations and args.num_bits == 8) else NaiveQuantizationCompressor
            state = {key: value for key, value in module.state_dict().items() if not key.startswith("input")}
            state = kind.compress(state, scheme)
            state["weight_scale"] = state["weight_scale"].float()
            expected[f"{path}.weight"] = kind.decompress(state, scheme)["weight"]
            for key in [key for key in expected if key.startswith(path + ".") and key != f"{path}.weight"]:
                del expected[key]
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    directory = os.path.join(OUT, name)
    model.save_pretrained(directory)
    compressor.update_config(directory)
    for extra in ("generation_config.json", "recipe.yaml"):
        if os.path.exists(os.path.join(directory, extra)):
            os.remove(os.path.join(directory, extra))
    if order:
        file = os.path.join(directory, "model.safetensors")
        tensors = load_file(file)
        for path in linears(tiny()):
            k = expected[f"{path}.weight"].shape[1]
            places = torch.randperm(k)  # input i stands where places[i] was
            codes = torch.from_numpy(unpack(tensors[f"{path}.weight_packed"].numpy(), 4, k))[:, places]
            tensors[f"{path}.weight_packed"] = torch.from_numpy(pack(codes.numpy(), 4, 1))
            tensors[f"{path}.weight_g_idx"] = (places // 32).to(torch.int32)
            expected[f"{path}.weight"] = expected[f"{path}.weight"][:, places]
        save_file(tensors, file)
        config = json.load(open(os.path.join(directory, "config.json")))
        for group in config["quantization_config"]["config_groups"].values():
            group["weights"]["actorder"] = "group"
        json.dump(config, open(os.path.join(directory, "config.json"), "w"), indent=1, sort_keys=True)
    finish(name, expected)


def pack(fields, bits, axis):
    """Little-endian fields of `bits` along `axis` into 32-bit words."""
    moved = np.moveaxis(fields, axis, -1).astype(np.uint64)
    stream = (moved[..., None] >> np.arange(bits, dtype=np.uint64)) & np.uint64(1)
    stream = stream.reshape(*moved.shape[:-1], -1, 32)
    words = (stream << np.arange(32, dtype=np.uint64)).sum(axis=-1).astype(np.uint32)
    return np.ascontiguousarray(np.moveaxis(words, -1, axis).view(np.int32))


def unpack(words, bits, count):
    """The fields along the last axis again."""
    stream = (words.view(np.uint32)[..., None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)
    fields = stream.reshape(*words.shape[:-1], -1, bits)
    return (fields << np.arange(bits, dtype=np.uint32)).sum(axis=-1)[..., :count].astype(np.int64)


def gptq(name, version, bits_of, order=False):
    """bits_of: of a module; zero points from 0 on."""
    model = tiny(kv_heads=2)
    random = np.random.default_rng(11)
    modules = linears(model)
    tensors, expected, dynamic = plain(model, modules), plain(model, modules), {}
    usual = bits_of("")
    for path, module in modules.items():
        n, k = module.weight.shape
        bits = bits_of(path)
        if bits != usual:
            dynamic[f"+:{path}"] = {"bits": bits}
        codes = random.integers(0, 1 << bits, (k, n))
        zeros = random.integers(0, 1 << bits, (k // 32, n))
        scales = (random.uniform(0.1, 0.2, (k // 32, n)) / (1 << bits)).astype(np.float16)
        groups = random.permutation(np.arange(k) // 32) if order else np.arange(k) // 32
        words = pack(zeros, bits, 1)
        if version == 1 and bits == 3:
            words = pack((zeros - 1) & 7, 3, 1)
        elif version == 1:
            words = (words.view(np.uint32) - np.uint32(0xFFFFFFFF // ((1 << bits) - 1))).view(np.int32)
        tensors |= {f"{path}.qweight": torch.from_numpy(pack(codes, bits, 0)), f"{path}.qzeros": torch.from_numpy(words),
                    f"{path}.scales": torch.from_numpy(scales), f"{path}.g_idx": torch.from_numpy(groups.astype(np.int32))}
        expected[f"{path}.weight"] = torch.from_numpy(((codes - zeros[groups]) * scales.astype(np.float32)[groups]).T)
    quantization = {"quant_method": "gptq", "bits": usual, "group_size": 32, "desc_act": order, "sym": False, "pack_dtype": "int32",
                    "checkpoint_format": "gptq" if version == 1 else "gptq_v2"} | ({"dynamic": dynamic} if dynamic else {})
    finish(name, expected, quantization, tensors, model)


def awq_gemv(name):
    for module in ("awq", "awq.utils", "awq.utils.module"):
        sys.modules[module] = types.ModuleType(module)
    sys.modules["awq.utils.module"].try_import = lambda extension: (None, "not built")
    spec = importlib.util.spec_from_file_location("gemv", os.path.join(sys.argv[2], "awq/modules/linear/gemv.py"))
    gemv = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gemv)
    model = tiny()
    modules = linears(model)
    tensors, expected = plain(model, modules), plain(model, modules)
    for path, module in modules.items():
        weight = module.weight.detach().float()
        n, k = weight.shape
        parts = weight.reshape(n, k // 32, 32)
        high, low = parts.amax(-1).clamp(min=0), parts.amin(-1).clamp(max=0)
        scales = ((high - low) / 15).half().float()
        zeros = (-torch.round(low / scales)).clamp(0, 15)
        codes = torch.round(parts / scales[..., None]) + zeros[..., None]
        exact = (codes.clamp(0, 15) - zeros[..., None]) * scales[..., None]
        linear = torch.nn.Linear(k, n, bias=False)
        linear.weight.data = exact.reshape(n, k)
        made = gemv.WQLinear_GEMV.from_linear(linear, 4, 32, False, scales, zeros)
        tensors |= {f"{path}.{key}": getattr(made, key) for key in ("qweight", "qzeros", "scales")}
        expected[f"{path}.weight"] = exact.reshape(n, k)
    quantization = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemv", "zero_point": True, "modules_to_not_convert": None}
    finish(name, expected, quantization, tensors, model)


def bnb_fp4(name):
    model = tiny()
    modules = linears(model)
    tensors, expected = plain(model, modules), plain(model, modules)
    for path, module in modules.items():
        packed, state = bnb.quantize_4bit(module.weight.detach().float(), blocksize=64, compress_statistics=True, quant_type="fp4")
        tensors[f"{path}.weight"] = packed
        tensors |= {f"{path}.weight.{key}": value for key, value in state.as_dict(packed=True).items()}
        scales = bnb.dequantize_blockwise(state.absmax, state.state2) + state.offset
        codes = torch.stack((packed.flatten() >> 4, packed.flatten() & 15), 1).flatten().long()
        expected[f"{path}.weight"] = (state.code[codes] * scales.repeat_interleave(64)).reshape(module.weight.shape)
    quantization = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "fp4", "bnb_4bit_use_double_quant": True}
    finish(name, expected, quantization, tensors, model)


def bnb_int8(name):
    model = tiny()
    modules = linears(model)
    tensors, expected = plain(model, modules), plain(model, modules)
    for path, module in modules.items():
        codes, largest, _ = bnb.int8_vectorwise_quant(module.weight.detach().half())
        tensors |= {f"{path}.weight": codes, f"{path}.SCB": largest, f"{path}.weight_format": torch.tensor(0, dtype=torch.uint8)}
        expected[f"{path}.weight"] = bnb.int8_vectorwise_dequant(codes, largest)
    quantization = {"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_threshold": 6.0}
    finish(name, expected, quantization, tensors, model)


def main():
    every = ["Linear"]
    a8 = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}
    compressed("packed_int4", {"group_0": (every, weights(4), None)})
    compressed("packed_int4_zeros", {"group_0": (every, weights(4, symmetric=False), None)})
    compressed("packed_int4_rows", {"group_0": (every, weights(4, strategy="channel", group_size=None), None)})
    compressed("packed_int4_order", {"group_0": (every, weights(4), None)}, order=True)
    compressed("packed_int8", {"group_0": (every, weights(8), None)})
    compressed("int8_zeros", {"group_0": (every, weights(8, strategy="channel", group_size=None, symmetric=False), a8)})
    compressed("int8_mixed", {"group_0": (["re:.*self_attn.*"], weights(8, strategy="channel", group_size=None), a8),
                              "group_1": (["re:.*mlp.*"], weights(4), None)}, ignore=("lm_head", "model.layers.0.mlp.down_proj"))
    compressed("fp8_blocks", {"group_0": (every, {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "block",
                                                  "block_structure": [16, 16]},
                                          {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "group", "group_size": 16,
                                           "dynamic": True})})
    gptq("gptq_int3", 1, lambda path: 3, order=True)
    gptq("gptq_v2", 2, lambda path: 4)
    gptq("gptq_borrowed", 1, lambda path: 4)
    gptq("gptq_dynamic", 2, lambda path: 8 if "mlp" in path else 2)
    awq_gemv("awq_gemv")
    bnb_fp4("fp4")
    bnb_int8("bnb_int8")


if __name__ == "__main__":
    main()
