#!/bin/sh
# The short version of bench/drafting/identity.sh: every class of layers, with and without reuse.
set -eu
"$1/bench/drafting/identity.sh" -n 60 -p 2 -k balanced "$2/kvasir" > "$2/draft_identity.txt" || { cat "$2/draft_identity.txt"; exit 1; }
lines=$(grep -c equal "$2/draft_identity.txt")
[ "$lines" -eq 62 ] || { echo "expected 62 choices, found $lines"; cat "$2/draft_identity.txt"; exit 1; }
