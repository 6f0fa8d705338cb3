#!/bin/sh
# Whether greedy answers with drafts are those without: models of every class of layers, made here, with presets, with
# every drafter, with and without reuse. Prints a line for each choice, and fails if an answer differs.
#
#     bench/drafting/identity.sh [-n TOKENS] [-p PROMPTS] [-t THREADS] [-k "PRESETS"] KVASIR
#
# KVASIR is the program. By default 1,000 tokens of 20 prompts, with the presets exact, balanced and kivi2.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tokens=1000 prompts=20 threads=1 presets="exact balanced kivi2"
while getopts n:p:t:k: option; do
  case $option in
    n) tokens=$OPTARG ;;
    p) prompts=$OPTARG ;;
    t) threads=$OPTARG ;;
    k) presets=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -eq 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
kvasir=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
head -n "$prompts" "$here/books.txt" > "$folder/prompts.txt"
failed=0
# Shape, and the class of its layers.
while read -r shape class; do
  model=$folder/$shape.gguf
  "$kvasir" synth --shape "$shape" --quant q8_0 "$model" > "$folder/synth.log" 2>&1 || { cat "$folder/synth.log" >&2; exit 1; }
  mtp=
  case $shape in tiny-mtp*) mtp="--draft mtp" ;; esac
  for preset in $presets; do
    kv=$preset
    # Presets that store no heads of such a size.
    case $shape:$preset in tiny-mtp-latent:balanced) kv=f16 ;; esac
    for reuse in "" --reuse; do
      # Unlikely guesses are computed, too, so that many are cut off. $mtp and $reuse are words or nothing.
      # shellcheck disable=SC2086
      if ! "$kvasir" bench draft -m "$model" -t "$threads" --ctx 2048 --kv "$kv" -n "$tokens" --draft-always --draft-tokens 4 \
        --draft lookup --draft store --draft "model:$model" $mtp $reuse --json -f "$folder/prompts.txt" > "$folder/rows" 2> "$folder/log"; then
        failed=1
        cat "$folder/log" >&2
      fi
      awk -v class="$class" -v kv="$kv" -v reuse="${reuse:-alone}" '
        function field(name) { match($0, "\"" name "\": *[^,}]*"); v = substr($0, RSTART, RLENGTH); sub(/^[^:]*: */, "", v); return v }
        { draft = field("draft"); sub(/:.*\//, ":", draft); gsub(/"/, "", draft)
          printf "%-10s %-9s %-8s %-24s %7s tokens, %5.2f per step, %s\n", class, kv, reuse, draft, field("tokens"),
                 draft == "none" ? 1 : field("tokens_per_step"), field("different_answers") == 0 ? "equal" : "DIFFERENT" }' "$folder/rows"
    done
  done
done <<'SHAPES'
tiny full
tiny-local windowed
tiny-states recurrent
tiny-mtp-latent latent
tiny-shared shared
tiny-mtp full+mtp
tiny-mtp-states recurrent+mtp
SHAPES
exit $failed
