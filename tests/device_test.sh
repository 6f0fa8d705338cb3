#!/bin/sh
# Two programs at once on one OpenCL device, with one folder of compiled programs: each answers as without it. CI has PoCL
# (pocl-opencl-icd ocl-icd-libopencl1).
# usage: device_test.sh SOURCE-DIR BUILD-DIR
set -u
source=$(cd "$1" && pwd)
build=$(cd "$2" && pwd)
kvasir=$build/kvasir
"$kvasir" devices | grep -q '^opencl:0' || { echo "SKIPPED: no OpenCL device"; exit 77; }
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME="$scratch"
failed=0
fail() {
  echo "FAILED: $*"
  failed=1
}
yes "The quick brown fox jumps over the lazy dog and says so." | head -n 90 >"$scratch/text"
answer() { # NAME, further options
  name=$1
  shift
  "$kvasir" run -m "$source/models/kvasir-books-4m.gguf" -f "$scratch/text" -n 24 --ctx 4096 --temperature 0 --threads 1 \
    --kv balanced "$@" >"$scratch/$name.text" 2>"$scratch/$name.said"
}
answer without || fail "without a device: $(cat "$scratch/without.said")"
[ -s "$scratch/without.text" ] || fail "no answer without a device"
for round in 1 2; do # compiled by both at the same time, then found
  answer one --device opencl:0 --device-from 0 &
  one=$!
  answer two --device opencl:0 --device-from 0 &
  two=$!
  wait $one || fail "round $round, first: $(cat "$scratch/one.said")"
  wait $two || fail "round $round, second: $(cat "$scratch/two.said")"
  for name in one two; do
    cmp -s "$scratch/without.text" "$scratch/$name.text" || fail "round $round: the answer of $name is another one"
    grep '^device' "$scratch/$name.said" | grep -Eq ' [1-9][0-9]* groups folded' || fail "round $round: $name folded nothing: $(cat "$scratch/$name.said")"
    grep -q 'lost' "$scratch/$name.said" && fail "round $round: $name: $(grep lost "$scratch/$name.said")"
  done
done
[ -n "$(ls "$scratch/kvasir/programs")" ] || fail "no program was kept"
# Prompts by the device, too: weights stay there, or come anew, or do not fit.
answer rounded --weights q4_k || fail "with rounded weights: $(cat "$scratch/rounded.said")"
for share in 1GiB 1MiB; do
  answer "prompts-$share" --weights q4_k --device opencl:0 --device-from 0 --device-weights $share || fail "weights $share: $(cat "$scratch/prompts-$share.said")"
  cmp -s "$scratch/rounded.text" "$scratch/prompts-$share.text" || fail "weights $share: another answer"
  grep '^device' "$scratch/prompts-$share.said" | grep -Eq '; [1-9][0-9]* products' || fail "weights $share: no products: $(cat "$scratch/prompts-$share.said")"
done
answer little --weights q4_k --device opencl:0 --device-weights 1KiB && fail "weights of 1 KiB were taken"
grep -q -- '--device-weights: weights have 1024 bytes there' "$scratch/little.said" || fail "1 KiB: $(cat "$scratch/little.said")"
# What is there is damaged: made anew, the same answer.
for file in "$scratch"/kvasir/programs/*.bin; do printf damaged >"$file"; done
answer again --device opencl:0 --device-from 0 || fail "with damaged programs: $(cat "$scratch/again.said")"
cmp -s "$scratch/without.text" "$scratch/again.text" || fail "with damaged programs: another answer"
# A prompt that comes back from the disk in a new program goes to the device as one that was computed.
for name in first restarted; do
  answer $name --device opencl:0 --device-from 0 --cache-dir "$scratch/store" || fail "$name, with a folder: $(cat "$scratch/$name.said")"
  cmp -s "$scratch/without.text" "$scratch/$name.text" || fail "$name, with a folder: another answer"
  grep '^device' "$scratch/$name.said" | grep -Eq ' [1-9][0-9]* groups folded' || fail "$name folded nothing: $(cat "$scratch/$name.said")"
done
grep -Eq '^reused +[1-9][0-9]* of' "$scratch/restarted.said" || fail "nothing came back from the disk: $(cat "$scratch/restarted.said")"
[ $failed = 0 ] && echo ok
exit $failed
