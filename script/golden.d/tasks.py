#!/usr/bin/env python3
"""Trains tiny models of tests/data/golden on tasks that look at whole texts, with PyTorch, transformers and PEFT.

Usage: tasks.py OUTPUT SWIFT      needs: torch transformers peft sentence-transformers safetensors

OUTPUT/llama-tied is as models.py makes it; SWIFT is the folder `swift` of ms-swift, of which the losses are run.

OUTPUT/tasks/<task>.safetensors, of 20 steps of AdamW from llama-tied:
  ids, lengths [texts]: texts end to end, taken in turn, a step's after another's
  labels, label_counts [texts]: of each text, end to end
  score: the head that training begins with
  full.losses, full.grad_norms, lora.losses, lora.grad_norms [20], norms before clipping
  full.score, lora.score: the trained head; full.logits, lora.logits [texts, labels]: what the trained models give
LoRA begins with the adapter of llama-tied, and trains the head in full, as PEFT does for SEQ_CLS.

Embeddings (sentence-transformers' losses) and rerankers (ms-swift's): groups [groups], how many texts each has; labels
as above, of an embedding at the group's first text; full.losses, full.grad_norms, full.outputs [texts, width].

OUTPUT/tasks/losses.safetensors: what ms-swift's losses make of given numbers in float64, by `<case>/`: outputs
[texts, width] (unit vectors are made of them), groups, labels, loss, gradient [texts, width].
"""
import importlib.util
import os
import sys
import types
from importlib.metadata import version

sys.path.pop(0)  # beside this file lies a tokenizers.py
import torch
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification, get_cosine_schedule_with_warmup

VOCAB, PAD, STEPS, PER_STEP, TEXTS = 160, 0, 20, 4, 8
PEAK, BETAS, EPS, DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
LENGTHS = (23, 5, 40, 9, 31, 2, 17, 12)


def padded(texts):
    ids = torch.full((len(texts), max(map(len, texts))), PAD)
    mask = torch.zeros_like(ids)
    for row, text in enumerate(texts):
        ids[row, :len(text)] = text
        mask[row, :len(text)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def random_texts():
    return [torch.randint(3, VOCAB, (length,)) for length in LENGTHS]


def groups_of(model):
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    return [{"params": [p for p in named.values() if p.dim() >= 2], "weight_decay": DECAY},
            {"params": [p for p in named.values() if p.dim() < 2], "weight_decay": 0.0}]


def train(model, loss_of_step):
    groups = [group for group in groups_of(model) if group["params"]]
    optimizer = torch.optim.AdamW(groups, lr=PEAK, betas=BETAS, eps=EPS)
    schedule = get_cosine_schedule_with_warmup(optimizer, 0, STEPS)
    losses, norms = [], []
    for step in range(STEPS):
        loss = loss_of_step(model, step)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_([p for g in groups for p in g["params"]], CLIP).item())
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return torch.tensor(losses), torch.tensor(norms)


def with_adapter(model, folder, task_type):
    stored = load_file(os.path.join(folder, "adapter", "adapter_model.safetensors"))
    targets = sorted({name.split(".")[-3] for name in stored})
    rank = next(t.shape[0] for n, t in stored.items() if "lora_A" in n)
    config = LoraConfig(task_type=task_type, r=rank, lora_alpha=8, lora_dropout=0.0, target_modules=targets)
    if task_type == "SEQ_CLS":
        stored["base_model.model.score.weight"] = model.score.weight.detach().clone()
    model = get_peft_model(model, config)
    result = set_peft_model_state_dict(model, stored)
    assert not result.unexpected_keys, result.unexpected_keys
    return model


def write(output, name, tensors):
    folder = os.path.join(output, "tasks")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{name}.safetensors")
    names = ("torch", "transformers", "peft", "safetensors")
    save_file({key: value.contiguous() for key, value in tensors.items()}, path,
              metadata={"made_by": "script/golden.d/tasks.py", **{n: version(n) for n in names}})
    os.chmod(path, 0o644)


def classifier(base, labels, problem_type, score):
    model = AutoModelForSequenceClassification.from_pretrained(
        base, num_labels=labels, problem_type=problem_type, pad_token_id=PAD, attn_implementation="eager",
        dtype=torch.float32)
    with torch.no_grad():
        model.score.weight.copy_(score)
    return model


def make_classification(output, base, name, problem_type, labels):
    torch.manual_seed(len(name))
    texts = random_texts()
    if problem_type == "single_label_classification":
        lists = [[int(torch.randint(labels, ()))] for _ in texts]
        targets = torch.tensor([one[0] for one in lists])
    elif problem_type == "regression":
        lists = torch.randn(TEXTS, labels).tolist()
        targets = torch.tensor(lists)
    else:
        lists = [[label for label in range(labels) if torch.rand(()) < 0.4] for _ in texts]
        targets = torch.zeros(TEXTS, labels)
        for row, some in enumerate(lists):
            targets[row, some] = 1
    score = 0.125 * torch.randn(labels, 64)
    found = {"ids": torch.cat(texts).int(), "lengths": torch.tensor(LENGTHS, dtype=torch.int32),
             "labels": torch.tensor([x for one in lists for x in one], dtype=torch.float32),
             "label_counts": torch.tensor([len(one) for one in lists], dtype=torch.int32), "score": score}

    def loss_of_step(model, step):
        begin = step * PER_STEP % TEXTS
        return model(**padded(texts[begin:begin + PER_STEP]), labels=targets[begin:begin + PER_STEP]).loss

    for kind in ("full", "lora"):
        model = classifier(base, labels, problem_type, score)
        head = model.score
        if kind == "lora":
            model = with_adapter(model, base, "SEQ_CLS")
            head = model.base_model.model.score.modules_to_save["default"]
        found[f"{kind}.losses"], found[f"{kind}.grad_norms"] = train(model, loss_of_step)
        found[f"{kind}.score"] = head.weight.detach().clone()
        with torch.no_grad():
            found[f"{kind}.logits"] = model(**padded(texts)).logits
        print(f"{name} {kind}: loss {found[f'{kind}.losses'][0]:.4f} to {found[f'{kind}.losses'][-1]:.4f}")
    write(output, name, found)


class Embedder(torch.nn.Module):
    """What sentence-transformers' losses ask: the last token's hidden state, of length 1."""

    def __init__(self, base):
        super().__init__()
        self.model = AutoModel.from_pretrained(base, attn_implementation="eager", dtype=torch.float32)

    def hidden(self, texts):
        batch = padded(texts)
        states = self.model(**batch).last_hidden_state
        return states[torch.arange(len(texts)), batch["attention_mask"].sum(1) - 1]

    def forward(self, features):
        vectors = torch.nn.functional.normalize(self.hidden(features["texts"]), p=2, dim=-1)
        return {"sentence_embedding": vectors, "token_embeddings": vectors[:, None]}


def make_embedding(output, base, name, groups, make_loss, labels=None):
    torch.manual_seed(len(name))
    texts = random_texts()
    begins = [sum(groups[:i]) for i in range(len(groups) + 1)]
    labels = labels or [1.0] * len(groups)
    encoder = Embedder(base)
    loss = make_loss(encoder)
    per_step = len(groups) // 2

    def loss_of_step(_, step):
        first = step * per_step % len(groups)
        chosen = range(first, first + per_step)
        columns = [[texts[begins[g] + i] for g in chosen] for i in range(groups[first])]
        return loss([{"texts": column} for column in columns], torch.tensor([labels[g] for g in chosen]))

    found = {"ids": torch.cat(texts).int(), "lengths": torch.tensor(LENGTHS, dtype=torch.int32),
             "groups": torch.tensor(groups, dtype=torch.int32),
             "labels": torch.tensor(labels), "label_counts": torch.tensor(
                 [int(i in begins) for i in range(TEXTS)], dtype=torch.int32)}
    found["full.losses"], found["full.grad_norms"] = train(encoder, loss_of_step)
    with torch.no_grad():
        found["full.outputs"] = encoder.hidden(texts)
    print(f"{name}: loss {found['full.losses'][0]:.4f} to {found['full.losses'][-1]:.4f}")
    write(output, name, found)


def make_reranker(output, base, name, loss, generative):
    torch.manual_seed(len(name))
    texts, groups = random_texts(), [2, 2, 3, 1]
    targets = torch.tensor([1, 0, 1, 0, 1, 0, 0, 1])
    score = 0.125 * torch.randn(1, 64)
    yes, no = 17, 40
    if generative:
        model = AutoModelForCausalLM.from_pretrained(base, attn_implementation="eager", dtype=torch.float32)
    else:
        model = classifier(base, 1, None, score)

    def logits(model, some):
        batch = padded(some)
        out = model(**batch).logits
        if not generative:
            return out
        last = out[torch.arange(len(some)), batch["attention_mask"].sum(1) - 1]
        return (last[:, yes] - last[:, no])[:, None]

    def loss_of_step(model, step):
        begin = step * PER_STEP % TEXTS
        return loss(types.SimpleNamespace(logits=logits(model, texts[begin:begin + PER_STEP])),
                    targets[begin:begin + PER_STEP])

    found = {"ids": torch.cat(texts).int(), "lengths": torch.tensor(LENGTHS, dtype=torch.int32),
             "groups": torch.tensor(groups, dtype=torch.int32), "labels": targets.float(),
             "label_counts": torch.ones(TEXTS, dtype=torch.int32), "score": score,
             "verdicts": torch.tensor([yes, no], dtype=torch.int32)}
    found["full.losses"], found["full.grad_norms"] = train(model, loss_of_step)
    with torch.no_grad():
        found["full.outputs"] = logits(model, texts)
    print(f"{name}: loss {found['full.losses'][0]:.4f} to {found['full.losses'][-1]:.4f}")
    write(output, name, found)


def swift_losses(folder):
    """ms-swift's loss classes, without what they ask of the rest of it."""
    def stub(name, **members):
        module = types.ModuleType(name)
        module.__dict__.update(members)
        sys.modules[name] = module

    class Base:
        is_megatron = False

    stub("swift", __path__=[])
    stub("swift.sequence_parallel", sequence_parallel=types.SimpleNamespace())
    stub("swift.utils", get_dist_setting=lambda: (0, 0, 1, 1), get_last_valid_indices=None)
    stub("swift.loss", __path__=[os.path.join(folder, "loss")])
    stub("swift.loss.base", BaseLoss=Base)
    found = {}
    for name in ("embedding", "reranker"):
        spec = importlib.util.spec_from_file_location(f"swift.loss.{name}", os.path.join(folder, "loss", f"{name}.py"))
        found[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found[name])
    return found["embedding"], found["reranker"]


def make_losses(output, embedding, reranker):
    torch.manual_seed(11)
    found = {}

    def add(case, loss, groups, width, labels, environment=(), dims=None):
        total = sum(groups)
        outputs = torch.randn(total, width, dtype=torch.float64, requires_grad=True)
        os.environ.update(dict(environment))
        if isinstance(loss, (reranker.PointwiseRerankerLoss, reranker.ListwiseRerankerLoss)):
            value = loss(types.SimpleNamespace(logits=outputs), labels)
        else:
            value = sum(weight * loss({"last_hidden_state": torch.nn.functional.normalize(outputs[:, :dim], dim=-1)}, labels)
                        for dim, weight in (dims or {width: 1.0}).items())
        for key, _ in environment:
            del os.environ[key]
        value.backward()
        found.update({f"{case}/outputs": outputs.detach().clone(), f"{case}/groups": torch.tensor(groups, dtype=torch.int32),
                      f"{case}/labels": labels.double(), f"{case}/loss": value.detach().reshape(1),
                      f"{case}/gradient": outputs.grad.clone()})

    def marks(groups):  # a positive's 1 and its negatives' 0, as ms-swift's collator has them
        return torch.tensor([x for g in groups for x in [1.0] + [0.0] * (g - 2)])

    info = embedding.InfonceLoss()
    even, uneven = [4, 4, 4], [2, 4, 3]
    for case, groups, environment in (
            ("infonce", even, []), ("infonce-uneven", uneven, []),
            ("infonce-alone", even, [("INFONCE_USE_BATCH", "False")]),
            ("infonce-alone-uneven", uneven, [("INFONCE_USE_BATCH", "False"), ("INFONCE_TEMPERATURE", "0.5")]),
            ("infonce-hard", even, [("INFONCE_HARD_NEGATIVES", "1")]),
            ("infonce-masked", even, [("INFONCE_MASK_FAKE_NEGATIVE", "True"), ("INFONCE_FAKE_NEG_MARGIN", "0.05")]),
            ("infonce-masked-uneven", uneven, [("INFONCE_MASK_FAKE_NEGATIVE", "True"), ("INFONCE_INCLUDE_QQ", "True")]),
            ("infonce-all", even, [("INFONCE_INCLUDE_QQ", "True"), ("INFONCE_INCLUDE_DD", "True")]),
            ("infonce-all-uneven", uneven, [("INFONCE_INCLUDE_QQ", "True"), ("INFONCE_INCLUDE_DD", "True")])):
        add(case, info, groups, 6, marks(groups), environment)
    add("infonce-matryoshka", info, even, 6, marks(even), dims={3: 0.5, 6: 1.0})
    pairs = [2] * 6
    labels = torch.tensor([1.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    add("cosine_similarity", embedding.CosineSimilarityLoss(), pairs, 5, torch.rand(6))
    add("contrastive", embedding.ContrastiveLoss(), pairs, 5, labels)
    add("online_contrastive", embedding.OnlineContrastiveLoss(), pairs, 5, labels)
    ranked = [3, 1, 2, 4]
    relevant = torch.tensor([float(i == 0) for g in ranked for i in range(g)])
    add("pointwise_reranker", reranker.PointwiseRerankerLoss(), ranked, 1, relevant)
    add("listwise_reranker", reranker.ListwiseRerankerLoss(), ranked, 1, relevant,
        [("LISTWISE_RERANKER_TEMPERATURE", "0.7")])
    write(output, "losses", found)


def main():
    output, swift = sys.argv[1:]
    base = os.path.join(output, "llama-tied")
    embedding, reranker = swift_losses(swift)
    make_losses(output, embedding, reranker)
    make_classification(output, base, "seq-cls", "single_label_classification", 3)
    make_classification(output, base, "seq-cls-several", "multi_label_classification", 4)
    make_classification(output, base, "seq-cls-regression", "regression", 1)
    make_classification(output, base, "seq-cls-numbers", "regression", 2)
    for name in [name for name in sys.modules if name.split(".")[0] == "swift"]:
        del sys.modules[name]  # stubs, which others would look into
    from sentence_transformers import losses
    make_embedding(output, base, "embedding-infonce", [2] * 4, lambda m: losses.MultipleNegativesRankingLoss(m, scale=10.0))
    make_embedding(output, base, "embedding-negatives", [4] * 2, lambda m: losses.MultipleNegativesRankingLoss(m, scale=10.0))
    make_embedding(output, base, "embedding-cosine", [2] * 4, losses.CosineSimilarityLoss, [0.9, 0.1, 0.4, 0.75])
    make_embedding(output, base, "embedding-contrastive", [2] * 4, losses.ContrastiveLoss, [1.0, 0.0, 0.0, 1.0])
    make_reranker(output, base, "reranker-pointwise", reranker.PointwiseRerankerLoss(), False)
    make_reranker(output, base, "reranker-listwise", reranker.ListwiseRerankerLoss(), False)
    make_reranker(output, base, "reranker-generative", reranker.ListwiseRerankerLoss(), True)


if __name__ == "__main__":
    main()
