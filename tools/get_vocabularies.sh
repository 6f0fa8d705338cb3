#!/bin/sh
# Brings the vocabularies of real models that the llama-cpp-python source package holds for llama.cpp's own tests, for
# src/text/vocab_reference_test.cpp. They are their publishers' and stay out of the project.
# usage: tools/get_vocabularies.sh [FOLDER]     default: $KVASIR_VOCABULARIES, else ~/.cache/kvasir-vocabularies
set -eu
folder=${1:-${KVASIR_VOCABULARIES:-$HOME/.cache/kvasir-vocabularies}}
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" -q download --no-deps --no-binary llama-cpp-python llama-cpp-python==0.3.36 -d "$work"
tar -C "$work" -xzf "$work"/llama_cpp_python-*.tar.gz --wildcards '*/models/ggml-vocab-*'
for file in "$work"/*/vendor/llama.cpp/models/ggml-vocab-*; do
  name=${file##*/ggml-vocab-}
  case $name in
    *.gguf.inp | *.gguf.out) name=${name%.gguf.*}.${name##*.} ;;
  esac
  mv "$file" "$folder/$name"
done
ls "$folder"
