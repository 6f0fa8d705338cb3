#!/bin/sh
# The checks of ./dev lint must find what they look for: each is run on a planted violation and on its repair.
# usage: tools_test.sh SOURCE-DIR BUILD-DIR
set -u
source_dir=$1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=0

expect() { # STATUS PATTERN COMMAND...: the command's status, and a pattern in its output
  wanted=$1 pattern=$2
  shift 2
  output=$("$@" 2>&1)
  status=$?
  if [ $status -ne "$wanted" ] || ! printf '%s\n' "$output" | grep -q -- "$pattern"; then
    echo "FAILED: $*: status $status (expected $wanted), expected a line with: $pattern"
    printf '%s\n' "$output" | sed 's/^/  | /'
    failed=1
  fi
}

includes() { # FILE LINE: a tree whose one file FILE holds LINE
  rm -rf "$scratch/tree"
  mkdir -p "$scratch/tree/src" "$(dirname "$scratch/tree/src/$1")"
  printf '%s\n' "$2" > "$scratch/tree/src/$1"
}
ladder="$source_dir/tools/check-includes"
expect 0 'in order' "$ladder" "$source_dir"
includes kv/a.hpp '#include "weights/quant.hpp"'
expect 0 '1 files in order' "$ladder" "$scratch/tree"
includes kernel/a.cpp '#include "kv/codec.hpp"'
expect 1 'kernel/a.cpp:1: include of kv/codec.hpp: stands below kernel' "$ladder" "$scratch/tree"
includes base/a.cpp '  #  include "simd/isa.hpp"'
expect 1 'stands below base' "$ladder" "$scratch/tree"
includes text/tokenizers/a.cpp '#include "model/arch.hpp"'
expect 1 'may not be used by text' "$ladder" "$scratch/tree"
includes text/a.cpp '#include "weights/model_file.hpp"'
expect 0 'in order' "$ladder" "$scratch/tree"
includes cli/a.cpp '#include <CLI/CLI.hpp>'
expect 1 'only cli/parser.cpp may use CLI11' "$ladder" "$scratch/tree"
includes run/a.cpp '#include "run/engine_fixture.hpp"'
expect 1 'only tests may use' "$ladder" "$scratch/tree"
includes run/a.cpp '#include "engine.hpp"'
expect 1 'is not written from src/' "$ladder" "$scratch/tree"
includes extra/a.cpp '#include "base/error.hpp"'
expect 1 'is in no layer' "$ladder" "$scratch/tree"
includes api/a.cpp '#include "kvasir/codecs.hpp"'
expect 0 'in order' "$ladder" "$scratch/tree"
includes run/a.cpp '#include "kvasir/codecs.hpp"'
expect 1 'public headers are for api' "$ladder" "$scratch/tree"
includes ../include/kvasir/a.hpp '#include "kv/codec.hpp"'
expect 1 'public headers include no sources' "$ladder" "$scratch/tree"
includes kernel/a_test.cpp '#include "run/engine.hpp"'
expect 2 'no sources' "$ladder" "$scratch/tree"

# Objects as the build would lay them out; the planted one also holds an inline function outside the namespace.
compiler=${CXX:-c++}
command -v "$compiler" >/dev/null || compiler=g++
isas=$("$source_dir/tools/isas")
case $(uname -m) in aarch64 | arm64) other=x86_64 ;; *) other=aarch64 ;; esac
expect 0 "scalar" "$source_dir/tools/isas" "$other"
objects() { # TEXT
  for isa in $isas; do
    mkdir -p "$scratch/objects/kvasir_kernels_$isa.dir"
    printf '%s\n' "$1" | "$compiler" -std=c++20 -O0 -DKVASIR_TARGET=$isa -x c++ -c - \
      -o "$scratch/objects/kvasir_kernels_$isa.dir/a.o" || failed=1
  done
}
symbols="$source_dir/tools/check-isa-symbols"
expect 2 'build first' "$symbols" "$scratch/objects"
clean='namespace kvasir::KVASIR_TARGET { inline int f(int a) { return a; } int g(int a) { return f(a); } }'
objects "$clean"
expect 0 "$(echo "$isas" | wc -l) objects export only" "$symbols" "$scratch/objects"
objects "namespace kvasir { inline int shared(int a) { return a; } } int kvasir_g(int a);
namespace kvasir::KVASIR_TARGET { int g(int a) { return shared(a); } }"
expect 1 'W kvasir::shared(int)' "$symbols" "$scratch/objects"
objects "$clean int leaked = 1;"
expect 1 "exported outside namespace $(echo "$isas" | tail -n 1)" "$symbols" "$scratch/objects"
expect 2 'no objects of kvasir_kernels_' "$symbols" "$scratch/objects" "$other"

exit $failed
