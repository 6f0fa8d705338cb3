#!/bin/sh
# The tables of the APIs' request fields hold every field of the official packages, in the versions that the tests of
# clients use (tools/api-fields).
# usage: fields_test.sh SOURCE-DIR BUILD-DIR
set -u
source_dir=$1
build_dir=$2
. "$source_dir/tests/clients.sh"
install_node_packages openai
install_node_packages node
install_python_packages python
NODE_MODULES=$build_dir/clients/openai/node_modules:$build_dir/clients/node/node_modules
export NODE_MODULES
failed=0
"$python" "$source_dir/tools/api-fields" "$source_dir/tests/fields" >"$scratch/log" || failed=1
cat "$scratch/log"
tables=$(find "$source_dir/tests/fields" -name '*.json' | wc -l)
grep -q "^$((2 * tables)) types compared" "$scratch/log" || { echo "FAILED: not every table was compared with two packages"; failed=1; }
# A field that a table lacks is found.
mkdir "$scratch/fields"
"$python" - "$source_dir/tests/fields/chats.json" "$scratch/fields/chats.json" <<'EOF'
import json, sys
table = json.load(open(sys.argv[1]))
del table["fields"]["stop"]
json.dump(table, open(sys.argv[2], "w"))
EOF
"$python" "$source_dir/tools/api-fields" "$scratch/fields" | grep 'stop is not in the table' >/dev/null ||
  { echo "FAILED: a field that was taken out of the table is not missed"; failed=1; }
exit $failed
