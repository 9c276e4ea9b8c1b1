#!/usr/bin/env python3
"""Makes tiny models whose checkpoints have a layer of multi-token prediction, and what PyTorch computes with it.

Usage: mtp.py OUTPUT      needs: torch transformers safetensors

OUTPUT/mtp-glm4-moe/, mtp-deepseek-v3/ and mtp-deepseek-v32/ hold config.json and model.safetensors (the model, and the layer
behind its own as published: model.layers.3) and golden.safetensors:
  tokens [64]
  states [64, hidden]: the model's hidden states after the final norm
  first [63, vocabulary]: the layer's logits of pair i, the state of token i with token i + 1
  starts [4]; chained [4, 3, vocabulary]; guesses [4, 4]: behind the pairs up to `starts`, logits of three guesses that
    follow the first one, each the likeliest, from the states that the layer itself gave
All in float64. The layer of mtp-glm4-moe was trained to guess the model's texts, and has the model's embedding and output
projection once more, as published; those of DeepSeek have weights of chance, with another embedding and projection (V3) and
without any (V3.2). The first two are written out here from the papers (DeepSeek-V3's report, sections 2.1 and 2.2, and
GLM-4.5's) and agree with transformers, which computes the third.
"""
import json
import math
import os
import sys
from importlib.metadata import version

sys.path.append(sys.path.pop(0))  # beside this file lies a tokenizers.py
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (DeepseekV3Config, DeepseekV3ForCausalLM, DeepseekV32Config, DeepseekV32ForCausalLM, Glm4MoeConfig,
                          Glm4MoeForCausalLM)
from transformers.modeling_layers import MtpModel

VOCAB, HIDDEN, LAYERS, HEADS, EPS, LATENT_EPS, THETA = 320, 32, 3, 4, 1e-5, 1e-6, 10000.0
KV_HEADS, HEAD_DIM, TURNED = 2, 16, 8  # of GLM
Q_RANK, KV_RANK, PLAIN, ROPE, VALUE = 24, 20, 16, 8, 12  # of DeepSeek
EXPERTS, TOP_K, INNER, GROUPS, TOP_GROUPS, FACTOR = 8, 3, 24, 4, 2, 1.5
NEW_TOKENS, DEPTH, STEPS = 72, 4, 400
NAME = f"model.layers.{LAYERS}."
SMALL = dict(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=48, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
             max_position_embeddings=512, rms_norm_eps=EPS, bos_token_id=1, eos_token_id=2, pad_token_id=0,
             initializer_range=0.3, tie_word_embeddings=False, n_routed_experts=EXPERTS, num_experts_per_tok=TOP_K,
             moe_intermediate_size=INNER, n_shared_experts=1, n_group=GROUPS, topk_group=TOP_GROUPS,
             routed_scaling_factor=FACTOR, norm_topk_prob=True, first_k_dense_replace=1, num_mtp_layers=0,
             attn_implementation="eager")


def glm():
    return Glm4MoeForCausalLM(Glm4MoeConfig(
        **SMALL, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM, use_qk_norm=True, attention_bias=True,
        rope_parameters={"rope_type": "default", "rope_theta": THETA, "partial_rotary_factor": TURNED / HEAD_DIM}))


LATENT = dict(num_key_value_heads=HEADS, q_lora_rank=Q_RANK, kv_lora_rank=KV_RANK, qk_nope_head_dim=PLAIN,
              qk_rope_head_dim=ROPE, v_head_dim=VALUE, rope_parameters={"rope_type": "default", "rope_theta": THETA})
INDEX_HEADS, INDEX_SIZE = 16, 20


def deepseek():
    return DeepseekV3ForCausalLM(DeepseekV3Config(**SMALL, **LATENT))


def deepseek_v32():
    return DeepseekV32ForCausalLM(DeepseekV32Config(
        **{k: v for k, v in SMALL.items() if k != "num_mtp_layers"}, **LATENT, index_topk=14, index_n_heads=INDEX_HEADS,
        index_head_dim=INDEX_SIZE))


def prompt_of(first, length):  # as the tests' prompts are
    return [3 + (first + 7 * i) % 150 for i in range(length)]


def prompts():
    return [prompt_of(0 if i % 2 == 0 else i, 40) + prompt_of(i, 3 + i) for i in range(6)]


def norm(weight, x, eps=EPS):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def angles(positions, size, dtype):
    return positions.to(dtype)[:, None] * THETA ** (-torch.arange(0, size, 2, dtype=dtype) / size)


def turn_halves(x, positions):
    """x [heads, n, head_dim], whose first TURNED features are turned: feature i with i + TURNED / 2."""
    by = angles(positions, TURNED, x.dtype)
    a, b, rest = x[..., :TURNED // 2], x[..., TURNED // 2:TURNED], x[..., TURNED:]
    return torch.cat([a * by.cos() - b * by.sin(), b * by.cos() + a * by.sin(), rest], -1)


def turn_neighbours(x, positions):
    """x [heads, n, ROPE]: feature 2 i with 2 i + 1."""
    by = angles(positions, ROPE, x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * by.cos() - b * by.sin(), b * by.cos() + a * by.sin()], -1).flatten(-2)


def split(x, heads):
    return x.view(x.shape[0], heads, -1).transpose(0, 1)


class Layer:
    """Attention says `queries_keys_values`: of x [n, hidden], each [heads, n, size]."""

    def __init__(self, weights, words, head):
        self.w, self.words, self.head = weights, words, head

    def at(self, name):
        return self.w[NAME + name]

    def linear(self, name, x):
        y = x @ self.at(name + ".weight").T
        return y + self.at(name + ".bias") if NAME + name + ".bias" in self.w else y

    def first(self, states, ids):
        """The layer's input: what is made of each pair's state and next token."""
        both = torch.cat([norm(self.at("enorm.weight"), self.words[ids]), norm(self.at("hnorm.weight"), states)], -1)
        return both @ self.at("eh_proj.weight").T

    def mlp(self, name, x):
        return self.linear(name + ".down_proj",
                           torch.nn.functional.silu(self.linear(name + ".gate_proj", x)) * self.linear(name + ".up_proj", x))

    def experts(self, x):
        scores = (x @ self.at("mlp.gate.weight").T).sigmoid()
        choice = scores.detach() + self.at("mlp.gate.e_score_correction_bias")
        of_groups = choice.view(-1, GROUPS, EXPERTS // GROUPS).topk(2, -1).values.sum(-1)
        kept = torch.zeros_like(of_groups).scatter(1, of_groups.topk(TOP_GROUPS, -1).indices, 1.0)
        choice = choice.masked_fill(kept.repeat_interleave(EXPERTS // GROUPS, 1) == 0, -math.inf)
        chosen = torch.zeros_like(scores).scatter(1, choice.topk(TOP_K, -1).indices, 1.0)
        weights = scores * chosen
        weights = weights / weights.sum(-1, keepdim=True) * FACTOR
        each = torch.stack([self.mlp(f"mlp.experts.{e}", x) for e in range(EXPERTS)], 1)
        return (weights[..., None] * each).sum(1) + self.mlp("mlp.shared_experts", x)

    def input(self, x):
        return norm(self.at("input_layernorm.weight"), x)

    def rest(self, x, attended):
        """attended [heads, n, size] -> states [n, hidden], which the next guess reads in the place of the model's."""
        x = x + attended.transpose(0, 1).reshape(x.shape[0], -1) @ self.at("self_attn.o_proj.weight").T
        x = x + self.experts(norm(self.at("post_attention_layernorm.weight"), x))
        return norm(self.at("shared_head.norm.weight"), x)

    def logits(self, out):
        return out @ self.head.T

    def all_pairs(self, states, ids):
        """Pair i of states[i] and ids[i + 1], each seeing those before it."""
        n = len(ids) - 1
        x = self.first(states[:n], ids[1:])
        q, k, v = self.queries_keys_values(x, torch.arange(n))
        scores = self.scores(q, k).masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -math.inf)
        return self.rest(x, scores.softmax(-1) @ v), k, v

    def chain(self, out, k, v, start):
        """Guesses behind pair `start`: out [hidden] and keys and values of the pairs up to it."""
        guesses, told = [int(self.logits(out[None])[0].argmax())], []
        for depth in range(1, DEPTH):
            x = self.first(out[None], torch.tensor(guesses[-1:]))
            q, own_k, own_v = self.queries_keys_values(x, torch.tensor([start + depth]))
            k, v = torch.cat([k, own_k], 1), torch.cat([v, own_v], 1)
            out = self.rest(x, self.scores(q, k).softmax(-1) @ v)[0]
            told.append(self.logits(out[None])[0])
            guesses.append(int(told[-1].argmax()))
        return guesses, torch.stack(told)

    def follow(self, states, tokens, starts):
        """Logits of each pair, and the guesses behind some with the logits of all but the first."""
        out, k, v = self.all_pairs(states, tokens)
        return self.logits(out), [self.chain(out[s], k[:, :s + 1], v[:, :s + 1], s) for s in starts]

    def scores(self, q, k):
        return q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])

    def losses(self, states, ids, first_target):
        """Each step reads what the step before it gave of the pair before, among the keys that a chain of guesses has."""
        n = len(ids) - 1
        keys, values, loss = [], [], 0.0
        given = states[:n]
        for step in range(DEPTH):
            x = self.first(given, ids[1:])
            q, k, v = self.queries_keys_values(x, torch.arange(n))
            keys.append(k)
            values.append(v)
            scores = self.scores(q, keys[0]).masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1 - step), -math.inf)
            own = [(q * torch.roll(keys[s], step - s, 1)).sum(-1, keepdim=True) / math.sqrt(q.shape[-1])
                   for s in range(1, step + 1)]
            shares = torch.cat([scores] + own, -1)[:, step:].softmax(-1)
            attended = shares[..., :n] @ values[0]
            for s in range(1, step + 1):
                attended = attended + shares[..., n + s - 1:n + s] * torch.roll(values[s], step - s, 1)[:, step:]
            out = self.rest(x[step:], attended)
            rows = torch.arange(step, n - 1) + 2 >= first_target
            loss = loss + torch.nn.functional.cross_entropy(self.logits(out[:-1])[rows], ids[step + 2:][rows])
            given = torch.cat([given[:step + 1], out[:-1]])
        return loss


class Glm(Layer):
    def queries_keys_values(self, x, positions):
        y = self.input(x)
        q, k, v = (split(self.linear(f"self_attn.{part}_proj", y), heads)
                   for part, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)))
        q, k = norm(self.at("self_attn.q_norm.weight"), q), norm(self.at("self_attn.k_norm.weight"), k)
        k, v = (t.repeat_interleave(HEADS // KV_HEADS, 0) for t in (turn_halves(k, positions), v))
        return turn_halves(q, positions), k, v


class DeepSeek(Layer):
    def queries_keys_values(self, x, positions):
        y = self.input(x)
        q = split(self.linear("self_attn.q_b_proj", norm(self.at("self_attn.q_a_layernorm.weight"),
                                                         self.linear("self_attn.q_a_proj", y), LATENT_EPS)), HEADS)
        latent, shared = self.linear("self_attn.kv_a_proj_with_mqa", y).split([KV_RANK, ROPE], -1)
        both = split(self.linear("self_attn.kv_b_proj", norm(self.at("self_attn.kv_a_layernorm.weight"), latent, LATENT_EPS)), HEADS)
        shared = turn_neighbours(shared[None], positions).expand(HEADS, -1, -1)
        q = torch.cat([q[..., :PLAIN], turn_neighbours(q[..., PLAIN:], positions)], -1)
        return q, torch.cat([both[..., :PLAIN], shared], -1), both[..., PLAIN:]


class Theirs:
    """The layer of a folder's model by transformers, each time over all pairs."""

    def __init__(self, folder, words=None, head=None):
        with open(os.path.join(folder, "config.json")) as file:
            kind = getattr(transformers, json.load(file)["architectures"][0])
        model = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        model.set_experts_implementation("eager")
        model.config.num_mtp_layers = 1
        for types in ("layer_types", "mlp_layer_types"):
            if getattr(model.config, types, None) is not None:
                setattr(model.config, "mtp_" + types, getattr(model.config, types)[-1:])
        model._keys_to_ignore_on_load_unexpected = [rf"layers\.{LAYERS}\."]  # how it knows which weights are the layer's
        self.layer = MtpModel.from_pretrained(model).double().eval()
        self.words = (model.model.embed_tokens.weight if words is None else words).double()
        self.head = (model.lm_head.weight if head is None else head).double()

    def states(self, states, ids):
        n = len(ids)
        words, positions = self.words[ids][None], torch.arange(n)[None]
        unseen = torch.full((n, n), torch.finfo(states.dtype).min, dtype=states.dtype).triu(1)
        return self.layer.layers[0](words, states[None], position_embeddings=self.layer.rotary_emb(words, positions),
                                    attention_mask=unseen[None, None], position_ids=positions, past_key_values=None)[0]

    def chain(self, states, ids):
        guesses, told = [], []
        for depth in range(DEPTH):
            out = self.states(states, ids)[-1]
            told.append(out @ self.head.T)
            guesses.append(int(told[-1].argmax()))
            states, ids = torch.cat([states, out[None]]), torch.cat([ids, torch.tensor(guesses[-1:])])
        return guesses, torch.stack(told[1:])

    def follow(self, states, tokens, starts):
        first = self.states(states[:-1], tokens[1:]) @ self.head.T
        return first, [self.chain(states[:s + 1], tokens[1:s + 2]) for s in starts]


def matrix(rows, columns):
    return torch.randn(rows, columns) / math.sqrt(columns)


def random_layer(attention, biases=()):
    """`attention`: rows and columns of each of its weights, 0 columns of a norm."""
    w = {"eh_proj.weight": matrix(HIDDEN, 2 * HIDDEN), "mlp.gate.weight": matrix(EXPERTS, HIDDEN),
         "mlp.gate.e_score_correction_bias": 0.1 * torch.randn(EXPERTS)}
    for name, (rows, columns) in attention.items():
        w[f"self_attn.{name}.weight"] = matrix(rows, columns) if columns > 0 else 1 + 0.2 * torch.randn(rows)
    for name in biases:
        w[f"self_attn.{name}.bias"] = 0.2 * torch.randn(attention[name][0])
    for expert in [f"mlp.experts.{e}" for e in range(EXPERTS)] + ["mlp.shared_experts"]:
        w[expert + ".gate_proj.weight"], w[expert + ".up_proj.weight"] = matrix(INNER, HIDDEN), matrix(INNER, HIDDEN)
        w[expert + ".down_proj.weight"] = matrix(HIDDEN, INNER)
    for name in ("enorm", "hnorm", "input_layernorm", "post_attention_layernorm", "shared_head.norm"):
        w[name + ".weight"] = 1 + 0.2 * torch.randn(HIDDEN)
    return {NAME + name: each for name, each in w.items()}


def train(weights, words, head, seen, kind=None):
    trained = {name: each for name, each in weights.items() if "correction_bias" not in name}
    for each in trained.values():
        each.requires_grad_()
    layer = (kind or Glm)(weights, words, head)
    optimizer = torch.optim.Adam(trained.values(), 4e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = sum(layer.losses(states, ids, length) for states, ids, length in seen) / len(seen)
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print("step", step + 1, "loss", round(float(loss), 4), flush=True)
    return {name: each.detach().clone() for name, each in weights.items()}


def states_of(model, ids):
    with torch.no_grad():
        return model.model(ids[None]).last_hidden_state[0]


def generate(model, prompt):
    ids = list(prompt)
    with torch.no_grad():
        for _ in range(NEW_TOKENS):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return torch.tensor(ids), len(prompt)


def make_model(make, seed=7):
    torch.manual_seed(seed)
    model = make().float().eval()
    model.set_experts_implementation("eager")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.copy_(0.1 * torch.randn_like(buffer))
    return model


def write(model, weights, folder, said=(("num_nextn_predict_layers", 1),)):
    """The model, and the layer behind its own, of which config.json says what is `said`."""
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "generation_config.json"))
    path = os.path.join(folder, "model.safetensors")
    save_file({**load_file(path), **{name: each.contiguous() for name, each in weights.items()}}, path, metadata={"format": "pt"})
    os.chmod(path, 0o644)
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        config = json.load(file)
    config.update(said)
    with open(path, "w") as file:
        json.dump(config, file, indent=2)
        file.write("\n")


def compute(model, texts, folder, layer, other=None, made_by="script/golden.d/mtp.py", states_by=states_of):
    """`other` agrees, to the single precision that transformers has in places."""
    model = model.double()
    tokens = texts[3][0][:64]
    states = states_by(model, tokens)
    starts = [0, 13, 40, 58]
    with torch.no_grad():
        first, chains = layer.follow(states, tokens, starts)
        if other is not None:
            others, other_chains = other.follow(states, tokens, starts)
            worst = max(float((a - b).abs().max()) for a, b in [(first, others)] + [
                (a, b) for (_, a), (_, b) in zip(chains, other_chains)])
            print("transformers differs by", worst)
            assert worst < 1e-4
    golden = {"tokens": tokens.int(), "states": states.float(), "first": first.float(),
              "starts": torch.tensor(starts, dtype=torch.int32),
              "guesses": torch.tensor([guesses for guesses, _ in chains], dtype=torch.int32),
              "chained": torch.stack([told for _, told in chains]).float()}
    versions = {"made_by": made_by,
                **{name: version(name) for name in ("torch", "transformers", "safetensors")}}
    path = os.path.join(folder, "golden.safetensors")
    save_file({name: each.contiguous() for name, each in golden.items()}, path, metadata=versions)
    os.chmod(path, 0o644)


def tell_right(model, layer, texts):
    right, count = [0] * DEPTH, 0
    for ids, length in texts:
        starts = range(length - 1, len(ids) - 1 - DEPTH)
        with torch.no_grad():
            _, chains = layer.follow(states_of(model, ids), ids, starts)
        for s, (guesses, _) in zip(starts, chains):
            count += 1
            for depth in range(DEPTH):
                right[depth] += guesses[:depth + 1] == ids[s + 2:s + 3 + depth].tolist()
    print("right guesses by depth:", [round(r / count, 3) for r in right])


def double(weights):
    return {name: each.double() for name, each in weights.items()}


def make_glm(folder):
    model = make_model(glm)
    texts = [generate(model, prompt) for prompt in prompts()]
    print(len({int(t) for ids, length in texts for t in ids[length:]}), "tokens are drawn")
    words, head = model.model.embed_tokens.weight.detach(), model.lm_head.weight.detach()
    torch.manual_seed(11)
    q, kv = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    weights = random_layer({"q_proj": (q, HIDDEN), "k_proj": (kv, HIDDEN), "v_proj": (kv, HIDDEN), "o_proj": (HIDDEN, q),
                            "q_norm": (HEAD_DIM, 0), "k_norm": (HEAD_DIM, 0)}, ("q_proj", "k_proj", "v_proj"))
    weights = train(weights, words, head, [(states_of(model, ids), ids, length) for ids, length in texts])
    write(model, {**weights, NAME + "embed_tokens.weight": words.clone(), NAME + "shared_head.head.weight": head.clone()}, folder)
    layer = Glm(double(weights), words.double(), head.double())
    compute(model, texts, folder, layer, Theirs(folder))
    tell_right(model, layer, texts)


def make_deepseek(make, folder, has_own):
    model = make_model(make, 7 if has_own else 9)  # by 7 two keys are as good as each other where an indexer takes one
    texts = [generate(model, prompt) for prompt in prompts()]
    torch.manual_seed(13)
    attention = {"q_a_proj": (Q_RANK, HIDDEN), "q_a_layernorm": (Q_RANK, 0), "q_b_proj": (HEADS * (PLAIN + ROPE), Q_RANK),
                 "kv_a_proj_with_mqa": (KV_RANK + ROPE, HIDDEN), "kv_a_layernorm": (KV_RANK, 0),
                 "kv_b_proj": (HEADS * (PLAIN + VALUE), KV_RANK), "o_proj": (HIDDEN, HEADS * VALUE)}
    if not has_own:
        attention.update({"indexer.wq_b": (INDEX_HEADS * INDEX_SIZE, Q_RANK), "indexer.wk": (INDEX_SIZE, HIDDEN),
                          "indexer.k_norm": (INDEX_SIZE, 0), "indexer.weights_proj": (INDEX_HEADS, HIDDEN)})
    weights = random_layer(attention, () if has_own else ("indexer.k_norm",))
    words, head = torch.randn(VOCAB, HIDDEN), matrix(VOCAB, HIDDEN)
    own = {NAME + "embed_tokens.weight": words, NAME + "shared_head.head.weight": head} if has_own else {}
    write(model, {**weights, **own}, folder)
    if has_own:
        compute(model, texts, folder, DeepSeek(double(weights), words.double(), head.double()), Theirs(folder, words, head))
    else:
        compute(model, texts, folder, Theirs(folder))


if __name__ == "__main__":
    make_glm(os.path.join(sys.argv[1], "mtp-glm4-moe"))
    make_deepseek(deepseek, os.path.join(sys.argv[1], "mtp-deepseek-v3"), True)
    make_deepseek(deepseek_v32, os.path.join(sys.argv[1], "mtp-deepseek-v32"), False)
