// Bandwidth of direct reads of a file, by each way of reading: what streaming of weights is held against.
//   reads_bench FILE [GB]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "tensor/buffer.hpp"
#include "weights/packed_file.hpp"
#include "weights/reads.hpp"

int main(int argc, char** argv) {
  using namespace kvasir;
  if (argc < 2) return 2;
  try {
    const auto size = static_cast<std::int64_t>(std::filesystem::file_size(argv[1])) / weights::kPieceBytes;
    const std::int64_t pieces =
        std::min<std::int64_t>(size, (argc > 2 ? std::atoll(argv[2]) : 4) * 1000000000 / weights::kPieceBytes);
    const tensor::Buffer room(tensor::Tag::kScratch,
                              static_cast<std::size_t>(weights::kMostReads * weights::kPieceBytes));
    for (const auto open : {&weights::open_uring, &weights::open_threads}) {
      const auto reads = open(argv[1]);
      if (!reads) continue;
      const double start = steady_seconds();
      std::int64_t next = 0, in_flight = 0;
      const auto ask = [&](std::uint64_t slot) {
        reads->start({next++ * weights::kPieceBytes, weights::kPieceBytes,
                      room.data() + static_cast<std::int64_t>(slot) * weights::kPieceBytes, slot});
        ++in_flight;
      };
      for (int i = 0; i < weights::kMostReads && next < pieces; ++i) ask(static_cast<std::uint64_t>(i));
      while (in_flight > 0) {
        const weights::ReadAnswer a = reads->wait();
        --in_flight;
        if (a.result != weights::kPieceBytes) return fmt::print(stderr, "a read gave {}\n", a.result), 1;
        if (next < pieces) ask(a.tag);
      }
      const double seconds = steady_seconds() - start;
      fmt::print("{:<20} {:.3f} GB/s ({:.1f} GB)\n", reads->name(),
                 static_cast<double>(pieces * weights::kPieceBytes) * 1e-9 / seconds,
                 static_cast<double>(pieces * weights::kPieceBytes) * 1e-9);
    }
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
  return 0;
}
