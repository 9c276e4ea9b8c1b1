#!/usr/bin/env python3
"""Makes the encoders of tests/data/golden, and what transformers computes with them.

Usage: encoders.py OUTPUT TOKENIZERS [MODEL ...]      needs: torch transformers safetensors tokenizers gguf

TOKENIZERS is tests/data/tokenizers; without MODEL all are made. OUTPUT/<model>/ holds config.json, model.safetensors and
pooled.safetensors:
  tokens, lengths [texts]: texts end to end, of very different lengths; one holds the token of padding in its midst
  of a model without a head, or of one whose head is none of tern's: cls, last, mean [texts, hidden], as
    sentence-transformers pools what transformers gives
  of a classification: logits [texts, labels]
Of bert also model.gguf. Of a reranker also tokenizer.json and pairs.json: queries, documents, the ids and token types of each pair, the logits of its
label, and their sigmoids. Texts go through the model together, padded on the right.
"""
import functools
import json
import os
import shutil
import sys
from importlib.metadata import version

sys.path.pop(0)  # beside this file lies a tokenizers.py
import gguf
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

VOCAB, LENGTHS = 160, (23, 1, 300, 9, 40)
LABELS = {0: "negative", 1: "neutral", 2: "positive"}
BERT = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=320, layer_norm_eps=1e-5, initializer_range=0.125, attn_implementation="eager")
XLMR = dict(BERT, type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2)
# Each third layer sees all; the others 8 tokens to both sides.
MODERN = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4,
              max_position_embeddings=320, local_attention=16, pad_token_id=0, bos_token_id=1, eos_token_id=2,
              cls_token_id=1, sep_token_id=2, initializer_range=0.125, attn_implementation="eager")
PAIRS = [("what is a fox", "the quick brown fox jumps over the lazy dog"), ("naïve café", "123 4567"), ("a", "b"),
         ("who was walking", " ".join(["the newer stronger faster ones were walking talking thinking"] * 3)),
         ("what is a fox", "привет мир как дела")]


def randomised(model):
    """transformers starts norms at one, biases and the rows of padding at zero: that would hide mistakes."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx] = 0.125 * torch.randn(module.weight.shape[1])
    return model.float().eval()


def padded(rows, pad):
    ids = torch.full((len(rows), max(map(len, rows))), pad)
    mask = torch.zeros_like(ids)
    for row, text in enumerate(rows):
        ids[row, :len(text)] = torch.as_tensor(text)
        mask[row, :len(text)] = 1
    return ids, mask


def texts_of(pad):
    texts = [torch.randint(3, VOCAB, (length,)) for length in LENGTHS]
    texts[4][17] = pad
    return texts


def write(folder, model, tensors):
    model.save_pretrained(folder)
    os.chmod(os.path.join(folder, "model.safetensors"), 0o644)
    path = os.path.join(folder, "pooled.safetensors")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata={
        "made_by": "script/golden.d/encoders.py",
        **{name: version(name) for name in ("torch", "transformers", "safetensors", "tokenizers")}})
    os.chmod(path, 0o644)
    print(os.path.basename(folder), {name: tuple(tensor.shape) for name, tensor in tensors.items()})


def make_vectors(folder, model, pad):
    model = randomised(model)
    texts = texts_of(pad)
    ids, mask = padded(texts, pad)
    with torch.no_grad():
        hidden = getattr(model, model.base_model_prefix, model)(input_ids=ids, attention_mask=mask).last_hidden_state
    wide = mask[..., None].float()
    write(folder, model, {"tokens": torch.cat(texts).int(), "lengths": torch.tensor(LENGTHS, dtype=torch.int32),
                          "cls": hidden[:, 0], "last": hidden[torch.arange(len(texts)), mask.sum(1) - 1],
                          "mean": (hidden * wide).sum(1) / wide.sum(1)})


def make_labels(folder, model, pad):
    model = randomised(model)
    texts = texts_of(pad)
    ids, mask = padded(texts, pad)
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=mask).logits
    write(folder, model, {"tokens": torch.cat(texts).int(), "lengths": torch.tensor(LENGTHS, dtype=torch.int32),
                          "logits": logits})


def make_reranker(folder, model, pad, tokenizer, with_types):
    """Pairs as the tokenizer joins them; their token types go in where the model's own tokenizer class gives them."""
    make_labels(folder, model, pad)
    shutil.copyfile(tokenizer, os.path.join(folder, "tokenizer.json"))
    pairs = [Tokenizer.from_file(tokenizer).encode(query, document) for query, document in PAIRS]
    ids, mask = padded([pair.ids for pair in pairs], pad)
    types, _ = padded([pair.type_ids for pair in pairs], 0)
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=mask, **({"token_type_ids": types} if with_types else {})).logits[:, 0]
    rows = [{"query": query, "document": document, "ids": pair.ids, "types": pair.type_ids, "logit": logit.item(),
             "score": torch.sigmoid(logit).item()} for (query, document), pair, logit in zip(PAIRS, pairs, logits)]
    with open(os.path.join(folder, "pairs.json"), "w") as file:
        json.dump(rows, file, ensure_ascii=False, indent=1)


def with_position_ids(make, folder, model, pad):
    """Older files also hold the numbers of positions, which nothing reads."""
    make(folder, model, pad)
    path = os.path.join(folder, "model.safetensors")
    save_file({**load_file(path), "embeddings.position_ids": torch.arange(BERT["max_position_embeddings"])[None]}, path,
              metadata={"format": "pt"})
    os.chmod(path, 0o644)


GGUF_NAMES = {
    "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
    "pooler.dense": "cls"}


def with_gguf(make, folder, model, pad):
    """The same weights as llama.cpp's converter names them."""
    make(folder, model, pad)
    config, path = model.config, os.path.join(folder, "model.gguf")
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_layer_norm_eps(config.layer_norm_eps)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.CLS)
    writer.add_token_type_count(config.type_vocab_size)
    for name, tensor in load_file(os.path.join(folder, "model.safetensors")).items():
        if name == "embeddings.position_ids":
            continue
        module, kind = name.rsplit(".", 1)
        parts = module.split(".", 3)
        block = "blk.%s." % parts[2] if parts[0] == "encoder" else ""
        writer.add_tensor("%s%s.%s" % (block, GGUF_NAMES[parts[3] if block else module], kind), tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def vocab_of(tokenizer):
    return Tokenizer.from_file(tokenizer).get_vocab_size()


def models(tokenizers):
    t = transformers
    labels = dict(id2label=LABELS, label2id={name: i for i, name in LABELS.items()})
    one = dict(id2label={0: "relevant"}, label2id={"relevant": 0})
    xlmr, bert = (os.path.join(tokenizers, name + ".json") for name in ("xlmr", "bert-uncased"))
    return {
        "xlm-roberta": lambda to: make_vectors(to, t.XLMRobertaForMaskedLM(t.XLMRobertaConfig(**XLMR)), 1),
        "bert": lambda to: with_gguf(functools.partial(with_position_ids, make_vectors), to, t.BertModel(t.BertConfig(**BERT)), 0),
        "roberta-seq-cls": lambda to: make_labels(
            to, t.RobertaForSequenceClassification(t.RobertaConfig(**dict(XLMR, type_vocab_size=2), **labels)), 1),
        "xlm-roberta-reranker": lambda to: make_reranker(
            to, t.XLMRobertaForSequenceClassification(t.XLMRobertaConfig(**dict(XLMR, vocab_size=vocab_of(xlmr)), **one)),
            1, xlmr, False),
        "bert-reranker": lambda to: make_reranker(
            to, t.BertForSequenceClassification(t.BertConfig(**dict(BERT, vocab_size=vocab_of(bert)), **one)), 0, bert, True),
        "modernbert": lambda to: make_vectors(to, t.ModernBertForMaskedLM(t.ModernBertConfig(**MODERN)), 0),
        "modernbert-seq-cls": lambda to: make_labels(
            to, t.ModernBertForSequenceClassification(t.ModernBertConfig(
                **MODERN, **labels, classifier_pooling="mean", norm_bias=True, mlp_bias=True, attention_bias=True,
                classifier_bias=True)), 0),
        "modernbert-reranker": lambda to: make_reranker(
            to, t.ModernBertForSequenceClassification(t.ModernBertConfig(**dict(MODERN, vocab_size=vocab_of(bert)), **one)),
            0, bert, False),
    }


if __name__ == "__main__":
    for seed, (name, make) in enumerate(models(sys.argv[2]).items()):  # a model keeps its seed while it keeps its place
        if len(sys.argv) > 3 and name not in sys.argv[3:]:
            continue
        torch.manual_seed(100 + seed)
        make(os.path.join(sys.argv[1], name))
