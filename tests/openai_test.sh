#!/bin/sh
# kvasir serve, asked by the official `openai` package for Node.js; its version is the one of package-lock.json.
# usage: openai_test.sh SOURCE-DIR BUILD-DIR
set -u
source_dir=$1
build_dir=$2
. "$source_dir/tests/clients.sh"
install_node_packages openai
run_client "the openai package" node "$installed/client_test.mjs" "$kvasir" "$model" "$scratch"
