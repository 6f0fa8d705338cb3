#!/usr/bin/env python3
"""Writes a conversation of an agent for `kvasir bench replay`: long instructions, then a task whose every turn shows the model
the output of a tool. The same arguments give the same text.

usage: agent_conversation.py OUT.jsonl [TURNS]
"""
import json
import random
import sys

TOOLS = ["read_file", "list_folder", "search_text", "run_tests", "edit_file"]
FILES = ["src/store/writer.c", "src/net/poll.c", "tests/writer_test.c", "docs/format.md", "src/base/clock.c", "Makefile"]
LINES = ["if (n < 0) return error_of(n);", "buffer_append(&out, head, size);", "assert(page->used <= page->size);",
         "for (i = 0; i < count; i++) sum += rows[i];", "log_line(LEVEL_INFO, \"flushed %zu bytes\", done);", "lock_release(&pool->lock);"]


def result(source, turn):
    tool, file = source.choice(TOOLS), source.choice(FILES)
    lines = [f"{source.randint(1, 400):4d}  {source.choice(LINES)}" for _ in range(4)]
    return f"[{turn}] {tool}({file}) gave:\n" + "\n".join(lines) + f"\n{source.randint(0, 9)} warnings."


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    turns, source = int(sys.argv[2]) if len(sys.argv) == 3 else 30, random.Random(11)
    rules = [f"{i + 1}. Before you call {source.choice(TOOLS)} on {source.choice(FILES)}, say why in one line." for i in range(12)]
    messages = [{"role": "system", "content": "You repair a program with tools.\n" + "\n".join(rules)}]
    for turn in range(1, turns + 1):
        content = "The test of the writer fails at random. Find out why." if turn == 1 else result(source, turn)
        messages.append({"role": "user", "content": content})
        if turn < turns:
            messages.append({"role": "assistant", "content": f"I look at {source.choice(FILES)} with {source.choice(TOOLS)}."})
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(json.dumps({"messages": messages}) + "\n")
    print(f"{turns} turns, {sum(len(m['content']) for m in messages)} characters")


main()
