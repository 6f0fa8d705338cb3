// How weights that are used once are read from memory; which way is fastest depends on the processor.
#pragma once

namespace kvasir::kernel {

// None of them changes a result.
enum class Streaming {
  kInterleaved,  // four panels at a time, bytes fetched 1 KB ahead of their use
  kPlain,        // one panel after the other, left to the hardware's prefetchers
  kAhead,        // one panel after the other, bytes fetched 6 KB ahead of their use
};

inline constexpr int kStreamings = 3;

// What was measured on two cores. Products with one column and Q4_0 weights of a 1B shape, GB/s:
//   Emerald Rapids  interleaved 35, plain 33
//   Zen 4           interleaved 28 to 38, plain 49; in a worse hour 25 and 32 (ahead as plain or 3 % less)
//   Zen 5           interleaved 54, plain 36, ahead 65 (60 at 4 KB) while reading alone got 80; in a worse hour, when
//                   it got 42 to 45, 36, 31 and 40
// So AMD's processors with AVX-512 read one stream, with fetching on those that have AVX-VNNI, too: Zen 5 is the first.
// KVASIR_STREAMING=interleaved|plain|ahead forces one, for measuring; throws Error(kUnsupported) for another word.
// Decided at the first call.
Streaming streaming();

// For tests: stream this way until the next call. REQUIRES: no kernel running.
void force(Streaming way);

inline constexpr int kStreams = 4;              // panels read at a time by kInterleaved
inline constexpr int kInterleavedAhead = 1024;  // bytes
inline constexpr int kAheadBytes = 6144;

}  // namespace kvasir::kernel
