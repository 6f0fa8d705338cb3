// What looking for known text costs a prompt that shares nothing, and what keeping a prompt's pieces costs.
//   content_index_bench [known tokens in millions]
// CPU time of the thread, so that other work on the machine counts little.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "base/clock.hpp"
#include "store/content_index.hpp"

namespace kvasir::store {
namespace {

using Ids = std::vector<std::int32_t>;

Ids random_ids(std::size_t n, std::mt19937& rng) {
  Ids ids(n);
  for (auto& id : ids) id = static_cast<std::int32_t>(rng() % 50000);
  return ids;
}

// As passages_index.cpp and the exact search do it anyway.
std::vector<Key> keys_of(const Ids& ids) {
  std::vector<Key> keys;
  Key key = root_key({});
  for (std::size_t i = 0; i + 128 <= ids.size(); i += 128)
    keys.push_back(key = chunk_key(key, std::span(ids).subspan(i, 128)));
  return keys;
}

int bench(double millions) {
  std::mt19937 rng(1);
  ContentIndex pieces;
  std::size_t texts = 0;
  double adding = 0;
  while (static_cast<double>(pieces.tokens()) < 1e6 * millions) {
    const Ids ids = random_ids(2048, rng);
    const std::vector<Key> keys = keys_of(ids);
    const double start = thread_cpu_seconds();
    pieces.add("", ids, keys);
    adding += thread_cpu_seconds() - start;
    ++texts;
  }
  std::printf("%zu texts, %zu tokens known: %.1f ns to keep a token\n", texts, pieces.tokens(),
              1e9 * adding / static_cast<double>(pieces.tokens()));
  for (const std::size_t n : {std::size_t{2000}, std::size_t{16000}, std::size_t{128000}}) {
    const Ids prompt = random_ids(n, rng);
    constexpr int kRounds = 20;
    const double start = thread_cpu_seconds();
    std::size_t found = 0;
    for (int i = 0; i < kRounds; ++i) found += pieces.find("", prompt, 0, static_cast<std::int64_t>(n), 4).size();
    const double seconds = (thread_cpu_seconds() - start) / kRounds;
    std::printf("prompt of %zu unknown tokens: %.3f ms, %.1f ns a token, %zu found\n", n, 1e3 * seconds,
                1e9 * seconds / static_cast<double>(n), found);
  }
  return 0;
}

}  // namespace
}  // namespace kvasir::store

int main(int argc, char** argv) { return kvasir::store::bench(argc > 1 ? std::atof(argv[1]) : 4); }
