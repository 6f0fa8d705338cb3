#!/bin/sh
# kvasir run --cache-dir: what an earlier run or a server computed is not computed again, and the text is the same.
# usage: run_reuse_test.sh SOURCE-DIR BUILD-DIR
set -u
kvasir=$2/kvasir
model=$1/models/kvasir-books-4m.gguf
scratch=$(mktemp -d) || exit 1
. "$1/tests/servers.sh"

answer=$("$kvasir" cache stats --tier "lmdb:$scratch/none" 2>&1)
case $answer in
  *'this build has no LMDB'*)
    echo "SKIPPED: built without LMDB"
    exit 77
    ;;
esac

# 2000 tokens of text without a character that JSON writes otherwise.
tr -dc 'a-zA-Z0-9 .,' <"$1/DECISIONS.md" | head -c 5200 >"$scratch/prompt"

run() { # FOLDER OPTIONS...: the answer in $answer, what it reused in $reused, its text in $text
  folder=$1
  shift
  answer=$("$kvasir" run -m "$model" -f "$scratch/prompt" -n 24 --temperature 0 --ignore-eos --ctx 4096 -t 1 --json \
    --cache-dir "$folder" "$@" 2>&1) || fail "run in $folder"
  reused=$(printf '%s' "$answer" | sed -n 's/.*"reused_tokens":\([0-9]*\).*/\1/p')
  tokens=$(printf '%s' "$answer" | sed -n 's/.*"prompt_tokens":\([0-9]*\).*/\1/p')
  ids=$(printf '%s' "$answer" | sed -n 's/.*"ids":\(\[[0-9,]*\]\).*/\1/p')
}
reuses_all() { # NAME: all but the last token, which is what computes the first logits
  [ "$reused" = $((tokens - 1)) ] || fail "$1: $reused of $tokens tokens are reused"
  same "$1" "$ids" "$first"
  expect "$1" '"source":"lmdb"'
  expect "$1" '"miss":null'
}

# A second process has what the first one computed.
run "$scratch/runs"
first=$ids
[ "$reused" = 0 ] && [ "$tokens" -gt 1500 ] || fail "the first run: $reused of $tokens tokens"
expect 'the first run' '"miss":"no earlier prompt begins like this one"'
run "$scratch/runs"
reuses_all 'the second run'
run "$scratch/runs" --chunk 100
reuses_all 'another chunk size'

# What cannot be reused is computed, and the text says why.
run "$scratch/runs" --kv f16
[ "$reused" = 0 ] || fail "another codec reuses $reused tokens"
printf ' and more' >>"$scratch/prompt"
answer=$("$kvasir" run -m "$model" -f "$scratch/prompt" -n 4 --ctx 4096 -t 1 --cache-dir "$scratch/runs" 2>&1)
expect 'a longer prompt' "^reused      $tokens of [0-9]* tokens: $tokens from lmdb; "
expect 'a longer prompt' "^            nothing stored goes on like this one from token $tokens "
tr -dc 'a-zA-Z0-9 .,' <"$1/DECISIONS.md" | head -c 5200 >"$scratch/prompt"

# The same text behind another beginning, by a process that did not compute it.
{ printf 'Another day, another beginning. '; head -c 5200 "$scratch/prompt"; } >"$scratch/moved" && mv "$scratch/moved" "$scratch/prompt"
run "$scratch/runs"
expect 'moved text, exactly' '"source":"computed"'
case $answer in *'"blend"'*) fail 'moved text, exactly: a receipt of blending that was not asked for' ;; esac
run "$scratch/other" --reuse blend
expect 'moved text, another folder' '"relocated_tokens":0'
{ printf 'A third one, again. '; tail -c 5200 "$scratch/prompt"; } >"$scratch/moved" && mv "$scratch/moved" "$scratch/prompt"
run "$scratch/runs" --reuse blend
expect 'moved text' '"refused":null'
expect 'moved text' '"source":"relocated"'
relocated=$(printf '%s' "$answer" | sed -n 's/.*"relocated_tokens":\([0-9]*\).*/\1/p')
[ "$relocated" -gt 1000 ] || fail "moved text: $relocated tokens are relocated"
tr -dc 'a-zA-Z0-9 .,' <"$1/DECISIONS.md" | head -c 5200 >"$scratch/prompt"

# Codecs that the first prompt chooses are chosen again before anything is looked up.
run "$scratch/auto" --kv auto
chosen=$ids
[ "$reused" = 0 ] || fail "a first run with auto reuses $reused tokens"
run "$scratch/auto" --kv auto
same 'auto' "$ids" "$chosen"
[ "$reused" = $((tokens - 1)) ] || fail "auto: $reused of $tokens tokens are reused"

answer=$("$kvasir" run -m "$model" -p x --cache-dir "$scratch/prompt" 2>&1) && fail 'a file as folder is taken'
expect 'a file as folder' "^kvasir: $scratch/prompt: "

# A server that runs beside, and the other way round; then one that ran before. Its context has room for less.
command -v curl >/dev/null || { echo "SKIPPED: curl is not installed"; exit 77; }
grep -q '^KVASIR_SERVER:BOOL=OFF' "$2/CMakeCache.txt" && exit $((failures > 0))
tr -dc 'a-zA-Z0-9 .,' <"$1/DECISIONS.md" | head -c 2000 >"$scratch/prompt"
run "$scratch/alone"
first=$ids
request="{\"prompt\":\"$(cat "$scratch/prompt")\",\"max_tokens\":24,\"temperature\":0,\"ignore_eos\":true}"
start_kvasir beside --cache-dir "$scratch/served" --ram-cache 0
post "$url/v1/completions" "$request"
computed=$(text)
[ -n "$computed" ] || fail 'the server does not answer'
served() { run "$scratch/served" && [ "$reused" = $((tokens - 1)) ]; }
wait_for 20 served  # tiers are written behind the answer
served
reuses_all 'beside a server'
stop_kvasir $server
run "$scratch/served"
reuses_all 'after a server'
start_kvasir behind --cache-dir "$scratch/alone" --ram-cache 0
post "$url/v1/completions" "$request"
same 'a server after runs' "$(text)" "$computed"
[ "$(cached)" = $((tokens - 1)) ] || fail "a server after runs: $(cached) of $tokens tokens are reused"
stop_kvasir $server

# A model with windows, which gives pages back that the prompt is longer than.
"$kvasir" synth --shape tiny-local --quant q8_0 "$scratch/local.gguf" >/dev/null 2>&1 || fail 'synth'
model=$scratch/local.gguf
head -c 1000 "$scratch/prompt" >"$scratch/short" && mv "$scratch/short" "$scratch/prompt"
run "$scratch/windows"
first=$ids
[ "$reused" = 0 ] && [ "$tokens" -gt 700 ] || fail "windows, the first run: $reused of $tokens tokens"
run "$scratch/windows" --chunk 77
reuses_all 'windows, the second run'
start_kvasir windows --cache-dir "$scratch/windows" --ram-cache 0
post "$url/v1/completions" "{\"prompt\":\"$(cat "$scratch/prompt")\",\"max_tokens\":24,\"temperature\":0,\"ignore_eos\":true}"
[ "$(cached)" = $((tokens - 1)) ] || fail "windows, a server: $(cached) of $tokens tokens are reused"
stop_kvasir $server

exit $((failures > 0))
