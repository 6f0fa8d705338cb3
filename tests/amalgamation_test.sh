# kvasir.cpp and kvasir.h as a program gets them: written by the tool, compiled alone, with no library but threads,
# and held against libkvasir and the command line: text, ids and the bits of log-probabilities on every instruction set of
# this machine, from C++ and from C; names with external linkage; code of wide vectors outside its instruction set.
# usage: amalgamation_test.sh SOURCE-DIR BUILD-DIR [LEVEL]
#   LEVEL  what the compiler is called with, such as -O2, and timed; without it the build's object, which is not optimized
set -eu
source=$1
build=$2
command -v c++ >/dev/null || { echo "SKIPPED: there is no compiler c++"; exit 77; }
command -v python3 >/dev/null || { echo "SKIPPED: python3 is missing, which runs tools/amalgamate.py"; exit 77; }
cmake --build "$build" --target help | grep -q '^amalgamation:' || { echo "SKIPPED: builds with sanitizers and cross builds make none"; exit 77; }
cmake --build "$build" --target "amalgamation${3:+_files}"
dir=$build/amalgamation/test
rm -rf "$dir"
mkdir -p "$dir"
cd "$dir"
ln -s ../kvasir.cpp ../kvasir.h .
if [ -n "${3:-}" ]; then
  echo "c++ $3 -std=c++20 -c kvasir.cpp"
  python3 - c++ "$3" -std=c++20 -c kvasir.cpp <<'end'
import resource, subprocess, sys, time
begin = time.monotonic()
status = subprocess.run(sys.argv[1:]).returncode
took = time.monotonic() - begin
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"  {took:.0f} s, of a processor {used.ru_utime:.0f} s and {used.ru_stime:.0f} s of its kernel, {used.ru_maxrss / 2**20:.1f} GiB")
sys.exit(status)
end
  caches="balanced small tiny safe exact kivi4 kivi2"
  types="F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K_M Q4_K_M Q5_K_M Q6_K IQ4_NL IQ4_XS"
else
  ln -s ../kvasir.o .
  caches="balanced kivi2"  # code that is not optimized takes 20 times as long
  types="F16 Q8_0 Q4_K_M IQ4_XS"
fi
model=$source/models/kvasir-books-4m.gguf
text="It was a dark and stormy night, and"

sed 's|"kvasir/[a-z_]*\.h\(pp\)\{0,1\}"|"kvasir.h"|' "$source/examples/generate.cpp" >app.cpp
for name in generate reply; do sed 's|"kvasir/kvasir\.h"|"kvasir.h"|' "$source/examples/$name.c" >$name.c; done

c++ -O2 -std=c++20 -DKVASIR_EXAMPLE_MODEL="\"$model\"" app.cpp kvasir.o -pthread -o app
for name in generate reply; do
  cc -O2 -std=c99 -pedantic -Wall -Werror -DKVASIR_EXAMPLE_MODEL="\"$model\"" -c $name.c
  c++ $name.o kvasir.o -pthread -o $name
done

echo "libraries"
if command -v ldd >/dev/null; then
  if ldd ./app | grep -v -E 'linux-vdso|ld-linux|lib(stdc\+\+|m|gcc_s|c|pthread|atomic)\.so'; then
    echo "these are more than the compiler's own and threads"
    exit 1
  fi
fi

echo "names"
nm --defined-only --extern-only --demangle kvasir.o | sed 's/^[0-9a-f]* *//' >names
# Strong ones are the public API's.
if grep -v '^[WVu] ' names | grep -v -E '^[TDBR] (kvasir_[a-z_]+$|kvasir::(detail::option_text|kv_codecs|(engine|request)_options|attend\(float|(Engine|Session|Kivi|KvCache|KvCodec|KvSequence|KvWorkers|PackedKv)::))'; then
  echo "these are not of the public API"
  exit 1
fi
[ "$(grep -c '^T kvasir_' names)" -ge 40 ]
# Weak ones are copies of what the standard library's headers and kvasir.h define. None may be of a copied header, which
# a program may have in another version.
if grep '^[WVu] ' names | grep -E '(^|[^a-z_])(fmt|nlohmann|XXH|anonymous namespace|kvasir::(base|kv|kernel|run|text|model|weights|store|simd|cpu|tensor|unicode|api))(::|[^a-z])'; then
  echo "these are internal and would be shared with other files of a program"
  exit 1
fi

# A weak function may be called by a program on any processor. (objdump takes minutes for what is not optimized.)
if [ -n "${3:-}" ] && [ "$(uname -m)" = x86_64 ] && command -v objdump >/dev/null; then
  nm --defined-only kvasir.o | awk '$2 ~ /^[Wwu]$/ { print $3 }' >weak
  objdump -d --no-show-raw-insn kvasir.o | awk '
    NR == FNR { weak[$1]; next }
    /^[0-9a-f]+ <.*>:$/ { name = $2; gsub(/[<>:]/, "", name); inside = name in weak; ++functions; next }
    inside && /[%{](ymm|zmm|k[1-7][,}])|\tv[a-z0-9]+ .*%xmm/ { print name ": " $0; bad = 1 }
    END { if (functions < 1000) { print "only " functions " functions"; bad = 1 } exit bad }' weak - | head -n 20 >wide
  [ ! -s wide ] || { cat wide; echo "weak functions have instructions that not every processor has"; exit 1; }
fi

echo "the same text as the command line's"
"$build/kvasir" run -m "$model" -p "$text" -n 16 --temperature 0 --threads 2 --ctx 1024 --no-figures >want
want=$(cat want)
./generate --quick | sed '/^finish: /d' >got
[ "$(cat got)" = "$want" ] || { echo "C: $(cat got)"; echo "command line: $want"; exit 1; }
case $(./app --quick) in "$want"*) ;; *) echo "C++ says something else than: $want"; exit 1 ;; esac

# ids, text and logarithms of probabilities as shortest decimals, which name their bits
answer() { python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["text"], r["ids"], r["logprobs"])'; }

echo "the same bits as the library's"
isas=0
long=$(for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24; do printf 'On day %s the ship sailed on, and nobody knew why it did. ' $i; done)
for isa in scalar avx2 avxvnni avx512vnni avx512bf16 avx512amx neon neondot neoni8mm neonbf16; do
  KVASIR_ISA=$isa "$build/example_reply_c" "$model" "$text" ctx=1024 >out 2>error || {
    grep -q -E 'KVASIR_ISA' error || { cat error; exit 1; }
    continue
  }
  isas=$((isas + 1))
  # Preset or codec, then how the model's weights are multiplied; 400 tokens of prompt are several pages that are sealed.
  for kv in $caches; do
    KVASIR_ISA=$isa "$build/example_reply_c" "$model" "$long" ctx=1024 kv=$kv | answer >want
    KVASIR_ISA=$isa ./reply "$model" "$long" ctx=1024 kv=$kv | answer >got
    cmp -s want got || { echo "$isa, $kv:"; cat want got; exit 1; }
  done
  echo "  $isa"
done
[ $isas -ge 1 ]

echo "the same bits with every type of weights"
for type in $types; do
  "$build/kvasir" quantize "$model" typed.gguf --type $type >log 2>&1 || { cat log; exit 1; }
  "$build/example_reply_c" typed.gguf "$long" ctx=1024 | answer >want
  ./reply typed.gguf "$long" ctx=1024 | answer >got
  cmp -s want got || { echo "$type:"; cat want got; exit 1; }
done

echo "what is left out says so"
"$build/kvasir" quantize "$model" typed.gguf --type TQ2_0 >log 2>&1 || { cat log; exit 1; }
./reply typed.gguf "$text" 2>error && { echo "a type of weights that is not there was taken"; exit 1; }
grep -q 'weight type TQ2_0' error
./reply "$model" "$text" weights=q4_0 2>error && { echo "weights were rounded"; exit 1; }
grep -q 'this build rounds no weights' error
./reply "$model" "$text" kv=turbo3 2>error && { echo "a codec that is not there was taken"; exit 1; }
grep -q 'turbo3' error
./reply "$model" "$text" cache_dir=cache 2>error && { echo "a store on a disk was opened"; exit 1; }
grep -q 'this build has no LMDB' error
./reply none.gguf "$text" 2>error && { echo "a missing model was accepted"; exit 1; }
grep -q none.gguf error
echo "ok"
