#!/bin/sh
# What goes wrong around a server: it is killed while it writes, Redis is slow, gone or says no, the disk is full, others
# use the same folder, stored records are damaged. Every answer is compared with the one that is computed without reuse;
# the service goes on.
# usage: fault_test.sh SOURCE-DIR BUILD-DIR     KVASIR_FAULT_ROUNDS=200: as many kills (default 6)
set -u
source_dir=$1
kvasir=$2/kvasir
model=$source_dir/models/kvasir-books-4m.gguf
rounds=${KVASIR_FAULT_ROUNDS:-6}
command -v curl >/dev/null || { echo "SKIPPED: curl is not installed"; exit 77; }
"$kvasir" serve --help >/dev/null 2>&1 || { echo "SKIPPED: built without the server"; exit 77; }
scratch=$(mktemp -d)
. "$source_dir/tests/servers.sh"
compared=0

# A prompt of $2 words that only $1 decides: other numbers part at the first word.
prompt() {
  awk -v seed="$1" -v words="$2" 'BEGIN {
    srand(seed)
    n = split("the sea house old she was night light and of a garden they saw never door where morning he with rain long", w)
    printf "Story %d:", seed
    for (i = 0; i < words; ++i) printf " %s", w[int(rand() * n) + 1]
  }'
}
ask() { # URL PROMPT [FIELDS]
  post "$1/v1/completions" "{\"prompt\":\"$2\",\"max_tokens\":12,\"temperature\":0${3:-}}"
}
# The same answer with and without reuse; $reused tokens and $seconds are those with.
check() { # NAME URL PROMPT
  ask "$2" "$3"
  expect "$1" '"object":"text_completion"'
  reused=$(cached) seconds=$took with=$(text)
  ask "$2" "$3" ',"reuse":false'
  same "$1: with reuse and without" "$with" "$(text)"
  compared=$((compared + 1))
}
zero() { # NAME URL METRIC TIER
  answer=$(metric "$2" "$3" "$4")
  [ "$answer" = 0 ] || fail "$1: $3 of $4 is '$answer', expected 0"
}
some() { # NAME URL METRIC TIER
  answer=$(metric "$2" "$3" "$4")
  [ "${answer:-0}" != 0 ] || fail "$1: $3 of $4 is '$answer', expected more"
}
below() { # NAME SECONDS LIMIT
  awk -v a="$2" -v b="$3" 'BEGIN { exit !(a < b) }' || { answer="$2 seconds"; fail "$1: expected less than $3"; }
}
random() { # LIMIT: seconds from 0 to it
  shuf -i "0-$(($1 * 1000))" -n 1 | awk '{ print $1 / 1000 }'
}
verify() { # NAME FOLDER
  if "$kvasir" cache --help >/dev/null 2>&1; then
    answer=$("$kvasir" cache verify --cache-dir "$2" 2>&1) || fail "$1: kvasir cache verify"
  else
    echo "$1: not verified, this kvasir has no command cache"
  fi
}

# --- killed ---------------------------------------------------------------------------------------------------------

killed() {
  cache=$scratch/killed
  round=0
  hits=0
  while [ $round -lt "$rounds" ]; do
    round=$((round + 1))
    # Small enough to evict, so that a kill meets that too.
    start_kvasir killed --cache-dir "$cache" --cache-size 24MiB --ram-cache 0
    if [ $round -gt 1 ]; then
      for back in 1 $(shuf -i "1-$((round < 6 ? round - 1 : 5))" -n 1); do
        check "after kill $((round - 1))" "$url" "$(prompt $((round - back)) 300)"
        [ "$reused" -gt 0 ] && hits=$((hits + 1))
      done
      zero "after kill $((round - 1))" "$url" kvasir_tier_damaged_total lmdb
      zero "after kill $((round - 1))" "$url" kvasir_tier_errors_total lmdb
    fi
    for i in 0 1 2; do
      printf '{"prompt":"%s","max_tokens":64,"temperature":0}' "$(prompt $((round + i * 100000)) 300)" |
        curl -s --max-time 60 "$url/v1/completions" --data-binary @- >/dev/null &
    done
    sleep "$(random 1)"
    kill_server $server
    if [ $((round % 4)) -eq 0 ]; then # while it opens its folder, too
      "$kvasir" serve -m "$model" --port 0 --ctx 1024 --cache-dir "$cache" --cache-size 24MiB 2>/dev/null &
      sleep "$(random 1)"
      kill -9 $! 2>/dev/null
      wait $! 2>/dev/null
    fi
  done
  verify 'after all kills' "$cache"
  start_kvasir killed --cache-dir "$cache" --cache-size 24MiB --ram-cache 0
  check 'after the last kill' "$url" "$(prompt "$rounds" 300)"
  stop_kvasir $server
  verify 'after all kills' "$cache"
  answer=$hits
  [ "$hits" -gt 0 ] || fail 'nothing was ever found after a kill'
  echo "$rounds kills: $hits of $((2 * rounds - 2)) prompts were found at least in part"
}

# --- Redis ----------------------------------------------------------------------------------------------------------

# While it is $1: answers are right and come within what the tiers may cost, 250 ms for each of two batches of lookups
# and 500 ms for all, and then some for a busy machine.
trouble() {
  for i in 1 2 3; do
    number=$((number + 1))
    for p in "$known" "$(prompt $number 250)"; do
      check "Redis is $1" "$url" "$p"
      plain=$took
      below "Redis is $1" "$seconds" "$(awk -v t="$plain" 'BEGIN { print 3 * t + 4 }')"
    done
  done
}
recovers() { # NAME: what is stored is found again
  tries=0
  until ask "$url" "$known" && [ "$(cached)" -gt 0 ]; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { fail "after Redis was $1 nothing is found"; return; }
    sleep 0.2
  done
  check "after Redis was $1" "$url" "$known"
}

redis_faults() {
  start_redis redis
  start_kvasir redis --ram-cache 0 --tier "redis:127.0.0.1:$redis_port?backoff=50ms"
  known=$(prompt 7000 250)
  number=7000
  ask "$url" "$known"
  wait_for 20 sh -c "redis-cli -p $redis_port dbsize | grep -qv '^0'"
  recovers 'started'

  kill -STOP $redis
  trouble 'stopped'
  kill -CONT $redis
  recovers 'stopped'

  redis-cli -p "$redis_port" client pause 3000 >/dev/null
  trouble 'paused'
  wait_for 20 redis-cli -p "$redis_port" ping
  recovers 'paused'

  redis-cli -p "$redis_port" config set requirepass secret >/dev/null
  redis-cli -p "$redis_port" -a secret --no-auth-warning client kill type normal >/dev/null
  trouble 'asking for a password'
  redis-cli -p "$redis_port" -a secret --no-auth-warning config set requirepass '' >/dev/null
  recovers 'asking for a password'

  redis-cli -p "$redis_port" config set maxmemory-policy noeviction >/dev/null
  redis-cli -p "$redis_port" config set maxmemory 1mb >/dev/null
  trouble 'full'
  some 'Redis is full' "$url" kvasir_tier_refused_total redis
  redis-cli -p "$redis_port" config set maxmemory 0 >/dev/null
  recovers 'full'

  kill_server $redis
  trouble 'gone'
  some 'Redis is gone' "$url" kvasir_tier_errors_total redis
  wait_for 20 start_redis_at redis "$redis_port"
  recovers 'gone'
  zero 'Redis' "$url" kvasir_tier_damaged_total redis
  stop_kvasir $server
}

# --- disk -----------------------------------------------------------------------------------------------------------

full_disk() { # NAME FOLDER
  for i in 1 2 3 4 5 6 7 8 9 10 11 12; do check "$1" "$url" "$(prompt $((8000 + i)) 300)"; done
  check "$1" "$url" "$(prompt 8001 300)"
  # What it could not write it counts, as refused or as failed.
  answer="refused $(metric "$url" kvasir_tier_refused_total lmdb), errors $(metric "$url" kvasir_tier_errors_total lmdb)"
  [ "$answer" != 'refused 0, errors 0' ] || fail "$1: nothing is counted"
  echo "$1: $answer"
  zero "$1" "$url" kvasir_tier_damaged_total lmdb
  stop_kvasir $server
  verify "$1" "$2"
}

disk_faults() {
  # Files may not grow: the system refuses as it does when the disk is full.
  # Signals that whoever started this test ignores are as a service has them.
  signals=
  env --default-signal=XFSZ,PIPE true 2>/dev/null && signals='env --default-signal=XFSZ,PIPE'
  printf '#!/bin/sh\nulimit -f 4096\nexec %s %s "$@"\n' "$signals" "$kvasir" >"$scratch/limited"
  chmod +x "$scratch/limited"
  whole=$kvasir
  kvasir=$scratch/limited
  start_kvasir limited --ram-cache 0 --cache-dir "$scratch/limited_cache" --cache-size 64MiB
  kvasir=$whole
  full_disk 'files are limited' "$scratch/limited_cache"

  mkdir "$scratch/small"
  if mount -t tmpfs -o size=3m kvasir-test "$scratch/small" 2>/dev/null; then
    mounted=$scratch/small
    start_kvasir small --ram-cache 0 --cache-dir "$scratch/small/cache" --cache-size 64MiB
    full_disk 'the disk is full' "$scratch/small/cache"
    umount "$mounted" && mounted=
  else
    echo 'the disk is full: SKIPPED, a small file system cannot be mounted here'
  fi
}

# --- one folder -----------------------------------------------------------------------------------------------------

two_on_one() {
  start_kvasir first --ram-cache 0 --cache-dir "$scratch/shared" --cache-size 24MiB
  first=$server first_url=$url
  start_kvasir second --ram-cache 0 --cache-dir "$scratch/shared" --cache-size 24MiB
  second=$server second_url=$url
  ask "$first_url" "$(prompt 9000 300)"
  sleep 0.5
  check 'what the other server wrote' "$second_url" "$(prompt 9000 300)"
  answer=$reused
  [ "$reused" -gt 0 ] || fail 'the servers do not share their folder'
  # Both write and evict at once.
  for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
    (ask "$first_url" "$(prompt $((9100 + i)) 300)") &
    other=$!
    ask "$second_url" "$(prompt $((9200 + i)) 300)"
    wait $other
  done
  for i in 1 8 16; do
    check 'the first of two' "$first_url" "$(prompt $((9200 + i)) 300)"
    check 'the second of two' "$second_url" "$(prompt $((9100 + i)) 300)"
  done
  for u in "$first_url" "$second_url"; do
    zero 'two on one folder' "$u" kvasir_tier_damaged_total lmdb
    zero 'two on one folder' "$u" kvasir_tier_errors_total lmdb
  done
  kill_server $first
  check 'the other one was killed' "$second_url" "$(prompt 9108 300)"
  stop_kvasir $second
  verify 'two on one folder' "$scratch/shared"
}

# --- damage ---------------------------------------------------------------------------------------------------------

# Writes bytes (octal escapes) into a file that the server has open.
poke() { # FILE OFFSET BYTES
  # shellcheck disable=SC2059  # the bytes are a format
  printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
damage() {
  folder=$scratch/damaged
  start_kvasir damaged --ram-cache 0 --cache-dir "$folder" --cache-size 24MiB
  for i in 1 2 3 4 5 6; do ask "$url" "$(prompt $((9300 + i)) 300)"; done
  sleep 1
  check 'before the damage' "$url" "$(prompt 9301 300)"
  answer=$reused
  [ "$reused" -gt 0 ] || fail 'nothing to damage'
  # docs/formats/record.md: where in a record which field is.
  n=0
  for at in $(grep -obUaF KVrc "$folder/data.mdb" | cut -d: -f1); do
    n=$((n + 1))
    case $((n % 6)) in
      0) poke "$folder/data.mdb" $((at + 1500)) '\125' ;;                             # a byte of the payload
      1) poke "$folder/data.mdb" $((at + 8)) 'another finger' ;;                      # made by another model
      2) poke "$folder/data.mdb" $((at + 64)) '\020\000\000' ;;                       # ends early
      3) poke "$folder/data.mdb" $((at + 96)) '\001\002\003\004' ;;                   # other tokens
      4) poke "$folder/data.mdb" $((at + 4)) '\377' ;;                                # a later version
      5) poke "$folder/data.mdb" $((at + 56)) '\377\377\377\377' ;;                   # more tokens than there are bytes
    esac
  done
  answer=$n
  [ "$n" -gt 10 ] || fail 'no records were found to damage'
  for i in 1 2 3 4 5 6; do check 'damaged records' "$url" "$(prompt $((9300 + i)) 300)"; done
  some 'damaged records' "$url" kvasir_tier_damaged_total lmdb
  stop_kvasir $server
  start_kvasir damaged --ram-cache 0 --cache-dir "$folder" --cache-size 24MiB
  for i in 1 2 3 4 5 6; do check 'damaged records, after a restart' "$url" "$(prompt $((9300 + i)) 300)"; done
  answer=$reused
  [ "$reused" -gt 0 ] || fail 'what was damaged is not written again'
  stop_kvasir $server
  # A file that was cut, or is something else, is refused by name when the server starts: nothing of it is believed.
  truncate -s $(($(stat -c %s "$folder/data.mdb") / 2)) "$folder/data.mdb"
  refused "$folder" 'a file that was cut'
  head -c 100000 /dev/urandom >"$folder/data.mdb"
  refused "$folder" 'a file that is something else'
}
refused() { # FOLDER NAME
  answer=$("$kvasir" serve -m "$model" --port 0 --ctx 1024 --cache-dir "$1" 2>&1)
  status=$?
  [ $status -ge 1 ] && [ $status -lt 126 ] || fail "$2: status $status"
  expect "$2" "$1"
}

killed
if command -v redis-server >/dev/null && command -v redis-cli >/dev/null; then
  redis_faults
else
  echo 'Redis: SKIPPED, redis-server is not installed'
fi
disk_faults
two_on_one
damage
[ $failures -eq 0 ] && echo "faults: all as expected, $compared answers compared"
exit $failures
