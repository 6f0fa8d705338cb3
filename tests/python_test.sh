# The Python package on the library of this build: engine, sessions, cache; with numpy, torch and transformers what
# needs them.
# usage: python_test.sh SOURCE-DIR BUILD-DIR
set -eu
source=$1
build=$2
[ -e "$build/api/libkvasir.so" ] || { echo "SKIPPED: this build makes no libkvasir.so"; exit 77; }
command -v python3 >/dev/null || { echo "SKIPPED: python3 is missing"; exit 77; }
python=${KVASIR_PYTHON:-python3}
# Numpy comes from the registry of packages, once for a build folder; without it its tests say SKIPPED.
if ! "$python" -c 'import numpy' 2>/dev/null; then
  venv=$build/clients/numpy
  if [ -x "$venv/bin/python" ] || { "$python" -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check numpy; } >"$build/numpy.log" 2>&1; then
    python=$venv/bin/python
  else
    rm -rf "$venv"
  fi
fi
cd "$source/python"
KVASIR_LIBRARY=$build/api/libkvasir.so KVASIR_PROGRAM=$build/kvasir PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=. \
  "$python" -m unittest discover -v -s tests -t .
