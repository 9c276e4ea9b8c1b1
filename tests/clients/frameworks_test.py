#!/usr/bin/env python3
"""LangChain and LiteLLM against a real `tern deploy` of the bundled model, as their pages say that vLLM is asked.

frameworks_test.py TERN. Starts the server on a free port of loopback and ends it.
"""
import asyncio
import json
import os
import unittest
from typing import Literal

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # prices come with it: it would ask another host for newer ones

import jsonschema
import litellm
from langchain_anthropic import ChatAnthropic
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from pydantic import BaseModel
from served import KEY, MODEL, main, server

litellm.suppress_debug_info = True
run = asyncio.Runner().run  # one loop for all: clients keep theirs
HELLO = [{"role": "user", "content": "Say hello."}]
WEATHER = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}, "unit": {"enum": ["C", "F"]}},
           "required": ["city", "unit"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "of a city", "parameters": WEATHER}}]
DOCUMENTS = ["Paris is the capital of France.", "Cats sleep all day."]


class Place(BaseModel):  # no lengths: for Anthropic's protocol LangChain takes them out, and checks them afterwards
    """A place."""
    name: Literal["Rome", "Paris"]
    kind: Literal["city", "village"]


class Person(BaseModel):
    """A person."""
    name: Literal["Ann", "Bob"]
    home: Place


@tool
def get_weather(city: Literal["Paris", "Rome"], unit: Literal["C", "F"]) -> str:
    """The weather of a city."""
    return f"20 {unit} in {city}"


def joined(chunks):
    total = None
    for chunk in chunks:
        total = chunk if total is None else total + chunk
    return total


class LangChain(unittest.TestCase):
    """What chat models of both packages have in common, and what each has of its own."""

    def openai(self, **fields):
        return ChatOpenAI(**{"model": MODEL, "base_url": server.base + "/v1", "api_key": KEY, "temperature": 0, "max_tokens": 32,
                             "max_retries": 0} | fields)

    def anthropic(self, **fields):
        return ChatAnthropic(**{"model": MODEL, "base_url": server.base, "api_key": KEY, "temperature": 0, "max_tokens": 32,
                                "max_retries": 0} | fields)

    def each(self, **fields):
        yield self.openai(stream_usage=True, **fields)
        yield self.openai(use_responses_api=True, **fields)
        yield self.anthropic(**fields)

    def test_whole_streamed_and_at_once(self):
        async def asked(chat):
            streamed = [chunk async for chunk in chat.astream("Say hello.")]
            return (await chat.ainvoke("Say hello.")).text, joined(streamed).text
        texts = set()
        for chat in self.each():
            whole = chat.invoke("Say hello.")
            streamed = joined(chat.stream("Say hello."))
            self.assertEqual(streamed.text, whole.text)
            self.assertEqual(run(asked(chat)), (whole.text, whole.text))
            self.assertEqual([one.text for one in chat.batch(["Say hello."] * 3)], [whole.text] * 3)
            self.assertGreater(whole.usage_metadata["output_tokens"], 0)
            self.assertEqual(streamed.usage_metadata["output_tokens"], whole.usage_metadata["output_tokens"])
            self.assertEqual(streamed.usage_metadata["input_tokens"], whole.usage_metadata["input_tokens"])
            texts.add(whole.text)
        self.assertEqual(len(texts), 1, texts)  # one model, one answer, whatever it is asked by

    def test_calls_and_their_results(self):
        for chat in self.each(max_tokens=200):
            forced = chat.bind_tools([get_weather], tool_choice="any")
            messages = [SystemMessage("Be brief."), HumanMessage("The weather?")]
            answer = forced.invoke(messages)
            streamed = joined(forced.stream(messages))
            self.assertEqual([call["args"] for call in streamed.tool_calls], [call["args"] for call in answer.tool_calls])
            messages.append(answer)
            for call in answer.tool_calls:
                self.assertEqual(call["name"], "get_weather")
                jsonschema.validate(call["args"], WEATHER)
                messages.append(get_weather.invoke(call))
            after = chat.model_copy(update={"max_tokens": 8}).bind_tools([get_weather]).invoke(messages)
            self.assertGreater(after.usage_metadata["input_tokens"], answer.usage_metadata["input_tokens"])
            named = chat.bind_tools([get_weather], tool_choice="get_weather").invoke("Hello.")
            self.assertEqual(named.tool_calls[0]["name"], "get_weather")

    def test_structured_output(self):
        for method in ("json_schema", "function_calling"):
            for chat in self.each(max_tokens=1500):
                with_raw = chat.with_structured_output(Person, method=method, include_raw=True)
                answer = run(with_raw.ainvoke("A person, please."))
                self.assertIsNone(answer["parsing_error"])
                self.assertIsInstance(answer["parsed"], Person)
        strict = self.openai(max_tokens=1500).with_structured_output(Person, method="function_calling", strict=True)
        self.assertIsInstance(strict.invoke("A person, please."), Person)

    def test_what_openai_alone_has(self):
        told = self.openai().bind(logprobs=True, top_logprobs=2).invoke("Hello.").response_metadata["logprobs"]["content"]
        self.assertEqual(len(told[0]["top_logprobs"]), 2)
        text = OpenAI(model=MODEL, base_url=server.base + "/v1", api_key=KEY, max_tokens=8, temperature=0)
        self.assertEqual("".join(text.stream("Once upon a")), text.invoke("Once upon a"))
        choice = self.openai(extra_body={"structured_outputs": {"choice": ["red", "green"]}}).invoke("A colour.").text
        self.assertIn(choice, ("red", "green"))

    def test_a_prompt_that_is_too_long(self):
        for chat in self.each():
            with self.assertRaises(ContextOverflowError):
                chat.invoke("a " * 20000)

    def test_embeddings(self):
        made = {"model": MODEL, "base_url": server.base + "/v1", "api_key": KEY, "check_embedding_ctx_length": False}
        vectors = OpenAIEmbeddings(**made).embed_documents(["a text", "another"])
        self.assertEqual(len(vectors), 2)
        self.assertAlmostEqual(sum(x * x for x in vectors[1]), 1, places=4)
        self.assertEqual(run(OpenAIEmbeddings(**made).aembed_query("a text")), vectors[0])
        self.assertEqual(len(OpenAIEmbeddings(**made, dimensions=16).embed_query("a text")), 16)


class LiteLLM(unittest.TestCase):
    PREFIXES = {"openai/": "/v1", "hosted_vllm/": "/v1", "anthropic/": ""}

    def each(self):
        for prefix, path in self.PREFIXES.items():
            yield {"model": prefix + MODEL, "api_base": server.base + path, "api_key": KEY, "temperature": 0, "max_tokens": 32}

    def test_whole_streamed_and_at_once(self):
        async def asked(fields):
            text = ""
            async for chunk in await litellm.acompletion(messages=HELLO, stream=True, **fields):
                text += chunk.choices[0].delta.content or ""
            whole = await litellm.acompletion(messages=HELLO, **fields)
            return whole.choices[0].message.content, text
        texts = set()
        for fields in self.each():
            whole = litellm.completion(messages=HELLO, **fields)
            text = whole.choices[0].message.content
            chunks = list(litellm.completion(messages=HELLO, stream=True, stream_options={"include_usage": True}, **fields))
            self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), text)
            usage = next(chunk.usage for chunk in reversed(chunks) if getattr(chunk, "usage", None))
            self.assertEqual(usage.completion_tokens, whole.usage.completion_tokens)
            self.assertEqual(usage.prompt_tokens, whole.usage.prompt_tokens)
            self.assertEqual(run(asked(fields)), (text, text))
            self.assertEqual(whole.choices[0].finish_reason, "stop")
            texts.add(text)
        self.assertEqual(len(texts), 1, texts)

    def test_calls_and_their_results(self):
        for fields in self.each():
            fields["max_tokens"] = 200
            for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
                answer = litellm.completion(messages=HELLO, tools=TOOLS, tool_choice=choice, **fields).choices[0]
                self.assertEqual(answer.finish_reason, "tool_calls")
                jsonschema.validate(json.loads(answer.message.tool_calls[0].function.arguments), WEATHER)
            chunks = list(litellm.completion(messages=HELLO, tools=TOOLS, tool_choice=choice, stream=True, **fields))
            calls = litellm.stream_chunk_builder(chunks, messages=HELLO).choices[0].message.tool_calls
            self.assertEqual(json.loads(calls[0].function.arguments), json.loads(answer.message.tool_calls[0].function.arguments))
            messages = HELLO + [answer.message]
            for call in answer.message.tool_calls:
                messages.append({"role": "tool", "tool_call_id": call.id, "name": call.function.name, "content": "20 C"})
            fields["max_tokens"] = 8
            self.assertTrue(litellm.completion(messages=messages, tools=TOOLS, **fields).choices[0].message.content)

    def test_structured_output(self):
        for fields in self.each():
            fields["max_tokens"] = 1500
            # For Anthropic's protocol LiteLLM writes "/$defs/Place", which refers to nothing: there a flat schema.
            form = Place if fields["model"].startswith("anthropic/") else Person
            text = litellm.completion(messages=HELLO, response_format=form, **fields).choices[0].message.content
            form.model_validate_json(text)

    def test_errors_are_those_that_it_names(self):
        long = [{"role": "user", "content": "a " * 20000}]
        for fields in self.each():
            fields["num_retries"] = 0
            for error, wrong, messages in ((litellm.NotFoundError, {"model": fields["model"] + "x"}, HELLO),
                                           (litellm.AuthenticationError, {"api_key": "wrong"}, HELLO),
                                           (litellm.BadRequestError, {}, [{"role": "nobody", "content": "a"}]),
                                           (litellm.ContextWindowExceededError, {}, long)):
                with self.assertRaises(error):
                    litellm.completion(messages=messages, **(fields | wrong))

    def test_embeddings_and_texts(self):
        for prefix in ("openai/", "hosted_vllm/"):
            fields = {"model": prefix + MODEL, "api_base": server.base + "/v1", "api_key": KEY}
            answer = litellm.embedding(input=["a text", "another"], **fields)
            self.assertEqual([len(one["embedding"]) for one in answer.data], [576, 576])
            again = run(litellm.aembedding(input=["a text"], **fields))
            self.assertEqual(again.data[0]["embedding"], answer.data[0]["embedding"])
        fields["model"] = "text-completion-openai/" + MODEL
        self.assertTrue(litellm.text_completion(prompt="Once upon a", max_tokens=8, **fields).choices[0].text)

    def test_rerank(self):
        for prefix, path in (("hosted_vllm/", ""), ("hosted_vllm/", "/v1"), ("cohere/", "/v2/rerank"), ("jina_ai/", "/v1/rerank")):
            with self.subTest(prefix + path):
                answer = litellm.rerank(model=prefix + MODEL, api_base=server.base + path, api_key=KEY, query="Where is Paris?",
                                        documents=DOCUMENTS, top_n=2, return_documents=True)
                scores = [one["relevance_score"] for one in answer.results]
                self.assertEqual(sorted(one["index"] for one in answer.results), [0, 1])
                self.assertEqual(scores, sorted(scores, reverse=True))


if __name__ == "__main__":
    main("--batch_invariant", "true")  # the same question has the same answer, whatever is found in the cache
