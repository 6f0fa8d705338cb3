#!/bin/sh
# Kernels in Oclgrind (Debian's package oclgrind; Price and McIntosh-Smith, IWOCL 2015), which runs them item by item: no
# access out of bounds, no race, and the processor's bits from one more compiler. It is another OpenCL device, so nothing
# else is needed.
# usage: oclgrind_test.sh SOURCE-DIR BUILD-DIR
# KVASIR_OCLGRIND: the folder of liboclgrind-rt-icd.so, where it is not /usr/lib/oclgrind.
set -u
build=$(cd "$2" && pwd)
folder=${KVASIR_OCLGRIND:-/usr/lib/oclgrind}
driver=$folder/liboclgrind-rt-icd.so
[ -e "$driver" ] || { echo "SKIPPED: no Oclgrind (apt install oclgrind)"; exit 77; }
[ -x "$build/tests_device" ] || { echo "SKIPPED: tests_device is not built"; exit 77; }
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
log=$scratch/log
# Its interpreter does not know all that LLVM's optimisations make (llvm.abs, freeze).
export KVASIR_OPENCL="$driver" XDG_CACHE_HOME="$scratch" OCLGRIND_LOG="$log" OCLGRIND_DATA_RACES=1 OCLGRIND_CHECK_API=1 \
  OCLGRIND_LOCAL_MEM_SIZE=65536 OCLGRIND_GLOBAL_MEM_SIZE=2000000000 OCLGRIND_BUILD_OPTIONS=-cl-opt-disable
failed=0
run() {
  rm -f "$log"
  "$build/tests_device" --gtest_filter="$1" >"$scratch/out" 2>&1
  status=$?
  if ! grep -q '^\[  PASSED  \] [1-9]' "$scratch/out" || grep -q 'SKIPPED' "$scratch/out"; then
    echo "FAILED: $1 did not pass in Oclgrind (status $status):"
    tail -n 20 "$scratch/out"
    failed=1
  fi
}
# What is wrong must be seen: this test writes out of bounds and in a race when it is told to.
KVASIR_BROKEN_KERNEL=1 run 'Context.ItemsWriteTheirNumbers'
for what in 'Invalid write' 'Read-write data race\|Write-write data race'; do
  grep -q "$what" "$log" 2>/dev/null || { echo "FAILED: Oclgrind did not see: $what"; failed=1; }
done
for tests in 'KiviDevice.RefusesWhatTheProcessorRefuses' 'KiviSealer.ALittleOfEachSide' 'Fold.ALittleOfEachLayout' \
  'Fold.GroupsStatesOfSeveralAsksInOneRun' 'Fold.ALittleInWaves' 'DeviceProducts.ALittleOfEachType'; do
  run "$tests"
  [ ! -s "$log" ] || { echo "FAILED: $tests:"; head -n 40 "$log"; failed=1; }
done
[ $failed = 0 ] && echo ok
exit $failed
