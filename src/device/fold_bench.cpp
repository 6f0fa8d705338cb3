// How fast a device folds sealed pages: one layer and one generated token, 8 KV heads, 64 query heads, each sequence
// with pages of its own. The same pages are held several times and taken in turns, so that no cache of the device holds
// them.
//   fold_bench [DEVICE [CODECS [HEAD_SIZE [TOKENS:SEQUENCES | -COMPILER_OPTION ...]]]], CODECS as in --kv
// Medians with 10 and 90 % marks: the device's clock for folding and for merging, the processor's for a whole run.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "device/check.hpp"
#include "kv/spec.hpp"

namespace kvasir::device {
namespace {

constexpr int kHeads = 8;
constexpr int kRuns = 30;
constexpr std::uint64_t kTurns = 400'000'000;  // bytes that are read before a page is read again

struct Marks {
  double low, median, high;
};
Marks marks(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return {x[x.size() / 10] * 1e6, x[x.size() / 2] * 1e6, x[x.size() * 9 / 10] * 1e6};
}

Shape shape_of(const std::string& codecs, int d) {
  const kv::CodecPair pair = kv::parse_pair(codecs, "fold_bench");
  const kv::CodecSpec k = kv::parse_codec(pair.k, d, kv::Side::kKeys, "fold_bench");
  const kv::CodecSpec v = kv::parse_codec(pair.v, d, kv::Side::kValues, "fold_bench");
  return {k.codec, v.codec, k.params, v.params, d, d};
}

void measure(const Context& context, Folder& folder, int tokens, int sequences) {
  const Shape& shape = folder.shape();
  Trial trial;
  trial.pages = 64;
  const Case c = make_case(shape, folder.turn_floats(), trial);
  folder.set_turns(c.turns);
  const std::size_t slot = c.arena.size() / static_cast<std::size_t>(trial.pages);
  const auto pages = static_cast<std::size_t>(tokens / kv::kPageTokens);
  const std::size_t lists = static_cast<std::size_t>(sequences * kHeads);
  const std::size_t bytes = pages * lists * slot;
  const std::size_t sets = 1 + kTurns / bytes;
  std::vector<Buffer> arenas;
  for (std::size_t s = 0; s < sets; ++s) {
    arenas.push_back(context.make(bytes));
    for (std::size_t at = 0; at < bytes; at += c.arena.size())
      context.write(arenas.back(), at, c.arena.data(), std::min(c.arena.size(), bytes - at), true);
  }
  context.finish();
  std::vector<std::vector<PlacedPage>> where(lists);
  for (std::size_t i = 0; i < lists; ++i)
    for (std::size_t p = 0; p < pages; ++p)
      where[i].push_back(PlacedPage::of((p * lists + i) * slot, 0, 0, kv::kPageTokens));
  std::vector<Case::Held> totals;
  totals.reserve(lists);
  std::vector<Ask> asks(lists);
  for (std::size_t i = 0; i < lists; ++i) {
    totals.emplace_back(trial.rows, shape.dv);
    asks[i].pages = where[i];
    asks[i].v_at = c.v_at;
    asks[i].q = c.queries.data();
    asks[i].rows = trial.rows;
    asks[i].total = totals[i].states;
  }
  std::vector<double> fold, merge, whole;
  for (int run = -3; run < kRuns; ++run) {
    std::array<const Buffer*, kArenas> in{};
    in[0] = &arenas[static_cast<std::size_t>(run + 3) % sets];
    // The device's clock and the processor's by turns: events cost time of their own.
    folder.run(asks, in, 0, 0, true);
    const auto start = std::chrono::steady_clock::now();
    in[0] = &arenas[static_cast<std::size_t>(run + 4) % sets];
    const std::vector<double> device(folder.seconds().begin(), folder.seconds().end());
    folder.run(asks, in, 0, 0);
    if (run < 0) continue;
    whole.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    fold.push_back(device.at(0));
    merge.push_back(device.at(1));
  }
  const Marks f = marks(fold), m = marks(merge), w = marks(whole);
  std::printf(
      "%-22s %7d x %d  %7.1f MB  fold %7.1f us (%.1f-%.1f) %5.0f GB/s  merge %5.1f us (%.1f-%.1f)  run %7.1f us "
      "(%.1f-%.1f)\n",
      name_of(shape).c_str(), tokens, sequences, static_cast<double>(bytes) * 1e-6, f.median, f.low, f.high,
      static_cast<double>(bytes) / f.median * 1e-3, m.median, m.low, m.high, w.median, w.low, w.high);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  const Survey found = survey();
  const Context context(choose(found, argc > 1 ? argv[1] : "gpu"));
  std::string options = kOptions;
  std::vector<std::string> sizes;
  for (int i = 4; i < argc; ++i) {
    if (argv[i][0] == '-')
      options += std::string(" ") + argv[i];
    else
      sizes.emplace_back(argv[i]);
  }
  Programs programs;
  Folder folder(context, programs, shape_of(argc > 2 ? argv[2] : "rq4", argc > 3 ? std::atoi(argv[3]) : 128), options);
  Trial long_one;
  long_one.pages = 300;
  const std::string differs = check(context, folder, long_one);
  std::printf("%s, %s: %s\n", context.device().name.c_str(), name_of(folder.shape()).c_str(),
              differs.empty() ? "300 pages have the processor's bits" : differs.c_str());
  if (sizes.empty()) sizes = {"8192:1", "32768:1", "131072:1", "32768:8", "131072:8"};
  for (const std::string& s : sizes) {
    const std::size_t colon = s.find(':');
    measure(context, folder, std::atoi(s.c_str()), colon == std::string::npos ? 1 : std::atoi(s.c_str() + colon + 1));
  }
  return differs.empty() ? 0 : 1;
}

}  // namespace
}  // namespace kvasir::device

int main(int argc, char** argv) {
  try {
    return kvasir::device::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "fold_bench: %s\n", e.what());
    return 1;
  }
}
