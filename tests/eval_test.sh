#!/bin/sh
# `kvasir eval` from outside: tables, JSON, pictures, and errors before any work.
# usage: eval_test.sh SOURCE-DIR BUILD-DIR
set -u
kvasir=$2/kvasir
model=$1/models/kvasir-books-4m.gguf
text=$1/LICENSE
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
printf 'It was a dark and stormy night, and the wind was high.\n' >"$scratch/short.txt"
failed=0

expect() { # STATUS PATTERN-OUT PATTERN-ERR ARGUMENTS...; an empty pattern wants an empty stream
  status=$1 out=$2 err=$3
  shift 3
  "$kvasir" eval "$@" </dev/null >"$scratch/out" 2>"$scratch/err"
  found=$?
  if [ $found -ne "$status" ] || ! matches "$scratch/out" "$out" || ! matches "$scratch/err" "$err"; then
    echo "FAILED: kvasir eval $*: status $found (expected $status)"
    sed 's/^/  out| /' "$scratch/out"
    sed 's/^/  err| /' "$scratch/err"
    failed=1
  fi
}

matches() { if [ -n "$2" ]; then grep -q -- "$2" "$1"; else [ ! -s "$1" ]; fi; }

has() { # FILE PATTERN
  grep -q -- "$2" "$1" || { echo "FAILED: $1 lacks $2"; failed=1; }
}

expect 0 'ppl .*perplexity' '' --help
expect 0 'KEYS/VALUES' '' ppl --help
expect 2 '' 'subcommand'
expect 2 '' '--kv: is required' ppl -m "$model" -f "$text"
expect 2 '' "^kvasir: --kv: 'f17': unknown codec 'f17', expected one of: .*f16" ppl -m "$model" -f "$text" --kv f16,f17
expect 2 '' '^kvasir: --ctx: is 5000, expected at most the model' ppl -m "$model" -f "$text" --kv f16 --ctx 5000
expect 2 '' 'has [0-9]* tokens; one window of --ctx needs 64' ppl -m "$model" -f "$scratch/short.txt" --kv f16 --ctx 64
expect 2 '' 'expected a file that ends in .svg, .html or .png' ppl -m "$model" -f "$text" --kv f16 --plot x.gif
expect 1 '' 'no-such-file' ppl -m "$model" -f no-such-file --kv f16

# What 16 bits change is shown whether it was asked for or not.
expect 0 '^f16 .*100.0 %$' '' ppl -m "$model" -f "$text" --kv rq2 --ctx 256 --tokens 512 --exact
expect 0 '^f16 .*100.0 %$' '' ppl -m "$model" -f "$text" --kv f32,f16 --ctx 256 --tokens 512 --plot "$scratch/p.svg"
has "$scratch/p.svg" '<circle '
has "$scratch/p.svg" '>f16<'
expect 0 '"kv":"f32","ppl":[0-9.]*.*"kl_mean":0.0,"kl_p99":0.0,"top1":1.0,"bits_k":32.0,"bits_v":32.0,"kv_bytes_per_token":4096.0' '' \
  ppl -m "$model" -f "$text" --kv f32,exact,f16/bf16 --ctx 256 --tokens 512 --json --plot "$scratch/p.html"
[ "$(wc -l <"$scratch/out")" -eq 3 ] || { echo "FAILED: not one object per choice of codecs"; failed=1; }
has "$scratch/p.html" '<td>f16/bf16</td>'
if grep -q cairo "$2/CMakeCache.txt" && ! grep -q 'CAIRO_LIBRARY.*NOTFOUND' "$2/CMakeCache.txt"; then
  expect 0 '^f16' '' ppl -m "$model" -f "$text" --kv f16 --ctx 256 --tokens 256 --plot "$scratch/p.png"
  [ "$(head -c 4 "$scratch/p.png" | tail -c 3)" = PNG ] || { echo "FAILED: no PNG"; failed=1; }
else
  expect 1 '' 'cannot write PNG' ppl -m "$model" -f "$text" --kv f16 --ctx 256 --tokens 256 --plot "$scratch/p.png"
fi

expect 2 '' 'expected either --kv-file KEYS\[,VALUES\] or --capture MODEL TEXT' codec
expect 2 '' '^kvasir: --save: goes with --capture only' codec --kv-file x --save y
expect 2 '' 'it is no file of captured keys or values' codec --kv-file "$text"
expect 2 '' 'tokens, --tokens wants 100' codec --capture "$model" "$scratch/short.txt" --tokens 100
expect 0 '^bf16 .*16.000' '' codec --capture "$model" "$text" --tokens 150 --kv bf16,f16/f32 --save "$scratch/c"
expect 0 '"kv":"f16","layer":2,"bits_k":16.0,"k_db":7[0-9.]*' '' \
  codec --kv-file "$scratch/c_layer2_keys.bin,$scratch/c_layer2_values.bin" --json

expect 0 'practically never finds it by decoding' '' \
  recall -m "$model" --kv bf16 --ctx 256 --lengths 128,256 --depths 0,100 --trials 1
expect 0 '"kv":"bf16","task":"passkey","group":"256","depth":100,.*"model_retrieves":\(true\|false\|null\)' '' \
  recall -m "$model" --kv bf16 --ctx 256 --depths 100 --trials 1 --json
expect 0 'TOO FEW TRIALS TO TELL' '' recall -m "$model" --kv bf16 --ctx 256 --lengths 128 --depths 0 --trials 1
expect 0 '"select":"quest:budget=64:block=16:local=16",.*"model_retrieves":null,.*"mass":0.[0-9]' '' \
  recall -m "$model" --kv f16 --window 0 --select quest:budget=64:block=16:local=16 --lengths 480 --ctx 512 --depths 50 --trials 1 --json
expect 2 '' "^kvasir: --depths: is '0,,5', expected numbers from 0 to 100" recall -m "$model" --kv f16 --depths 0,,5
expect 2 '' "^kvasir: --ctx: is 8192, expected at most the model's context, 4096" recall -m "$model" --kv f16 --lengths 8192
expect 2 '' "line 2: not valid JSON" recall -m "$model" --kv f16 -f "$text"

printf 'It was a dark and stormy night, and\n\nOnce upon a time\n' >"$scratch/prompts.txt"
expect 0 '^prompt 2: Once upon a time$' '' answers "$scratch/prompts.txt" -m "$model" --kv f16,rq2 -n 6
has "$scratch/out" '^  rq2  the same$'
has "$scratch/out" '^f16  *2 of 2  *100.0 %  *100.0 %$'
expect 0 '"kv":"rq2","prompt":"Once upon a time","answer":".*","ids":\[.*"equal":true,"first_difference":null' '' \
  answers "$scratch/prompts.txt" -m "$model" --kv rq2 -n 6 --json
expect 2 '' 'has no prompts, expected one per line' answers /dev/null -m "$model" --kv rq2
expect 2 '' 'prompt 1 and its answer take [0-9]* tokens, --ctx gives 16' \
  answers "$scratch/prompts.txt" -m "$model" --kv rq2 --ctx 16 -n 12
expect 2 '' 'the model has no chat template' answers "$scratch/prompts.txt" -m "$model" --kv rq2 --chat

# Ctrl-C ends a long run with status 1 and a message, and no half of a table.
"$kvasir" eval ppl -m "$model" -f "$text" --kv f16,bf16 --ctx 16 --decode --json >"$scratch/out" 2>"$scratch/err" &
pid=$!
sleep 0.3
kill -INT $pid 2>/dev/null
wait $pid
status=$?
if [ $status -eq 1 ]; then
  has "$scratch/err" 'stopped; nothing was measured to the end'
  [ ! -s "$scratch/out" ] || { echo "FAILED: rows of a run that was stopped"; failed=1; }
elif [ $status -ne 0 ]; then
  echo "FAILED: status $status after Ctrl-C"
  failed=1
fi
exit $failed
