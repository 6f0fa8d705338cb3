#!/bin/sh
# The tables of the APIs' request fields hold every field of the official packages that are installed (tools/api-fields).
# usage: fields_test.sh SOURCE-DIR BUILD-DIR
set -u
source_dir=$1
command -v python3 >/dev/null || { echo "SKIPPED: python3 is not installed"; exit 77; }
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=0
python3 "$source_dir/tools/api-fields" "$source_dir/tests/fields"
status=$?
[ $status -eq 77 ] && { echo "SKIPPED: none of the packages openai, anthropic, ollama is installed"; exit 77; }
[ $status -eq 0 ] || failed=1
# A field that a table lacks is found.
mkdir "$scratch/fields"
python3 - "$source_dir/tests/fields/chats.json" "$scratch/fields/chats.json" <<'EOF'
import json, sys
table = json.load(open(sys.argv[1]))
del table["fields"]["stop"]
json.dump(table, open(sys.argv[2], "w"))
EOF
python3 "$source_dir/tools/api-fields" "$scratch/fields" | grep 'stop is not in the table\|SKIPPED' >/dev/null ||
  { echo "FAILED: a field that was taken out of the table is not missed"; failed=1; }
exit $failed
