# A wheel as users get it: installed into a fresh environment without a compiler and without a network, imported in time,
# and used by threads, by forked processes and wrongly. ./dev package runs it on what it made.
# usage: wheel_check.sh WHEEL SOURCE-DIR SCRATCH-DIR
set -eu
wheel=$1
source=$2
scratch=$3
rm -rf "$scratch"
mkdir -p "$scratch"
python=${KVASIR_PYTHON:-python3}
"$python" -m venv "$scratch/venv"
python=$scratch/venv/bin/python
# No compiler is in the path, and pip may ask nobody.
PATH=$scratch/venv/bin CC=/nonexistent CXX=/nonexistent "$python" -m pip install --quiet --disable-pip-version-check \
  --no-index --no-deps "$wheel"
unset KVASIR_LIBRARY PYTHONPATH
cd "$scratch"

"$python" - <<'END'
import os, pathlib, subprocess, sys

# What the library asks of the system must be what every Linux has; all else came in the wheel.
import kvasir
from kvasir import _native
library = pathlib.Path(_native._find())
assert str(library).startswith(sys.prefix), library
maps = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
allowed = ("libc.so", "libm.so", "libpthread", "libdl.so", "librt.so", "libstdc++.so", "libgcc_s.so", "ld-linux")
foreign = [m for m in maps if not m.startswith((sys.prefix, sys.base_prefix)) and not pathlib.Path(m).name.startswith(allowed)]
before = subprocess.run([sys.executable, "-c", "print({l.split()[-1] for l in open('/proc/self/maps') if '.so' in l})"],
                        capture_output=True, text=True, check=True).stdout
python_itself = ("libffi", "libz", "libssl", "libcrypto", "libbz2", "liblzma", "libuuid", "libexpat", "libpython")
foreign = [m for m in foreign if m not in before and not pathlib.Path(m).name.startswith(python_itself)]
assert not foreign, f"taken from the system: {foreign}"
print("from the wheel:", ", ".join(sorted(pathlib.Path(m).name for m in maps if m.startswith(str(library.parent.parent)))))

# Processor time, which other work does not change much. A process of its own each time, without what Python itself takes.
def seconds(code):
    best = 9.0
    for _ in range(5):
        before = os.times()
        subprocess.run([sys.executable, "-c", code], check=True)
        after = os.times()
        best = min(best, after.children_user + after.children_system - before.children_user - before.children_system)
    return best
took = seconds("import kvasir") - seconds("pass")
print(f"import kvasir: {took:.3f} s")
assert took < 0.3, took
END
cp -r "$source/python/tests" "$scratch/tests"
KVASIR_MODEL=$source/models/kvasir-books-4m.gguf "$python" -m unittest tests.test_engine
expected=$("$scratch/venv/bin/kvasir" --version)
case $expected in kvasir*) ;; *) echo "kvasir --version says '$expected'"; exit 1 ;; esac
[ "$("$python" -m kvasir --version)" = "$expected" ] || { echo "python -m kvasir is not the program"; exit 1; }
"$scratch/venv/bin/kvasir" serve --help >/dev/null || { echo "the program has no server"; exit 1; }
echo "the wheel works: $(basename "$wheel")"
