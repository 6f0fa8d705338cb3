#!/bin/sh
# The files under deploy/ as far as they can be checked without the machines they are for: by the programs that read them.
# Docker images are not built here (./dev package does, where there is an engine): the steps that compile are checked one by one.
# usage: deploy_test.sh SOURCE-DIR BUILD-DIR
set -u
source_dir=$1
kvasir=$2/kvasir
deploy=$source_dir/deploy
model=$source_dir/models/kvasir-books-4m.gguf
scratch=$(mktemp -d)
. "$source_dir/tests/servers.sh"
PATH=$PATH:/usr/sbin:/sbin
missing=''
have() { # PROGRAM PACKAGE
  command -v "$1" >/dev/null && return
  missing="$missing $2"
  return 1
}
run() { # NAME COMMAND...: succeeds; what it says is in $answer
  name=$1
  shift
  answer=$("$@" 2>&1) || fail "$name"
}

# --- proxies --------------------------------------------------------------------------------------------------------

if have haproxy haproxy; then
  run 'haproxy -c' haproxy -c -f "$deploy/haproxy.cfg"
  printf '%s' "$answer" | grep -q 'WARNING\|ALERT' && fail 'haproxy warns'
fi

if have nginx nginx-light; then
  # The test binds: to a port that users may have.
  sed "s/listen 8000/listen 127.0.0.1:$(some_port)/; s|pid .*|pid $scratch/nginx.pid;|" "$deploy/nginx.conf" >"$scratch/nginx.conf"
  run 'nginx -t' nginx -t -p "$scratch" -c "$scratch/nginx.conf"
  printf '%s' "$answer" | grep -q '\[warn\]\|\[emerg\]' && fail 'nginx warns'
fi

# --- systemd --------------------------------------------------------------------------------------------------------

if have systemd-analyze systemd; then
  # The program has to exist where the unit says.
  sed "s|/usr/local/bin/kvasir|$kvasir|" "$deploy/kvasir.service" >"$scratch/kvasir.service"
  run 'systemd-analyze verify' systemd-analyze verify --man=no "$scratch/kvasir.service"
  [ -z "$answer" ] || fail 'systemd-analyze verify has something to say'
  if systemd-analyze --help 2>&1 | grep -q -- --offline; then
    run 'systemd-analyze security' systemd-analyze security --offline=yes --threshold=25 "$scratch/kvasir.service"
  fi
fi
# Every option that the unit and its environment name is one that the program has.
if "$kvasir" serve --help >"$scratch/help" 2>&1 && grep -q -- --cache-dir "$scratch/help"; then
  for option in $(cat "$deploy/kvasir.service" "$deploy/kvasir.env" "$deploy/Dockerfile" |
    grep 'ExecStart=\|KVASIR_OPTIONS=\|ENTRYPOINT' | grep -o -- '--[a-z-]*' | sort -u); do
    answer=$option
    grep -q -- "^  $option[ ,]\|,$option[ ,]" "$scratch/help" || fail "deploy/ names an option that kvasir serve does not have"
  done
fi

# --- Dockerfile -----------------------------------------------------------------------------------------------------

# What is copied exists, and the build's packages are those of ./dev setup without the tests'.
stages=$(sed '/ AS compiled$/,$d' "$deploy/Dockerfile")  # of the web page and of the program
stage=$(printf '%s\n' "$stages" | sed -n '/ AS build$/,$p')
final=$(sed -n '/ AS compiled$/,/ AS packaged$/p' "$deploy/Dockerfile")
copied=$(printf '%s\n' "$stages" | sed -n '/--from=/d; s/^COPY \(.*\) [^ ]*$/\1/p')
for path in $copied; do
  answer=$path
  [ -e "$source_dir/$path" ] || fail 'the Dockerfile copies what is not there'
  grep -qx "!$path" "$deploy/Dockerfile.dockerignore" || fail 'the context leaves out what the Dockerfile copies'
done
words() { tr -s ' \\\n' '\n\n\n' | grep -v '^$' | sort; }
wanted=$(sed -n '/^BUILD_PACKAGES="/,/"$/p' "$source_dir/dev" | sed 's/BUILD_PACKAGES=//; s/"//g; s/libgtest-dev//' | words)
listed=$(printf '%s\n' "$stage" | sed -n '/--no-install-recommends/,/rm -rf/p' | sed '1d; $d; s/&&//' | words)
same 'packages of the Dockerfile and of ./dev setup' "$wanted" "$listed"

# The copied folders configure, which is what needs them to be complete.
mkdir "$scratch/src"
for path in $copied; do cp -r "$source_dir/$path" "$scratch/src/"; done
run 'cmake --preset release, with what the Dockerfile copies' sh -c "cd '$scratch/src' && cmake --preset release"

# Packages and all that dpkg says they need.
with_needs() { # PACKAGE...
  dpkg-query -W -f '${Package}|${Pre-Depends},${Depends}\n' | awk -F'|' -v wanted="$*" '
    { package = $1; sub(/^[^|]*\|/, ""); gsub(/\([^)]*\)|:[a-z0-9]+/, ""); gsub(/[,|]/, " "); needs[package] = needs[package] " " $0 }
    END {
      count = split(wanted, queue, " ")
      for (i = 1; i <= count; ++i) {
        if (seen[queue[i]]++) continue
        print queue[i]
        n = split(needs[queue[i]], more, " ")
        for (j = 1; j <= n; ++j) queue[++count] = more[j]
      }
    }'
}

# libcurl is opened by the first download: no library of the program names it.
answer=$(sed -n '/ AS compiled$/,/^FROM \${PROGRAM}$/p' "$deploy/Dockerfile" | grep -c libcurl4)
[ "$answer" -eq 2 ] || fail 'libcurl4 is in both kinds of image'

# Libraries of the program are in the packages of the second stage. Only where this program was built on that Debian.
if [ "$(. /etc/os-release 2>/dev/null && echo "$ID $VERSION_ID")" = 'debian 12' ] && have dpkg-query dpkg; then
  # shellcheck disable=SC2046  # a list of words
  there=$(with_needs $(printf '%s\n' "$final" | sed -n '/--no-install-recommends/,/rm -rf/p' | sed '1d; $d; s/&&//' | words))
  for library in $(ldd "$kvasir" | sed -n 's|.* => \(/[^ ]*\) .*|\1|p'); do
    package=$(dpkg-query -S "$(realpath "$library")" 2>/dev/null || dpkg-query -S "*/$(basename "$(realpath "$library")")" 2>/dev/null)
    # Packages of cross compilers bring libraries of the same name: that of this architecture counts.
    native=$(printf '%s\n' "$package" | grep ":$(dpkg --print-architecture): " | head -1)
    package=$(printf '%s\n' "${native:-$package}" | head -1 | cut -d: -f1)
    answer="$library ($package)"
    # Always there; cairo: only when built with it; sanitizers: the Dockerfile builds without.
    case $package in libc6* | libgcc-s1 | libcairo2 | libasan* | libubsan* | libtsan* | '') continue ;; esac
    printf '%s\n' "$there" | grep -qx -- "$package" ||
      ldd "$(ldd "$kvasir" | sed -n 's|.*libcairo.* => \(/[^ ]*\) .*|\1|p')" 2>/dev/null | grep -q "$(basename "$library")" ||
      fail 'a library of the program is in no package of the Dockerfile'
  done
fi

# --- Redis over TLS -------------------------------------------------------------------------------------------------

if have stunnel4 stunnel4 && have redis-server redis-server && have openssl openssl && have curl curl; then
  start_redis tls_redis
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj '/CN=redis.example.net' \
    -addext 'subjectAltName=DNS:redis.example.net' -keyout "$scratch/key.pem" -out "$scratch/cert.pem" 2>/dev/null
  chmod 600 "$scratch/key.pem"
  tls_port=$(some_port)
  printf 'foreground = yes\npid =\nsyslog = no\n[redis]\naccept = 127.0.0.1:%s\nconnect = 127.0.0.1:%s\ncert = %s\nkey = %s\n' \
    "$tls_port" "$redis_port" "$scratch/cert.pem" "$scratch/key.pem" >"$scratch/server.conf"
  tunnel() { # NAME CERTIFICATE: the sidecar; its port in $local_port
    local_port=$(some_port)
    sed "s/127.0.0.1:6380/127.0.0.1:$local_port/; s/redis.example.net:6379/127.0.0.1:$tls_port/; s|/etc/ssl/certs/ca-certificates.crt|$2|" \
      "$deploy/stunnel-redis.conf" >"$scratch/$1.conf"
    stunnel4 "$scratch/$1.conf" >"$scratch/$1.log" 2>&1 &
    pids="$pids $!"
    wait_for 10 grep -q 'Configuration successful' "$scratch/$1.log" || { answer=$(cat "$scratch/$1.log"); give_up "stunnel $1"; }
  }
  stunnel4 "$scratch/server.conf" >"$scratch/server.log" 2>&1 &
  pids="$pids $!"
  tunnel sidecar "$scratch/cert.pem"
  wait_for 10 redis-cli -p "$local_port" ping || { answer=$(cat "$scratch/sidecar.log" "$scratch/server.log"); fail 'Redis through stunnel'; }
  completion='{"prompt":"It was a dark and stormy night, and the wind","max_tokens":8,"temperature":0}'
  start_kvasir tls_one --tier "redis:127.0.0.1:$local_port"
  post "$url/v1/completions" "$completion"
  first=$(text)
  wait_for 10 sh -c "redis-cli -p $redis_port dbsize | grep -qv '^0'" || fail 'nothing is written through stunnel'
  stop_kvasir $server
  start_kvasir tls_two --tier "redis:127.0.0.1:$local_port"
  post "$url/v1/completions" "$completion"
  expect 'pages come through stunnel' '"source":"redis"'
  same 'through stunnel' "$first" "$(text)"
  stop_kvasir $server
  # A server that cannot prove its name is no server.
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj '/CN=redis.example.net' -keyout "$scratch/other.key" \
    -out "$scratch/other.pem" 2>/dev/null
  tunnel stranger "$scratch/other.pem"
  answer=$(redis-cli -p "$local_port" ping 2>&1)
  [ "$answer" = PONG ] && fail 'stunnel lets a stranger pose as the Redis server'
fi

if [ $failures -gt 0 ]; then exit 1; fi
if [ -n "$missing" ]; then
  echo "SKIPPED in part: not installed are$missing (all else is as expected)"
  exit 77
fi
echo 'deploy: all as expected'
