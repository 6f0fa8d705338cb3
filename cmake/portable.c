/* What libstdc++ of GCC 12, built on Debian 12, takes from a glibc that is younger than 2.31. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

/* 2.32. Never true here: counts of shared pointers are always atomic. */
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

/* 2.36; for std::random_device. */
__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t value;
  while (getrandom(&value, sizeof value, 0) != sizeof value)
    if (errno != EINTR) abort();
  return value;
}
