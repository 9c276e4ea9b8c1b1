#!/usr/bin/env python3
"""Makes tiny models of Qwen's kind with a layer of multi-token prediction beside them, and what PyTorch computes with it.

Usage: qwen_mtp.py OUTPUT      needs: torch transformers safetensors

OUTPUT/mtp-qwen3.5/, mtp-qwen3.5-moe/ and mtp-qwen3-next/ hold config.json, model.safetensors (the model, whose gated delta
networks keep states, and the layer as published: mtp.*) and golden.safetensors, as mtp.py says. The layer is written out here
in float64 by what vLLM and SGLang compute with the published weights: the next token's word and the model's state behind its
final norm, each normed, the word first; a layer that attends, with a gate for each head's output and an mlp or experts as the
model's layers have; norms that multiply by 1 + weight; the model's embedding and output projection. That of mtp-qwen3.5 was
trained to guess the model's texts, the others have weights of chance. transformers, which reads no such checkpoint, computes the
same by its own layers, given the weights by hand.
"""
import os
import sys
from types import SimpleNamespace

sys.path.append(sys.path.pop(0))
import torch
from transformers import (Qwen3_5ForCausalLM, Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig, Qwen3_5TextConfig, Qwen3NextConfig,
                          Qwen3NextForCausalLM)
from transformers.modeling_layers import MtpLayer

import mtp
from float64 import in_float64
from mtp import (HEAD_DIM, HEADS, HIDDEN, INNER, KV_HEADS, THETA, TURNED, VOCAB, Layer, compute, double, generate, make_model,
                 matrix, prompts, split, states_of, tell_right, train, turn_halves, write)

EPS, EXPERTS, TOP_K, SHARED, WIDE = 1e-6, 8, 3, 20, 48
NAME = "mtp.layers.0."
SMALL = dict(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=WIDE, num_hidden_layers=4, num_attention_heads=HEADS,
             num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM, max_position_embeddings=512, rms_norm_eps=EPS, bos_token_id=1,
             eos_token_id=2, pad_token_id=0, initializer_range=0.3, linear_num_key_heads=2, linear_num_value_heads=4,
             linear_key_head_dim=16, linear_value_head_dim=12, attn_implementation="eager")
ROPE = {"rope_type": "default", "rope_theta": THETA, "partial_rotary_factor": TURNED / HEAD_DIM}
SPARSE = dict(num_experts=EXPERTS, num_experts_per_tok=TOP_K, moe_intermediate_size=INNER, shared_expert_intermediate_size=SHARED)


def qwen3_5():
    return Qwen3_5ForCausalLM(Qwen3_5TextConfig(**SMALL, tie_word_embeddings=False, rope_parameters={
        **ROPE, "mrope_interleaved": True, "mrope_section": [2, 1, 1]}))


def qwen3_5_moe():
    return Qwen3_5MoeForCausalLM(Qwen3_5MoeTextConfig(**SMALL, **SPARSE, tie_word_embeddings=True, rope_parameters={
        **ROPE, "mrope_interleaved": True, "mrope_section": [2, 1, 1]}))


def qwen3_next():
    return Qwen3NextForCausalLM(Qwen3NextConfig(**{**SMALL, "initializer_range": 0.2}, **SPARSE, tie_word_embeddings=False,
                                                norm_topk_prob=True, rope_parameters=ROPE))


def norm(weight, x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * (1 + weight)


class Qwen(Layer):
    def at(self, name):
        return self.w[NAME + name]

    def beside(self, name):
        return self.w[f"mtp.{name}.weight"]

    def linear(self, name, x):
        return x @ self.at(name + ".weight").T

    def first(self, states, ids):
        both = [norm(self.beside("pre_fc_norm_embedding"), self.words[ids]), norm(self.beside("pre_fc_norm_hidden"), states)]
        return torch.cat(both, -1) @ self.beside("fc").T

    def input(self, x):
        return norm(self.at("input_layernorm.weight"), x)

    def queries_and_gates(self, x):
        return split(self.linear("self_attn.q_proj", self.input(x)), HEADS).chunk(2, -1)

    def queries_keys_values(self, x, positions):
        y = self.input(x)
        k, v = (split(self.linear(f"self_attn.{part}_proj", y), KV_HEADS) for part in "kv")
        q = norm(self.at("self_attn.q_norm.weight"), self.queries_and_gates(x)[0])
        k = norm(self.at("self_attn.k_norm.weight"), k)
        k, v = (t.repeat_interleave(HEADS // KV_HEADS, 0) for t in (turn_halves(k, positions), v))
        return turn_halves(q, positions), k, v

    def rest(self, x, attended):
        attended = attended * self.queries_and_gates(x)[1].sigmoid()
        x = x + self.linear("self_attn.o_proj", attended.transpose(0, 1).reshape(x.shape[0], -1))
        y = norm(self.at("post_attention_layernorm.weight"), x)
        return norm(self.beside("norm"), x + (self.experts(y) if NAME + "mlp.gate.weight" in self.w else self.mlp("mlp", y)))

    def experts(self, x):
        shares = self.linear("mlp.gate", x).softmax(-1)
        best = shares.topk(TOP_K, -1)
        chosen = torch.zeros_like(shares).scatter(1, best.indices, best.values / best.values.sum(-1, keepdim=True))
        each = torch.stack([self.mlp(f"mlp.experts.{e}", x) for e in range(EXPERTS)], 1)
        shared = self.linear("mlp.shared_expert_gate", x).sigmoid() * self.mlp("mlp.shared_expert", x)
        return (chosen[..., None] * each).sum(1) + shared


class Theirs(mtp.Theirs):
    def __init__(self, model, weights, words, head):
        base = model.model
        layer = MtpLayer(model.config, type(base.layers[-1]), type(base.norm), len(base.layers) - 1)  # the one that attends
        names = {"mtp.pre_fc_norm_embedding": "enorm", "mtp.pre_fc_norm_hidden": "hnorm", "mtp.fc": "eh_proj", "mtp.norm": "post_norm"}
        layer.load_state_dict({names[name[:-7]] + ".weight" if name[:-7] in names else name.replace(NAME, "mtp_block."): each
                               for name, each in weights.items()})
        self.layer = SimpleNamespace(layers=[layer.double().eval()], rotary_emb=base.rotary_emb)
        self.words, self.head = words.double(), head.double()


def random_layer(sparse):
    q, kv = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    w = {f"self_attn.{name}.weight": matrix(rows, columns)
         for name, rows, columns in (("q_proj", 2 * q, HIDDEN), ("k_proj", kv, HIDDEN), ("v_proj", kv, HIDDEN),
                                     ("o_proj", HIDDEN, q))}
    parts = [("mlp", WIDE)]
    if sparse:
        w["mlp.gate.weight"], w["mlp.shared_expert_gate.weight"] = matrix(EXPERTS, HIDDEN), matrix(1, HIDDEN)
        parts = [(f"mlp.experts.{e}", INNER) for e in range(EXPERTS)] + [("mlp.shared_expert", SHARED)]
    for name, wide in parts:
        w[name + ".gate_proj.weight"], w[name + ".up_proj.weight"] = matrix(wide, HIDDEN), matrix(wide, HIDDEN)
        w[name + ".down_proj.weight"] = matrix(HIDDEN, wide)
    for name, width in (("input_layernorm", HIDDEN), ("post_attention_layernorm", HIDDEN), ("self_attn.q_norm", HEAD_DIM),
                        ("self_attn.k_norm", HEAD_DIM)):
        w[name + ".weight"] = 0.2 * torch.randn(width)
    beside = {name: 0.2 * torch.randn(HIDDEN) for name in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")}
    beside["fc"] = matrix(HIDDEN, 2 * HIDDEN)
    return {**{NAME + name: each for name, each in w.items()}, **{f"mtp.{name}.weight": each for name, each in beside.items()}}


def exact_states_of(model, ids):  # transformers has the states of gated delta networks in float32
    with in_float64():
        return states_of(model, ids)


def fused(weights):
    """All experts' gates and ups in one tensor, and all downs, as Qwen3.6 has them; Qwen3.5 has a tensor for each."""
    experts = NAME + "mlp.experts."
    out = {name: each for name, each in weights.items() if not name.startswith(experts)}
    of = lambda part: torch.stack([weights[f"{experts}{e}.{part}.weight"] for e in range(EXPERTS)])
    out[experts + "gate_up_proj"] = torch.cat([of("gate_proj"), of("up_proj")], 1)
    out[experts + "down_proj"] = of("down_proj")
    return out


def make(kind, folder, seed, sparse, said, trained=False, form=lambda weights: weights):
    model = make_model(kind, seed)
    texts = [generate(model, prompt) for prompt in prompts()]
    print(len({int(t) for ids, length in texts for t in ids[length:]}), "tokens are drawn")
    words = model.model.embed_tokens.weight.detach()
    head = model.lm_head.weight.detach()
    torch.manual_seed(seed + 4)
    weights = random_layer(sparse)
    if trained:
        seen = [(states_of(model, ids), ids, length) for ids, length in texts]
        weights = train(weights, words, head, seen, Qwen)
    write(model, form(weights), folder, said)
    layer = Qwen(double(weights), words.double(), head.double())
    other = Theirs(model, fused(weights) if sparse else weights, words, head)
    compute(model, texts, folder, layer, other, "script/golden.d/qwen_mtp.py", exact_states_of)
    tell_right(model, layer, texts)


if __name__ == "__main__":
    one_layer = {"mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False}
    make(qwen3_5, os.path.join(sys.argv[1], "mtp-qwen3.5"), 7, False, one_layer, trained=True)
    # Seeds and sizes of weights by which PyTorch's own float32 is within 7e-5 of these states; by others it's off by 2e-3.
    make(qwen3_5_moe, os.path.join(sys.argv[1], "mtp-qwen3.5-moe"), 15, True, one_layer, form=fused)
    make(qwen3_next, os.path.join(sys.argv[1], "mtp-qwen3-next"), 19, True, {})
