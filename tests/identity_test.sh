#!/bin/sh
# Conversations of people answered with reuse and without it, for an uncompressed and a compressed cache: from memory, from
# the disk after restarts, and from a Redis that another process filled. Prompts get the same bits whether the tokens that they
# reuse were prompt before or generated; polar4, which computes prompts otherwise, gets them where they were prompt, else the
# same greedy answers in 99 of 100 turns at least, weights in float32: products in bf16, where they are the machine's way,
# make such differences ten times as large (with kivi4, while it did so, the same answers in 237 of 240 turns).
# usage: identity_test.sh SOURCE-DIR BUILD-DIR     KVASIR_IDENTITY_CONVERSATIONS=200: so many (default 2)
set -u
source_dir=$1
kvasir=$2/kvasir
model=$source_dir/models/kvasir-books-4m.gguf
conversations=${KVASIR_TEST_DATA:-$source_dir/../shared/data}/conversations/topical_chat_200.jsonl
limit=${KVASIR_IDENTITY_CONVERSATIONS:-2}
[ -e "$conversations" ] || { echo "SKIPPED: $conversations is not there"; exit 77; }
scratch=$(mktemp -d)
. "$source_dir/tests/servers.sh"

replay() { # OPTIONS...: one JSON object per turn in $scratch/turns
  "$kvasir" bench replay -m "$model" -t 1 --conversations "$conversations" --limit "$limit" --kv "$kv" --answers "$answers" \
    --max-tokens 16 --json "$@" >"$scratch/turns" 2>"$scratch/errors" || { answer=$(cat "$scratch/errors"); give_up "replay $*"; }
}
judge() { # WHERE SOURCE: reports the sums over all turns and holds them against what must be
  grep -q "\"$2\":[1-9]" "$scratch/turns" || { answer=$(cat "$scratch/turns"); fail "$kv, $answers answers, $1: nothing came from $2"; }
  sed 's/"tokens_by_source":{[^}]*},//; s/[{}"]//g' "$scratch/turns" | awk -F, -v share="$share" -v bound="$bound" -v name="$kv, $answers answers, $1" -v recorded="$([ "$answers" = recorded ] && echo 1)" '
    {
      for (i = 1; i <= NF; ++i) { split($i, pair, ":"); v[pair[1]] = pair[2] + 0 }
      requests += v["requests"]; bits += v["same_bits"]; text += v["same_text"]
      above += v["above_milli"]; pure += v["prompt_only"]; pure_bits += v["same_bits_prompt_only"]
      if (v["largest_difference"] > most) most = v["largest_difference"]
      prompt += v["prompt_tokens"]; reused += v["reused_tokens"]
      if (v["turn"] == 1) next
      of_reusable = v["reusable_tokens"] > 0 ? v["reused_tokens"] / v["reusable_tokens"] : 0
      if (least == "" || of_reusable < least) least = of_reusable
    }
    END {
      one_arithmetic = name !~ /polar4/
      printf "%s: %d turns, %.1f %% of %d tokens reused (%.2f %% of reusable in the worst turn); same bits in %d of %d that reused prompt alone, in %d of all; same text %.2f %%; largest difference %.1e, above 0.001 in %d\n",
        name, requests, 100 * reused / prompt, prompt, 100 * least, pure_bits, pure, bits, 100 * text / requests, most, above
      exit requests == 0 || text < share * requests || most > bound || (one_arithmetic && bits < requests) || least < 0.99 || pure_bits < pure ||
        (recorded ? pure < requests / 2 : pure == requests)
    }' || fail "$kv, $answers answers, $1: not what must be"
}

share=0.99  # of turns, that must have the same text
bound=0.02  # of the largest difference of a log-probability
with_redis=1
command -v redis-server >/dev/null && command -v redis-cli >/dev/null || with_redis=0
isa=$("$kvasir" info --quick --json | sed 's/.*"name":"\([a-z0-9]*\)"[^}]*"active":true.*/\1/')
for kv in exact balanced kivi4 polar4; do
  if [ "$kv" = polar4 ] && [ "$isa" = avx512bf16 ]; then export KVASIR_ISA=avx512vnni; fi
  for answers in recorded generated; do
    replay --tier 'ram:?size=1GiB'
    judge memory ram
    replay --tier "lmdb:$scratch/$kv-$answers?size=8GiB&timeout=5s" --restart-every 1
    judge 'disk, closed and opened after every request' lmdb
    rm -rf "$scratch/$kv-$answers"
    [ $with_redis -eq 1 ] || continue
    start_redis "redis-$kv-$answers"
    replay --tier "redis:127.0.0.1:$redis_port?timeout=5s&queue=1GiB" --no-compare
    replay --tier "redis:127.0.0.1:$redis_port?timeout=5s"
    judge 'Redis, filled by another process' redis
    kill_server $redis
  done
done
# polar4 as the machine computes it by itself.
if [ "$isa" = avx512bf16 ]; then
  unset KVASIR_ISA
  share=0.9
  replay --tier 'ram:?size=1GiB'
  judge 'memory, products in bf16' ram
fi
if [ $failures -gt 0 ]; then exit 1; fi
[ $with_redis -eq 1 ] || { echo 'SKIPPED in part: redis-server is not installed (all else is as expected)'; exit 77; }
echo 'identity: all as expected'
