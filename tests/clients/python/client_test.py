"""What the official Python packages send is understood, and what they expect comes back.

usage: client_test.py KVASIR MODEL SCRATCH-DIR
"""

import json
import os
import sys
import unittest

import anthropic
import ollama
import openai
from server import Server

KVASIR, MODEL, SCRATCH = sys.argv[1:4]
NAME = "kvasir-books-4m"
ASK = [{"role": "user", "content": "It was a dark and stormy night. What happened then?"}]
LONG = "You tell long stories of the sea and of those who sail on it. " * 6
SCHEMA = {"type": "object", "properties": {"place": {"enum": ["Oslo", "Rome"]}}, "required": ["place"],
          "additionalProperties": False}
SERVER = None


def setUpModule():
    global SERVER
    SERVER = Server(KVASIR, MODEL, SCRATCH, "--ctx", "4096")


def tearDownModule():
    status = SERVER.stop()
    assert status == 0, SERVER.log


class Responses(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=SERVER.url + "/v1", api_key="unused", max_retries=0)

    def create(self, **more):
        return self.client.responses.create(**{"model": NAME, "input": "Tell a story.", "max_output_tokens": 12,
                                               "temperature": 0, **more})

    def test_whole(self):
        answer = self.create(instructions="Be brief.")
        self.assertEqual(answer.object, "response")
        self.assertEqual(answer.status, "incomplete")
        self.assertEqual(answer.incomplete_details.reason, "max_output_tokens")
        self.assertEqual(answer.usage.output_tokens, 12)
        self.assertTrue(answer.output_text)
        self.assertEqual(answer.instructions, "Be brief.")
        self.assertTrue(answer._request_id)

    def test_a_stream_says_the_same(self):
        whole = self.create()
        with self.client.responses.stream(model=NAME, input="Tell a story.", max_output_tokens=12,
                                          temperature=0) as stream:
            events = list(stream)
        self.assertEqual(events[0].type, "response.created")
        self.assertEqual([e.sequence_number for e in events], list(range(len(events))))
        text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
        self.assertEqual(text, whole.output_text)
        self.assertEqual(events[-1].response.output_text, text)
        self.assertEqual(events[-1].response.id, events[0].response.id)

    def test_a_stored_one_is_gone_on_from(self):
        first = self.create(input=LONG + "Begin.", max_output_tokens=40)
        second = self.create(input="And then?", previous_response_id=first.id)
        self.assertGreaterEqual(second.usage.input_tokens_details.cached_tokens, first.usage.input_tokens)
        self.assertEqual(self.client.responses.retrieve(first.id).output_text, first.output_text)
        items = self.client.responses.input_items.list(first.id)
        self.assertEqual(items.data[0].role, "user")
        self.client.responses.delete(first.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(first.id)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.create(previous_response_id=first.id)
        self.assertEqual(caught.exception.param, "previous_response_id")

    def test_tools_there_and_back(self):
        tools = [{"type": "web_search"}, {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}]
        items = [{"role": "user", "content": "How is it in Oslo?"}]
        first = self.create(input=items, tools=tools, tool_choice="required", parallel_tool_calls=False,
                            max_output_tokens=100)
        calls = [item for item in first.output if item.type == "function_call"]
        self.assertEqual(len(calls), 1)
        self.assertIn(json.loads(calls[0].arguments)["place"], ["Oslo", "Rome"])
        items += first.output + [{"type": "function_call_output", "call_id": calls[0].call_id, "output": "grey"}]
        second = self.create(input=items, tools=tools)
        self.assertGreater(second.usage.input_tokens, first.usage.input_tokens)
        self.assertGreaterEqual(second.usage.input_tokens_details.cached_tokens, first.usage.input_tokens)

    def test_json_of_a_schema(self):
        answer = self.create(max_output_tokens=60, text={
            "format": {"type": "json_schema", "name": "place", "strict": True, "schema": SCHEMA}})
        self.assertIn(json.loads(answer.output_text)["place"], ["Oslo", "Rome"])

    def test_reasoning_is_an_item_of_its_own(self):
        answer = self.create(reasoning={"effort": "high"}, include=["reasoning.encrypted_content"])
        self.assertEqual([item.type for item in answer.output], ["reasoning"])
        self.assertTrue(answer.output[0].content[0].text)
        self.assertTrue(answer.output[0].encrypted_content)
        self.assertEqual(answer.output_text, "")
        self.assertEqual(answer.usage.output_tokens_details.reasoning_tokens, 12)
        with self.client.responses.stream(model=NAME, input="Think.", max_output_tokens=5,
                                          reasoning={"effort": "low"}) as stream:
            self.assertIn("response.reasoning_text.delta", {e.type for e in stream})

    def test_errors_name_the_field(self):
        for more, param in ({"input": []}, "input"), ({"temperature": "hot"}, "temperature"), (
                {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
                "input[0].content[0]"):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.create(**more)
            self.assertEqual(caught.exception.param, param)
        with self.assertRaises(openai.NotFoundError):
            self.create(model="another")


class Chats(unittest.TestCase):
    """The rest of chats is tested with the package for Node.js."""

    def test_reasoning(self):
        client = openai.OpenAI(base_url=SERVER.url + "/v1", api_key="unused", max_retries=0)
        answer = client.chat.completions.create(model=NAME, messages=ASK, max_tokens=8, temperature=0,
                                                reasoning_effort="high")
        self.assertTrue(answer.choices[0].message.reasoning_content)
        self.assertEqual(answer.choices[0].message.content, "")
        self.assertEqual(answer.usage.completion_tokens_details.reasoning_tokens, 8)
        back = [*ASK, answer.choices[0].message.to_dict(), {"role": "user", "content": "And?"}]
        without = [*ASK, {"role": "assistant", "content": ""}, {"role": "user", "content": "And?"}]
        tokens = [client.chat.completions.create(model=NAME, messages=m, max_tokens=1).usage.prompt_tokens
                  for m in (back, without)]
        self.assertGreater(tokens[0], tokens[1] + 5)


    def test_progress_of_a_prompt(self):
        client = openai.OpenAI(base_url=SERVER.url + "/v1", api_key="unused", max_retries=0)
        stream = client.chat.completions.create(
            model=NAME, messages=[{"role": "user", "content": LONG * 8}], max_tokens=2, stream=True,
            extra_body={"return_progress": True, "reuse": False})
        progress = [c.model_extra["prompt_progress"] for c in stream if "prompt_progress" in (c.model_extra or {})]
        self.assertGreaterEqual(len(progress), 1)
        self.assertEqual(progress[-1]["processed"], progress[-1]["total"])

    def test_a_budget_of_thinking(self):
        client = openai.OpenAI(base_url=SERVER.url + "/v1", api_key="unused", max_retries=0)
        answer = client.chat.completions.create(model=NAME, messages=ASK, max_tokens=40, temperature=0,
                                                reasoning_effort="high", extra_body={"thinking_budget": 5})
        self.assertGreaterEqual(answer.usage.completion_tokens_details.reasoning_tokens, 5)
        self.assertTrue(answer.choices[0].message.content)
        self.assertLessEqual(answer.model_extra["kvasir"]["thinking_cut"], 9)

    def test_a_conversation_beyond_the_context(self):
        client = openai.OpenAI(base_url=SERVER.url + "/v1", api_key="unused", max_retries=0)
        turns = [{"role": "system", "content": "Be brief."}]
        for i in range(14):
            turns += [{"role": "user", "content": f"{i}. " + LONG}, {"role": "assistant", "content": LONG}]
        turns.append({"role": "user", "content": "And now?"})
        with self.assertRaises(openai.BadRequestError) as caught:
            client.chat.completions.create(model=NAME, messages=turns * 2, max_tokens=4)
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        answer = client.chat.completions.create(model=NAME, messages=turns * 2, max_tokens=4,
                                                extra_body={"truncation": "auto"})
        self.assertGreater(answer.model_extra["kvasir"]["context_shift"]["dropped_messages"], 0)


class Texts(unittest.TestCase):
    """What evaluators ask: the requests of lm-eval's local-completions."""

    def setUp(self):
        self.client = openai.OpenAI(base_url=SERVER.url + "/v1", api_key="unused", max_retries=0)

    def score(self, context, rest):
        tokens = [SERVER.post("/tokenize", {"content": text})["tokens"] for text in (context, rest)]
        answer = self.client.completions.create(model=NAME, prompt=[tokens[0] + tokens[1]], max_tokens=1, logprobs=1,
                                                echo=True, temperature=0, seed=1234)
        logprobs = answer.choices[0].logprobs
        begin = len(tokens[0])
        self.assertIsNone(logprobs.token_logprobs[0])
        self.assertEqual(len(logprobs.token_logprobs), begin + len(tokens[1]) + 1)
        greedy = all(own == max(top.values())
                     for own, top in zip(logprobs.token_logprobs[begin:-1], logprobs.top_logprobs[begin:-1]))
        return sum(logprobs.token_logprobs[begin:-1]), greedy

    def test_loglikelihoods(self):
        likely, _ = self.score("It was a dark and stormy night; the rain fell in", " torrents")
        unlikely, greedy = self.score("It was a dark and stormy night; the rain fell in", " zebra seven")
        self.assertGreater(likely, unlikely)
        self.assertFalse(greedy)
        # What the model itself says is greedy.
        said = self.client.completions.create(model=NAME, prompt="Once upon a time", max_tokens=6, temperature=0)
        logprob, greedy = self.score("Once upon a time", said.choices[0].text)
        self.assertLess(logprob, 0)

    def test_no_limit(self):
        answer = self.client.completions.create(model=NAME, prompt="Once upon", max_tokens=-1, stop=[" the"])
        self.assertEqual(answer.choices[0].finish_reason, "stop")


class Vectors(unittest.TestCase):
    """Of a model that writes, and of an encoder."""

    @classmethod
    def setUpClass(cls):
        golden = os.path.join(os.path.dirname(MODEL), "..", "tests", "golden", "encoders", "bert.gguf")
        cls.encoder = Server(KVASIR, golden, SCRATCH)

    @classmethod
    def tearDownClass(cls):
        assert cls.encoder.stop() == 0, cls.encoder.log

    def test_openai(self):
        for server, name, width in ((SERVER, NAME, None), (self.encoder, "bert", 32)):
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)
            texts = ["the old man and the sea", "his dog", "the old man and the sea"]
            # Without a format the package asks for base64.
            answer = client.embeddings.create(model=name, input=texts)
            plain = client.embeddings.create(model=name, input=texts, encoding_format="float")
            self.assertEqual(len(answer.data), 3)
            for a, b in zip(answer.data, plain.data):
                self.assertEqual(a.embedding, b.embedding)
                self.assertAlmostEqual(sum(x * x for x in a.embedding), 1, 5)
            self.assertEqual(answer.data[0].embedding, answer.data[2].embedding)
            self.assertNotEqual(answer.data[0].embedding, answer.data[1].embedding)
            if width:
                self.assertEqual(len(answer.data[0].embedding), width)
            self.assertEqual(len(client.embeddings.create(model=name, input="sea", dimensions=8).data[0].embedding), 8)
            self.assertGreater(answer.usage.prompt_tokens, 6)
            with self.assertRaises(openai.BadRequestError):
                client.embeddings.create(model=name, input=[])

    def test_ollama(self):
        for server, name in (SERVER, NAME), (self.encoder, "bert"):
            client = ollama.Client(host=server.url)
            answer = client.embed(model=name, input=["the sea", "the ship"])
            self.assertEqual(len(answer.embeddings), 2)
            self.assertGreater(answer.prompt_eval_count, 2)
            self.assertTrue(client.embeddings(model=name, prompt="the sea").embedding)

    def test_ranks(self):
        body = {"model": "bert", "query": "what is deep ?", "documents": ["the sea", "his dog", "rain and storm"]}
        answer = self.encoder.post("/v1/rerank", body)
        scores = [r["relevance_score"] for r in answer["results"]]
        self.assertEqual(scores, sorted(scores, reverse=True))
        self.assertEqual({r["index"] for r in answer["results"]}, {0, 1, 2})

    def test_an_encoder_writes_nothing(self):
        client = openai.OpenAI(base_url=self.encoder.url + "/v1", api_key="unused", max_retries=0)
        with self.assertRaises(openai.APIStatusError) as caught:
            client.chat.completions.create(model="bert", messages=ASK)
        self.assertEqual(caught.exception.status_code, 501)
        with self.assertRaises(openai.BadRequestError):
            client.completions.create(model="bert", prompt="the sea")


class Messages(unittest.TestCase):
    def setUp(self):
        self.client = anthropic.Anthropic(base_url=SERVER.url, api_key="unused", max_retries=0)

    def create(self, **more):
        return self.client.messages.create(**{"model": NAME, "messages": ASK, "max_tokens": 12,
                                              "extra_body": {"temperature": 0}, **more})

    def test_whole(self):
        answer = self.create(system="Be brief.")
        self.assertEqual(answer.type, "message")
        self.assertEqual(answer.model, NAME)
        self.assertEqual(answer.stop_reason, "max_tokens")
        self.assertEqual(answer.usage.output_tokens, 12)
        self.assertEqual(answer.content[0].type, "text")
        counted = self.client.messages.count_tokens(model=NAME, messages=ASK, system="Be brief.")
        self.assertEqual(counted.input_tokens, answer.usage.input_tokens + answer.usage.cache_read_input_tokens)

    def test_a_stream_says_the_same(self):
        whole = self.create()
        with self.client.messages.stream(model=NAME, messages=ASK, max_tokens=12, extra_body={"temperature": 0}) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, whole.content[0].text)
        self.assertEqual(final.content[0].text, text)
        self.assertEqual(final.stop_reason, "max_tokens")
        self.assertEqual(final.usage.output_tokens, 12)
        # A prompt that was asked before: all of it but the last token.
        self.assertEqual(final.usage.input_tokens, 1)
        self.assertGreater(final.usage.cache_read_input_tokens, 10)

    def test_tools_there_and_back(self):
        tools = [{"name": "weather", "description": "the weather of a place", "input_schema": SCHEMA},
                 {"type": "web_search_20250305", "name": "web_search"}]
        messages = [{"role": "user", "content": "How is it in Oslo?"}]
        first = self.create(messages=messages, tools=tools, tool_choice={"type": "tool", "name": "weather"},
                            max_tokens=100)
        self.assertEqual(first.stop_reason, "tool_use")
        use = first.content[0]
        self.assertIn(use.input["place"], ["Oslo", "Rome"])
        messages += [{"role": "assistant", "content": first.content},
                     {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "grey"}]}]
        second = self.create(messages=messages, tools=tools)
        self.assertGreaterEqual(second.usage.cache_read_input_tokens,
                                first.usage.input_tokens + first.usage.cache_read_input_tokens)
        with self.client.messages.stream(model=NAME, messages=messages[:1], tools=tools, max_tokens=100,
                                         tool_choice={"type": "any"}, extra_body={"temperature": 0}) as stream:
            final = stream.get_final_message()
        self.assertIn(final.content[0].input["place"], ["Oslo", "Rome"])

    def test_thinking_is_a_block(self):
        answer = self.create(thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=12)
        self.assertEqual([b.type for b in answer.content], ["thinking"])
        with self.client.messages.stream(model=NAME, messages=ASK, max_tokens=12, extra_body={"temperature": 0},
                                         thinking={"type": "enabled", "budget_tokens": 1024}) as stream:
            final = stream.get_final_message()
        self.assertEqual(final.content[0].thinking, answer.content[0].thinking)

    def test_cache_control_pins(self):
        system = [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
        self.assertTrue(self.create(system=system).kvasir["pinned"])

    def test_errors(self):
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.create(messages=[])
        self.assertEqual(caught.exception.body["error"]["type"], "invalid_request_error")
        with self.assertRaises(anthropic.NotFoundError):
            self.create(model="claude-sonnet-5")
        with self.assertRaises(anthropic.BadRequestError):
            self.create(messages=[{"role": "user", "content": "word " * 9000}])

    def test_keys(self):
        file = os.path.join(SCRATCH, "keys")
        with open(file, "w") as out:
            out.write("alpha first\n")
        locked = Server(KVASIR, MODEL, SCRATCH, "--ctx", "1024", "--api-key-file", file)
        try:
            ask = {"model": NAME, "messages": ASK, "max_tokens": 1}
            anthropic.Anthropic(base_url=locked.url, api_key="alpha").messages.create(**ask)
            with self.assertRaises(anthropic.AuthenticationError) as caught:
                anthropic.Anthropic(base_url=locked.url, api_key="beta").messages.create(**ask)
            self.assertEqual(caught.exception.body["error"]["type"], "authentication_error")
        finally:
            locked.stop()


class Ollama(unittest.TestCase):
    def setUp(self):
        self.client = ollama.Client(host=SERVER.url)
        self.options = {"num_predict": 12, "temperature": 0}

    def test_the_model(self):
        models = self.client.list().models
        self.assertEqual([m.model for m in models], [NAME + ":latest"])
        self.assertGreater(models[0].size, 1e6)
        self.assertRegex(models[0].details.parameter_size, r"^3\.8\dM$")
        shown = self.client.show(NAME)
        self.assertIn("tools", shown.capabilities)
        self.assertEqual(shown.modelinfo["llama.context_length"], 4096)
        self.assertEqual(self.client.ps().models[0].name, NAME + ":latest")

    def test_chats(self):
        whole = self.client.chat(NAME, messages=ASK, options=self.options)
        self.assertEqual(whole.done_reason, "length")
        self.assertEqual(whole.eval_count, 12)
        parts = list(self.client.chat(NAME, messages=ASK, options=self.options, stream=True))
        self.assertEqual("".join(p.message.content for p in parts), whole.message.content)
        self.assertTrue(parts[-1].done)

    def test_generates(self):
        whole = self.client.generate(NAME, "It was a dark", options=self.options)
        parts = list(self.client.generate(NAME, "It was a dark", options=self.options, stream=True))
        self.assertEqual("".join(p.response for p in parts), whole.response)
        raw = self.client.generate(NAME, "It was a dark", raw=True, options=self.options)
        self.assertEqual(raw.prompt_eval_count, 5)  # and the token that begins a text

    def test_json_and_thinking_and_tools(self):
        answer = self.client.chat(NAME, messages=ASK, format=SCHEMA, options={"num_predict": 60})
        self.assertIn(json.loads(answer.message.content)["place"], ["Oslo", "Rome"])
        thought = self.client.chat(NAME, messages=ASK, think=True, options=self.options)
        self.assertTrue(thought.message.thinking)
        self.assertFalse(thought.message.content)

        def weather(place: str) -> str:
            """the weather of a place"""
            return "grey in " + place

        plain = self.client.chat(NAME, messages=ASK, options=self.options)
        with_tool = self.client.chat(NAME, messages=ASK, tools=[weather], options=self.options)
        self.assertGreater(with_tool.prompt_eval_count, plain.prompt_eval_count + 20)

    def test_errors(self):
        with self.assertRaises(ollama.ResponseError) as caught:
            self.client.chat("another", messages=ASK)
        self.assertEqual(caught.exception.status_code, 404)
        self.assertIn("another", caught.exception.error)


class Agent(unittest.TestCase):
    """A session of a coding agent: thirty turns with tools, a first line that changes and late system messages."""

    TURNS = 30
    SYSTEM = "You are an agent that changes programs. " * 8
    TOOLS = [{"type": "function", "function": {"name": "read", "description": "reads a file", "parameters": SCHEMA}}]

    def replay(self, ask):
        """`ask(messages)` returns (prompt tokens, cached tokens, answer tokens, text)."""
        messages = [{"role": "user", "content": "Mend the build."}]
        before = None
        for turn in range(self.TURNS):
            prompt, cached, answered, text = ask(messages, turn)
            if before is not None:
                # What was there: the prompt before and its answer, whose last token was never computed.
                self.assertGreaterEqual(cached, 0.99 * (before - 1), f"turn {turn}: {cached} of {before}")
            before = prompt + answered
            SERVER.settle()
            call = {"id": f"call_{turn}", "type": "function",
                    "function": {"name": "read", "arguments": json.dumps({"place": "Rome"})}}
            messages.append({"role": "assistant", "content": text})
            messages.append({"role": "user", "content": f"Turn {turn} is done."})
            if turn % 3 == 0:
                messages[-1:] = []
                messages[-1]["tool_calls"] = [call]
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": "int main() {}"})
                messages.append({"role": "system", "content": f"{9000 - turn} tokens are left."})

    def test_chats(self):
        client = openai.OpenAI(base_url=SERVER.url + "/v1", api_key="unused")

        def ask(messages, turn):
            answer = client.chat.completions.create(
                model=NAME, max_tokens=10, tools=self.TOOLS, seed=turn,
                messages=[{"role": "system", "content": "chats: " + self.SYSTEM}, *messages])
            usage = answer.usage
            return (usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens,
                    answer.choices[0].message.content)

        self.replay(ask)

    def test_messages(self):
        client = anthropic.Anthropic(base_url=SERVER.url, api_key="unused")

        def blocks(message):
            if message["role"] == "tool":
                return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": message["tool_call_id"],
                                                     "content": message["content"]}]}
            content = [{"type": "text", "text": message["content"]}]
            content += [{"type": "tool_use", "id": c["id"], "name": c["function"]["name"],
                         "input": json.loads(c["function"]["arguments"])} for c in message.get("tool_calls", [])]
            return {"role": message["role"], "content": content}

        def ask(messages, turn):
            line = f"x-anthropic-billing-header: cc_version=2.1.177.{turn:03x}; cc_entrypoint=cli; cch={turn * 7919:05x};\n"
            answer = client.messages.create(
                model=NAME, max_tokens=10, messages=[blocks(m) for m in messages], extra_body={"seed": turn},
                system=[{"type": "text", "text": line}, {"type": "text", "text": self.SYSTEM}],
                tools=[{"name": t["function"]["name"], "description": t["function"]["description"],
                        "input_schema": t["function"]["parameters"]} for t in self.TOOLS])
            usage = answer.usage
            self.assertIn("billing line", answer.kvasir["notes"][0])
            text = "".join(b.text for b in answer.content if b.type == "text")
            return (usage.input_tokens + usage.cache_read_input_tokens, usage.cache_read_input_tokens,
                    usage.output_tokens, text)

        self.replay(ask)

    def test_responses(self):
        client = openai.OpenAI(base_url=SERVER.url + "/v1", api_key="unused")

        def items(message):
            if message["role"] == "tool":
                return [{"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}]
            out = [{"role": message["role"], "content": message["content"]}]
            return out + [{"type": "function_call", "call_id": c["id"], "name": c["function"]["name"],
                           "arguments": c["function"]["arguments"]} for c in message.get("tool_calls", [])]

        def ask(messages, turn):
            answer = client.responses.create(
                model=NAME, max_output_tokens=10, store=False, extra_body={"seed": turn}, instructions="responses: " + self.SYSTEM,
                input=[item for m in messages for item in items(m)],
                tools=[{"type": "function", **t["function"]} for t in self.TOOLS])
            usage = answer.usage
            return (usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens,
                    answer.output_text)

        self.replay(ask)

    def test_ollama(self):
        def said(message):
            calls = [{"function": {"name": c["function"]["name"], "arguments": json.loads(c["function"]["arguments"])}}
                     for c in message.get("tool_calls", [])]
            out = {"role": message["role"], "content": message["content"]}
            if message["role"] == "tool":
                out["tool_name"] = "read"
            return {**out, "tool_calls": calls} if calls else out

        def ask(messages, turn):
            # The package drops fields that it does not know.
            answer = SERVER.post("/api/chat", {
                "model": NAME, "tools": self.TOOLS, "stream": False, "options": {"num_predict": 10, "seed": turn},
                "messages": [{"role": "system", "content": "ollama: " + self.SYSTEM}, *[said(m) for m in messages]]})
            return (answer["prompt_eval_count"], answer["prompt_eval_cached_count"], answer["eval_count"],
                    answer["message"]["content"])

        self.replay(ask)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
