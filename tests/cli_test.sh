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
export KVASIR_OPENCL=none
expect 0 '^device  *none beside the processor' '' info --quick --threads 1
expect 0 '"devices":\[\]' '' info --quick --threads 1 --json
unset KVASIR_OPENCL

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

model=$1/models/kvasir-books-4m.gguf
printf '{"enum":["left","right"]}' >"$scratch/schema"
expect 0 '^x *"\(left\|right\)"$' '' run -m "$model" -p x --seed 1 --json-schema "$scratch/schema" --no-figures
expect 0 '^x *"\(left\|right\)"$' '' run -m "$model" -p x --seed 1 --json-schema '{"enum": ["left", "right"]}' --no-figures
expect 2 '' '--json-schema: is not JSON$' run -m "$model" -p x --json-schema '{"enum"'
printf '{"pattern":"(a)\\\\1"}' >"$scratch/schema"
expect 2 '' '/schema: pattern: back references are not supported$' run -m "$model" -p x --json-schema "$scratch/schema"
printf '{' >"$scratch/schema"
expect 2 '' '/schema: is not JSON$' run -m "$model" -p x --json-schema "$scratch/schema"
expect 1 '' '/none: cannot open' run -m "$model" -p x --json-schema "$scratch/none"
expect 2 '' "^kvasir: --batch: is '1,x', expected numbers from 1 to 512" bench -m "$model" --batch 1,x
expect 2 '' "^kvasir: --depth: is '', expected" bench -m "$model" --depth ''
printf '{"turns":[{"role":"user","content":"a"}]}\n' >"$scratch/talk"
expect 2 '' 'nope' bench replay -m "$model" --conversations "$scratch/talk" --tiers nope:x
expect 2 '' '^kvasir: bench load: expected either --url or --model' bench load
expect 2 '' "^kvasir: --url: is 'ftp://x', expected http" bench replay --url ftp://x --conversations "$model"
expect 0 '"depth":5,"batch":3,.*"decode_floor_fraction":[0-9.]*[1-9]' '' \
  bench -m "$model" -t 2 --prefill 8 --decode 4 --runs 1 --depth 5 --batch 1,3 --json
expect 0 '"k_codec":"rq4","v_codec":"int4_token:32",.*"depth":0,' '' \
  bench -m "$model" -t 2 --prefill 8 --decode 4 --runs 1 --kv f16,rq4/int4_token:32 --json
if [ "$(grep -c '"k_codec":"f16"' "$scratch/out")" != 1 ] || [ "$(grep -c . "$scratch/out")" != 2 ]; then
  echo "FAILED: bench --kv of two choices: $(cat "$scratch/out")"
  failed=1
fi
expect 2 '' "^kvasir: --kv: unknown codec 'rq9'" bench -m "$model" --prefill 8 --decode 4 --kv f16,rq9
expect 2 '' "^kvasir: --kv: is 'f16,,rq4', expected names separated by commas" bench -m "$model" --kv f16,,rq4
expect 2 '' "^kvasir: --kv: is 'auto'" bench -m "$model" --kv f16,auto

# Rows that a file had before are drawn, too.
expect 0 'tok/s' '' bench -m "$model" -t 2 --prefill 0 --decode 4 --runs 1 --depth 5 --out "$scratch/rows"
expect 0 'tok/s' '' bench -m "$model" -t 2 --prefill 0 --decode 4 --runs 1 --depth 9 --kv f16 --out "$scratch/rows" \
  --plot "$scratch/rate.html"
if [ "$(grep -c '^<tr>' "$scratch/rate.html")" -lt 2 ] && [ "$(grep -o 'f16' "$scratch/rate.html" | wc -l)" -lt 1 ]; then
  echo "FAILED: bench --plot: $(head -c 2000 "$scratch/rate.html")"
  failed=1
fi
echo nonsense >"$scratch/norows"
expect 2 '' '/norows: line 1 is no row' bench -m "$model" --out "$scratch/norows" --plot "$scratch/rate.svg"
# Saved rows are drawn without a model: two programs, of three runs the one in the middle.
for rate in 9 2 4; do
  echo "{\"program\":\"other\",\"model\":\"m\",\"depth\":16,\"decode_tps\":1,\"prefill_tps_cpu\":$rate}"
done >"$scratch/others"
echo '{"model":"m","depth":16,"decode_tps":1,"prefill_tps_cpu":7}' >>"$scratch/others"
expect 0 '' '' bench --rows "$scratch/others" --draw prompt --processor --plot "$scratch/others.html"
for row in 'other</td><td>16</td><td>4.00' '<td>7.00' 'seconds\? of processor time'; do
  grep -q "$row" "$scratch/others.html" || { echo "FAILED: bench --rows lacks $row" && failed=1; }
done
echo '{"depth":null,"decode_tps":1}' >>"$scratch/others"
expect 2 '' '/others: line 5: depth is null, expected a number' bench --rows "$scratch/others" --plot "$scratch/others.svg"
sed -i '$d' "$scratch/others"
expect 2 '' '^kvasir: --model: is required' bench --prefill 8
expect 2 '' 'cannot be used with --rows' bench --rows "$scratch/others" --plot "$scratch/others.svg" -m "$model"
expect 2 '' '^kvasir: --plot: is missing' bench --rows "$scratch/others"
expect 2 '' "^kvasir: --draw: is 'memory', which no row has" bench --rows "$scratch/others" --draw memory --plot "$scratch/others.svg"

# Pages on a disk give the answer of pages in memory; so does what a store brings back.
head -c 12000 "$1/DECISIONS.md" >"$scratch/long"
for select in 'all' 'quest --budget 512' 'spread:tail=mean --budget 512 --select-block 16 --select-prompt 16'; do
  for pages in '' "--kv-memory 8MiB --kv-disk $scratch" \
    "--kv-memory 8MiB --kv-disk $scratch --cache-dir $scratch/store" \
    "--kv-memory 8MiB --kv-disk $scratch --cache-dir $scratch/store"; do
    # shellcheck disable=SC2086
    "$kvasir" run -m "$model" -t 2 -f "$scratch/long" -n 16 --seed 3 --ctx 8192 --select $select $pages \
      >"$scratch/out" 2>"$scratch/err" || echo "FAILED: run --select $select $pages: $(cat "$scratch/err")"
    [ -n "$pages" ] || cp "$scratch/out" "$scratch/first"
    if ! cmp -s "$scratch/out" "$scratch/first" || [ ! -s "$scratch/out" ] ||
      { [ -n "$pages" ] && ! grep -q '^disk .* of pages read' "$scratch/err"; }; then
      echo "FAILED: run --select $select $pages: $(cat "$scratch/out" "$scratch/err")"
      failed=1
    fi
  done
  rm -rf "$scratch/store"
done
expect 2 '' '--select: ' run -m "$model" -p x --select nonsense
expect 2 '' '--kv-memory: .*of memory for pages on a disk, expected at least' run -m "$model" -p x --kv-memory 1KiB
expect 2 '' '--kv-disk: needs --kv-memory' run -m "$model" -p x --kv-disk "$scratch"
expect 2 '' '/nowhere: is no folder' run -m "$model" -p x --kv-memory 8MiB --kv-disk /nowhere

KVASIR_ISA=z80 "$kvasir" registries >"$scratch/out" 2>"$scratch/err"
if [ $? -ne 1 ] || ! matches "$scratch/err" "^kvasir: KVASIR_ISA: unknown instruction set 'z80', expected scalar"; then
  echo "FAILED: KVASIR_ISA=z80: $(cat "$scratch/err")"
  failed=1
fi

# Reuse is verified on prompts of a file; where nothing is reused, nothing is verified.
printf '%s\n' 'It was a dark and stormy night, and the wind blew over the hills and over the houses by the sea, as always.' \
  '{"prompt":"It was a dark and stormy night, and the wind blew over the hills and over the houses by the lake."}' >"$scratch/prompts"
expect 0 '^PASS: answers to 2 prompts are the same with reuse, which took [1-9][0-9]* of [0-9]* tokens$' '' \
  verify -m "$model" --prompts "$scratch/prompts" -n 4
expect 0 '"pass":true,"prompts":2,' '' verify -m "$model" --prompts "$scratch/prompts" -n 4 --tolerance 0 --json
printf '{"prompt":[5]}\n' >"$scratch/prompts"
expect 1 '^FAIL: nothing was reused' '' verify -m "$model" --prompts "$scratch/prompts"
printf '{"prompts":[5]}\n' >"$scratch/prompts"
expect 2 '' '/prompts, line 1: prompt: ' verify -m "$model" --prompts "$scratch/prompts"
expect 2 '' '^kvasir: --reuse: off leaves nothing to verify' verify -m "$model" --prompts "$scratch/prompts" --reuse off
# A prompt of a few hundred tokens, which the test moves about; and one that is too short for that.
tr -dc 'a-zA-Z0-9 .,' <"$1/DECISIONS.md" | head -c 2400 >"$scratch/blend"
expect 0 'computed at another place: an approximation' '' verify -m "$model" --prompts "$scratch/blend" -n 4 --reuse blend \
  --tolerance 10
expect 0 '"approximate":true,"relocated_tokens":[1-9].*"tolerance":10' '' verify -m "$model" --prompts "$scratch/blend" -n 4 \
  --reuse blend --tolerance 10 --json
expect 1 '^FAIL: 1 of 1 answers differ by more than 0 nats' '' verify -m "$model" --prompts "$scratch/blend" -n 4 \
  --reuse blend --tolerance 0
echo 'It was a dark night' >"$scratch/blend"
expect 1 '^FAIL: nothing was relocated, so nothing is verified (' '' verify -m "$model" --prompts "$scratch/blend" --reuse blend
expect 2 '' '^kvasir: --ram-cache: is 0' verify -m "$model" --prompts "$scratch/prompts" --ram-cache 0
expect 2 '' 'not expected: --ctx-size 512 (--ctx-size is --ctx here)' run -m "$model" -p x --ctx-size 512
expect 2 '' 'not expected: -ngl (-ngl: not needed' run -m "$model" -p x -ngl 99

KVASIR_STREAMING=fast "$kvasir" run -m "$model" -p a -n 1 >"$scratch/out" 2>"$scratch/err"
if [ $? -ne 1 ] || ! matches "$scratch/err" "^kvasir: KVASIR_STREAMING: unknown way of reading 'fast', expected interl"; then
  echo "FAILED: KVASIR_STREAMING=fast: $(cat "$scratch/err")"
  failed=1
fi

if [ -w /dev/full ]; then
  "$kvasir" --help >/dev/full 2>"$scratch/err"
  if [ $? -ne 1 ] || ! matches "$scratch/err" '^kvasir: standard output: cannot write'; then
    echo "FAILED: a full device: $(cat "$scratch/err")"
    failed=1
  fi
fi

# Operations, and with them the floor, are those of what a selector reads, of prompts and of generated tokens.
operations() { # BENCH-OPTIONS...
  "$kvasir" bench -m "$model" -t 2 --prefill 64 --decode 2 --runs 1 --depth 2048 --fill --window 16 --json "$@" |
    sed -n 's/.*"ops_per_token":\([0-9]*\).*/\1/p'
}
dense=$(operations)
chosen=$(operations --select sink_recent --budget 192 --select-local 64 --select-prompt 16)
if [ -z "$chosen" ] || [ "$chosen" -ge "$dense" ]; then
  echo "FAILED: bench counts '$chosen' operations a token of a prompt that chooses, '$dense' of a dense one"
  failed=1
fi

# A cache filled with copies of a few pages is as long, and as much to read, as a computed one.
bytes_read() { # MODEL BENCH-OPTIONS...
  "$kvasir" bench -m "$1" --prefill 0 --decode 2 --runs 1 --depth 3100 --kv rq4 --json "$2" |
    sed -n 's/.*"depth":3100,.*"filled":\([a-z]*\),.*"bytes_per_token":\([0-9.]*\),.*/\1 \2/p'
}
expect 0 . '' synth --shape tiny-local --quant q8_0 "$scratch/local.gguf"
for model in "$1/models/kvasir-books-4m.gguf" "$scratch/local.gguf"; do
  computed=$(bytes_read "$model" --no-fill)
  copied=$(bytes_read "$model" --fill)
  if [ "${computed#false }" != "${copied#true }" ] || [ -z "${copied#true }" ]; then
    echo "FAILED: bench --fill of $model: '$copied', computed '$computed'"
    failed=1
  fi
done
exit $failed
