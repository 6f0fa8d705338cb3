# The library as it is installed: examples are built against it by pkg-config and by find_package, in C++ and in C, and
# say what the command line says; nothing but the public API is exported.
# usage: install_test.sh SOURCE-DIR BUILD-DIR
set -eu
source=$1
build=$2
[ -e "$build/api/libkvasir.so" ] || { echo "SKIPPED: this build makes no libkvasir.so"; exit 77; }
command -v pkg-config >/dev/null || { echo "SKIPPED: pkg-config is missing"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cmake --install "$build" --prefix "$dir/usr" --component api >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
lib=$(dirname "$(find "$dir/usr" -name libkvasir.so)")
model=$source/models/kvasir-books-4m.gguf

echo "exported symbols"
nm -D --defined-only --demangle "$lib/libkvasir.so" | awk '{ $1 = ""; print }' >"$dir/symbols"
if grep -v -E ' (kvasir_[a-z_]+|kvasir::(detail::option_text|kv_codecs|attend\(float|(Engine|Session|Kivi|KvCache|KvCodec|KvWorkers|PackedKv)::).*|KVASIR_0\.1)(@.*)?$' "$dir/symbols"; then
  echo "these are not of the public API"
  exit 1
fi
[ "$(grep -c kvasir_ "$dir/symbols")" -ge 40 ]

export PKG_CONFIG_PATH="$lib/pkgconfig" LD_LIBRARY_PATH="$lib"
echo "pkg-config $(pkg-config --modversion kvasir)"
c++ -std=c++20 "$source/examples/generate.cpp" -DKVASIR_EXAMPLE_MODEL="\"$model\"" $(pkg-config --cflags --libs kvasir) -o "$dir/cpp"
cc -std=c99 -pedantic "$source/examples/generate.c" -DKVASIR_EXAMPLE_MODEL="\"$model\"" $(pkg-config --cflags --libs kvasir) -o "$dir/c"

echo "find_package"
mkdir "$dir/project"
cat >"$dir/project/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.25)
project(user CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(Kvasir 0.1 REQUIRED)
add_executable(user ${EXAMPLE})
target_link_libraries(user PRIVATE Kvasir::kvasir)
target_compile_definitions(user PRIVATE KVASIR_EXAMPLE_MODEL="")
EOF
cmake -S "$dir/project" -B "$dir/project/build" -DCMAKE_PREFIX_PATH="$dir/usr" -DEXAMPLE="$source/examples/generate.cpp" >"$dir/log" 2>&1 &&
  cmake --build "$dir/project/build" >>"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }

echo "the same text as the command line's"
LD_LIBRARY_PATH= "$build/kvasir" run -m "$model" -p "It was a dark and stormy night, and" -n 16 --temperature 0 --threads 2 --ctx 1024 --no-figures >"$dir/want"
"$dir/c" --quick | sed '/^finish: /d' >"$dir/got"
want=$(cat "$dir/want")
[ "$(cat "$dir/got")" = "$want" ] || { echo "C: $(cat "$dir/got")"; echo "command line: $want"; exit 1; }
case $("$dir/cpp" --quick) in "$want"*) ;; *) echo "C++ says something else than: $want"; exit 1 ;; esac
case $("$dir/project/build/user" "$model") in "$want"*) ;; *) echo "find_package: another text"; exit 1 ;; esac
"$dir/c" "$dir/none.gguf" 2>"$dir/error" && { echo "a missing model was accepted"; exit 1; }
grep -q none.gguf "$dir/error"
echo "ok"
