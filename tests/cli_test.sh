#!/bin/sh
# The program from outside: statuses, streams, and output that cannot be written.
# usage: cli_test.sh SOURCE-DIR BUILD-DIR
set -u
build=$2
kvasir=$build/kvasir
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=0

expect() { # STATUS PATTERN-OUT PATTERN-ERR ARGUMENTS...; an empty pattern wants an empty stream
  status=$1 out=$2 err=$3
  shift 3
  "$kvasir" "$@" </dev/null >"$scratch/out" 2>"$scratch/err"
  found=$?
  if [ $found -ne "$status" ] || ! matches "$scratch/out" "$out" || ! matches "$scratch/err" "$err"; then
    echo "FAILED: kvasir $*: status $found (expected $status)"
    sed 's/^/  out| /' "$scratch/out"
    sed 's/^/  err| /' "$scratch/err"
    failed=1
  fi
}

matches() { if [ -n "$2" ]; then grep -q -- "$2" "$1"; else [ ! -s "$1" ]; fi; }

expect 0 '^kvasir [0-9]*\.[0-9]*\.[0-9]*$' '' --version
expect 0 '^usage: kvasir COMMAND' '' --help
expect 2 '' '^usage: kvasir COMMAND'
expect 2 '' "^kvasir: unknown command 'regsitries' (did you mean 'registries'?)" regsitries
expect 2 '' '^kvasir: registries: .*--jsn' registries --jsn
expect 0 '"registry":"cli/commands","entries":\[.*"registries"' '' registries --json

# Tiers that this build lacks say what to install; those that it has say what is wrong with the address.
tier() { # NAME CACHE-VARIABLE PACKAGE ADDRESS PATTERN STATUS
  if grep -q "^KVASIR_TIER_$2:BOOL=ON" "$build/CMakeCache.txt" &&
    grep -q "^KVASIR_$2_LIBRARY:FILEPATH=/" "$build/CMakeCache.txt"; then
    expect "$6" '' "$5" cache stats --tier "$1:$4"
  else
    expect 1 '' "this build has no .*: install $3" cache stats --tier "$1:$4"
  fi
}
mkdir "$scratch/cache" && : >"$scratch/cache/data.mdb"
tier lmdb LMDB liblmdb-dev "$scratch/cache" 'holds no cache' 2
tier redis REDIS libhiredis-dev 127.0.0.1:1 '127.0.0.1:1' 1

KVASIR_ISA=z80 "$kvasir" registries >"$scratch/out" 2>"$scratch/err"
if [ $? -ne 1 ] || ! matches "$scratch/err" "^kvasir: KVASIR_ISA: unknown instruction set 'z80', expected scalar"; then
  echo "FAILED: KVASIR_ISA=z80: $(cat "$scratch/err")"
  failed=1
fi

if [ -w /dev/full ]; then
  "$kvasir" --help >/dev/full 2>"$scratch/err"
  if [ $? -ne 1 ] || ! matches "$scratch/err" '^kvasir: standard output: cannot write'; then
    echo "FAILED: a full device: $(cat "$scratch/err")"
    failed=1
  fi
fi
exit $failed
