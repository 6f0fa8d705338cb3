#!/bin/sh
# The examples for LangChain, LlamaIndex and Haystack, in the versions of tests/clients/examples/requirements.txt: each
# answers, its second question reuses the text of the first, and its stream comes in pieces. Not part of ctest: the
# packages are large.
# usage: examples_check.sh SOURCE-DIR BUILD-DIR
set -u
source_dir=$1
build_dir=$2
. "$source_dir/tests/clients.sh"
install_python_packages examples
for name in langchain llamaindex haystack; do
  if ! KVASIR_PROGRAM=$kvasir PYTHONDONTWRITEBYTECODE=1 HAYSTACK_TELEMETRY_ENABLED=False timeout 600 "$python" -W ignore \
      "$source_dir/examples/${name}_chat.py" "$model" --chat-template "$source_dir/examples/plain.jinja" >"$scratch/log" 2>&1; then
    cat "$scratch/log"
    echo "FAILED: examples/${name}_chat.py"
    exit 1
  fi
  # Of 500 to 1,000 tokens whole pages of 128 are found again; the first question finds none.
  if ! grep -qE '^How many .* tokens, 0 of them reused$' "$scratch/log" || ! grep -qE '^What did .* tokens, [1-9][0-9]{2,} of them reused$' "$scratch/log" ||
      ! grep -qE '^streamed: \[.*, .*, .*\]$' "$scratch/log"; then
    cat "$scratch/log"
    echo "FAILED: examples/${name}_chat.py says something else"
    exit 1
  fi
  echo "examples/${name}_chat.py: as expected"
done
