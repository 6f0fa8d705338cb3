#include "run/bench.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/rss.hpp"
#include "kv/page.hpp"

namespace kvasir::run {
namespace {

std::vector<std::int32_t> some_tokens(std::int64_t from, std::int64_t n, std::int64_t vocab) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = from; i < from + n; ++i) ids.push_back(static_cast<std::int32_t>((i * 7919 + 13) % vocab));
  return ids;
}

Rate rate(std::vector<double> seconds, double tokens) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  return {tokens / median, (seconds.back() - seconds.front()) / median};
}

class Bench {
 public:
  Bench(Engine& engine, const Machine& machine, const BenchOptions& options) : e_(engine), m_(machine), o_(options) {}

  BenchRow measure(kv::Sequence* base, const std::function<bool()>& poll) {
    BenchRow row;
    row.depth = kv::Cache::length(*base);
    std::vector<double> prefill, decode;
    for (int run = 0; run < o_.runs && poll(); ++run) {
      if (o_.prefill > 0)
        prefill.push_back(once(base, [&](kv::Sequence* s) {
                            e_.feed(s, some_tokens(row.depth, o_.prefill, vocab()));
                            return 0.0;
                          }).first);
      if (o_.decode > 0) {
        const auto [seconds, bytes] = once(base, [&](kv::Sequence* s) {
          double read = 0;
          for (int i = 0; i < o_.decode; ++i) {
            const std::int32_t id = static_cast<std::int32_t>((row.depth + i) % vocab());
            e_.decode(s, id);
            read += static_cast<double>(e_.cache().kv_bytes_read(*s));
          }
          return read;
        });
        decode.push_back(seconds);
        row.bytes_per_token = static_cast<double>(e_.model().bytes_per_token()) + bytes / o_.decode;
      }
    }
    row.prefill = rate(prefill, o_.prefill);
    row.decode = rate(decode, o_.decode);
    row.bandwidth = row.bytes_per_token * row.decode.tps;
    row.bandwidth_fraction = row.bandwidth / m_.read_bytes.median;
    if (!prefill.empty()) {
      row.ttft = o_.prefill / row.prefill.tps;
      prefill_floor(row);
    }
    row.kv_bytes_per_token = e_.cache().bytes_per_token();
    row.resident_bytes = process_rss().current;
    return row;
  }

 private:
  std::int64_t vocab() const { return e_.model().config().vocab; }

  template <class F>
  std::pair<double, double> once(const kv::Sequence* base, const F& work) {
    kv::Sequence* s = e_.cache().fork(*base);
    const double start = steady_seconds();
    const double result = work(s);
    const double seconds = steady_seconds() - start;
    e_.cache().release(s);
    return {seconds, result};
  }

  void prefill_floor(BenchRow& row) const {
    const model::Model& model = e_.model();
    const model::Config& c = model.config();
    const double dense_peak = std::max(m_.f32_ops.median, m_.bf16_ops.median);
    double ops = 0, seconds = 0;
    const auto matrix = [&](const model::Matrix& w, double columns) {
      const double n = 2.0 * static_cast<double>(w.rows) * static_cast<double>(w.k) * columns;
      ops += n;
      seconds += n / (w.format->activation == kernel::ActivationKind::kInt8 ? m_.int8_ops.median : dense_peak);
    };
    for (const model::Layer& l : model.layers())
      for (const model::Matrix* w : {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down}) matrix(*w, o_.prefill);
    matrix(model.output(), 1);
    // Query i of the run sees depth + i + 1 tokens: q k and p v for every head.
    const double seen = o_.prefill * (static_cast<double>(row.depth) + (o_.prefill + 1) / 2.0);
    const double attention = 2.0 * c.layers * c.heads * (c.head_dim + c.head_dim_v) * seen;
    row.ops_per_token = (ops + attention) / o_.prefill;
    row.peak_fraction = (seconds + attention / dense_peak) / row.ttft;
  }

  Engine& e_;
  const Machine& m_;
  const BenchOptions& o_;
};

// A sequence of `depth` tokens, whole pages of it, made of copies of the pages of `seed`, which has whole pages, too.
kv::Sequence* repeated(kv::Cache& cache, const kv::Sequence& seed, std::int64_t depth) {
  std::vector<std::byte> tail(cache.tail_bytes(kv::Cache::length(seed)));
  cache.save_tail(seed, tail);
  kv::Sequence* s = cache.restore(depth, tail);
  const std::int64_t have = cache.sealed_pages_at(kv::Cache::length(seed));
  for (std::int64_t i = 0; i < cache.sealed_pages_at(depth); ++i) {
    const auto from = cache.sealed_page(seed, i % have);
    std::copy(from.begin(), from.end(), cache.sealed_page(*s, i).begin());
  }
  return s;
}

}  // namespace

void bench(Engine& engine, const Machine& machine, const BenchOptions& options, std::vector<std::int64_t> depths,
           const std::function<void(const BenchRow&)>& row, const std::function<bool()>& poll) {
  std::sort(depths.begin(), depths.end());
  const std::int64_t needed = (depths.empty() ? 0 : depths.back()) + std::max(options.prefill, options.decode) +
                              (options.repeat_pages ? kSeedTokens : 0);
  if (engine.context() < needed)
    throw Error(Code::kBadInput,
                "is " + std::to_string(engine.context()) + ", expected at least " + std::to_string(needed) +
                    " for the deepest depth",
                "--ctx");
  kv::Sequence* base = engine.cache().create();
  Bench b(engine, machine, options);
  {  // Warm up: first touch of scratch and cache, threads awake.
    kv::Sequence* s = engine.cache().create();
    engine.feed(s, some_tokens(0, std::clamp<std::int64_t>(options.prefill, 1, engine.context()),
                               engine.model().config().vocab));
    engine.cache().release(s);
  }
  // Appends tokens to `base` until it has n; false when interrupted.
  const auto fill = [&](std::int64_t n) {
    const std::int64_t have = kv::Cache::length(*base);
    return n <= have || !engine
                             .feed(base, some_tokens(have, n - have, engine.model().config().vocab), 1,
                                   [&](std::int64_t) { return poll(); })
                             .empty();
  };
  for (const std::int64_t depth : depths) {
    const std::int64_t whole = depth / kv::kPageTokens * kv::kPageTokens;
    if (options.repeat_pages && whole > kSeedTokens) {
      engine.cache().release(base);
      base = engine.cache().create();
      if (!fill(kSeedTokens)) break;
      kv::Sequence* longer = repeated(engine.cache(), *base, whole);
      engine.cache().release(base);
      base = longer;
    }
    if (!fill(depth) || !poll()) break;
    row(b.measure(base, poll));
  }
  engine.cache().release(base);
}

}  // namespace kvasir::run
