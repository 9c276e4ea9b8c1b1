#!/usr/bin/env python3
"""Whether transformers loads what tern writes, and computes the same: merged, fp8, nf4 and int8 directories of a tiny Llama.

Usage: exported.py TERN
needs: torch==2.15.0 transformers==5.23.0 peft==0.21.2 bitsandbytes==0.50.2 safetensors==0.8.0

A merged model is held against PEFT's own merge in fp32, bit by bit but for the order of a sum; a quantised one against the
library's expansion of what the file holds: the values that bitsandbytes and the scheme's formula give for its tensors, and the
logits of the model that transformers makes of it, where the CPU has its products.
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.pop(0)  # this folder's tokenizers.py is not the package

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TERN = os.path.abspath(sys.argv[1])


def tern(*words):
    done = subprocess.run([TERN, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"tern {' '.join(words)}: {done.stderr}")


def logits(model):
    with torch.no_grad():
        return model(torch.arange(1, 33)[None] % 48).logits.float()


def apart(one, other):
    return float((one - other).pow(2).mean().sqrt() / other.std())


def main():
    torch.manual_seed(3)
    folder = tempfile.mkdtemp()
    at = lambda name: os.path.join(folder, name)
    config = LlamaConfig(hidden_size=256, intermediate_size=384, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         vocab_size=48, max_position_embeddings=64, tie_word_embeddings=False)
    base = LlamaForCausalLM(config)
    for parameter in base.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.08)
    base.save_pretrained(at("base"))
    words = Tokenizer(models.WordLevel({"?": 0} | {f"w{i}": i for i in range(1, 48)}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?").save_pretrained(at("base"))
    plain = logits(base)

    adapted = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "down_proj"], task_type="CAUSAL_LM"))
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    adapted.save_pretrained(at("adapter"))
    tern("export", "--merge_lora", "true", "--model", at("base"), "--adapters", at("adapter"), "--load_args", "false")
    merged = AutoModelForCausalLM.from_pretrained(at("adapter-merged"))
    wanted = PeftModel.from_pretrained(LlamaForCausalLM.from_pretrained(at("base")), at("adapter")).merge_and_unload()
    for (name, one), (_, other) in zip(sorted(merged.state_dict().items()), sorted(wanted.state_dict().items())):
        assert torch.allclose(one, other, rtol=0, atol=2e-7), name
    assert apart(logits(merged), plain) > 0.05, "the adapter changes nothing"
    print("merged: transformers computes what PEFT's merge does, to", f"{apart(logits(merged), logits(wanted)):.1e}")

    tern("export", "--model", at("base"), "--quant_method", "bnb", "--quant_bits", "4", "--torch_dtype", "float32")
    model = AutoModelForCausalLM.from_pretrained(at("base-bnb-int4"), dtype=torch.float32)
    import bitsandbytes.functional as bnb
    for name, module in model.named_modules():
        if type(module).__name__ != "Linear4bit":
            continue
        original = dict(LlamaForCausalLM.from_pretrained(at("base")).named_parameters())[name + ".weight"].data
        codes, state = bnb.quantize_4bit(original, quant_type="nf4", compress_statistics=True)
        theirs = bnb.dequantize_4bit(codes, state)
        mine = bnb.dequantize_4bit(module.weight.data, module.weight.quant_state)
        # The mean that double quantised scales count from is summed in another order, so that a scale between two levels
        # may go to either: blocks of 64.
        other = ((mine - theirs).abs() > 1e-5 * original.abs().max()).float().mean()
        assert other <= 0.01, (name, float(other))
    distance = apart(logits(model), plain)
    assert 0.005 < distance < 0.4, distance
    print(f"nf4: bitsandbytes' own numbers; logits {100 * distance:.1f}% of their spread from fp32")

    tern("export", "--model", at("base"), "--quant_method", "fp8", "--torch_dtype", "float32")
    from transformers import FineGrainedFP8Config
    made = AutoModelForCausalLM.from_pretrained(at("base-fp8"), dtype=torch.float32, quantization_config=FineGrainedFP8Config(dequantize=True, weight_block_size=(128, 128)))
    for name, original in LlamaForCausalLM.from_pretrained(at("base")).named_parameters():
        if name.endswith("_proj.weight"):  # E4M3 has three bits behind the first; below 2^-6 of the scale steps are even
            step = original.abs().max() / 448 * 2.0 ** -10
            assert ((made.state_dict()[name] - original).abs() <= original.abs() / 16 * 1.001 + step).all(), name
    distance = apart(logits(made), plain)
    assert 0.001 < distance < 0.2, distance
    print(f"fp8: transformers expands it; logits {100 * distance:.1f}% of their spread from fp32")

    for method, bits in (("int8", "8"), ("bnb", "8")):
        tern("export", "--model", at("base"), "--quant_method", method, "--quant_bits", bits)
        file = load_file(at(f"base-{method}-int{bits}/model.safetensors"))
        config = json.load(open(at(f"base-{method}-int{bits}/config.json")))["quantization_config"]
        assert config["quant_method"] == {"int8": "compressed-tensors", "bnb": "bitsandbytes"}[method]
        for name, original in LlamaForCausalLM.from_pretrained(at("base")).named_parameters():
            if name not in file or file[name].dtype != torch.int8:
                continue
            scale = file[name + "_scale"] if method == "int8" else file[name.removesuffix(".weight") + ".SCB"][:, None] / 127
            error = (file[name].float() * scale - original.data).abs()
            assert (error <= 0.5001 * scale).all(), name
        print(f"{method} of 8 bits: each number within half a step")


main()
