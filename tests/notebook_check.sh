#!/bin/sh
# examples/cache_presets.ipynb from its first cell to its last one, on the bundled model, with the packages of
# tests/clients/notebook/requirements.txt. Not part of ctest: the packages are large.
# usage: notebook_check.sh SOURCE-DIR BUILD-DIR
set -u
source_dir=$1
build_dir=$2
. "$source_dir/tests/clients.sh"
[ -e "$build_dir/api/libkvasir.so" ] || skip "this build makes no libkvasir.so"
install_python_packages notebook
run() {
  KVASIR_LIBRARY=$build_dir/api/libkvasir.so PYTHONPATH=$source_dir/python PYTHONDONTWRITEBYTECODE=1 KVASIR_TOKENS=600 \
    timeout 1200 "$python" -W ignore "$source_dir/examples/run_notebook.py" "$source_dir/examples/cache_presets.ipynb" "$scratch/out.ipynb"
}
run >"$scratch/log" 2>&1 || { cat "$scratch/log"; echo "FAILED: examples/cache_presets.ipynb"; exit 1; }
for line in '^600 tokens, compared' '^f16 .* 100\.0% ' '^tiny ' '^the smallest with 95% .*: [a-z]' '^10 cells, 1 picture$'; do
  grep -qE "$line" "$scratch/log" || { cat "$scratch/log"; echo "FAILED: no line is '$line'"; exit 1; }
done
echo "examples/cache_presets.ipynb: as expected"
