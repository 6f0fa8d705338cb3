#!/bin/sh
# What ./dev says: the demo's figures, and what is missing.
# usage: dev_test.sh SOURCE-DIR BUILD-DIR
set -u
cd "$1" || exit 1
kvasir=$2/kvasir
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=0
fail() { echo "FAILED: $*"; failed=1; }

# Without LMDB there is no folder to keep a cache in.
if "$kvasir" registries | grep -q '^store/tiers .*lmdb'; then
  ./dev demo --with "$kvasir" >"$scratch/demo" 2>"$scratch/err" || fail "demo: $(cat "$scratch/err")"
  grep -qE '^  cold +[0-9.]+ ms +0 of +[0-9]{4}$' "$scratch/demo" || fail "demo: no cold run"
  reused=$(sed -nE 's/^  again +[0-9.]+ ms +([0-9]+) of +([0-9]+)$/\1 \2/p' "$scratch/demo")
  [ -n "$reused" ] && [ "$((${reused% *} + 1))" -eq "${reused#* }" ] || fail "demo: the second run reused '$reused'"
  grep -qE '^  the cache takes [0-9]+ bytes a token, 16-bit floats [0-9]+: (2[5-9]|30) %$' "$scratch/demo" || fail "demo: no bytes"
  [ "$(grep -c ' hf:\| -m hf:' "$scratch/demo")" -eq 3 ] || fail "demo: not three commands to go on with"
  [ $failed -eq 0 ] || cat "$scratch/demo"
else
  echo "the demo was not run: this build has no LMDB"
fi

./dev doctor >"$scratch/all" || fail doctor
[ "$(grep -cE '^  (ok|MISSING) ' "$scratch/all")" -ge 25 ] || fail "doctor: $(cat "$scratch/all")"
# A machine that has nothing: neither a package nor a program.
mkdir "$scratch/bin"
for tool in sh cat printf awk dirname grep sed; do ln -s "$(command -v $tool)" "$scratch/bin/" 2>/dev/null; done
PATH=$scratch/bin ./dev doctor >"$scratch/none" 2>/dev/null
grep -q '^  MISSING  cmake  *nothing can be built$' "$scratch/none" || fail "doctor: cmake is not missing: $(cat "$scratch/none")"
grep -q '^  MISSING  npm  *no web page' "$scratch/none" || fail "doctor: npm is not missing"
[ $failed -eq 0 ] && echo "ok"
exit $failed
