#!/usr/bin/env python3
"""OpenVINO GenAI's continuous batching under the load of serve_load.py, without a server around it: one line of JSON a number
of streams.

serve_peer.py MODEL --streams 1 4 16 --prompt 256 --new 64 --threads 2 [--precision default|bf16]. As many prompts at once
as streams, wave after wave, its prefix cache on as ours; every prompt is its own.
"""
import argparse
import json
import random
import statistics
import time

import numpy
import openvino
import openvino_genai

from openvino_peer import seconds


def wave(pipe, prompts, new):
    """How long they take, and after how long each has its first token, in seconds: all are given at once."""
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = config.min_new_tokens = new
    config.ignore_eos = True
    config.do_sample = False
    begin = time.perf_counter()
    handles = [pipe.add_request(i, openvino.Tensor(numpy.array([prompt], dtype=numpy.int64)), config)
               for i, prompt in enumerate(prompts)]
    first = {}
    while pipe.has_non_finished_requests():
        pipe.step()
        for i, handle in enumerate(handles):
            if i not in first and handle.can_read():
                first[i] = time.perf_counter() - begin
    took = time.perf_counter() - begin
    for handle in handles:
        answer = handle.read_all()
        if len(answer) != 1 or len(answer[0].generated_ids) != new:
            raise SystemExit(f"serve_peer: answers of {[len(output.generated_ids) for output in answer]} tokens instead of {new}")
    return took, list(first.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=["default", "bf16"], default="default")
    given = parser.parse_args()
    properties = {"INFERENCE_NUM_THREADS": given.threads}
    if given.precision == "bf16":
        properties |= {"INFERENCE_PRECISION_HINT": "bf16", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
    draw = random.Random(time.time_ns())
    for streams in given.streams:
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.enable_prefix_caching = True
        scheduler.max_num_seqs = streams
        scheduler.max_num_batched_tokens = 512
        pipe = openvino_genai.ContinuousBatchingPipeline(given.model, scheduler, "CPU", properties)

        def prompts(count):
            return [[draw.randrange(1000, 40000) for _ in range(given.prompt)] for _ in range(count)]

        seconds(pipe, prompts(2), 4)
        requests = max(4, 2 * streams)
        # It takes more than max_num_seqs at once where it is given them: a wave has as many prompts as there are streams.
        # All answers are of one length, so that a wave's end leaves no seat empty for long.
        waves = [wave(pipe, prompts(streams), given.new) for _ in range(requests // streams)]
        took = sum(time_taken for time_taken, _ in waves)
        first = statistics.median(after for _, times in waves for after in times)
        print(json.dumps({"streams": streams, "requests": requests, "seconds": round(took, 3),
                          "generated_per_second": round(requests * given.new / took, 1),
                          "total_per_second": round(requests * (given.prompt + given.new) / took, 1),
                          "first_token_ms": round(1000 * first, 1)}), flush=True)


if __name__ == "__main__":
    main()
