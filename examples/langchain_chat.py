"""Kvasir behind LangChain: a chain over a long text, asked twice, and streamed. The second question reuses the text.

    pip install langchain-openai
    python examples/langchain_chat.py models/kvasir-books-4m.gguf --chat-template examples/plain.jinja
"""

import sys

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from served import served

TEXT = "The harbour was full of ships that day, and every one of them had a story. " * 30


def main(model, *options):
    with served(model, *options) as (url, name):
        chat = ChatOpenAI(base_url=url, api_key="unused", model=name, temperature=0, max_tokens=32)
        prompt = ChatPromptTemplate([("system", "Answer from this text:\n{text}"), ("user", "{question}")])
        for question in ("How many ships were there?", "What did each ship have?"):
            answer = (prompt | chat).invoke({"text": TEXT, "question": question})
            usage = answer.usage_metadata
            print(f"{question} {answer.text!r}: {usage['input_tokens']} tokens, {usage['input_token_details']['cache_read']} of them reused")
        print("streamed:", list((prompt | chat | StrOutputParser()).stream({"text": TEXT, "question": "Where were they?"})))


if __name__ == "__main__":
    main(*sys.argv[1:])
