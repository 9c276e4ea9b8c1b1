#!/usr/bin/env python3
"""TRL's and ms-swift's own clients of vLLM against a real `tern rollout` of the bundled model, unquantised.

rollout_test.py TERN. What the clients import beside requests (torch, transformers, vllm) is a stand-in: they ask a server,
and compute nothing. Starts the server on a free port of loopback and ends it.
"""
import importlib.machinery
import importlib.util
import json
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time
import types
import unittest
import urllib.request

MODEL = "smollm2-135m"
base = ""
directory = pathlib.Path()


class Anything(types.ModuleType):
    """A module that has every name, each of them a class."""

    def __init__(self, name, **names):
        super().__init__(name)
        self.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        self.__path__ = []
        self.__version__ = "0.30.0"
        self.__dict__.update(names)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


def stand_in(*names):
    for name in names:
        sys.modules[name] = Anything(name)
        head, _, last = name.rpartition(".")
        if head:
            setattr(sys.modules[head], last, sys.modules[name])


def package_alone(name):
    """The package without what its __init__ brings along."""
    spec = importlib.util.find_spec(name)
    module = types.ModuleType(name)
    module.__path__ = list(spec.submodule_search_locations)
    module.__spec__ = spec
    sys.modules[name] = module


stand_in("torch", "torch.nn", "torch.distributed", "torch.distributed.distributed_c10d", "transformers",
         "transformers.utils", "vllm", "vllm.distributed", "vllm.distributed.device_communicators",
         "vllm.distributed.device_communicators.pynccl", "vllm.distributed.utils", "vllm.distributed.weight_transfer",
         "vllm.distributed.weight_transfer.nccl_common", "vllm.distributed.weight_transfer.packed_tensor",
         "vllm.utils", "vllm.utils.network_utils")
package_alone("trl")
package_alone("trl.generation")
import trl.import_utils

trl.import_utils.is_vllm_available = lambda min_version=None: True
from trl.generation.vllm_client import VLLMClient

# ms-swift's client is read as it is, over stand-ins for the forms of its own package: what it sends is made by asdict.
for name in ("swift", "swift.rlhf_trainers"):
    package_alone(name)
stand_in("swift.infer_engine", "swift.infer_engine.protocol", "swift.metrics", "swift.utils",
         "swift.rlhf_trainers.utils", "pydantic")
for name in ("is_trl_available", "is_vllm_ascend_available", "is_vllm_metax_available", "is_vllm_kunlun_available"):
    setattr(sys.modules["swift.utils"], name, lambda: False)
sys.modules["swift.utils"].is_vllm_available = lambda: True
sys.modules["swift.rlhf_trainers.utils"].format_host_for_url = lambda host: host
sys.modules["swift.rlhf_trainers.utils"].is_valid_ipv6_address = lambda host: False
sys.modules["swift.rlhf_trainers.utils"].resolve_hostname = lambda host: host
sys.modules["pydantic"].ValidationError = type("ValidationError", (Exception,), {})


class Output(dict):
    @staticmethod
    def model_validate(item):
        return Output(item)


sys.modules["swift.infer_engine.protocol"].RolloutOutput = Output
from swift.rlhf_trainers.vllm_client import VLLMClient as SwiftClient


def post(path, body, kind="application/json"):
    asked = urllib.request.Request(base + path, body, {"Content-Type": kind})
    with urllib.request.urlopen(asked) as answer:
        return json.load(answer)


def tensors():
    """Name, and what a safetensors file of that tensor alone would be."""
    data = (directory / "model.safetensors").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    for name, about in header.items():
        begin, end = about["data_offsets"]
        own = json.dumps({name: about | {"data_offsets": [0, end - begin]}}).encode()
        yield name, struct.pack("<Q", len(own)) + own + data[8 + length + begin:8 + length + end]


class Trl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = VLLMClient(base_url=base, connection_timeout=60)

    def test_generate(self):
        answer = self.client.generate(["Hello, AI!", "Tell me a joke"], n=2, max_tokens=8, logprobs=3)
        self.assertEqual(len(answer["prompt_ids"]), 2)
        self.assertEqual(len(answer["completion_ids"]), 4)
        for ids, logprobs, told in zip(answer["completion_ids"], answer["logprobs"], answer["logprob_token_ids"]):
            self.assertEqual(len(ids), len(logprobs))
            for drawn, numbers, tokens in zip(ids, logprobs, told):
                self.assertIn(drawn, tokens)
                self.assertEqual(numbers, sorted(numbers, reverse=True))
        by_ids = self.client.generate([answer["prompt_ids"][0]], temperature=0, max_tokens=8)
        by_text = self.client.generate(["Hello, AI!"], temperature=0, max_tokens=8)
        self.assertEqual(by_ids["completion_ids"], by_text["completion_ids"])

    def test_structured(self):
        answer = self.client.generate(["My number is"], max_tokens=8, structured_outputs_regex="[0-9]{4}")
        text = post("/detokenize", json.dumps({"tokens": answer["completion_ids"][0]}).encode())["prompt"]
        self.assertRegex(text, "^[0-9]{4}")

    def test_chat(self):
        answer = self.client.chat([[{"role": "user", "content": "Say hello."}]] * 3, max_tokens=8, temperature=0)
        self.assertEqual(len(answer["completion_ids"]), 3)
        self.assertEqual(answer["completion_ids"][0], answer["completion_ids"][2])

    def test_sequence_logprobs(self):
        made = self.client.generate(["The sky is"], temperature=0, max_tokens=6)
        whole = made["prompt_ids"][0] + made["completion_ids"][0]
        scores = self.client.get_sequence_logprobs([whole], [len(made["prompt_ids"][0])], top_logprobs=4)
        for told, (actual,) in zip(made["logprobs"][0], scores["actual_logprobs"][0]):
            self.assertAlmostEqual(told[0], actual, delta=0.05)

    def test_server_and_cache(self):
        self.assertEqual(self.client.get_world_size(), 1)
        self.assertTrue(self.client.get_server_info()["model_config"]["dtype"].startswith("torch."))
        self.client.reset_prefix_cache()

    def test_a_communicator_is_refused_in_words(self):
        with self.assertRaisesRegex(RuntimeError, "weight-transfer"):
            self.client.init_communicator()
        with self.assertRaisesRegex(Exception, "/update_weights_from_disk"):
            self.client._post(f"{base}/init_weight_transfer_engine", json={"init_info": {}})

    def test_weights_in_parts(self):
        before = self.client.generate(["Once upon a time"], temperature=0, max_tokens=8)["completion_ids"]
        with self.client.weight_update():
            for _, part in tensors():
                post("/update_weights", part, "application/octet-stream")
        after = self.client.generate(["Once upon a time"], temperature=0, max_tokens=8)["completion_ids"]
        self.assertEqual(before, after)  # they were the same numbers
        post("/update_weights", next(zero_head()), "application/octet-stream")
        changed = self.client.generate(["Once upon a time"], temperature=0, max_tokens=8)["completion_ids"]
        self.assertNotEqual(before, changed)
        done = post("/update_weights_from_disk", json.dumps({"model_path": str(directory)}).encode())
        self.assertTrue(done["success"])
        again = self.client.generate(["Once upon a time"], temperature=0, max_tokens=8)["completion_ids"]
        self.assertEqual(before, again)


def zero_head():
    for name, part in tensors():
        if name == "model.norm.weight":
            length = struct.unpack("<Q", part[:8])[0]
            yield part[:8 + length] + bytes(len(part) - 8 - length)


class Swift(unittest.TestCase):
    def test_infer(self):
        port = int(base.rsplit(":", 1)[1])
        client = SwiftClient(hosts=["127.0.0.1"], server_ports=[port], connection_timeout=60)
        self.assertEqual(client.get_engine_type()["engine_type"], "LLMEngine")
        requests = [{"messages": [{"role": "user", "content": f"Count to {n}."}], "data_dict": {}, "uuid": str(n)}
                    for n in range(4)]
        config = {"max_tokens": 8, "temperature": 1.0, "top_k": 20, "logprobs": True, "return_details": True, "n": 1}
        answers = client.infer(requests, config)
        self.assertEqual(len(answers), 4)
        for answer in answers:
            choice = answer["response"]["choices"][0]
            self.assertEqual(len(choice["token_ids"]), len(choice["logprobs"]["content"]))
        self.assertIn("model.norm.weight", client.get_model_state_keys())
        client.reset_prefix_cache()
        client.process_weights_after_loading()
        client.close_communicator()
        with self.assertRaisesRegex(Exception, "/update_weights"):
            client.init_communicator()


def main():
    global base, directory
    tern = sys.argv.pop(1)
    with tempfile.TemporaryDirectory() as scratch, socket.socket() as probe:
        directory = pathlib.Path(scratch) / MODEL
        subprocess.run([tern, "convert", MODEL, str(directory), "--format", "safetensors", "--outtype", "bf16", "--quiet",
                        "true"], check=True)
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        base = f"http://127.0.0.1:{port}"
        server = subprocess.Popen([tern, "rollout", "--model", str(directory), "--host", "127.0.0.1", "--port", str(port)])
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(base + "/health")
                    break
                except OSError:
                    time.sleep(0.2)
            outcome = unittest.main(exit=False).result
        finally:
            server.terminate()
            ended = server.wait(90)
        if ended != 0:
            raise SystemExit(f"the server ended with {ended}")
        raise SystemExit(not outcome.wasSuccessful())


if __name__ == "__main__":
    main()
