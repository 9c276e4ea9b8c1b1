#!/usr/bin/env python3
"""Makes a tiny model, a head of EAGLE-3 that was trained to guess its texts, and what PyTorch computes with the head.

Usage: eagle3.py OUTPUT      needs: torch transformers safetensors

OUTPUT/eagle3/ holds config.json and model.safetensors (the model), head/ (the head, under the names of
SafeAILab/EAGLE and SpecForge) and golden.safetensors:
  tokens [64]
  states [64, 3 * hidden]: the model's streams before layers 2, n / 2 and n - 3
  first [63, draft vocabulary]: the head's logits of pair i, the state of token i with token i + 1
  starts [4]; chained [4, 3, draft vocabulary]; guesses [4, 4]: behind the pairs up to `starts`, logits of three guesses
    that follow the first one, each the likeliest of the model's ids `guesses`
All in float64. The layer is written out here from the paper and the reference code, without any of it.
"""
import json
import math
import os
import sys
from importlib.metadata import version

sys.path.append(sys.path.pop(0))  # beside this file lies a tokenizers.py
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

VOCAB, HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, WIDE, EPS, THETA = 160, 32, 7, 4, 2, 16, 48, 1e-5, 10000.0
STREAMS = (2, LAYERS // 2, LAYERS - 3)
DRAFT_VOCAB, NEW_TOKENS, DEPTH, STEPS = 112, 72, 4, 400


def prompt_of(first, length):  # as the tests' prompts are
    return [3 + (first + 7 * i) % 150 for i in range(length)]


def prompts():
    return [prompt_of(0 if i % 2 == 0 else i, 40) + prompt_of(i, 3 + i) for i in range(6)]


def make_model(folder):
    torch.manual_seed(7)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=WIDE, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM, max_position_embeddings=512, rms_norm_eps=EPS, bos_token_id=1,
        eos_token_id=2, initializer_range=0.3, tie_word_embeddings=False, attn_implementation="eager"))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
    model = model.float().eval()
    model.save_pretrained(folder)
    os.chmod(os.path.join(folder, "model.safetensors"), 0o644)
    os.remove(os.path.join(folder, "generation_config.json"))
    return model


def states_of(model, ids):
    """[tokens, 3 hidden]: transformers' hidden_states[i] is what layer i reads."""
    with torch.no_grad():
        streams = model(ids[None], output_hidden_states=True).hidden_states
    return torch.cat([streams[i][0] for i in STREAMS], -1)


def norm(weight, x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * weight


def turn(x, positions):
    """x [heads, n, head_dim], halves of a head are the pairs that positions turn."""
    frequencies = THETA ** (-torch.arange(0, HEAD_DIM, 2, dtype=x.dtype) / HEAD_DIM)
    angles = positions.to(x.dtype)[:, None] * frequencies
    a, b = x[..., :HEAD_DIM // 2], x[..., HEAD_DIM // 2:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def split(x, heads):
    return x.view(x.shape[0], heads, HEAD_DIM).transpose(0, 1)


class Head:
    def __init__(self, weights, words):
        self.w, self.words = weights, words

    def queries_keys_values(self, states, ids, positions):
        w = self.w
        both = torch.cat([norm(w["midlayer.input_layernorm.weight"], self.words[ids]),
                          norm(w["midlayer.hidden_norm.weight"], states)], -1)
        q, k, v = (both @ w[f"midlayer.self_attn.{part}_proj.weight"].T for part in "qkv")
        grouped = [split(t, KV_HEADS).repeat_interleave(HEADS // KV_HEADS, 0) for t in (k, v)]
        return turn(split(q, HEADS), positions), turn(grouped[0], positions), grouped[1]

    def rest(self, states, attended):
        """attended [heads, n, head_dim] -> the layer's output [n, hidden]."""
        w = self.w
        x = states + attended.transpose(0, 1).reshape(states.shape[0], -1) @ w["midlayer.self_attn.o_proj.weight"].T
        y = norm(w["midlayer.post_attention_layernorm.weight"], x)
        gate, up = (y @ w[f"midlayer.mlp.{part}_proj.weight"].T for part in ("gate", "up"))
        return x + (torch.nn.functional.silu(gate) * up) @ w["midlayer.mlp.down_proj.weight"].T

    def logits(self, out):
        return norm(self.w["norm.weight"], out) @ self.w["lm_head.weight"].T

    def first(self, states):
        return states @ self.w["fc.weight"].T

    def all_pairs(self, states, ids):
        """Pair i of states[i] and ids[i + 1], each seeing those before it."""
        n = len(ids) - 1
        x = self.first(states[:n])
        q, k, v = self.queries_keys_values(x, ids[1:], torch.arange(n))
        scores = q @ k.transpose(1, 2) / math.sqrt(HEAD_DIM)
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -math.inf)
        return self.rest(x, scores.softmax(-1) @ v), k, v

    def chain(self, out, k, v, start, to_target):
        """Guesses behind pair `start`: out [hidden] and keys and values of the pairs up to it."""
        guess = int(to_target[self.logits(out[None])[0].argmax()])
        guesses, told = [guess], []
        for depth in range(1, DEPTH):
            q, own_k, own_v = self.queries_keys_values(out[None], torch.tensor([guess]), torch.tensor([start + depth]))
            k, v = torch.cat([k, own_k], 1), torch.cat([v, own_v], 1)
            out = self.rest(out[None], (q @ k.transpose(1, 2) / math.sqrt(HEAD_DIM)).softmax(-1) @ v)[0]
            logits = self.logits(out[None])[0]
            guess = int(to_target[logits.argmax()])
            guesses.append(guess)
            told.append(logits)
        return guesses, torch.stack(told)

    def losses(self, states, ids, to_draft, first_target):
        """Training-time test: each step reads what the step before it gave of the pair before, among the keys that a
        chain of guesses would have."""
        n = len(ids) - 1
        keys, values, loss = [], [], 0.0
        x = self.first(states[:n])
        for step in range(DEPTH):
            q, k, v = self.queries_keys_values(x, ids[1:], torch.arange(n))
            keys.append(k)
            values.append(v)
            scores = q @ keys[0].transpose(1, 2) / math.sqrt(HEAD_DIM)
            scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1 - step), -math.inf)
            own = [(q * torch.roll(keys[s], step - s, 1)).sum(-1, keepdim=True) / math.sqrt(HEAD_DIM) for s in range(1, step + 1)]
            shares = torch.cat([scores] + own, -1)[:, step:].softmax(-1)
            attended = shares[..., :n] @ values[0]
            for s in range(1, step + 1):
                attended = attended + shares[..., n + s - 1:n + s] * torch.roll(values[s], step - s, 1)[:, step:]
            out = self.rest(x[step:], attended)
            targets = to_draft[ids[step + 2:]]
            rows = torch.arange(step, n - 1)
            rows = (rows + 2 >= first_target) & (targets >= 0)
            loss = loss + torch.nn.functional.cross_entropy(self.logits(out[:-1])[rows], targets[rows])
            # The state of pair i of the next step is what pair i - 1 gave.
            x = torch.cat([x[:step + 1], out[:-1]])
        return loss


def train(model, texts, to_draft):
    torch.manual_seed(11)
    def matrix(rows, columns):
        return torch.randn(rows, columns) / math.sqrt(columns)
    layer, hidden = "midlayer.", HIDDEN
    w = {"fc.weight": matrix(hidden, len(STREAMS) * hidden), "lm_head.weight": matrix(DRAFT_VOCAB, hidden),
         layer + "self_attn.q_proj.weight": matrix(HEADS * HEAD_DIM, 2 * hidden),
         layer + "self_attn.k_proj.weight": matrix(KV_HEADS * HEAD_DIM, 2 * hidden),
         layer + "self_attn.v_proj.weight": matrix(KV_HEADS * HEAD_DIM, 2 * hidden),
         layer + "self_attn.o_proj.weight": matrix(hidden, HEADS * HEAD_DIM),
         layer + "mlp.gate_proj.weight": matrix(WIDE, hidden), layer + "mlp.up_proj.weight": matrix(WIDE, hidden),
         layer + "mlp.down_proj.weight": matrix(hidden, WIDE)}
    for name in (layer + "input_layernorm", layer + "hidden_norm", layer + "post_attention_layernorm", "norm"):
        w[name + ".weight"] = 1 + 0.2 * torch.randn(hidden)
    for each in w.values():
        each.requires_grad_()
    head = Head(w, model.model.embed_tokens.weight.detach())
    seen = [(states_of(model, ids), ids, length) for ids, length in texts]
    optimizer = torch.optim.Adam(w.values(), 4e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = sum(head.losses(states, ids, to_draft, length) for states, ids, length in seen) / len(seen)
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print("step", step + 1, "loss", round(float(loss), 4), flush=True)
    return {name: each.detach().clone() for name, each in w.items()}


def generate(model, prompt):
    ids = list(prompt)
    with torch.no_grad():
        for _ in range(NEW_TOKENS):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return torch.tensor(ids), len(prompt)


def main(output):
    folder = os.path.join(output, "eagle3")
    os.makedirs(os.path.join(folder, "head"), exist_ok=True)
    model = make_model(folder)
    texts = [generate(model, prompt) for prompt in prompts()]
    drawn = sorted({int(t) for ids, length in texts for t in ids[length:]})
    others = [t for t in range(VOCAB) if t not in drawn]
    kept = sorted(drawn + others[::2][:DRAFT_VOCAB - len(drawn)])
    kept = sorted(kept + [t for t in others if t not in kept][:DRAFT_VOCAB - len(kept)])
    print(len(drawn), "of", len(kept), "tokens are drawn")
    to_target = torch.tensor(kept)
    to_draft = torch.full((VOCAB,), -1)
    to_draft[to_target] = torch.arange(DRAFT_VOCAB)
    weights = train(model, texts, to_draft)
    d2t = to_target - torch.arange(DRAFT_VOCAB)
    versions = {"made_by": "script/golden.d/eagle3.py",
                **{name: version(name) for name in ("torch", "transformers", "safetensors")}}
    path = os.path.join(folder, "head", "model.safetensors")
    save_file({**weights, "d2t": d2t, "t2d": to_draft >= 0}, path, metadata={"format": "pt", **versions})
    os.chmod(path, 0o644)
    with open(os.path.join(folder, "head", "config.json"), "w") as out:
        json.dump({"architectures": ["LlamaForCausalLMEagle3"], "attention_bias": False, "attention_dropout": 0.0,
                   "bos_token_id": 1, "draft_vocab_size": DRAFT_VOCAB, "eos_token_id": 2, "head_dim": HEAD_DIM,
                   "hidden_act": "silu", "hidden_size": HIDDEN, "initializer_range": 0.02, "intermediate_size": WIDE,
                   "max_position_embeddings": 512, "max_window_layers": 64, "model_type": "llama",
                   "num_attention_heads": HEADS, "num_hidden_layers": 1, "num_key_value_heads": KV_HEADS,
                   "rms_norm_eps": EPS, "rope_scaling": None, "rope_theta": THETA, "sliding_window": None,
                   "tie_word_embeddings": False, "torch_dtype": "float32", "transformers_version": "4.51.0",
                   "use_cache": True, "use_sliding_window": False, "vocab_size": VOCAB}, out, indent=2)
        out.write("\n")

    exact = model.double()
    head = Head({name: each.double() for name, each in weights.items()}, exact.model.embed_tokens.weight.detach())
    tokens = texts[3][0][:64]
    states = states_of(exact, tokens)
    out, k, v = head.all_pairs(states, tokens)
    starts = [0, 13, 40, 58]
    chains = [head.chain(out[s], k[:, :s + 1], v[:, :s + 1], s, to_target) for s in starts]
    golden = {"tokens": tokens.int(), "states": states.float(), "first": head.logits(out).float(),
              "starts": torch.tensor(starts, dtype=torch.int32),
              "guesses": torch.tensor([guesses for guesses, _ in chains], dtype=torch.int32),
              "chained": torch.stack([told for _, told in chains]).float()}
    path = os.path.join(folder, "golden.safetensors")
    save_file({name: each.contiguous() for name, each in golden.items()}, path, metadata=versions)
    os.chmod(path, 0o644)
    right = [0] * DEPTH
    count = 0
    for ids, length in texts:
        out, k, v = head.all_pairs(states_of(exact, ids), ids)
        for s in range(length - 1, len(ids) - 1 - DEPTH):
            guesses, _ = head.chain(out[s], k[:, :s + 1], v[:, :s + 1], s, to_target)
            count += 1
            for depth in range(DEPTH):
                if guesses[:depth + 1] == ids[s + 2:s + 3 + depth].tolist():
                    right[depth] += 1
    print("right guesses by depth:", [round(r / count, 3) for r in right])


main(sys.argv[1])
