#!/bin/sh
# kvasir pull, ls and -m hf:... with a hub on this machine: whole, stopped, damaged and refused downloads.
# usage: pull_test.sh SOURCE-DIR BUILD-DIR
set -u
source_dir=$1
kvasir=$2/kvasir
command -v python3 >/dev/null || { echo "SKIPPED: python3 is not installed"; exit 77; }
scratch=$(mktemp -d) || exit 1
trap 'exec 9>&-; rm -rf "$scratch"' EXIT
failures=0
unset HF_TOKEN
export HF_HOME="$scratch/none" KVASIR_MODELS="$scratch/models" no_proxy='*'

fail() {
  echo "FAILED: $1"
  printf '%s\n' "$answer" | sed 's/^/  /' | head -20
  failures=$((failures + 1))
}
ask() { # STATUS NAME ARGUMENTS...: the program's answer and its status
  wanted=$1 name=$2
  shift 2
  answer=$("$kvasir" "$@" 2>&1 </dev/null)
  status=$?
  [ $status -eq "$wanted" ] || fail "$name: status $status, expected $wanted"
}
expect() { printf '%s' "$answer" | grep -q -- "$2" || fail "$1: expected $2"; }

export HF_ENDPOINT=http://127.0.0.1:9
ask 2 'a name' pull owner/repo
expect 'a name' 'expected hf:OWNER/REPO'
ask 0 'no models' ls
expect 'no models' "no models in $scratch/models"
if ! grep -q '^KVASIR_CURL:BOOL=ON' "$2/CMakeCache.txt" || ! grep -q '^KVASIR_CURL_INCLUDE:PATH=/' "$2/CMakeCache.txt"; then
  ask 1 'without libcurl' pull hf:owner/repo
  expect 'without libcurl' 'this build cannot download: install libcurl4-openssl-dev'
  [ $failures -eq 0 ] && echo "pull: not in this build, which says so"
  exit $failures
fi
# A system without the library: files that are none stand in front of it.
mkdir "$scratch/bad"
touch "$scratch/bad/libcurl.so.4" "$scratch/bad/libcurl-gnutls.so.4"
answer=$(LD_LIBRARY_PATH="$scratch/bad" "$kvasir" pull hf:owner/repo 2>&1)
expect 'no libcurl' 'owner/repo/tree/main[^ ]*: downloads need libcurl.so.4: install libcurl4'
ask 1 'no hub' pull hf:owner/repo
expect 'no hub' '^kvasir: hf:owner/repo: .*127.0.0.1'

# The books model under several owners, who behave differently; a large file for what takes time.
for owner in good broken whole lying closed out paged astray; do
  mkdir -p "$scratch/hub/$owner/repo"
  cp "$source_dir/models/kvasir-books-4m.gguf" "$scratch/hub/$owner/repo/books-Q4_K_M.gguf"
done
printf 'x' >"$scratch/hub/good/repo/books-Q8_0.gguf"
printf 'one' >"$scratch/hub/good/repo/big-F16-00001-of-00002.gguf"
printf 'two' >"$scratch/hub/good/repo/big-F16-00002-of-00002.gguf"
mkfifo "$scratch/end"
python3 "$source_dir/tests/hub_server.py" "$scratch/hub" "$scratch/log" <"$scratch/end" >"$scratch/address" &
exec 9>"$scratch/end"
tries=0
until [ -s "$scratch/address" ]; do
  tries=$((tries + 1))
  [ $tries -le 100 ] || { echo "FAILED: the hub does not start"; exit 1; }
  sleep 0.1
done
HF_ENDPOINT=$(cat "$scratch/address")

ask 0 'pull' pull hf:good/repo
expect 'pull prints the path' "^$scratch/models/good/repo/books-Q4_K_M.gguf\$"
cmp -s "$scratch/models/good/repo/books-Q4_K_M.gguf" "$source_dir/models/kvasir-books-4m.gguf" || fail 'the file is another one'
ask 0 'parts' pull hf:good/repo:f16
[ "$(cat "$scratch/models/good/repo/"big-F16-0000?-of-00002.gguf)" = onetwo ] || fail 'the parts are not there'
ask 2 'no such quant' pull hf:good/repo:Q5_K_M
expect 'no such quant' 'hf:good/repo:Q5_K_M: is not there; there is F16, Q4_K_M, Q8_0'
ask 2 'no such repository' pull hf:good/none
expect 'no such repository' 'hf:good/none: is not there (404)'

# A list in pages: the file is on the last one.
for n in 1 2 3; do printf 'x' >"$scratch/hub/paged/repo/a$n-Q8_0.txt"; done
ask 0 'pages' pull hf:paged/repo
cmp -s "$scratch/models/paged/repo/books-Q4_K_M.gguf" "$source_dir/models/kvasir-books-4m.gguf" || fail 'pages: another file'
answer=$(grep -c '^hub /api/models/paged' "$scratch/log")
expect 'pages' '^4$'
ask 2 'pages elsewhere' pull hf:astray/repo
expect 'pages elsewhere' 'names a next page at another place'

# It goes on where it ended.
ask 0 'a connection that ends' pull hf:broken/repo
cmp -s "$scratch/models/broken/repo/books-Q4_K_M.gguf" "$source_dir/models/kvasir-books-4m.gguf" || fail 'resumed: another file'
size=$(wc -c <"$source_dir/models/kvasir-books-4m.gguf")
answer=$(cat "$scratch/log")
expect 'the second request asks for the rest' "^cdn /broken/repo/books-Q4_K_M.gguf range=bytes=$((size / 2))-"
hash=$(sha256sum "$source_dir/models/kvasir-books-4m.gguf" | cut -c 1-12)
mkdir -p "$scratch/models/whole/repo"
head -c 1000 "$source_dir/models/kvasir-books-4m.gguf" >"$scratch/models/whole/repo/books-Q4_K_M.gguf.$hash.part"
ask 0 'a part that is not whole' ls
expect 'a part that is not whole' '^hf:whole/repo:Q4_K_M .* not whole'
ask 0 'a server without ranges' pull hf:whole/repo
cmp -s "$scratch/models/whole/repo/books-Q4_K_M.gguf" "$source_dir/models/kvasir-books-4m.gguf" || fail 'without ranges: another file'

# What is not what it should be does not stay.
ask 1 'another hash' pull hf:lying/repo
expect 'another hash' 'has the SHA-256 [0-9a-f]*, expected 0000'
[ -z "$(find "$scratch/models/lying" -type f)" ] || fail 'a file with another hash stays'
ask 1 'a redirection to a file' pull hf:out/repo
[ ! -e "$scratch/models/out/repo/books-Q4_K_M.gguf" ] || fail 'a file of this machine was taken'

# Tokens go to the hub and nowhere else.
ask 2 'no token' pull hf:closed/repo
expect 'no token' 'hf:closed/repo: the server answered 401.*HF_TOKEN'
answer=$(HF_TOKEN=secret "$kvasir" pull hf:closed/repo 2>&1) || fail 'with a token'
answer=$(grep 'secret' "$scratch/log")
expect 'the hub gets the token' '^hub /api/models/closed/repo'
printf '%s' "$answer" | grep -q '^cdn' && fail 'another server gets the token'

# A model that is here needs no hub; one that is not is downloaded.
ask 0 'ls' ls --json
expect 'ls' '"name":"hf:good/repo:Q4_K_M","bytes":'"$size"',"whole":true'
rm -r "$scratch/models/broken"
ask 0 '-m hf:' run -m hf:broken/repo -p 'The sea' -n 2 --seed 1 --no-figures
expect '-m hf:' 'hf:broken/repo is not here yet'
# Whatever takes a model takes such a name.
model=hf:broken/repo:q4_k_m
HF_ENDPOINT=http://127.0.0.1:9
printf 'The sea was calm.\n' >"$scratch/text"
ask 0 'bench' bench -m $model --prefill 8 --decode 2 --runs 1
ask 0 'eval answers' eval answers "$scratch/text" -m $model -n 2 --ctx 128 --kv f16
ask 0 'inspect' inspect $model
ask 0 'tokenize' tokenize -m $model --file "$scratch/text" --count
ask 0 'logits' logits -m $model --tokens 1,2
ask 0 'quantize' quantize $model "$scratch/q.gguf" --type q8_0
ask 2 'a name that is none' tokenize -m hf:broken --file "$scratch/text"
ask 0 'offline' run -m hf:broken/repo:q4_k_m -p 'The sea' -n 2 --seed 1 --no-figures
expect 'offline' '^The sea'

[ $failures -eq 0 ] && echo "pull: all as expected"
exit $failures
