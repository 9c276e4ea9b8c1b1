#!/usr/bin/env python3
"""A GGUF in float16 of Qwen3-0.6B's shape with random weights: random_qwen3.py TOKENIZER.gguf OUT.gguf.

Its rows are whole blocks of 256, as k-quants want them, which SmolLM2's 576 are not. The vocabulary is that of the first file,
filled up with words of no meaning.
"""
import sys

import gguf
import numpy

VOCAB, HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, INNER = 151936, 1024, 28, 16, 8, 128, 3072


def main():
    tokenizer, target = sys.argv[1:]
    fields = gguf.GGUFReader(tokenizer).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    more = VOCAB - len(tokens)
    writer = gguf.GGUFWriter(target, "qwen3")
    writer.add_context_length(40960)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens + [f"<|unused_{i}|>" for i in range(more)])
    writer.add_token_types(types + [int(gguf.TokenType.UNUSED)] * more)
    writer.add_token_merges(fields["tokenizer.ggml.merges"].contents())
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    random = numpy.random.default_rng(0)

    def matrix(name, rows, columns):
        writer.add_tensor(name, (random.standard_normal((rows, columns), dtype=numpy.float32) / columns**0.5).astype(numpy.float16))

    def norm(name, size):
        writer.add_tensor(name, numpy.ones(size, numpy.float32))

    matrix("token_embd.weight", VOCAB, HIDDEN)
    norm("output_norm.weight", HIDDEN)
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        for name, size in (("attn_norm", HIDDEN), ("ffn_norm", HIDDEN), ("attn_q_norm", HEAD_DIM), ("attn_k_norm", HEAD_DIM)):
            norm(f"{at}{name}.weight", size)
        for name, rows, columns in (("attn_q", HEADS * HEAD_DIM, HIDDEN), ("attn_k", KV_HEADS * HEAD_DIM, HIDDEN),
                                    ("attn_v", KV_HEADS * HEAD_DIM, HIDDEN), ("attn_output", HIDDEN, HEADS * HEAD_DIM),
                                    ("ffn_gate", INNER, HIDDEN), ("ffn_up", INNER, HIDDEN), ("ffn_down", HIDDEN, INNER)):
            matrix(f"{at}{name}.weight", rows, columns)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
