#!/bin/sh
# g++ 12.2.0-14 of Debian 12 on x86-64, with --sysroot=FOLDER and the C library of Debian 11 (glibc 2.31) in FOLDER.
# Guess: the program is linked against the glibc in FOLDER, and runs with glibc 2.31.
# Seen: it is linked against the glibc of the machine, whose folder the compiler finds from its own place, and asks for
# GLIBC_2.34. Nothing is said. With -B and -L of the folder besides it asks for nothing later than 2.31.
set -eu
[ "$(. /etc/os-release; echo "$ID $VERSION_ID")" = 'debian 12' ] || { echo "SKIPPED: needs Debian 12"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/lists/partial" "$dir/archives/partial" "$dir/root"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bullseye main" >"$dir/sources.list"
apt11() {
  apt-get -qq -o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$dir/lists" \
    -o Dir::State::status=/dev/null -o Dir::Cache="$dir" -o APT::Sandbox::User="$(id -un)" "$@"
}
cd "$dir"
apt11 update
apt11 download libc6=2.31-13+deb11u11 libc6-dev=2.31-13+deb11u11 libgcc-s1=10.2.1-6 >/dev/null
for package in *.deb; do dpkg-deb -x "$package" root; done
ln -sf ../lib/x86_64-linux-gnu/ld-2.31.so root/lib64/ld-linux-x86-64.so.2
cat >a.cpp <<'END'
#include <dlfcn.h>
#include <cstdio>
int main() { std::printf("%p\n", dlopen("none", RTLD_NOW)); }
END
newest() { readelf -V "$1" | grep -o 'GLIBC_[0-9.]*' | sort -V | tail -n 1; }
g++ -c a.cpp
g++ --sysroot="$dir/root" a.o -o plain
lib=$dir/root/usr/lib/x86_64-linux-gnu
g++ --sysroot="$dir/root" -B"$lib" -L"$lib" -L"$dir/root/lib/x86_64-linux-gnu" a.o -l:libdl.so.2 -o forced
echo "$(g++ --version | head -n 1): --sysroot $(newest plain), with -B and -L $(newest forced)"
[ "$(newest plain)" = GLIBC_2.34 ] || { echo "CHANGED: expected GLIBC_2.34"; exit 1; }
[ "$(printf '%s\nGLIBC_2.31\n' "$(newest forced)" | sort -V | tail -n 1)" = GLIBC_2.31 ] || { echo "CHANGED: expected at most 2.31"; exit 1; }
