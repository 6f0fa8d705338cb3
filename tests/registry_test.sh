#!/bin/sh
# Law 3: an entry is one new file and no edit elsewhere. In a copy of the tree a skeleton entry is put into every registry
# that has entries; the copy is configured, and what the build generates for its registries must list the new names.
# To stay cheap only the skeletons and the generated files are compiled (target registry_probe); names whose entries were
# not linked are not listed.
# usage: registry_test.sh SOURCE-DIR BUILD-DIR
set -u
source_dir=$1
build_dir=$2
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
tree=$scratch/tree
failed=0

mkdir -p "$tree"
cd "$source_dir" || exit 1
tar -cf - CMakeLists.txt cmake src tests fuzz | tar -xf - -C "$tree" || exit 1

folders=$(sed -n 's/^kvasir_registry(FOLDER \([a-z_/]*\) .*/\1/p' CMakeLists.txt)
[ -n "$folders" ] || { echo "no kvasir_registry lines in CMakeLists.txt"; exit 1; }
expected=""
for folder in $folders; do
  ls "src/$folder"/*.cpp >/dev/null 2>&1 || continue
  if [ ! -f "tests/skeletons/$folder/skeleton.cpp" ]; then
    echo "FAILED: registry $folder has no tests/skeletons/$folder/skeleton.cpp"
    failed=1
    continue
  fi
  cp "tests/skeletons/$folder/skeleton.cpp" "$tree/src/$folder/skeleton.cpp"
  expected="$expected$folder skeleton
"
done
[ -n "$expected" ] || { echo "FAILED: no registry has entries"; exit 1; }

edited=$(diff -rq src "$tree/src" | grep -v "^Only in $tree/src/.*: skeleton.cpp$")
[ -z "$edited" ] || { echo "FAILED: the copy differs in more than the skeletons: $edited"; failed=1; }

# The compiler of the build that runs this test, so that a clang build tests clang.
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build_dir/CMakeCache.txt" 2>/dev/null)
cmake -S "$tree" -B "$scratch/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS=-g0 -DKVASIR_WERROR=ON -DKVASIR_ONLY_ENTRY=skeleton \
  ${compiler:+-DCMAKE_CXX_COMPILER="$compiler"} >"$scratch/log" 2>&1 &&
  cmake --build "$scratch/build" --target registry_probe >>"$scratch/log" 2>&1 ||
  { tail -n 60 "$scratch/log"; echo "FAILED: the tree with the skeletons does not build"; exit 1; }

# The architecture among them also runs, beside a reference: it is linked with the library of the build that is tested.
if [ -f "$build_dir/libkvasir.a" ] || [ -f "$build_dir/libkvasir.so" ]; then
  sanitize=$(sed -n 's/^KVASIR_SANITIZE:[A-Z]*=//p' "$build_dir/CMakeCache.txt")
  cmake -S "$tree" -B "$scratch/build" -DKVASIR_BUILT="$build_dir" -DKVASIR_SANITIZE="$sanitize" >"$scratch/log" 2>&1 &&
    cmake --build "$scratch/build" --target arch_probe >>"$scratch/log" 2>&1 ||
    { tail -n 60 "$scratch/log"; echo "FAILED: the skeleton of an architecture does not build"; exit 1; }
  "$scratch/build/arch_probe" "$scratch" || { echo "FAILED: logits of the skeleton of an architecture"; failed=1; }
fi

found=$("$scratch/build/registry_probe") || { echo "FAILED: registry_probe"; exit 1; }
if [ "$found" != "$(printf '%s' "$expected")" ]; then
  printf 'FAILED: expected\n%s\nfound\n%s\n' "$expected" "$found"
  failed=1
fi
# The weight type and the model format also work: products and values.
mkdir "$scratch/model"
cmake --build "$scratch/build" --target registry_weights >"$scratch/log" 2>&1 || { tail -n 60 "$scratch/log"; failed=1; }
"$scratch/build/registry_weights" "$scratch/model" || { echo "FAILED: registry_weights"; failed=1; }

[ $failed -eq 0 ] && printf 'one new file each, nothing else edited:\n%s\n' "$found"
exit $failed
