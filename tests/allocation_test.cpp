// The hot path does not allocate: decode steps, one sequence and two, across a page boundary, sampling included; the
// scheduler's steps, too.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "run/engine.hpp"
#include "run/sampler.hpp"
#include "run/scheduler.hpp"
#include "store/open.hpp"
#include "tensor/buffer.hpp"

namespace {
std::atomic<std::int64_t> g_allocations{0};
void count() { g_allocations.fetch_add(1, std::memory_order_relaxed); }
}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Sanitizers own malloc: there only the C++ forms are counted.
namespace {
void* counted(std::size_t bytes, std::size_t alignment, std::nothrow_t) {
  count();
  void* p = nullptr;
  return ::posix_memalign(&p, alignment, bytes) == 0 ? p : nullptr;
}
void* counted(std::size_t bytes, std::size_t alignment) {
  void* p = counted(bytes, alignment, std::nothrow);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
}  // namespace
void* operator new(std::size_t n) { return counted(n, 16); }
void* operator new[](std::size_t n) { return counted(n, 16); }
void* operator new(std::size_t n, std::align_val_t a) { return counted(n, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return counted(n, static_cast<std::size_t>(a)); }
// Those that do not throw, too: what they give is freed by the operators below.
void* operator new(std::size_t n, const std::nothrow_t& t) noexcept { return counted(n, 16, t); }
void* operator new[](std::size_t n, const std::nothrow_t& t) noexcept { return counted(n, 16, t); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t& t) noexcept {
  return counted(n, static_cast<std::size_t>(a), t);
}
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t& t) noexcept {
  return counted(n, static_cast<std::size_t>(a), t);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
#else
// Every allocation of the C library, which operator new and everything else goes through.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void* malloc(std::size_t n) { return count(), __libc_malloc(n); }
void* calloc(std::size_t n, std::size_t size) { return count(), __libc_calloc(n, size); }
void* realloc(void* p, std::size_t n) { return count(), __libc_realloc(p, n); }
void* memalign(std::size_t a, std::size_t n) { return count(), __libc_memalign(a, n); }
void* aligned_alloc(std::size_t a, std::size_t n) { return count(), __libc_memalign(a, n); }
int posix_memalign(void** p, std::size_t a, std::size_t n) {
  count();
  *p = __libc_memalign(a, n);
  return *p ? 0 : ENOMEM;
}
}
#endif

namespace kvasir::run {
namespace {

const std::string kModel = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";

template <class F>
std::int64_t allocations_in(F&& f) {
  const std::int64_t before = g_allocations.load();
  f();
  return g_allocations.load() - before;
}

std::size_t mapped_bytes() {
  return tensor::allocated_bytes(tensor::Tag::kWeights) + tensor::allocated_bytes(tensor::Tag::kCache) +
         tensor::allocated_bytes(tensor::Tag::kScratch);
}

template <class T>
void use(T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

TEST(Counter, CountsEveryForm) {
  struct alignas(64) Wide {
    char bytes[64];
  };
  EXPECT_EQ(allocations_in([] {}), 0);
  EXPECT_EQ(allocations_in([] {
              auto p = std::make_unique<int>(1);
              use(p);
            }),
            1);
  EXPECT_EQ(allocations_in([] {
              auto p = std::make_unique<Wide>();
              use(p);
            }),
            1);
  EXPECT_EQ(allocations_in([] {
              auto p = std::make_unique<char[]>(100);
              use(p);
            }),
            1);
  EXPECT_EQ(allocations_in([] {
              std::vector<float> v(1000);
              use(v);
            }),
            1);
  EXPECT_EQ(allocations_in([] {
              std::unique_ptr<char> p(new (std::nothrow) char);
              use(p);
            }),
            1);
  EXPECT_EQ(allocations_in([] {
              std::string s(100, 'x');
              use(s);
            }),
            1);
}

EngineOptions options(int threads) {
  EngineOptions o;
  o.model = kModel;
  o.ctx = 1024;
  o.threads = threads;
  return o;
}

SamplingOptions every_stage() {
  SamplingOptions s;
  s.seed = 7;
  s.repetition_penalty = 1.1f;
  s.presence_penalty = 0.1f;
  s.frequency_penalty = 0.1f;
  s.logit_bias[5] = 1.5f;
  return s;
}

// One sequence from token 100 to 164 and on to 164 + 128: pages at 128 and 256 are entered, the first of them is sealed
// when the window is small.
class Decode : public ::testing::TestWithParam<std::tuple<int, int, bool>> {};

TEST_P(Decode, DoesNotAllocate) {
  const auto [threads, window, exact] = GetParam();
  EngineOptions o = options(threads);
  o.window = window;
  o.exact = exact;
  Engine engine(o, {});
  const auto vocab = static_cast<std::int32_t>(engine.model().spec().vocab);
  kv::Sequence* s = engine.cache().create();
  SamplerChain sampler(every_stage(), vocab);
  std::vector<float> logits(static_cast<std::size_t>(vocab));
  const std::vector<std::int32_t> prompt(100, 42);
  sampler.accept_prompt(prompt);
  std::span<const float> row = engine.feed(s, prompt);
  const auto step = [&] {
    std::copy(row.begin(), row.end(), logits.begin());
    const std::int32_t id = sampler.sample(logits).id;
    sampler.accept(id);
    row = engine.decode(s, id);
  };
  for (int i = 0; i < 2; ++i) step();  // warm-up
  const std::size_t mapped = mapped_bytes();
  EXPECT_EQ(allocations_in([&] {
              for (int i = 0; i < 64; ++i) step();
            }),
            0);
  EXPECT_EQ(kv::Cache::length(*s), 166);
  EXPECT_EQ(allocations_in([&] {
              for (int i = 0; i < 128; ++i) step();
            }),
            0);
  EXPECT_EQ(mapped_bytes(), mapped);
  if (window == 0) {
    EXPECT_GT(engine.cache().stats(*s).sealed_tokens, 0);
  }
}
INSTANTIATE_TEST_SUITE_P(All, Decode,
                         ::testing::Values(std::tuple{1, 128, false}, std::tuple{2, 128, false},
                                           std::tuple{2, 0, false}, std::tuple{3, 0, true}));

TEST(Decode, TwoSequencesInOneStepDoNotAllocate) {
  // One of every family of codecs: sealing and both products come up in 200 steps.
  const std::pair<const char*, int> caches[] = {{"f16", 0},    {"balanced", 0}, {"balanced", 128}, {"safe", 0},
                                                {"kivi2", 0},  {"hqq4", 0},     {"uniform4", 0},   {"turbo3", 0},
                                                {"polar3", 0}, {"qjl1/rq4", 0}, {"delta4/rq3", 0}};
  for (const auto& [kv, window] : caches) {
    EngineOptions o = options(2);
    o.kv = kv;
    o.window = window;
    Engine engine(o, {.sequences = 2, .logits = 2});
    const auto vocab = static_cast<std::int32_t>(engine.model().spec().vocab);
    kv::Sequence* a = engine.cache().create();
    kv::Sequence* b = engine.cache().create();
    engine.feed(a, std::vector<std::int32_t>(100, 42));
    engine.feed(b, std::vector<std::int32_t>(120, 43));
    SamplerChain sampler(every_stage(), vocab);
    std::vector<float> logits(static_cast<std::size_t>(vocab));
    std::int32_t ids[2] = {1, 2};
    const auto step = [&] {
      const model::Input inputs[] = {{a, {&ids[0], 1}, 1, true}, {b, {&ids[1], 1}, 1, true}};
      const auto rows = engine.forward().step(inputs);
      for (std::size_t i = 0; i < 2; ++i) {
        const auto row = rows.subspan(i * static_cast<std::size_t>(vocab), static_cast<std::size_t>(vocab));
        std::copy(row.begin(), row.end(), logits.begin());
        ids[i] = sampler.sample(logits).id;
      }
    };
    for (int i = 0; i < 2; ++i) step();
    const std::size_t mapped = mapped_bytes();
    EXPECT_EQ(allocations_in([&] {
                for (int i = 0; i < 200; ++i) step();
              }),
              0)
        << kv << " window " << window;
    EXPECT_EQ(mapped_bytes(), mapped);
    EXPECT_EQ(kv::Cache::length(*a), 302);
  }
}

// Nor does a chunk of a prompt: what the first one warmed up serves the others.
TEST(Prefill, LaterChunksDoNotAllocate) {
  EngineOptions o = options(2);
  o.chunk = 64;
  Engine engine(o, {});
  kv::Sequence* s = engine.cache().create();
  const std::vector<std::int32_t> ids(64, 7);
  engine.feed(s, ids);
  EXPECT_EQ(allocations_in([&] {
              for (int i = 0; i < 5; ++i) engine.feed(s, ids);
            }),
            0);
}

// Counts what a scheduler allocates between two pieces of its answer; it is called on the scheduler's thread.
class Counting final : public Listener {
 public:
  Counting(std::int64_t from, std::int64_t to) : from_(from), to_(to) {}
  void pieces(std::span<const Piece> pieces) override {
    for (const Piece& p : pieces) tokens_ += p.token.id >= 0;
    if (tokens_ == from_) before_ = g_allocations.load();
    if (tokens_ == to_) after_ = g_allocations.load();
  }
  void done(const Outcome& outcome) override {
    const std::lock_guard lock(mutex_);
    error_ = outcome.error;
    done_ = true;
    changed_.notify_all();
  }
  std::int64_t wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
    EXPECT_EQ(error_, "");
    EXPECT_GE(tokens_, to_);
    return after_ - before_;
  }

 private:
  const std::int64_t from_, to_;
  std::int64_t tokens_ = 0, before_ = 0, after_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string error_;
  bool done_ = false;
};

ServiceRequest request(std::int32_t first, std::int32_t tokens) {
  ServiceRequest r;
  r.request.prompt = std::vector<std::int32_t>(100, first);
  r.request.max_tokens = tokens;
  r.request.sampling = every_stage();
  r.request.ignore_eos = true;
  return r;
}

// One answer alone, as in `kvasir run`: sampling, text, stop strings and log-probabilities included. From token 110 to
// 290: pages at 128 and 256 are entered.
TEST(Scheduler, StepsOfOneAnswerDoNotAllocate) {
  for (const char* kv : {"f16", "balanced"}) {
    EngineOptions o = options(2);
    o.kv = kv;
    o.window = 0;
    Engine engine(o, {});
    run::Scheduler scheduler(engine, {.running = 1, .waiting = 0}, "test");
    ServiceRequest r = request(42, 200);
    r.request.stop = {"never in this text", "\x01"};
    r.request.top_logprobs = 4;
    const auto log = std::make_shared<Counting>(10, 190);
    scheduler.submit(std::move(r), log);
    EXPECT_EQ(log->wait(), 0) << kv;
  }
}

// Several that grow together.
TEST(Scheduler, StepsOfManyAnswersDoNotAllocate) {
  Engine engine(options(2), {.sequences = 4, .pool_tokens = 4096, .logits = 4});
  run::Scheduler scheduler(engine, {.running = 4}, "test");
  std::vector<std::shared_ptr<Counting>> logs;
  // All are there before the first one counts, and none ends before the last one has counted.
  for (std::int32_t i = 0; i < 4; ++i) {
    logs.push_back(std::make_shared<Counting>(250, 300));
    scheduler.submit(request(40 + i, 600), logs.back());
  }
  for (const auto& log : logs) EXPECT_EQ(log->wait(), 0);
}

// With a library what is kept is copied, once per page: between two pages nothing is.
TEST(Scheduler, StepsBetweenPagesDoNotAllocateWithALibrary) {
  Engine engine(options(2), {});
  std::vector<std::shared_ptr<store::Tier>> tiers;
  tiers.push_back(store::open_tier("ram:?size=64MiB"));
  store::Library library(engine.cache(), store::fingerprint_of("test"), std::move(tiers));
  run::Scheduler scheduler(engine, {.running = 1}, "test", &library);
  const auto log = std::make_shared<Counting>(40, 140);  // tokens 140 to 240
  scheduler.submit(request(42, 200), log);
  EXPECT_EQ(log->wait(), 0);
}

}  // namespace
}  // namespace kvasir::run
