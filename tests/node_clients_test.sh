#!/bin/sh
# kvasir serve, asked by the packages for Node.js of Anthropic, Ollama and Vercel, in the versions of package-lock.json.
# usage: node_clients_test.sh SOURCE-DIR BUILD-DIR
set -u
source_dir=$1
build_dir=$2
. "$source_dir/tests/clients.sh"
install_node_packages node
run_client "the packages for Node.js" node "$installed/client_test.mjs" "$kvasir" "$model" "$scratch"
