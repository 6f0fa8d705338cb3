# What ./dev package made, tried where nothing of this machine is: the archive and the wheel in a bare Debian 11, the .deb
# there and in Debian 13. Each has to give the tokens that the program gives here. Needs root and debootstrap; the systems
# are made once, in FOLDER.
# usage: package_check.sh FOLDER MODEL ARCHIVE DEB WHEEL
set -eu
folder=$1 model=$2 archive=$3 deb=$4 wheel=$5
source=$(cd "$(dirname "$0")/.." && pwd)
prompt="The old man went down to the river"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
mounted=""
leave() { for mount in $mounted; do umount "$mount"; done; }
trap leave EXIT

fail() { echo "FAILED: $*"; exit 1; }

# --- what the files ask of a system ---------------------------------------------------------------------------------

rm -rf "$folder/here"
mkdir -p "$folder/here"
tar -xzf "$archive" -C "$folder/here" --strip-components=1
program=$(find "$folder/here" -path '*bin/kvasir')
library=$(find "$folder/here" -name 'libkvasir.so.*.*')
for file in "$program" "$library"; do
  needed=$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
  for name in $needed; do
    case $name in
      libc.so.6 | libm.so.6 | libpthread.so.0 | libdl.so.2 | librt.so.1 | libgcc_s.so.1 | ld-linux-x86-64.so.2) ;;
      *) fail "$file needs $name" ;;
    esac
  done
  newest=$(readelf -V "$file" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
  [ "$(printf '%s\n' "$newest" GLIBC_2.31 | sort -V | tail -n 1)" = GLIBC_2.31 ] || fail "$file needs $newest"
  echo "$(basename "$file"): $(stat -c %s "$file") bytes, $newest, $(echo "$needed" | tr '\n' ' ')"
done
expected=$("$program" run -m "$model" -p "$prompt" -n 24 --seed 7 2>/dev/null) || fail "the program does not run here"
[ -n "$expected" ] || fail "the program says nothing here"

# --- in bare systems ------------------------------------------------------------------------------------------------

system() { # SUITE: the root of a bare system; what earlier checks left there is gone
  root=$folder/$1
  if [ ! -e "$root.made" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase "$1" "$root" http://deb.debian.org/debian >"$folder/$1.log" 2>&1 ||
      { tail -n 5 "$folder/$1.log"; fail "debootstrap $1"; }
    : >"$root.made"
  fi
  rm -rf "$root/kvasir"
  mkdir "$root/kvasir"
  cp "$model" "$root/kvasir/model.gguf"
  if ! mountpoint -q "$root/proc"; then
    mount -t proc proc "$root/proc"
    mounted="$mounted $root/proc"
  fi
}

inside() { chroot "$root" env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }

# The same tokens, a cache that a second process finds, and a server that answers.
try() { # WHAT PROGRAM
  said=$(inside "$2" run -m /kvasir/model.gguf -p "$prompt" -n 24 --seed 7 2>/dev/null) || fail "$1: run"
  [ "$said" = "$expected" ] || fail "$1 says '$said', expected '$expected'"
  rm -rf "$root/kvasir/cache"
  for turn in 1 2; do
    inside "$2" run -m /kvasir/model.gguf -f /kvasir/prompt -n 4 --seed 7 --cache-dir /kvasir/cache --json >"$folder/turn" 2>/dev/null ||
      fail "$1: --cache-dir"
  done
  reused=$(sed -n 's/.*"reused_tokens":\([0-9]*\).*/\1/p' "$folder/turn")
  [ "${reused:-0}" -gt 0 ] || fail "$1: the second process reused nothing"
  inside bash -c '
    "$0" serve -m /kvasir/model.gguf --port 0 >/kvasir/log 2>&1 &
    for i in $(seq 100); do port=$(sed -n "s|.*http://127.0.0.1:\([0-9]*\).*|\1|p" /kvasir/log | head -n 1); [ -n "$port" ] && break; sleep 0.1; done
    [ -n "$port" ] || { cat /kvasir/log; exit 1; }
    body="{\"prompt\": \"The\", \"max_tokens\": 4}"
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf "POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %s\r\n\r\n%s" "${#body}" "$body" >&3
    answer=$(cat <&3)
    kill %1; wait
    [[ $answer == *" 200 "*completion_tokens* ]] || { echo "$answer"; exit 1; }' "$2" || fail "$1: serve"
  echo "$1: the tokens of here, $reused tokens from the cache of another process, a server that answers"
}

prepare() { head -c 4000 "$source/TOUR.md" >"$root/kvasir/prompt"; }

system bullseye
prepare
tar -xzf "$archive" -C "$root/kvasir"
try "archive in Debian 11" "$(cd "$root" && find kvasir -path '*bin/kvasir' | sed 's|^|/|')"

for suite in bullseye trixie; do
  system $suite
  prepare
  cp "$deb" "$root/kvasir/kvasir.deb"
  { inside apt-get update -q && inside apt-get install -y -q --no-install-recommends /kvasir/kvasir.deb; } >"$folder/apt.log" 2>&1 ||
    { tail -n 5 "$folder/apt.log"; fail "the .deb in $suite"; }
  try ".deb in $suite" /usr/bin/kvasir
  inside dpkg --purge kvasir >/dev/null 2>&1
done

system bullseye
prepare
{ inside apt-get update -q && inside apt-get install -y -q --no-install-recommends python3-venv; } >"$folder/apt.log" 2>&1 || fail "python3-venv"
mkdir -p "$root/kvasir/source/models" "$root/kvasir/source/python"
cp -r "$source/python/tests" "$root/kvasir/source/python/"
cp "$model" "$root/kvasir/source/models/kvasir-books-4m.gguf"
cp "$source/tests/wheel_check.sh" "$wheel" "$root/kvasir/"
inside sh /kvasir/wheel_check.sh "/kvasir/$(basename "$wheel")" /kvasir/source /kvasir/check >"$folder/wheel.log" 2>&1 ||
  { tail -n 20 "$folder/wheel.log"; fail "the wheel in Debian 11"; }
try "wheel in Debian 11" /kvasir/check/venv/bin/kvasir
echo "the packages work"
