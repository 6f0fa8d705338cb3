#!/bin/sh
# Completions and the manual page: what shells make of them, and that they are installed.
# usage: completion_test.sh SOURCE-DIR BUILD-DIR
set -u
build=$2
kvasir=$build/kvasir
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=0
fail() { echo "FAILED: $*"; failed=1; }

for shell in bash zsh fish; do
  "$kvasir" completion $shell >"$scratch/$shell" || fail "kvasir completion $shell"
  if command -v $shell >/dev/null; then
    $shell -n "$scratch/$shell" || fail "$shell does not read its completion"
  else
    echo "not read by $shell, which is not installed"
  fi
done
"$kvasir" completion csh 2>"$scratch/err" && fail "a completion for csh"
grep -q "SHELL: is 'csh', expected bash, zsh or fish" "$scratch/err" || fail "csh: $(cat "$scratch/err")"

completes() { # EXPECTED WORDS...: the last word is completed, and EXPECTED is among the answers
  expected=$1
  shift
  found=$(cd "$scratch" && bash -c '. "$0"; COMP_WORDS=(kvasir "$@"); COMP_CWORD=$#; _kvasir; printf "%s\n" "${COMPREPLY[@]}"' "$scratch/bash" "$@")
  printf '%s\n' "$found" | grep -qx -- "$expected" || fail "kvasir $*: expected $expected, found: $found"
}
if command -v bash >/dev/null; then
  : >"$scratch/model.gguf"
  completes run ru
  completes --version --v
  completes --temperature run --te
  completes -m run -
  completes full_stream run --weights-mode full_s
  completes model.gguf run -m mod
  completes export cache ex
  completes --tier cache ls --ti
  bash -c '. "$0"; COMP_WORDS=(kvasir comp); COMP_CWORD=1; _kvasir; [ -z "${COMPREPLY[*]}" ]' "$scratch/bash" ||
    fail "a hidden command is completed"
fi

"$kvasir" man >"$scratch/kvasir.1" || fail "kvasir man"
for line in '^\.TH KVASIR 1 ' '^\.SS kvasir run$' '^\.SS kvasir cache export$' '\\fB\\-\\-temperature\\fR'; do
  grep -q -- "$line" "$scratch/kvasir.1" || fail "the manual page has no line $line"
done
# Every command of the help, and no line that roff would take for a request that it does not know.
"$kvasir" --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p' | while read -r name; do
  grep -q "^\.SS kvasir $name$" "$scratch/kvasir.1" || echo "$name"
done >"$scratch/absent"
[ ! -s "$scratch/absent" ] || fail "not in the manual page: $(cat "$scratch/absent")"
grep '^[.'"'"']' "$scratch/kvasir.1" | grep -vE '^\.(TH|SH|SS|TP|B|I|P|br)( |$)' && fail "an unknown request"
if command -v groff >/dev/null; then
  groff -man -Tutf8 -ww -z "$scratch/kvasir.1" 2>"$scratch/err"
  [ ! -s "$scratch/err" ] || fail "groff: $(cat "$scratch/err")"
fi

# As packages install them.
cmake --install "$build" --prefix "$scratch/usr" --component tool >"$scratch/log" 2>&1 || fail "cmake --install: $(cat "$scratch/log")"
for file in bash-completion/completions/kvasir zsh/vendor-completions/_kvasir fish/vendor_completions.d/kvasir.fish man/man1/kvasir.1; do
  [ -s "$scratch/usr/share/$file" ] || grep -q '^KVASIR_SHARED:BOOL=ON' "$build/CMakeCache.txt" || fail "$file is not installed"
done
[ $failed -eq 0 ] && echo "ok"
exit $failed
