# What the tests of clients share; to be sourced behind: source_dir and build_dir are set.
kvasir=$build_dir/kvasir
model=$source_dir/models/kvasir-books-4m.gguf
skip() { echo "SKIPPED: $1"; exit 77; }
"$kvasir" serve --help >/dev/null 2>&1 || skip "built without the server"
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# Installs what tests/clients/NAME/package-lock.json names, once per version: after that no network is needed. Sets
# installed, the folder to run in.
install_node_packages() { # NAME
  client=$source_dir/tests/clients/$1
  installed=$build_dir/clients/$1
  command -v node >/dev/null || skip "node (Debian package nodejs) is not installed"
  major=$(node -p 'process.versions.node.split(".")[0]') || skip "node does not run"
  [ "$major" -ge 18 ] || skip "node is version $major, the packages need 18"
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
      echo "FAILED: npm cannot install the packages of $client"
      exit 1
    fi
    cp "$client/package-lock.json" "$installed/installed.json"
  fi
  # Modules are looked for beside the file that asks for them.
  cp "$source_dir/tests/clients/server.mjs" "$client"/*.mjs "$installed/"
}

# The same of tests/clients/NAME/requirements.txt. Sets python, the interpreter to run with.
install_python_packages() { # NAME
  client=$source_dir/tests/clients/$1
  installed=$build_dir/clients/$1
  python=$installed/bin/python
  command -v python3 >/dev/null || skip "python3 is not installed"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "python3 is older than 3.10"
  cmp -s "$client/requirements.txt" "$installed/installed.txt" && return
  rm -rf "$installed"
  mkdir -p "$build_dir/clients"
  python3 -m venv "$installed" >/dev/null 2>&1 || skip "python3 cannot make an environment (Debian package python3-venv)"
  if ! "$python" -m pip install --disable-pip-version-check --quiet --retries 1 --timeout 60 \
      -r "$client/requirements.txt" >"$installed/pip.log" 2>&1; then
    cat "$installed/pip.log"
    grep -qE 'NewConnectionError|ConnectTimeout|ReadTimeout|Name or service not known|Temporary failure|Connection refused|ProxyError' \
      "$installed/pip.log" && skip "the Python package index cannot be reached"
    echo "FAILED: pip cannot install the packages of $client"
    exit 1
  fi
  cp "$client/requirements.txt" "$installed/installed.txt"
}

# Runs a test and shows what it says only when it fails.
run_client() { # WHAT COMMAND...
  what=$1
  shift
  if "$@" >"$scratch/log" 2>&1; then
    grep -E '^((# |ℹ )(tests|pass|fail)|Ran) ' "$scratch/log"
    echo "$what: all as expected"
  else
    cat "$scratch/log"
    echo "FAILED: $what"
    exit 1
  fi
}
