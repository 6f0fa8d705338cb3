#!/bin/sh
# kvasir serve, asked by the Python packages of OpenAI, Anthropic and Ollama, in the versions of requirements.txt.
# usage: python_clients_test.sh SOURCE-DIR BUILD-DIR
set -u
source_dir=$1
build_dir=$2
. "$source_dir/tests/clients.sh"
install_python_packages python
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
run_client "the Python packages" "$python" "$client/client_test.py" "$kvasir" "$model" "$scratch"
