"""Kvasir behind LlamaIndex: a summary of nodes, asked twice, and streamed. The second question reuses the text.

    pip install llama-index-core llama-index-llms-openai-like
    python examples/llamaindex_chat.py models/kvasir-books-4m.gguf --chat-template examples/plain.jinja
"""

import sys

from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike
from served import served

TEXT = "The harbour was full of ships that day, and every one of them had a story. " * 30


def main(model, *options):
    with served(model, *options) as (url, name):
        llm = OpenAILike(api_base=url, api_key="unused", model=name, is_chat_model=True, temperature=0, max_tokens=32)
        system = ChatMessage(role="system", content="Answer from this text:\n" + TEXT)
        for question in ("How many ships were there?", "What did each ship have?"):
            answer = llm.chat([system, ChatMessage(role="user", content=question)])
            usage = answer.raw.usage
            print(f"{question} {answer.message.content!r}: {usage.prompt_tokens} tokens, {usage.prompt_tokens_details.cached_tokens} of them reused")
        pieces = llm.stream_chat([system, ChatMessage(role="user", content="Where were they?")])
        print("streamed:", [p.delta for p in pieces])


if __name__ == "__main__":
    main(*sys.argv[1:])
