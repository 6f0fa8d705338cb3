#!/bin/sh
# kvasir serve, asked by LangChain, LlamaIndex, Instructor and LiteLLM, in the versions of requirements.txt.
# usage: framework_clients_test.sh SOURCE-DIR BUILD-DIR
set -u
source_dir=$1
build_dir=$2
. "$source_dir/tests/clients.sh"
install_python_packages frameworks
PYTHONDONTWRITEBYTECODE=1
PYTHONPATH=$source_dir/tests/clients/python
export PYTHONDONTWRITEBYTECODE PYTHONPATH
run_client "frameworks" "$python" -W ignore "$client/framework_test.py" "$kvasir" "$model" "$scratch"
