# The Python package on the library of this build: engine, sessions, cache; with numpy, torch and transformers what
# needs them.
# usage: python_test.sh SOURCE-DIR BUILD-DIR
set -eu
source=$1
build=$2
[ -e "$build/api/libkvasir.so" ] || { echo "SKIPPED: this build makes no libkvasir.so"; exit 77; }
command -v python3 >/dev/null || { echo "SKIPPED: python3 is missing"; exit 77; }
cd "$source/python"
KVASIR_LIBRARY=$build/api/libkvasir.so PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=. \
  "${KVASIR_PYTHON:-python3}" -m unittest discover -v -s tests -t .
