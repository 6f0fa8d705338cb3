#!/bin/sh
# Greedy answers with every drafter are those without, in every class of layers, with and without reuse; in short, what
# bench/drafting/identity.sh does with 1,000 tokens of 20 prompts.
# usage: drafts_test.sh SOURCE-DIR BUILD-DIR
set -u
rows=$(sh "$1/bench/drafting/identity.sh" -n 60 -p 2 -k balanced "$2/kvasir") || { echo "FAILED: $rows"; exit 1; }
# None, lookup, store and model for each of the seven shapes, mtp for three of them; with reuse and without.
count=$(printf '%s\n' "$rows" | grep -c ', equal$')
[ "$count" -eq 62 ] || { echo "FAILED: $count rows are equal, expected 62"; printf '%s\n' "$rows"; exit 1; }
for class in full windowed recurrent latent shared full+mtp recurrent+mtp; do
  printf '%s\n' "$rows" | grep -q "^$class .*\(lookup\|store\|model\|mtp\)" || { echo "FAILED: no row of $class"; exit 1; }
done
