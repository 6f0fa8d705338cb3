"""What LangChain, LlamaIndex, Instructor and LiteLLM send is understood, and what they expect comes back.

usage: framework_test.py KVASIR MODEL SCRATCH-DIR
"""

import asyncio
import os
import sys
import unittest
from typing import Literal

os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_TELEMETRY="False", LANGCHAIN_TRACING_V2="false")

import instructor
import litellm
import openai
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.ollama import Ollama
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel
from server import Server

KVASIR, MODEL, SCRATCH = sys.argv[1:4]
NAME = "kvasir-books-4m"
ASK = "It was a dark and stormy night. What happened then?"
SERVER = None
LOOP = asyncio.new_event_loop()  # one for all: the frameworks keep connections between calls


class Place(BaseModel):
    place: Literal["Oslo", "Rome"]


@tool
def weather(place: Literal["Oslo", "Rome"]) -> str:
    """the weather of a place"""
    return "grey in " + place


def setUpModule():
    global SERVER
    SERVER = Server(KVASIR, MODEL, SCRATCH, "--ctx", "4096")


def tearDownModule():
    status = SERVER.stop()
    assert status == 0, SERVER.log


class LangChain(unittest.TestCase):
    def models(self, most=12):
        base = {"model": NAME, "temperature": 0, "max_retries": 0}
        yield "chat completions", ChatOpenAI(base_url=SERVER.url + "/v1", api_key="unused", max_tokens=most, **base)
        yield "responses", ChatOpenAI(base_url=SERVER.url + "/v1", api_key="unused", max_tokens=most,
                                      use_responses_api=True, **base)
        yield "messages", ChatAnthropic(base_url=SERVER.url, api_key="unused", max_tokens=most, **base)
        del base["max_retries"]
        yield "ollama", ChatOllama(base_url=SERVER.url, num_predict=most, repeat_penalty=1.0, top_k=0, top_p=1.0, **base)

    def test_chats_and_streams_say_the_same(self):
        texts = set()
        for name, model in self.models():
            with self.subTest(name):
                messages = [SystemMessage("Be brief."), HumanMessage(ASK)]
                whole = model.invoke(messages)
                self.assertEqual(whole.usage_metadata["output_tokens"], 12)
                parts = list(model.stream(messages))
                self.assertGreater(len(parts), 3)
                self.assertEqual("".join(p.text for p in parts), whole.text)
                self.assertEqual(LOOP.run_until_complete(model.ainvoke(messages)).text, whole.text)
                texts.add(whole.text)
        self.assertEqual(len(texts), 1)  # the same conversation in each API

    def test_tools_there_and_back(self):
        for name, model in self.models(100):
            if name == "ollama":
                continue  # that API cannot ask for a call
            with self.subTest(name):
                bound = model.bind_tools([weather], tool_choice="any")
                ask = HumanMessage("How is it in Oslo?")
                answer = bound.invoke([ask])
                self.assertGreater(len(answer.tool_calls), 0)
                results = [weather.invoke(call) for call in answer.tool_calls]
                self.assertIsInstance(results[0], ToolMessage)
                self.assertIn(results[0].content, ["grey in Oslo", "grey in Rome"])
                after = model.bind_tools([weather]).invoke([ask, answer, *results])
                self.assertIsInstance(after, AIMessage)
                self.assertGreater(after.usage_metadata["input_tokens"], answer.usage_metadata["input_tokens"])
                cached = after.usage_metadata["input_token_details"]["cache_read"]
                self.assertGreaterEqual(cached, answer.usage_metadata["input_tokens"])

    def test_structured_output(self):
        for name, model in self.models(200):
            for method in {"ollama": ["json_schema"], "messages": ["function_calling", "json_schema"]}.get(
                    name, ["json_schema", "function_calling"]):
                with self.subTest(f"{name}, {method}"):
                    found = model.with_structured_output(Place, method=method).invoke("Where is it? Oslo or Rome.")
                    self.assertIn(found.place, ["Oslo", "Rome"])

    def test_errors(self):
        with self.assertRaises(openai.NotFoundError):
            ChatOpenAI(base_url=SERVER.url + "/v1", api_key="unused", model="another", max_retries=0).invoke("x")
        with self.assertRaises(openai.BadRequestError):
            ChatOpenAI(base_url=SERVER.url + "/v1", api_key="unused", model=NAME, max_retries=0).invoke("word " * 9000)


class LlamaIndex(unittest.TestCase):
    def like(self, most=12):
        return OpenAILike(model=NAME, api_base=SERVER.url + "/v1", api_key="unused", is_chat_model=True,
                          is_function_calling_model=True, max_tokens=most, temperature=0, max_retries=0,
                          context_window=4096)

    def test_chats_and_completions(self):
        chat = [ChatMessage(role="system", content="Be brief."), ChatMessage(role="user", content=ASK)]
        for name, model in (("openai", self.like()),
                            ("ollama", Ollama(model=NAME, base_url=SERVER.url, temperature=0, context_window=4096,
                                              additional_kwargs={"num_predict": 12}))):
            with self.subTest(name):
                whole = model.chat(chat)
                self.assertTrue(whole.message.content)
                self.assertEqual("".join(p.delta for p in model.stream_chat(chat)), whole.message.content)
                self.assertTrue(model.complete("It was a dark").text)

    def test_tools(self):
        def forecast(place: Literal["Oslo", "Rome"]) -> str:
            """the weather of a place"""
            return "grey in " + place

        model = self.like(100)
        answer = model.chat_with_tools([FunctionTool.from_defaults(forecast)], user_msg="How is it in Oslo?",
                                       tool_required=True)
        calls = model.get_tool_calls_from_response(answer)
        self.assertEqual(calls[0].tool_name, "forecast")
        self.assertIn(calls[0].tool_kwargs["place"], ["Oslo", "Rome"])

    def test_structured_output(self):
        found = self.like(200).as_structured_llm(Place).complete("Where is it? Oslo or Rome.")
        self.assertIn(found.raw.place, ["Oslo", "Rome"])


class Instructor(unittest.TestCase):
    def ask(self, mode, create="create", **more):
        client = instructor.from_openai(openai.OpenAI(base_url=SERVER.url + "/v1", api_key="unused", max_retries=0),
                                        mode=mode)
        return getattr(client.chat.completions, create)(
            model=NAME, response_model=Place, max_retries=0, temperature=0, max_tokens=200,
            messages=[{"role": "user", "content": "Where is it? Oslo or Rome."}], **more)

    def test_modes(self):
        for mode in instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA:
            with self.subTest(str(mode)):
                self.assertIn(self.ask(mode).place, ["Oslo", "Rome"])

    # Arguments of a call come as they are generated, so that objects grow.
    def test_partial_objects_grow(self):
        seen = [part.place for part in self.ask(instructor.Mode.TOOLS, "create_partial")]
        self.assertIn(seen[-1], ["Oslo", "Rome"])
        self.assertIn(None, seen[:-1])


class LiteLLM(unittest.TestCase):
    def complete(self, messages, **more):
        return litellm.completion(model="openai/" + NAME, api_base=SERVER.url + "/v1", api_key="unused",
                                  messages=messages, num_retries=0, max_retries=0, **more)

    def test_chats(self):
        ask = [{"role": "user", "content": ASK}]
        whole = self.complete(ask, max_tokens=12, temperature=0)
        self.assertEqual(whole.usage.completion_tokens, 12)
        parts = self.complete(ask, max_tokens=12, temperature=0, stream=True)
        self.assertEqual("".join(p.choices[0].delta.content or "" for p in parts), whole.choices[0].message.content)

    # It reads the words of the error.
    def test_a_prompt_beyond_the_context(self):
        with self.assertRaises(litellm.ContextWindowExceededError):
            self.complete([{"role": "user", "content": "word " * 9000}])


unittest.main(argv=sys.argv[:1])
