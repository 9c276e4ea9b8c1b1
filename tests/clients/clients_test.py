#!/usr/bin/env python3
"""The official clients of OpenAI, Anthropic, Ollama and Triton against a real `tern deploy` of the bundled model.

clients_test.py TERN. Starts the server on a free port of loopback and ends it.
"""
import asyncio
import json
import math
import unittest

import anthropic
import jsonschema
import numpy
import ollama
import openai
import tritonclient.http
from served import KEY, MODEL, main, server

HELLO = [{"role": "user", "content": "Say hello."}]
PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
          "required": ["name", "age"], "additionalProperties": False}
WEATHER = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 30}, "unit": {"enum": ["C", "F"]}},
           "required": ["city", "unit"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "of a city", "parameters": WEATHER}}]


class OpenAI(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=server.base + "/v1", api_key=KEY, max_retries=0)

    def chat(self, **fields):
        return self.client.chat.completions.create(**{"model": MODEL, "messages": HELLO, "temperature": 0, "max_tokens": 16} | fields)

    def test_whole_and_streamed(self):
        whole = self.chat()
        text, usage = "", None
        for event in self.chat(stream=True, stream_options={"include_usage": True}):
            if event.choices:
                text += event.choices[0].delta.content or ""
            usage = event.usage or usage
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(usage.completion_tokens, whole.usage.completion_tokens)

    def test_many_at_once(self):
        async def all_of_them():
            client = openai.AsyncOpenAI(base_url=server.base + "/v1", api_key=KEY)
            return await asyncio.gather(*(client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": f"Count to {n}."}], max_tokens=16) for n in range(32)))
        answers = asyncio.run(all_of_them())
        self.assertTrue(all(answer.choices[0].finish_reason in ("stop", "length") for answer in answers))

    def test_logprobs(self):
        content = self.chat(logprobs=True, top_logprobs=5).choices[0].logprobs.content
        for token in content:
            self.assertEqual(len(token.top_logprobs), 5)
            self.assertAlmostEqual(token.logprob, token.top_logprobs[0].logprob, places=5)
            self.assertLess(sum(math.exp(one.logprob) for one in token.top_logprobs), 1.001)

    def test_seed_and_choices(self):
        answers = [[choice.message.content for choice in self.chat(temperature=1, seed=3, n=3).choices] for _ in range(2)]
        self.assertEqual(answers[0], answers[1])
        self.assertGreater(len(set(answers[0])), 1)

    def test_bias_and_stop(self):
        banned = self.chat().choices[0].message.content[:5]
        self.assertNotIn(banned, self.chat(stop=[banned]).choices[0].message.content)

    def test_schema(self):
        for stream in (False, True):
            answer = self.chat(stream=stream, max_tokens=200, response_format={
                "type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}})
            text = "".join(e.choices[0].delta.content or "" for e in answer) if stream else answer.choices[0].message.content
            jsonschema.validate(json.loads(text), PERSON)

    def test_demanded_calls(self):
        for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
            answer = self.chat(tools=TOOLS, tool_choice=choice, max_tokens=200).choices[0]
            self.assertEqual(answer.finish_reason, "tool_calls")
            call = answer.message.tool_calls[0].function
            self.assertEqual(call.name, "get_weather")
            jsonschema.validate(json.loads(call.arguments), WEATHER)

    def test_demanded_calls_come_in_pieces(self):
        pieces = []
        for event in self.chat(tools=TOOLS, tool_choice="required", max_tokens=200, stream=True):
            for call in event.choices[0].delta.tool_calls or []:
                pieces.append(call.function.arguments)
        self.assertGreater(len(pieces), 5)
        jsonschema.validate(json.loads("".join(pieces)), WEATHER)

    def test_best_of_and_what_vllm_adds(self):
        def complete(**fields):
            return self.client.completions.create(**{"model": MODEL, "prompt": "Once upon a", "max_tokens": 8, "seed": 5} | fields)
        def mean(choice):
            return sum(choice.logprobs.token_logprobs) / len(choice.logprobs.token_logprobs)
        every = complete(n=4, temperature=1, logprobs=0)
        best = complete(best_of=4, n=2, temperature=1, logprobs=0)
        self.assertEqual([mean(choice) for choice in best.choices], sorted(map(mean, every.choices), reverse=True)[:2])
        self.assertEqual(best.usage.completion_tokens, every.usage.completion_tokens)
        with self.assertRaises(openai.BadRequestError):
            complete(best_of=4, stream=True)
        self.assertIn(" time", complete(temperature=0).choices[0].text)
        self.assertNotIn(" time", complete(temperature=0, extra_body={"bad_words": ["time"]}).choices[0].text)
        told = complete(temperature=0, extra_body={"return_token_ids": True}).choices[0]
        again = complete(temperature=0, prompt=told.prompt_token_ids + told.token_ids[:2], max_tokens=6)
        self.assertTrue(told.text.endswith(again.choices[0].text))
        with self.assertRaises(openai.BadRequestError) as refused:
            complete(suffix=" the end")  # the model was not trained for it
        self.assertIn("without tokens for a prefix", str(refused.exception))

    def test_completions(self):
        answer = self.client.completions.create(model=MODEL, prompt=["Once upon", "The sky"], max_tokens=4, echo=True, logprobs=1)
        self.assertTrue(answer.choices[1].text.startswith("The sky"))
        self.assertIsNone(answer.choices[1].logprobs.token_logprobs[0])

    def test_embeddings(self):
        answer = self.client.embeddings.create(model=MODEL, input=["a text", "another"])
        self.assertAlmostEqual(sum(x * x for x in answer.data[1].embedding), 1, places=4)

    def test_errors(self):
        with self.assertRaises(openai.NotFoundError):
            self.chat(model="none")
        with self.assertRaises(openai.BadRequestError):
            self.chat(extra_body={"no_such_field": 1})
        with self.assertRaises(openai.AuthenticationError):
            openai.OpenAI(base_url=server.base + "/v1", api_key="wrong", max_retries=0).models.list()
        self.assertEqual([model.id for model in self.client.models.list()], [MODEL])

    def test_responses(self):
        fields = {"model": MODEL, "input": "Say hello.", "max_output_tokens": 16, "temperature": 0}
        whole = self.client.responses.create(**fields)
        events = list(self.client.responses.create(**fields, stream=True))
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        self.assertEqual("".join(e.delta for e in events if e.type == "response.output_text.delta"), whole.output_text)
        again = self.client.responses.create(model=MODEL, input="And again.", previous_response_id=whole.id, max_output_tokens=4)
        self.assertGreater(again.usage.input_tokens, whole.usage.input_tokens)
        self.assertEqual(self.client.responses.retrieve(whole.id).output_text, whole.output_text)
        self.client.responses.delete(whole.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(whole.id)


class Anthropic(unittest.TestCase):
    def setUp(self):
        self.client = anthropic.Anthropic(base_url=server.base, api_key=KEY, max_retries=0)

    def test_whole_streamed_and_counted(self):
        fields = {"model": MODEL, "max_tokens": 16, "messages": HELLO, "system": "Be brief.", "extra_body": {"temperature": 0}}
        whole = self.client.messages.create(**fields)
        with self.client.messages.stream(**fields) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, whole.content[0].text)
        self.assertEqual(final.stop_reason, whole.stop_reason)
        counted = self.client.messages.count_tokens(model=MODEL, messages=HELLO, system="Be brief.")
        self.assertEqual(counted.input_tokens, whole.usage.input_tokens + whole.usage.cache_read_input_tokens)

    def test_calls(self):
        answer = self.client.messages.create(model=MODEL, max_tokens=200, messages=HELLO, tool_choice={"type": "any"}, tools=[
            {"name": "get_weather", "description": "of a city", "input_schema": WEATHER}])
        self.assertEqual(answer.stop_reason, "tool_use")
        jsonschema.validate(answer.content[0].input, WEATHER)

    def test_errors(self):
        with self.assertRaises(anthropic.NotFoundError):
            self.client.messages.create(model="none", max_tokens=4, messages=HELLO)
        with self.assertRaises(anthropic.AuthenticationError):
            anthropic.Anthropic(base_url=server.base, api_key="wrong", max_retries=0).messages.create(
                model=MODEL, max_tokens=4, messages=HELLO)


class Ollama(unittest.TestCase):
    def test_chat_generate_and_embed(self):
        client = ollama.Client(host=server.base, headers={"Authorization": f"Bearer {KEY}"})
        options = {"temperature": 0, "num_predict": 12}
        whole = client.chat(model=MODEL, messages=HELLO, options=options)
        parts = list(client.chat(model=MODEL, messages=HELLO, options=options, stream=True))
        self.assertEqual("".join(part.message.content or "" for part in parts), whole.message.content)
        self.assertTrue(parts[-1].done)
        self.assertTrue(client.generate(model=MODEL, prompt="Once upon", raw=True, options=options).response)
        self.assertEqual([one.model for one in client.list().models], [MODEL])
        self.assertEqual(len(client.embed(model=MODEL, input=["a", "b"]).embeddings), 2)


class Triton(unittest.TestCase):
    HEADERS = {"Authorization": f"Bearer {KEY}"}
    SAMPLING = {"temperature": 0, "max_tokens": 8}

    def setUp(self):
        self.client = tritonclient.http.InferenceServerClient(server.base.removeprefix("http://"))
        self.addCleanup(self.client.close)

    def infer(self, binary, outputs=("text_output",), **flags):
        texts = {"text_input": "Once upon a", "sampling_parameters": json.dumps(self.SAMPLING)}
        inputs = []
        for name, value in (texts | flags).items():
            kind, numbers = ("BYTES", numpy.object_) if isinstance(value, str) else ("BOOL", numpy.bool_)
            one = tritonclient.http.InferInput(name, [1], kind)
            one.set_data_from_numpy(numpy.array([value.encode() if kind == "BYTES" else value], dtype=numbers), binary_data=binary)
            inputs.append(one)
        wished = [tritonclient.http.InferRequestedOutput(name, binary_data=binary) for name in outputs] if outputs else None
        return self.client.infer(MODEL, inputs, outputs=wished, request_id="7", headers=dict(self.HEADERS))  # it adds to them

    def test_describes(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready(MODEL, headers=self.HEADERS))
        self.assertFalse(self.client.is_model_ready("none", headers=self.HEADERS))
        self.assertIn("binary_tensor_data", self.client.get_server_metadata(headers=self.HEADERS)["extensions"])
        described = self.client.get_model_metadata(MODEL, headers=self.HEADERS)
        self.assertIn("text_input", [tensor["name"] for tensor in described["inputs"]])
        self.assertEqual(self.client.get_model_repository_index(headers=self.HEADERS)[0]["name"], MODEL)

    def test_infers(self):
        client = openai.OpenAI(base_url=server.base + "/v1", api_key=KEY)
        text = client.completions.create(model=MODEL, prompt="Once upon a", **self.SAMPLING).choices[0].text
        for binary in (False, True):
            answer = self.infer(binary, ("text_output", "num_output_tokens", "cumulative_logprob"))
            self.assertEqual(answer.as_numpy("text_output")[0], ("Once upon a" + text).encode() if binary else "Once upon a" + text)
            self.assertEqual(answer.as_numpy("num_output_tokens")[0], 8)
            self.assertLess(answer.as_numpy("cumulative_logprob")[0], 0)
            self.assertEqual(answer.get_response()["id"], "7")
        alone = self.infer(True, None, exclude_input_in_output=True, return_finish_reason=True)
        self.assertEqual(alone.as_numpy("text_output")[0], text.encode())
        self.assertEqual(alone.as_numpy("finish_reason")[0], b"length")

    def test_errors(self):
        with self.assertRaises(tritonclient.http.InferenceServerException) as refused:
            self.infer(True, stream=True)
        self.assertIn("generate_stream", str(refused.exception))
        with self.assertRaises(tritonclient.http.InferenceServerException):
            self.client.get_model_metadata(MODEL)  # without the key


if __name__ == "__main__":
    main()
