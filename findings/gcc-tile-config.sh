#!/bin/sh
# g++ 12.2.0-14 of Debian 12 on x86-64: _tile_loadconfig of <immintrin.h> (AMX) on a local configuration of 64 bytes.
# Guess: what was stored into the configuration is in memory when the instruction reads it.
# Seen: with -O2 only its first 8 bytes are. Rows and row bytes of the tiles are dropped without a word, because the
# intrinsic names a pointer's width as its operand; the processor then ends the program at the first tile. A barrier for
# the compiler before the intrinsic brings the stores back.
set -eu
[ "$(. /etc/os-release; echo "$ID $VERSION_ID")" = 'debian 12' ] || { echo "SKIPPED: needs Debian 12"; exit 77; }
[ "$(uname -m)" = x86_64 ] || { echo "SKIPPED: needs x86-64"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/a.cpp" <<'END'
#include <immintrin.h>
struct alignas(64) Shapes {
  unsigned char palette, first_row, unused[14];
  unsigned short row_bytes[16];
  unsigned char rows[16];
};
void configure() {
  Shapes shapes = {1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
#ifdef BARRIER
  asm volatile("" ::"r"(&shapes) : "memory");
#endif
  _tile_loadconfig(&shapes);
}
END
# Eight bytes of 16: the rows of the tiles.
rows() { g++ -O2 -mamx-tile "$@" -S -o - "$dir/a.cpp" | grep -c -e 1157442765409226768 -e 269488144 || true; }
plain=$(rows) barrier=$(rows -DBARRIER)
echo "$(g++ --version | head -n 1): stores of rows: $plain, with a barrier $barrier"
[ "$plain" = 0 ] || { echo "CHANGED: expected no store of rows without a barrier"; exit 1; }
[ "$barrier" != 0 ] || { echo "CHANGED: expected stores of rows with a barrier"; exit 1; }
