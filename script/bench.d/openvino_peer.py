#!/usr/bin/env python3
"""OpenVINO GenAI's rates on a GGUF file, one line of JSON for each phase and number of sequences.

openvino_peer.py MODEL --prompt 512 --new 128 --batch 1 16 --threads 2 --precision default|bf16. Every sequence has a prompt
of its own, so nothing is shared between them; greedy, no end of text. Prefill is the time to one token of each sequence;
decode is what the others take after it, as a second call with all of them measures.
"""
import argparse
import json
import random
import time

import numpy
import openvino
import openvino_genai


def pipeline(model, threads, precision, tokens):
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.enable_prefix_caching = False
    scheduler.max_num_batched_tokens = tokens
    scheduler.max_num_seqs = 64
    properties = {"INFERENCE_NUM_THREADS": threads}
    if precision == "bf16":
        properties |= {"INFERENCE_PRECISION_HINT": "bf16", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
    return openvino_genai.ContinuousBatchingPipeline(model, scheduler, "CPU", properties)


def seconds(pipe, prompts, new):
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = new
    config.min_new_tokens = new
    config.ignore_eos = True
    config.do_sample = False
    tensors = [openvino.Tensor(numpy.array([prompt], dtype=numpy.int64)) for prompt in prompts]
    begin = time.perf_counter()
    results = pipe.generate(tensors, [config] * len(prompts))
    took = time.perf_counter() - begin
    for result in results:
        if len(result.m_generation_ids[0]) != new:
            raise SystemExit(f"openvino_peer: asked for {new} tokens, got {len(result.m_generation_ids[0])}")
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--batch", type=int, nargs="+", default=[1])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=["default", "bf16"], default="default")
    given = parser.parse_args()
    pipe = pipeline(given.model, given.threads, given.precision, max(2048, given.prompt))
    draw = random.Random(0)
    for batch in given.batch:
        prompts = [[draw.randrange(1000, 40000) for _ in range(given.prompt)] for _ in range(batch)]
        seconds(pipe, prompts, 2)
        first = seconds(pipe, prompts, 1)
        whole = seconds(pipe, prompts, given.new + 1)
        print(json.dumps({"phase": "prefill", "batch": batch, "tokens_per_second": batch * given.prompt / first}))
        print(json.dumps({"phase": "decode", "batch": batch, "tokens_per_second": batch * given.new / (whole - first)}),
              flush=True)


if __name__ == "__main__":
    main()
