#!/bin/sh
# The web page in Chromium, by keyboard alone.
# usage: page_test.sh SOURCE-DIR BUILD-DIR [SCREENSHOT]
set -u
source_dir=$1
build_dir=$2
. "$source_dir/tests/clients.sh"
[ -f "$source_dir/build/web/app.js.gz" ] || skip "built without the page (./dev builds it when npm is there)"
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip "Chromium is not installed"
install_node_packages page
run_client "the page" node "$installed/page_test.mjs" "$kvasir" "$model" "$scratch" "$chromium" ${3:+"$3"}
