"""Kvasir behind Haystack: a pipeline over documents, asked twice, and streamed. The second question reuses the documents.

    pip install haystack-ai
    python examples/haystack_chat.py models/kvasir-books-4m.gguf --chat-template examples/plain.jinja
"""

import sys

from haystack import Document, Pipeline
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret
from served import served

DOCUMENTS = [Document(content="The harbour was full of ships that day, and every one of them had a story. " * 30)]
TEMPLATE = [
    ChatMessage.from_system("Answer from these texts:\n{% for d in documents %}{{ d.content }}\n{% endfor %}"),
    ChatMessage.from_user("{{ question }}"),
]


def main(model, *options):
    with served(model, *options) as (url, name):
        pipeline = Pipeline()
        pipeline.add_component("prompt", ChatPromptBuilder(template=TEMPLATE, required_variables="*"))
        options = {"temperature": 0, "max_tokens": 32}
        chat = OpenAIChatGenerator(api_key=Secret.from_token("unused"), api_base_url=url, model=name, generation_kwargs=options)
        pipeline.add_component("chat", chat)
        pipeline.connect("prompt.prompt", "chat.messages")
        for question in ("How many ships were there?", "What did each ship have?"):
            answer = pipeline.run({"prompt": {"documents": DOCUMENTS, "question": question}})["chat"]["replies"][0]
            usage = answer.meta["usage"]
            print(f"{question} {answer.text!r}: {usage['prompt_tokens']} tokens, {usage['prompt_tokens_details']['cached_tokens']} of them reused")
        pieces = []
        chat.run([ChatMessage.from_user("Where were they?")], streaming_callback=lambda chunk: pieces.append(chunk.content))
        print("streamed:", pieces)


if __name__ == "__main__":
    main(*sys.argv[1:])
