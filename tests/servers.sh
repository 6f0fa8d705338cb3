# Sourced by tests that run servers: kvasir, redis-server, HAProxy ... on the loopback interface. Needs $kvasir, $model and
# $scratch; everything that is started here ends with the test. Logs are $scratch/NAME.log.
failures=0
answer=
pids=
cleanup() {
  for pid in $pids; do kill -CONT "$pid" 2>/dev/null; kill -9 "$pid" 2>/dev/null; done
  [ -z "${mounted:-}" ] || umount "$mounted" 2>/dev/null
  rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

fail() {
  echo "FAILED: $1"
  printf '%s\n' "$answer" | sed 's/^/  /' | head -20
  failures=$((failures + 1))
}
give_up() {
  fail "$1"
  exit 1
}
expect() { # NAME PATTERN: the last answer matches
  printf '%s' "$answer" | grep -q -- "$2" || fail "$1: expected $2"
}
same() { # NAME A B
  [ "$2" = "$3" ] || { answer="$2
$3"; fail "$1: the texts differ"; }
}

# Ports are drawn from below those that the kernel gives to outgoing connections; who is late tries another.
some_port() { shuf -i 20000-31999 -n 1; }

wait_for() { # SECONDS COMMAND...: until it succeeds
  left=$(($1 * 20))
  shift
  until "$@" >/dev/null 2>&1; do
    left=$((left - 1))
    [ $left -gt 0 ] || return 1
    sleep 0.05
  done
}

# --- kvasir ---------------------------------------------------------------------------------------------------------

cat >"$scratch/chatml.jinja" <<'TEMPLATE'
{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}
TEMPLATE

# Starts a server on a free port: its process in $server, its address in $url.
start_kvasir() { # NAME OPTIONS...
  log=$scratch/$1.log
  shift
  : >"$log"
  "$kvasir" serve -m "$model" --port 0 --ctx 1024 -t 1 --chat-template "$scratch/chatml.jinja" "$@" 2>>"$log" &
  server=$!
  pids="$pids $server"
  tries=0
  until grep -q '^listening' "$log"; do
    tries=$((tries + 1))
    if [ $tries -gt 1200 ] || ! kill -0 $server 2>/dev/null; then
      answer=$(cat "$log")
      give_up "kvasir serve $* does not start"
    fi
    sleep 0.05
  done
  url=$(sed -n 's/^listening address=\([^ ]*\).*/\1/p' "$log")
}
# A process that has ended is not ours any more: its number may be given to another.
forget() { # PID
  kept=
  for pid in $pids; do [ "$pid" = "$1" ] || kept="$kept $pid"; done
  pids=$kept
}
stop_kvasir() { # PID: SIGTERM ends it with status 0
  kill -TERM "$1"
  forget "$1"
  wait "$1" || { answer=$(tail -5 "$log"); fail "a server did not end well"; }
}
kill_server() { # PID
  kill -9 "$1"
  forget "$1"
  wait "$1" 2>/dev/null
}

# The answer of a POST goes to $answer (headers to $scratch/headers), the seconds it took to $took.
post() { # URL BODY CURL-OPTIONS...
  to=$1
  body=$2
  shift 2
  answer=$(printf '%s' "$body" | curl -sS --max-time 120 -D "$scratch/headers" -w '\n%{time_total}' "$to" "$@" \
    -H 'Content-Type: application/json' --data-binary @- 2>&1)
  took=$(printf '%s' "$answer" | tail -n 1)
  answer=$(printf '%s' "$answer" | sed '$d')
}
# From $answer: the generated text as a JSON string, counts, the value of a header.
text() { printf '%s' "$answer" | grep -o '"\(text\|content\)":"\([^"\\]\|\\.\)*"' | head -1 | sed 's/^"[a-z]*"://'; }
cached() { printf '%s' "$answer" | sed -n 's/.*"cached_tokens":\([0-9]*\).*/\1/p' | head -1; }
header() { tr -d '\r' <"$scratch/headers" | sed -n "s/^$1: //Ip" | tail -1; }
metric() { # URL NAME TIER
  curl -sS --max-time 20 "$1/metrics" | sed -n "s/^$2{tier=\"$3\"} //p" | head -1
}

# --- redis ----------------------------------------------------------------------------------------------------------

# Starts a Redis server: its process in $redis, its port in $redis_port.
start_redis() { # NAME OPTIONS...
  redis_name=$1
  shift
  mkdir -p "$scratch/$redis_name"
  for attempt in 1 2 3 4 5; do
    redis_port=$(some_port)
    start_redis_at "$redis_name" "$redis_port" "$@" && return
  done
  answer=$(cat "$scratch/$redis_name.log")
  give_up 'redis-server does not start'
}
start_redis_at() { # NAME PORT OPTIONS...
  at_name=$1
  at_port=$2
  shift 2
  redis-server --port "$at_port" --bind 127.0.0.1 --save '' --appendonly no --dir "$scratch/$at_name" "$@" \
    >"$scratch/$at_name.log" 2>&1 &
  redis=$!
  wait_for 10 answers_ping $redis "$at_port" || return 1
  pids="$pids $redis"
}
answers_ping() { # PID PORT: a password that is asked for is an answer
  kill -0 "$1" && redis-cli -p "$2" ping 2>&1 | grep -q 'PONG\|NOAUTH'
}

# Three masters: their processes in $cluster, their addresses in $cluster_nodes.
start_cluster() {
  cluster=
  cluster_nodes=
  for node in 1 2 3; do
    start_redis "node$node" --cluster-enabled yes --cluster-config-file nodes.conf --cluster-node-timeout 2000 \
      --cluster-require-full-coverage no
    cluster="$cluster $redis"
    cluster_nodes="$cluster_nodes 127.0.0.1:$redis_port"
  done
  # shellcheck disable=SC2086  # a list
  answer=$(redis-cli --cluster create $cluster_nodes --cluster-yes 2>&1) || give_up 'the Redis Cluster is not made'
  for address in $cluster_nodes; do
    wait_for 20 cluster_is_up "${address#*:}" || give_up "the Redis Cluster does not come up"
  done
}
cluster_is_up() {
  redis-cli -p "$1" cluster info | tr -d '\r' | grep -q '^cluster_state:ok' &&
    redis-cli -p "$1" cluster info | tr -d '\r' | grep -q '^cluster_known_nodes:3'
}
