#!/bin/sh
# Two servers that share a Redis, behind deploy/haproxy.cfg: a conversation stays with the server that has it, and when
# that one is killed the other goes on with pages from Redis. Then the same with a Redis Cluster of three.
# usage: scale_out_test.sh SOURCE-DIR BUILD-DIR
set -u
source_dir=$1
kvasir=$2/kvasir
model=$source_dir/models/kvasir-books-4m.gguf
PATH=$PATH:/usr/sbin:/sbin
for program in curl haproxy redis-server redis-cli; do
  command -v $program >/dev/null || { echo "SKIPPED: $program is not installed"; exit 77; }
done
"$kvasir" serve --help >/dev/null 2>&1 || { echo "SKIPPED: built without the server"; exit 77; }
scratch=$(mktemp -d)
. "$source_dir/tests/servers.sh"
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$scratch/secret"

# Two servers with the tier $1: $server_1, $server_2 and their addresses.
start_pair() {
  start_kvasir one --tier "$1" --prefix-key-file "$scratch/secret"
  server_1=$server url_1=$url
  start_kvasir two --tier "$1" --prefix-key-file "$scratch/secret"
  server_2=$server url_2=$url
}
start_haproxy() { # the proxy's address in $proxy
  for attempt in 1 2 3 4 5; do
    port=$(some_port)
    sed "s/maxconn 20000/maxconn 500/; s/bind :8000/bind 127.0.0.1:$port/; s|/run/haproxy/admin.sock|$scratch/haproxy.sock|; s|server kvasir1 .*|server kvasir1 ${url_1#http://}|; s|server kvasir2 .*|server kvasir2 ${url_2#http://}|" \
      "$source_dir/deploy/haproxy.cfg" >"$scratch/haproxy.cfg"
    haproxy -db -f "$scratch/haproxy.cfg" >"$scratch/haproxy.log" 2>&1 &
    haproxy=$!
    proxy=http://127.0.0.1:$port
    if wait_for 10 curl -sf "$proxy/health"; then
      pids="$pids $haproxy"
      return
    fi
  done
  answer=$(cat "$scratch/haproxy.log")
  give_up 'HAProxy does not start'
}
end_haproxy() {
  kill "$haproxy"
  forget "$haproxy"
  wait "$haproxy" 2>/dev/null
}
runtime() { # COMMAND of HAProxy's stats socket; what it says is in $answer
  answer=$(printf '%s\n' "$1" | curl -s --max-time 10 --unix-socket "$scratch/haproxy.sock" telnet://localhost)
}
answered() { # how many chats server NAME answered
  grep -c 'path=/v1/chat/completions status=200' "$scratch/$1.log"
}
more() { # NAME COUNT: the server answered more than that
  [ "$(answered "$1")" -gt "$2" ]
}
# Asks the proxy for the next turn of the conversation $messages (JSON objects with commas), with $prefix if there is one.
turn() {
  body="{\"messages\":[$messages],\"max_tokens\":24,\"temperature\":0}"
  if [ -n "$prefix" ]; then
    post "$proxy/v1/chat/completions" "$body" -H "X-Kvasir-Prefix: $prefix"
  else
    post "$proxy/v1/chat/completions" "$body"
  fi
}
go_on() { # TEXT: the answer and what the user says next
  messages="$messages,{\"role\":\"assistant\",\"content\":$(text)},{\"role\":\"user\",\"content\":\"$1\"}"
}
records() { # in all of the Redis servers
  for port in $redis_ports; do redis-cli -p "$port" dbsize; done | awk '{ n += $1 } END { print n + 0 }'
}
settled() { # no records are on their way to Redis
  before=$(records)
  sleep 0.3
  [ "$before" -gt 0 ] && [ "$(records)" = "$before" ]
}

story='She walked along the shore in the grey light of the morning and thought of the house, of her brother who had gone to sea,'

conversation() { # NAME
  name=$1
  prefix=''
  messages="{\"role\":\"system\",\"content\":\"You tell stories.\"},{\"role\":\"user\",\"content\":\"$story $story $name\"}"
  one=$(answered one)
  turn
  expect "$name, first turn" '"role":"assistant"'
  prefix=$(header X-Kvasir-Prefix)
  [ ${#prefix} -eq 16 ] || fail "$name: no X-Kvasir-Prefix in the answer"
  home=two
  [ "$(answered one)" -gt "$one" ] && home=one
  go_on 'And then?'
  turn
  expect "$name, second turn: from memory" '"source":"ram"'
  same "$name: the name of the beginning" "$prefix" "$(header X-Kvasir-Prefix)"
  go_on 'What did she find there?'
}

two_servers() { # TIER: what Redis is
  start_pair "$2"
  start_haproxy
  # Conversations keep their server, all of them and without the header too.
  for i in 1 2 3 4 5 6; do
    conversation "$1 $i"
    here=$(answered $home)
    turn
    expect "$name, third turn: from memory" '"source":"ram"'
    [ "$(answered $home)" -gt "$here" ] || fail "$name: the third turn went to the other server"
  done
  [ "$(answered one)" -gt 0 ] && [ "$(answered two)" -gt 0 ] || fail "$1: one of the servers got nothing"
  prefix=''
  here=$(answered $home) there=$(($(answered one) + $(answered two)))
  turn
  turn
  total=$(($(answered one) + $(answered two)))
  here=$(($(answered $home) - here))
  [ $((total - there)) -eq 2 ] && [ $((here % 2)) -eq 0 ] || fail "$1: clients without the header are sent to and fro"

  # A server that drains keeps the conversations that HAProxy knows; one in maintenance gets nothing.
  prefix=0123456789abcdef
  here=$(answered one)
  turn
  home=two away=one number=2
  wait_for 2 more one "$here" && home=one away=two number=1
  runtime 'show table kvasir'
  expect "$1: show table" "key=$prefix .*server_key=kvasir$number"
  runtime "set server kvasir/kvasir$number state drain"
  here=$(answered $home)
  turn
  wait_for 5 more $home "$here" || fail "$1: a known conversation leaves a server that drains"
  runtime "set server kvasir/kvasir$number state maint"
  there=$(answered $away)
  turn
  wait_for 5 more $away "$there" || fail "$1: a server in maintenance gets a request"
  runtime "set server kvasir/kvasir$number state ready"

  # A proxy that has seen nothing finds the same server for a name as the one before it.
  turn
  here=$(answered one) there=$(answered two)
  end_haproxy
  start_haproxy
  turn
  turn
  here=$(($(answered one) - here)) there=$(($(answered two) - there))
  answer="$here and $there"
  [ $here$there = 20 ] || [ $here$there = 02 ] || fail "$1: another proxy sends a name elsewhere"

  # The server of a conversation is killed between two turns: the other has never seen it.
  conversation "$1 last"
  wait_for 20 settled || fail "$1: Redis has no records"
  victim=$server_1 survivor=two url=$url_2
  [ $home = two ] && victim=$server_2 survivor=one url=$url_1
  kill_server $victim
  there=$(answered $survivor)
  turn
  expect "$name, after the kill" '"source":"redis"'
  [ "$(answered $survivor)" -gt "$there" ] || fail "$name: who answered?"
  reused=$(cached)
  total=$(printf '%s' "$answer" | sed -n 's/.*"prompt_tokens":\([0-9]*\).*/\1/p' | head -1)
  [ "${reused:-0}" -gt 0 ] || fail "$name: nothing is reused after the kill"
  after=$(text)
  post "$url/v1/chat/completions" "{\"messages\":[$messages],\"max_tokens\":24,\"temperature\":0,\"reuse\":false}"
  same "$name, with and without the pages from Redis" "$after" "$(text)"
  echo "$1: after the kill $reused of $total tokens came from Redis"
  # From here on that server has it in memory, and HAProxy knows.
  turn
  expect "$name, the turn after that" '"source":"ram"'

  # A request while both are gone is refused at once, and the service is back with a server.
  [ $survivor = one ] && stop_kvasir $server_1
  [ $survivor = two ] && stop_kvasir $server_2
  turn
  expect "$1: no server is left" '503'
  end_haproxy
}

# nginx: a name has its server, answers are streamed, and a server that is gone is not missed.
behind_nginx() {
  start_pair "$1"
  port=$(some_port)
  sed "s/listen 8000/listen 127.0.0.1:$port/; s|/run/nginx.pid|$scratch/nginx.pid|; s/10.0.0.11:8080/${url_1#http://}/; s/10.0.0.12:8080/${url_2#http://}/" \
    "$source_dir/deploy/nginx.conf" >"$scratch/nginx.conf"
  nginx -p "$scratch" -c "$scratch/nginx.conf" -g 'daemon off;' >"$scratch/nginx.log" 2>&1 &
  nginx=$!
  pids="$pids $nginx"
  proxy=http://127.0.0.1:$port
  wait_for 10 curl -sf "$proxy/health" || { answer=$(cat "$scratch/nginx.log"); give_up 'nginx does not start'; }
  for prefix in 0123456789abcdef 123456789abcdef0 23456789abcdef01 3456789abcdef012; do
    messages="{\"role\":\"user\",\"content\":\"$story $prefix\"}"
    turn
    go_on 'And then?'
    turn
    expect "nginx, second turn: from memory" '"source":"ram"'
  done
  post "$proxy/v1/chat/completions" "{\"messages\":[$messages],\"max_tokens\":8,\"stream\":true}"
  expect 'nginx, a stream' '^data: \[DONE\]'
  wait_for 20 settled
  kill_server $server_1
  turn
  expect 'nginx, with one server' '"cached_tokens":[1-9]'
  stop_kvasir $server_2
  # nginx ends with its workers.
  kill "$nginx"
  forget "$nginx"
  wait "$nginx" 2>/dev/null
}

start_redis redis
redis_ports=$redis_port
two_servers 'one Redis' "redis:127.0.0.1:$redis_port"
if command -v nginx >/dev/null; then
  behind_nginx "redis:127.0.0.1:$redis_port"
else
  echo 'nginx: SKIPPED, it is not installed'
fi
start_cluster
redis_ports=$(echo "$cluster_nodes" | sed 's/127.0.0.1://g')
two_servers 'Redis Cluster' "redis:$(echo $cluster_nodes | tr ' ' ',')"
for port in $redis_ports; do
  [ "$(redis-cli -p "$port" dbsize)" -gt 0 ] || { answer=$port; fail 'a server of the cluster holds nothing'; }
done

[ $failures -eq 0 ] && echo 'scale-out: all as expected'
exit $failures
