#include "lab/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/rss.hpp"
#include "kernel/tiles.hpp"
#include "kv/page.hpp"
#include "model/spec_fields.hpp"

namespace kvasir::lab {
namespace {

std::vector<std::int32_t> some_tokens(std::int64_t from, std::int64_t n, std::int64_t vocab) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = from; i < from + n; ++i) ids.push_back(static_cast<std::int32_t>((i * 7919 + 13) % vocab));
  return ids;
}

double median(std::vector<double> x) {
  if (x.empty()) return 0;
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

// Of one run: seconds on the clock, seconds of processor time, and what its work said.
struct Timed {
  double seconds, cpu_seconds, result;
};

// Seconds of several.
struct Times {
  std::vector<double> clock, cpu;
  void add(const Timed& run) {
    clock.push_back(run.seconds);
    cpu.push_back(run.cpu_seconds);
  }
};

Rate rate(const Times& t, double tokens) {
  if (t.clock.empty()) return {};
  const auto [low, high] = std::minmax_element(t.clock.begin(), t.clock.end());
  return {tokens / median(t.clock), (*high - *low) / median(t.clock), tokens / median(t.cpu)};
}

// Member by member.
template <class F>
Rates combine(std::span<const Rates> samples, const F& f) {
  Rates out;
  for (double Rates::*member : {&Rates::read_bytes, &Rates::int8_ops, &Rates::bf16_ops, &Rates::f32_ops,
                                &Rates::int8_tiles, &Rates::bf16_tiles, &Rates::meeting}) {
    std::vector<double> values;
    for (const Rates& s : samples) values.push_back(s.*member);
    out.*member = f(values);
  }
  return out;
}

Rates medians(std::span<const Rates> samples) { return combine(samples, median); }
Rates mean(const Rates& a, const Rates& b) {
  return combine(std::array{a, b}, [](const std::vector<double>& x) { return (x[0] + x[1]) / 2; });
}
RatesOfRun mean(const RatesOfRun& a, const RatesOfRun& b) { return {mean(a.clock, b.clock), mean(a.cpu, b.cpu)}; }

class Bench {
 public:
  Bench(run::Engine& engine, const BenchOptions& options) : e_(engine), o_(options) {}

  BenchRow measure(kv::Sequence* base, std::int64_t batch, const std::function<bool()>& poll) {
    BenchRow row;
    row.depth = kv::Cache::length(*base);
    row.batch = batch;
    run(row, base, poll);
    row.kv_bytes_per_token = e_.cache().memory().bytes_per_token;
    row.resident_bytes = process_rss().current;  // without the memory that `run` measured with
    return row;
  }

 private:
  std::int64_t vocab() const { return e_.model().spec().vocab; }

  void run(BenchRow& row, const kv::Sequence* base, const std::function<bool()>& poll) {
    Times prefill, decode;
    std::vector<double> prefill_fractions, prefill_cpu, bandwidth_fractions, floor_fractions, floor_cpu, choosing;
    Probe probe(e_.team());
    RatesOfRun last = probe.sample();
    std::vector<Rates> samples{last.clock};
    // Of the machine around the run that just ended.
    const auto around = [&] {
      const RatesOfRun before = std::exchange(last, probe.sample());
      samples.push_back(last.clock);
      return mean(before, last);
    };
    const double threads = e_.team().size();
    for (int i = 0; i < o_.runs && poll(); ++i) {
      if (o_.prefill > 0 && row.batch == 1) {
        const Timed once_fed = once(base, 1, [&](std::span<kv::Sequence* const> s) {
          e_.feed(s[0], some_tokens(row.depth, o_.prefill, vocab()));
          prompt_read_ = share_read(e_.cache().stats(*s[0]).selection.prompt_total());
          return 0.0;
        });
        prefill.add(once_fed);
        const RatesOfRun rates = around();
        prefill_fractions.push_back(prefill_work(row, rates.clock).seconds / once_fed.seconds);
        prefill_cpu.push_back(prefill_work(row, rates.cpu).seconds * threads / once_fed.cpu_seconds);
      }
      if (o_.decode > 0) {
        const weights::StreamStats before = e_.model().layers().stats();
        const Timed generated =
            once(base, row.batch, [&](std::span<kv::Sequence* const> s) { return decode_run(s, row.depth); });
        const double seconds = generated.seconds, bytes = generated.result;
        decode.add(generated);
        row.streamed += e_.model().layers().stats() - before;
        row.streamed_seconds += seconds;
        row.streamed_steps += o_.decode;
        choosing.push_back(chosen_ / seconds);
        row.bytes_per_token = bytes / o_.decode / static_cast<double>(row.batch);
        const RatesOfRun rates = around();
        const double step_bytes = row.bytes_per_token * static_cast<double>(row.batch);
        const auto floor = [&](const Rates& r) {
          return std::max(step_bytes / r.read_bytes, decode_work(row, r).seconds);
        };
        bandwidth_fractions.push_back(step_bytes / rates.clock.read_bytes * o_.decode / seconds);
        floor_fractions.push_back(floor(rates.clock) * o_.decode / seconds);
        floor_cpu.push_back(floor(rates.cpu) * threads * o_.decode / generated.cpu_seconds);
      }
    }
    row.machine = medians(samples);
    row.prefill = rate(prefill, o_.prefill);
    row.decode = rate(decode, static_cast<double>(o_.decode * row.batch));
    row.bandwidth = row.bytes_per_token * row.decode.tps;
    row.bandwidth_fraction = median(bandwidth_fractions);
    row.decode_floor_fraction = median(floor_fractions);
    row.decode_floor_fraction_cpu = median(floor_cpu);
    row.choosing_fraction = median(choosing);
    row.read_fraction = read_;
    if (o_.decode > 0 && disk_.hits + disk_.misses > 0) {
      const double tokens = o_.decode * static_cast<double>(row.batch);
      row.disk_bytes = static_cast<double>(disk_.read_bytes) / tokens;
      row.disk_stall = disk_.stall_seconds / tokens;
      row.disk_hits = static_cast<double>(disk_.hits) / static_cast<double>(disk_.hits + disk_.misses);
    }
    if (!prefill.clock.empty()) {
      row.ttft = o_.prefill / row.prefill.tps;
      row.ops_per_token = prefill_work(row, row.machine).ops / o_.prefill;
      row.peak_fraction = median(prefill_fractions);
      row.peak_fraction_cpu = median(prefill_cpu);
    }
  }

  // Bytes of weights, keys and values read.
  double decode_run(std::span<kv::Sequence* const> sequences, std::int64_t depth) {
    double read = 0;
    const double chosen = e_.cache().stats().choosing_seconds;
    const kv::DiskStats before = e_.cache().stats().disk;
    std::vector<std::int32_t> ids(sequences.size());
    std::vector<model::Input> inputs(sequences.size());
    for (int i = 0; i < o_.decode; ++i) {
      for (std::size_t s = 0; s < sequences.size(); ++s) {
        ids[s] = static_cast<std::int32_t>((depth + i + 31 * static_cast<std::int64_t>(s)) % vocab());
        inputs[s] = {sequences[s], {&ids[s], 1}, 1, true};
      }
      e_.forward().step(inputs);
      read += static_cast<double>(e_.forward().weight_bytes());
      for (const kv::Sequence* s : sequences) read += static_cast<double>(e_.cache().stats(*s).kv_bytes_read);
    }
    chosen_ = e_.cache().stats().choosing_seconds - chosen;
    const kv::DiskStats after = e_.cache().stats().disk;
    disk_ = {.how = after.how,
             .reads = after.reads - before.reads,
             .read_bytes = after.read_bytes - before.read_bytes,
             .written_bytes = after.written_bytes - before.written_bytes,
             .hits = after.hits - before.hits,
             .misses = after.misses - before.misses,
             .stall_seconds = after.stall_seconds - before.stall_seconds};
    read_ = share_read(e_.cache().stats(*sequences.front()).selection.total());
    return read;
  }

  static double share_read(const kv::SelectionStats::Layer& f) { return f.seen > 0 ? f.read / f.seen : 1; }

  template <class F>
  Timed once(const kv::Sequence* base, std::int64_t batch, const F& work) {
    {  // One token: measuring the machine has left other bytes in its caches.
      kv::Sequence* s = e_.cache().fork(*base);
      e_.feed(s, some_tokens(0, 1, vocab()));
      e_.cache().release(s);
    }
    std::vector<kv::Sequence*> forks;
    for (std::int64_t i = 0; i < batch; ++i) forks.push_back(e_.cache().fork(*base));
    const double start = steady_seconds(), cpu_start = process_cpu_seconds();
    const double result = work(std::span<kv::Sequence* const>(forks));
    const Timed run{steady_seconds() - start, process_cpu_seconds() - cpu_start, result};
    for (kv::Sequence* s : forks) e_.cache().release(s);
    return run;
  }

  // Of the arithmetic that a matrix is multiplied in for so many columns.
  static double peak_of(kernel::ActivationKind kind, double columns, const Rates& rates) {
    switch (kind) {
      case kernel::ActivationKind::kInt8:
        return rates.int8_ops;
      case kernel::ActivationKind::kBf16:
        return rates.bf16_ops;
      case kernel::ActivationKind::kRounded:
        if (columns >= kTileColumns && rates.bf16_tiles > 0) return rates.bf16_tiles;
        break;
      case kernel::ActivationKind::kF32:
        break;
    }
    return rates.f32_ops;
  }
  static constexpr double kTileColumns = kernel::kTileRows / 2;  // from which on tiles are used

  struct Work {
    double ops = 0, seconds = 0;  // at the peaks
  };

  // Of all matrices for `columns` tokens, of the output matrix for `outputs`, and of attention where the tokens see
  // `seen` tokens together and read `read` of them where layers have no window: q k and p v for every head, `packed` of
  // it on packed bytes.
  Work work_of(double columns, double outputs, double seen, double read, double packed, const Rates& rates) const {
    Work work;
    const auto add = [&](const cpu::Matrix& m, double n) {
      const double ops = 2.0 * static_cast<double>(m.weights()) * n;
      work.ops += ops;
      work.seconds += ops / peak_of(m.format->activation, n, rates);
    };
    const model::ModelSpec& spec = e_.model().spec();
    model::for_each<model::Linear>(spec.layers, [&](const model::Linear& l) { add(l.bound, columns); });
    model::for_each<model::Experts>(spec, [&](const model::Experts& e) {
      model::for_each<model::Stack>(e, [&](const model::Stack& s) { add(s.bound.first, columns * e.routing.used); });
    });
    model::for_each<model::Latent>(spec, [&](const model::Latent& l) {
      model::for_each<model::Stack>(l, [&](const model::Stack& s) { add(s.bound.first, columns * s.count); });
    });
    model::for_each<model::Linear>(spec.head.streams, [&](const model::Linear& l) { add(l.bound, columns); });
    model::for_each<model::Linear>(spec.embedding, [&](const model::Linear& l) { add(l.bound, columns); });
    add(spec.head.output.bound, outputs);
    double attention = 0;
    model::for_each<model::Attention>(spec, [&](const model::Attention& a) {
      const double here = a.window > 0 ? std::min(seen, columns * static_cast<double>(a.window)) : seen * read;
      attention += 2.0 * a.heads * (a.d + a.dv) * here;
    });
    work.ops += attention;
    const bool tiles = columns >= kTileColumns && rates.int8_tiles > 0;
    work.seconds += attention * (packed / (tiles ? rates.int8_tiles : rates.int8_ops) + (1 - packed) / rates.f32_ops);
    return work;
  }

  // Of one step.
  Work decode_work(const BenchRow& row, const Rates& rates) const {
    const auto batch = static_cast<double>(row.batch);
    return work_of(batch, batch, batch * (static_cast<double>(row.depth) + (o_.decode + 1) / 2.0), read_,
                   e_.cache().rules().packed_share(row.depth, o_.decode, true), rates);
  }

  // Of one run; its query i sees depth + i + 1 tokens.
  Work prefill_work(const BenchRow& row, const Rates& rates) const {
    return work_of(o_.prefill, 1, o_.prefill * (static_cast<double>(row.depth) + (o_.prefill + 1) / 2.0), prompt_read_,
                   e_.cache().rules().packed_share(row.depth, o_.prefill, false), rates);
  }

  run::Engine& e_;
  const BenchOptions& o_;
  double chosen_ = 0;       // seconds of the last decode run
  double read_ = 1;         // share of the tokens that the last decode run read
  double prompt_read_ = 1;  // and the last prompt
  kv::DiskStats disk_;      // of the last decode run
};

// A sequence of `depth` tokens, whole pages of it, made of copies of the pages of `seed`, which has whole pages, too.
kv::Sequence* repeated(kv::Cache& cache, const kv::Sequence& seed, std::int64_t depth) {
  std::vector<std::byte> tail(cache.rules().tail_bytes(kv::Cache::length(seed)));
  cache.bytes().save_tail(seed, kv::Cache::length(seed), tail);
  kv::Sequence* s = cache.bytes().restore(depth, tail);
  const std::int64_t have = cache.rules().sealed_pages(kv::Cache::length(seed));
  std::vector<std::byte> page;
  for (std::int64_t i = 0; i < cache.rules().sealed_pages(depth); ++i) {
    page.clear();
    for (const auto piece : cache.bytes().sealed_page(seed, i % have))
      page.insert(page.end(), piece.begin(), piece.end());
    cache.bytes().fill_page(*s, i, page);
  }
  return s;
}

}  // namespace

std::string disk_line(const kv::DiskStats& d) {
  const auto wanted = static_cast<double>(d.hits + d.misses);
  return fmt::format(
      "{:.1f} MB of pages read in {} reads ({}), {:.1f} MB written; {:.0f} % of what was wanted was in "
      "memory; threads waited {:.2f} s",
      static_cast<double>(d.read_bytes) * 1e-6, d.reads, d.how, static_cast<double>(d.written_bytes) * 1e-6,
      wanted > 0 ? 100 * static_cast<double>(d.hits) / wanted : 100.0, d.stall_seconds);
}

std::int64_t fill_seed(const run::EngineOptions& options, const kv::CacheShape& shape) {
  const std::int64_t raw = kv::residual_of({.window = options.window, .residual = options.residual}) - 1;
  std::int64_t pages = (raw + kv::kPageTokens - 1) / kv::kPageTokens + 3;
  for (const kv::LayerShape& layer : shape.layers)
    pages = std::max(pages, (layer.window + kv::kPageTokens - 1) / kv::kPageTokens + 2);
  return pages * kv::kPageTokens;
}

void bench(run::Engine& engine, const BenchOptions& options, std::vector<std::int64_t> depths,
           const std::function<void(const BenchRow&)>& row, const std::function<bool()>& poll) {
  std::sort(depths.begin(), depths.end());
  const std::int64_t seed = fill_seed(engine.options(), engine.cache().shape());
  const std::int64_t needed =
      (depths.empty() ? 0 : depths.back()) + std::max(options.prefill, options.decode) + (options.fill ? seed : 0);
  if (engine.context() < needed)
    throw Error(Code::kBadInput,
                "is " + std::to_string(engine.context()) + ", expected at least " + std::to_string(needed) +
                    " for the deepest depth",
                "--ctx");
  kv::Sequence* base = engine.cache().create();
  Bench b(engine, options);
  {  // Warm up: first touch of scratch and cache, threads awake.
    kv::Sequence* s = engine.cache().create();
    engine.feed(
        s, some_tokens(0, std::clamp<std::int64_t>(options.prefill, 1, engine.context()), engine.model().spec().vocab));
    engine.cache().release(s);
  }
  // Appends tokens to `base` until it has n; false when interrupted.
  const auto fill = [&](std::int64_t n) {
    const std::int64_t have = kv::Cache::length(*base);
    return n <= have || !engine
                             .feed(base, some_tokens(have, n - have, engine.model().spec().vocab), 1,
                                   [&](std::int64_t) { return poll(); })
                             .empty();
  };
  for (const std::int64_t depth : depths) {
    const std::int64_t whole = depth / kv::kPageTokens * kv::kPageTokens;
    const bool filled = options.fill && whole > seed;
    if (filled) {
      engine.cache().release(base);
      base = engine.cache().create();
      if (!fill(seed)) break;
      kv::Sequence* longer = repeated(engine.cache(), *base, whole);
      engine.cache().release(base);
      base = longer;
    }
    if (!fill(depth) || !poll()) break;
    for (const std::int64_t batch : options.batches) {
      BenchRow measured = b.measure(base, batch, poll);
      measured.filled = filled;
      row(measured);
    }
  }
  engine.cache().release(base);
}

}  // namespace kvasir::lab
