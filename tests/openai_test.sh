#!/bin/sh
# kvasir serve, asked by the official `openai` package for Node.js; its version is the one of package-lock.json.
# usage: openai_test.sh SOURCE-DIR BUILD-DIR
set -u
source_dir=$1
kvasir=$2/kvasir
client=$source_dir/tests/clients/openai
installed=$2/clients/openai
skip() { echo "SKIPPED: $1"; exit 77; }

"$kvasir" serve --help >/dev/null 2>&1 || skip "built without the server"
command -v node >/dev/null || skip "node (Debian package nodejs) is not installed"
major=$(node -p 'process.versions.node.split(".")[0]') || skip "node does not run"
[ "$major" -ge 18 ] || skip "node is version $major, the package needs 18"

# Installed once per version; after that no network is needed.
mkdir -p "$installed"
if ! cmp -s "$client/package-lock.json" "$installed/installed.json"; then
  command -v npm >/dev/null || skip "npm is not installed"
  cp "$client/package.json" "$client/package-lock.json" "$installed/"
  if ! (cd "$installed" && npm ci --ignore-scripts --no-audit --no-fund --fetch-timeout=60000 --fetch-retries=1) \
      >"$installed/npm.log" 2>&1; then
    cat "$installed/npm.log"
    # Only a registry that cannot be reached is a reason to skip: a wrong lock file or checksum is a failure.
    grep -qE 'ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED|ERR_SOCKET_TIMEOUT' \
      "$installed/npm.log" && skip "the npm registry cannot be reached"
    echo "FAILED: npm cannot install the package"
    exit 1
  fi
  cp "$client/package-lock.json" "$installed/installed.json"
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Modules are looked for beside the file that asks for them.
cp "$client"/*.mjs "$installed/"
if node "$installed/client_test.mjs" "$kvasir" "$source_dir/models/kvasir-books-4m.gguf" "$scratch" >"$scratch/log" 2>&1; then
  grep -E '^(# |ℹ )(tests|pass|fail) ' "$scratch/log"
  echo "openai: all as expected"
else
  cat "$scratch/log"
  echo "FAILED: the openai package"
  exit 1
fi
