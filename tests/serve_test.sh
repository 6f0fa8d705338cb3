#!/bin/sh
# kvasir serve, asked by curl as any client would: answers, streams, chats, errors, what a restart still knows, the end.
# usage: serve_test.sh SOURCE-DIR BUILD-DIR
set -u
source_dir=$1
kvasir=$2/kvasir
model=$source_dir/models/kvasir-books-4m.gguf
command -v curl >/dev/null || { echo "SKIPPED: curl is not installed"; exit 77; }
# A build without the server says so, and what it takes.
answer=$("$kvasir" serve -m /nonexistent/model --port 0 2>&1)
status=$?
case $answer in
  *'this build has no HTTP server'*)
    [ $status -eq 1 ] && printf '%s' "$answer" | grep -q '^kvasir: serve: .*libboost.*libssl' || { echo "FAILED: $answer"; exit 1; }
    grep -q '^KVASIR_SERVER:BOOL=OFF' "$2/CMakeCache.txt" && { echo "serve: not in this build, which says so"; exit 0; }
    echo "SKIPPED: built without the server"
    exit 77
    ;;
esac
scratch=$(mktemp -d)
server=0
trap '[ $server -ne 0 ] && kill -9 $server 2>/dev/null; rm -rf "$scratch"' EXIT
failures=0

fail() {
  echo "FAILED: $1"
  printf '%s\n' "$answer" | sed 's/^/  /' | head -20
  failures=$((failures + 1))
}
expect() { # NAME PATTERN: the last answer matches
  printf '%s' "$answer" | grep -q -- "$2" || fail "$1: expected $2"
}
start() { # OPTIONS...: a server on a free port
  : >"$scratch/log"  # the last server's would say that this one listens
  "$kvasir" serve -m "$model" --port 0 --ctx 1024 -t 2 "$@" 2>"$scratch/log" &
  server=$!
  tries=0
  until grep -q 'listening' "$scratch/log"; do
    tries=$((tries + 1))
    if [ $tries -gt 200 ] || ! kill -0 $server 2>/dev/null; then
      answer=$(cat "$scratch/log")
      fail "the server does not start"
      exit 1
    fi
    sleep 0.1
  done
  url=$(sed -n 's/^listening address=\([^ ]*\).*/\1/p' "$scratch/log")
}
stop() { # SIGTERM ends it with status 0
  kill -TERM $server
  wait $server || { answer=$(cat "$scratch/log"); fail "the server did not end well"; }
  server=0
}
post() { answer=$(curl -sS --max-time 60 "$url$1" -H 'Content-Type: application/json' -d "$2" 2>&1); }

cat >"$scratch/chatml.jinja" <<'TEMPLATE'
{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}
TEMPLATE

start --chat-template "$scratch/chatml.jinja" --cache-dir "$scratch/cache"
answer=$(curl -sS "$url/health") && expect health '"ok"'
answer=$(curl -sS "$url/v1/models") && expect models '"id":"kvasir-books-4m"'

completion='{"prompt":"It was a dark and stormy night, and the wind","max_tokens":8,"temperature":0}'
post /v1/completions "$completion"
expect completion '"object":"text_completion"'
expect 'completion usage' '"completion_tokens":8'
expect 'first request computes' '"cached_tokens":0'
first=$(printf '%s' "$answer" | sed 's/.*"text":\("[^"]*"\).*/\1/')
post /v1/completions "$completion"
expect 'second request reuses' '"source":"ram"'
second=$(printf '%s' "$answer" | sed 's/.*"text":\("[^"]*"\).*/\1/')
[ "$first" = "$second" ] || fail "reuse changed the text: $first, $second"

chat='{"messages":[{"role":"user","content":"Who are you?"}],"max_tokens":6,"temperature":0}'
post /v1/chat/completions "$chat"
expect chat '"role":"assistant"'
post /v1/chat/completions '{"messages":[{"role":"user","content":"Who?"}],"max_tokens":5,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}'
expect 'stream chunks' '^data: .*"object":"chat.completion.chunk"'
expect 'stream usage' '"completion_tokens":5'
expect 'stream end' '^data: \[DONE\]'

post /v1/completions '{"prompt":"The answer is","max_tokens":20,"seed":1,"response_format":{"type":"json_schema","json_schema":{"schema":{"enum":["yes","no",[1]]}}}}'
expect 'an answer of a schema' '"text":" \{0,1\}\(\\"yes\\"\|\\"no\\"\|\[1\]\)"'
expect 'ends by itself' '"finish_reason":"stop"'
post /v1/chat/completions '{"messages":[{"role":"user","content":"a"}],"tools":[{"function":{"name":"f"}}],"tool_choice":"required"}'
expect 'a template without calls' '"tool_calls":\[{"id":"call_[0-9a-f]*","type":"function","function":{"name":"f"'

post /v1/completions '{"prompt":"a","max_tokens":"many"}'
expect 'wrong type names the field' '"param":"max_tokens"'
post /v1/completions '{"prompt":'
expect 'broken JSON' '"type":"invalid_request_error"'
post /v1/nothing '{}'
expect 'unknown route' '"error"'
post /tokenize '{"content":"dark night"}'
expect tokenize '"tokens":\['
answer=$(curl -sS "$url/metrics") && expect metrics '^kvasir_http_requests_total'
expect 'metrics: rates' '^kvasir_generated_tokens_per_second [0-9.]*[1-9]'
printf '%s' "$answer" | grep -q '^vllm:' && fail "names of vLLM that nobody asked for"
answer=$(curl -sS "$url/v1/stats")
expect 'stats: rates' '"generated_tokens_per_second":[0-9.]*[1-9]'
expect 'stats: batch' '"batch":{"steps":[1-9][0-9]*,"mean":1.0,"most":1}'
expect 'stats: pages' '"pool":{"pages":[1-9][0-9]*,"used":0,"free":[1-9][0-9]*,"shared":0,'
expect 'stats: hits' '"hit_share":0\.[0-9]*[1-9]'

# A replay over HTTP, as of any other server.
printf '%s\n' '{"turns":[{"role":"user","content":"Tell me of the sea."},{"role":"assistant","content":"It is wide."},
{"role":"user","content":"And of the ships on it?"}]}' | tr -d '\n' >"$scratch/talk.jsonl"
answer=$("$kvasir" bench replay --url "$url" --conversations "$scratch/talk.jsonl" --max-tokens 4 --plot "$scratch/ttft.svg" --json 2>&1)
expect 'replay: the second turn' '"turn":2,"requests":1,'
expect 'replay: reuses' '"tokens_by_source":{"computed":[0-9]*,"ram":'
expect 'replay: and says what that took' '"turn":2.*"loaded_bytes":[1-9]'
expect 'replay: and computes when asked to' '"same_text":1,.*"plain_reused_tokens":0'
answer=$(cat "$scratch/ttft.svg") && expect 'replay: the picture' 'without'
stop

# What was computed is found again, from the disk.
start --chat-template "$scratch/chatml.jinja" --cache-dir "$scratch/cache"
post /v1/completions "$completion"
expect 'after a restart' '"source":"lmdb"'
third=$(printf '%s' "$answer" | sed 's/.*"text":\("[^"]*"\).*/\1/')
[ "$first" = "$third" ] || fail "the restart changed the text: $first, $third"
stop

printf 'secret alice\nother bob\n' >"$scratch/keys"
start --api-key-file "$scratch/keys"
post /v1/completions "$completion"
expect 'no key' '"code":"invalid_api_key"'
for key in secret other; do
  answer=$(curl -sS "$url/v1/completions" -H "Authorization: Bearer $key" -d "$completion")
  expect "$key computes for itself" '"cached_tokens":0'
done
answer=$(curl -sS "$url/v1/completions" -H "Authorization: Bearer secret" -d "$completion")
expect 'a tenant finds its own' '"source":"ram"'
post /v1/chat/completions "$chat"
stop

# Many streams at once, all of them complete; then more than the queue holds, and those are refused, not dropped.
answer=$("$kvasir" bench load -m "$model" --ctx 2048 --pool 65536 --running 64 --waiting 400 --clients 300 --requests 600 \
  --prompt-tokens 24 --tokens 6 --json 2>&1)
expect 'load: every stream is complete' '"clients":300,"completed":600,"refused":0,"failed":0,"dropped":0,"errors":{}'
expect 'load: every token came' '"completion_tokens":3600'
answer=$("$kvasir" bench load -m "$model" --ctx 2048 --running 2 --waiting 10 --clients 80 --requests 80 \
  --prompt-tokens 24 --tokens 200 --json 2>&1)
expect 'overload: nothing is dropped' '"failed":0,"dropped":0,"errors":{"429 rate_limit_exceeded":'
answer=$("$kvasir" bench load -m "$model" --url http://127.0.0.1:1 2>&1) && fail 'bench load takes both --url and --model'
expect 'bench load: both' 'either --url or --model'
answer=$("$kvasir" bench load --url http://127.0.0.1:1 2>&1) && fail 'bench load finds a server where none is'
expect 'bench load: nobody there' '127.0.0.1:1'

# The same over TLS, with keys.
if command -v openssl >/dev/null; then
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj '/CN=kvasir' -addext 'subjectAltName=IP:127.0.0.1' \
    -keyout "$scratch/key.pem" -out "$scratch/cert.pem" 2>/dev/null || { echo 'FAILED: no certificate made'; exit 1; }
  tls_load() { # STATUS PATTERN OPTIONS...
    wanted=$1
    pattern=$2
    shift 2
    answer=$("$kvasir" bench load --clients 2 --requests 4 --tokens 4 --json "$@" 2>&1)
    status=$?
    [ $status -eq "$wanted" ] || fail "bench load $*: status $status, expected $wanted"
    expect "bench load $*" "$pattern"
  }
  start --chat-template "$scratch/chatml.jinja" --tls-cert "$scratch/cert.pem" --tls-key "$scratch/key.pem" --api-key-file "$scratch/keys"
  tls_load 0 '"completed":4,"refused":0,"failed":0,"dropped":0,' --url "$url" --ca-file "$scratch/cert.pem" --api-key-file "$scratch/keys"
  tls_load 1 'certificate is not trusted.*--ca-file' --url "$url" --api-key-file "$scratch/keys"
  tls_load 1 '401 invalid_api_key' --url "$url" --ca-file "$scratch/cert.pem"
  tls_load 1 'wants https:// in --url' --url "http://${url#https://}"
  tls_load 2 "^kvasir: --ca-file: is '$scratch/keys', expected" --url "$url" --ca-file "$scratch/keys"
  tls_load 2 '^kvasir: --ca-file: has no use' --url http://127.0.0.1:1 --ca-file "$scratch/cert.pem"
  tls_load 2 '^kvasir: --tls-cert: cannot be used with --url' --url "$url" --tls-cert "$scratch/cert.pem"
  answer=$("$kvasir" bench replay --url "$url" --conversations "$scratch/talk.jsonl" --max-tokens 4 --json \
    --ca-file "$scratch/cert.pem" --api-key-file "$scratch/keys" 2>&1)
  expect 'replay over TLS' '"turn":2,"requests":1,.*"same_text":1,'
  stop
  tls_load 0 '"completed":4,' -m "$model" --ctx 1024 --tls-cert "$scratch/cert.pem" --tls-key "$scratch/key.pem" \
    --ca-file "$scratch/cert.pem" --api-key-file "$scratch/keys"
  # Keys and certificate from a file of options.
  "$kvasir" serve --tls-cert "$scratch/cert.pem" --tls-key "$scratch/key.pem" --api-key-file "$scratch/keys" \
    --open-metrics --max-body 4096 --print-config >"$scratch/config"
  start --config "$scratch/config"
  answer=$(curl -sS --cacert "$scratch/cert.pem" "$url/v1/models")
  expect 'keys of the file' '"code":"invalid_api_key"'
  answer=$(curl -sS --cacert "$scratch/cert.pem" "$url/v1/models" -H 'Authorization: Bearer secret')
  expect 'keys of the file' '"object":"list"'
  answer=$(curl -sS --cacert "$scratch/cert.pem" "$url/metrics") && expect 'open metrics of the file' '^kvasir_http'
  answer=$(head -c 8000 /dev/zero | curl -sS --cacert "$scratch/cert.pem" "$url/v1/completions" -H 'Authorization: Bearer secret' --data-binary @-)
  expect 'the longest body of the file' '"error"'
  stop
fi

# Two models by name, one of them at a time in memory.
"$kvasir" quantize "$model" "$scratch/small.gguf" --type q4_0 >/dev/null || fail 'quantize'
start -m "small=$scratch/small.gguf" --ram-cache 0 --cache-dir "$scratch/two"
big=$(sed -n 's/^  kvasir-books-4m: takes \([0-9.]*\) MiB.*/\1/p' "$scratch/log")
[ -n "$big" ] || { answer=$(cat "$scratch/log"); fail 'what a model takes'; }
stop
start -m "small=$scratch/small.gguf" --ram-cache 0 --cache-dir "$scratch/two" --memory "$(echo "$big" | awk '{ print $1 + 1 }')MiB"
two() { # MODEL: asks it
  post /v1/completions '{"model":"'"$1"'","prompt":"It was a dark and stormy night, and the wind blew","max_tokens":2}'
  expect "$1 answers" '"model":"'"$1"'"'
}
two small
two kvasir-books-4m
two small
expect 'pages of a model that was unloaded' '"source":"lmdb"'
answer=$(curl -sS "$url/v1/models") && expect 'both are listed' '"id":"kvasir-books-4m".*"loaded":false.*"id":"small".*"loaded":true'
answer=$(curl -sS "$url/api/ps" | grep -o '"name":"[^"]*"' | tr '\n' ' ') && expect 'one is in memory' '^"name":"small:latest" $'
post /v1/completions '{"model":"large","prompt":"x"}'
expect 'no such model' "the model 'large' does not exist, this server has 'kvasir-books-4m', 'small'"
answer=$(cat "$scratch/log") && expect 'said in the log' '^unloaded model=kvasir-books-4m'
stop
answer=$("$kvasir" serve -m "$model" -m "$model" --port 0 2>&1) && fail 'two models of one name'
expect 'two models of one name' "two models are called 'kvasir-books-4m'"

# Options from a file, prompts that are computed before the first request, codecs chosen by a built-in text.
printf '%s\n' '{"prompt":"It was a dark and stormy night, and the wind blew over the hills and the houses by the sea","pin":false}' \
  'The answer to all of these questions, as everybody in the town knew very well by then, was no.' >"$scratch/prompts"
answer=$("$kvasir" serve -m "$model" --kv auto --warm "$scratch/prompts" --name warm --print-config) || fail 'print-config'
expect 'print-config' '"kv": "auto"'
printf '%s' "$answer" >"$scratch/config"
start --config "$scratch/config"
answer=$(cat "$scratch/log")
expect 'auto in a server' 'KV cache: auto: .* [0-9][0-9][0-9] tokens of text'
expect 'warmed' '^warmed: prompts 2, tokens [0-9]*, of them reused [0-9]*, in'
post /v1/completions '{"prompt":"It was a dark and stormy night, and the wind blew over the hills and the houses by the sea","max_tokens":2}'
expect 'a warmed prompt is reused' '"source":"ram"'
expect 'times of a request' '"ttft_ms":[0-9.]*,"total_ms":[0-9.]*'
expect 'codecs of a request' '"k_codec":"[a-z][^"]*","v_codec":"[a-z][^"]*"'
answer=$(curl -sS "$url/v1/stats")
expect 'the name of the file' '"model":"warm"'
long=$(awk 'BEGIN { for (i = 0; i < 60; ++i) printf "the sea and the wind " i " " }')
post /v1/completions '{"prompt":"'"$long"'","max_tokens":2}'
tokens=$(printf '%s' "$answer" | sed 's/.*"prompt_tokens":\([0-9]*\).*/\1/')
pages=$(((tokens + 1) / 128))
sealed=$((tokens / 128 - 1))  # the newest 128 tokens and their page are raw
[ $sealed -gt 0 ] || fail "only $tokens tokens"
expect 'pages of a request' '"pages":{"reused":0,"computed":'$pages',"sealed":'$sealed'}'
post /v1/completions '{"prompt":"'"$long"'","max_tokens":2}'
again=$(((tokens - 1) / 128))
expect 'pages that were reused' '"pages":{"reused":'$again',"computed":'$((pages - again))',"sealed":'$sealed'}'
answer=$(curl -sS "$url/v1/stats")
expect 'pages of all' '"pages":{"reused":'$again',"computed":'$((2 * pages - again))',"sealed":'$((2 * sealed))'}'
expect 'times in stats' '"times":{"ttft_ms":{"count":3,"mean":[0-9.]*[1-9]'
stop
printf '{"prompt":7}\n' >"$scratch/bad"
answer=$("$kvasir" serve -m "$model" --port 0 --ctx 512 --warm "$scratch/bad" 2>&1) && fail 'a bad prompt is accepted'
expect 'a bad prompt' '/bad, line 1: prompt: '
printf '{"engine":{"ctxx":7}}' >"$scratch/bad"

refused() { # PATTERN OPTIONS...: an error of the options, status 2, before anything is loaded
  pattern=$1
  shift
  answer=$("$kvasir" serve -m "$model" --port 0 "$@" 2>&1)
  status=$?
  [ $status -eq 2 ] || fail "serve $*: status $status, expected 2"
  expect "serve $*" "$pattern"
}
refused 'needs a place' --warm "$scratch/prompts" --ram-cache 0
refused 'nonsense' --tier nonsense:
refused "/bad: engine: unknown option 'ctxx' (did you mean 'ctx'" --config "$scratch/bad"
refused 'port' --port 70000

answer=$("$kvasir" serve -m "$model" --port 0 --chat-template "$scratch/no-such-file" 2>&1) && fail 'a missing template is accepted'
expect 'missing template' 'no-such-file'

[ $failures -eq 0 ] && echo "serve: all as expected"
exit $failures
