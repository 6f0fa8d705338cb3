// Blended reuse as a whole: plans, what they compute, and what is kept of it.
#include "run/blend.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "model/relocation.hpp"
#include "model/synth.hpp"
#include "run/blend_gate.hpp"
#include "run/reuse_fixture.hpp"
#include "store/redis_fixture.hpp"

namespace kvasir::run {
namespace blend_test {

using namespace testing;
using Ids = std::vector<std::int32_t>;

TEST(Blend, PlansForceFirstRowsComputeGapsAndTheLastToken) {
  store::Moved moved;
  moved.runs = {moved_run(10, 200, 300), moved_run(200, 230, 0), moved_run(250, 400, 131)};
  BlendOptions o;
  o.first_rows = 8;
  const BlendPlan plan = plan_blend(5, 400, moved, o);
  ASSERT_EQ(plan.runs.size(), 2u);  // the second one is too short
  EXPECT_EQ(plan.runs[1].end, 399);
  std::set<std::int64_t> want;
  for (std::int64_t i = 5; i < 18; ++i) want.insert(i);
  for (std::int64_t i = 200; i < 258; ++i) want.insert(i);
  want.insert(399);
  EXPECT_EQ(std::set<std::int64_t>(plan.fresh.begin(), plan.fresh.end()), want);
  EXPECT_EQ(plan.repaired, 16);
  EXPECT_EQ(plan.relocated, 182 + 141);
  EXPECT_EQ(plan.relocated + static_cast<std::int64_t>(plan.fresh.size()), 395);
}

TEST(Blend, RepairsAreTheRowsThatDifferMost) {
  store::Moved moved;
  moved.runs = {moved_run(0, 100, 128)};
  BlendOptions o;
  o.first_rows = 4;
  BlendPlan plan = plan_blend(0, 110, moved, o);
  std::vector<float> d(100);
  for (std::size_t i = 0; i < d.size(); ++i) d[i] = static_cast<float>((i * 37) % 100);
  BlendPlan all = plan;
  add_repairs(&plan, d, 0.1f);
  EXPECT_EQ(plan.repaired, 4 + 10);
  EXPECT_EQ(plan.relocated, 100 - 14);
  float least = 1e9f;
  std::set<std::int64_t> fresh(plan.fresh.begin(), plan.fresh.end());
  for (std::int64_t t = 4; t < 100; ++t)
    if (fresh.count(t)) least = std::min(least, d[static_cast<std::size_t>(t)]);
  for (std::int64_t t = 4; t < 100; ++t)
    if (!fresh.count(t)) {
      EXPECT_LE(d[static_cast<std::size_t>(t)], least);
    }
  add_repairs(&all, d, 1.0f);
  EXPECT_EQ(all.relocated, 0);
  EXPECT_EQ(all.fresh.size(), 110u);
}

// Engines that tests ask directly: a model of random weights whose layers are `layers`.
class BlendModel : public ::testing::TestWithParam<const char*> {
 protected:
  BlendModel() { std::filesystem::create_directories(folder_); }
  ~BlendModel() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Engine> engine(int layers) {
    Team team(2);
    model::SynthShape shape = model::find_synth_shape(GetParam());
    shape.layers = layers;
    if (layers == 1) shape.loops = std::min(shape.loops, 1);  // a second pass is a second layer
    const std::string file = folder_ + "/" + std::to_string(layers) + ".gguf";
    model::write_synthetic_model(file, shape, "f32", 1, team, [](auto, auto) {});
    EngineOptions o;
    o.model = file;
    o.exact = true;
    o.whole_windows = true;
    o.ctx = 2048;
    o.chunk = 200;
    o.threads = 2;
    return std::make_unique<Engine>(o, Engine::Needs{.sequences = 4, .pool_tokens = 8192, .logits = 1});
  }
  static Ids random_ids(int n, unsigned seed) {
    std::mt19937 rng(seed);
    Ids ids;
    for (int i = 0; i < n; ++i) ids.push_back(static_cast<std::int32_t>(rng() % 250));
    return ids;
  }
  static std::vector<float> full(Engine& e, const Ids& ids) {
    kv::Sequence* s = e.cache().create();
    const std::span<const float> row = e.feed(s, ids);
    std::vector<float> logits(row.begin(), row.end());
    e.cache().release(s);
    return logits;
  }
  // The sealed pages of a text, as records would have them.
  struct Known {
    store::Moved moved;
    std::vector<std::vector<std::byte>> bytes;
  };
  static void add_pages(Engine& e, const Ids& ids, Known* known) {
    kv::Sequence* s = e.cache().create();
    e.feed(s, ids);
    for (std::int64_t p = 0; p < e.cache().stats(*s).sealed_tokens / 128; ++p) {
      std::vector<std::byte>& page = known->bytes.emplace_back();
      for (const auto piece : e.cache().bytes().sealed_page(*s, p)) page.insert(page.end(), piece.begin(), piece.end());
    }
    e.cache().release(s);
    known->moved.pages.clear();
    for (const auto& page : known->bytes) {
      store::Found f;
      f.record.payload = page;
      known->moved.pages.push_back(std::move(f));
    }
  }
  static std::vector<float> blended(Engine& e, const Ids& ids, const Known& known, const BlendPlan& plan) {
    kv::Sequence* s = e.cache().create();
    if (plan.exact > 0) e.feed(s, std::span(ids).first(static_cast<std::size_t>(plan.exact)));
    borrow(e.cache(), s, AdoptedPages(e.cache(), known.moved, plan), plan);
    Ids fresh;
    for (const std::int64_t t : plan.fresh) fresh.push_back(ids[static_cast<std::size_t>(t)]);
    const std::span<const float> row = e.feed(s, fresh);
    std::vector<float> logits(row.begin(), row.end());
    EXPECT_EQ(kv::Cache::length(*s), static_cast<std::int64_t>(ids.size()));
    e.cache().release(s);
    e.cache().check_integrity();
    return logits;
  }
  static double difference(const std::vector<float>& a, const std::vector<float>& b) {
    double most = 0;
    for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
    return most;
  }

  const std::string folder_ = ::testing::TempDir() + "kvasir-blend-" + std::to_string(getpid());
};

// "tiny-local": all layers but the seventh have a window of 300 tokens, and a rope base of their own.
// "tiny-loops": two layers of three passes.
INSTANTIATE_TEST_SUITE_P(Shapes, BlendModel, ::testing::Values("tiny", "tiny-local", "tiny-loops"),
                         [](const auto& test) {
                           const std::string name = test.param;
                           return name == "tiny" ? "full" : name == "tiny-local" ? "windows" : "passes";
                         });

// Keys and values of one layer follow from token and position alone, so a relocated row is what it would be computed
// as, and any plan gives what full prefill gives.
TEST_P(BlendModel, RowsOfOneLayerAreTheSameAtEveryPlace) {
  const auto e = engine(1);
  std::mt19937 rng(3);
  for (unsigned round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    const Ids text = random_ids(700, round);
    Known known;
    add_pages(*e, text, &known);
    // Two passages of it in the other order, between new tokens.
    Ids ids = random_ids(static_cast<int>(rng() % 300), 50 + round);
    const auto exact = static_cast<std::int64_t>(ids.size() / 2);
    const std::int64_t froms[] = {220 + static_cast<std::int64_t>(rng() % 50),
                                  4 + static_cast<std::int64_t>(rng() % 99)};
    for (const std::int64_t from : froms) {
      const auto begin = static_cast<std::int64_t>(ids.size());
      const std::int64_t n = 150 + static_cast<std::int64_t>(rng() % 90);
      ids.insert(ids.end(), text.begin() + from, text.begin() + from + n);
      known.moved.runs.push_back(moved_run(begin, begin + n, from));
      append(ids, random_ids(static_cast<int>(rng() % 20), 90 + round));
    }
    append(ids, random_ids(15, 99));
    BlendOptions o;
    o.first_rows = static_cast<std::int32_t>(round % 3) * 8;
    BlendPlan plan = plan_blend(exact, static_cast<std::int64_t>(ids.size()), known.moved, o);
    ASSERT_EQ(plan.runs.size(), 2u);
    kv::Sequence* prefix = e->cache().create();
    if (exact > 0) e->feed(prefix, std::span(ids).first(static_cast<std::size_t>(exact)));
    const std::vector<float> d = deviations(*e, *prefix, {ids}, known.moved, plan, 0);
    e->cache().release(prefix);
    for (const float x : d) EXPECT_LT(x, 1e-9f);
    add_repairs(&plan, d, 0.1f * static_cast<float>(round));
    EXPECT_LT(difference(blended(*e, ids, known, plan), full(*e, ids)), 1e-4);
  }
}

// Several layers. Rows that know the right text (the pages are of this very text) are right; the more of the wrong ones
// are repaired, the nearer the answer comes; all of them repaired, it is that of full prefill.
TEST_P(BlendModel, RepairComesNearerToFullPrefillUntilItIsReached) {
  const auto e = engine(std::string(GetParam()) == "tiny" ? 4 : 7);
  const Ids one = random_ids(900, 7);
  Known same;
  add_pages(*e, one, &same);
  same.moved.runs = {moved_run(100, 300, 100), moved_run(310, 600, 310)};
  const BlendPlan right = plan_blend(60, 900, same.moved, {.strategy = "none"});
  EXPECT_GT(right.relocated, 400);
  EXPECT_LT(difference(blended(*e, one, same, right), full(*e, one)), 1e-3);

  std::vector<double> errors(4);
  for (unsigned round = 0; round < 4; ++round) {
    const Ids source = random_ids(800, 20 + round);
    Known known;
    add_pages(*e, source, &known);
    Ids ids = random_ids(130, 40 + round);
    for (const std::int64_t from : {std::int64_t{400}, std::int64_t{10}}) {
      const auto begin = static_cast<std::int64_t>(ids.size());
      ids.insert(ids.end(), source.begin() + from, source.begin() + from + 200);
      known.moved.runs.push_back(moved_run(begin, begin + 200, from));
    }
    append(ids, random_ids(9, 60 + round));
    const std::vector<float> want = full(*e, ids);
    const float ratios[] = {0.0f, 0.3f, 0.7f, 1.0f};
    for (std::size_t i = 0; i < 4; ++i) {
      BlendPlan plan = plan_blend(0, static_cast<std::int64_t>(ids.size()), known.moved, {.first_rows = 0});
      kv::Sequence* none = e->cache().create();
      add_repairs(&plan, deviations(*e, *none, {ids}, known.moved, plan, 1), ratios[i]);
      e->cache().release(none);
      const std::vector<float> got = blended(*e, ids, known, plan);
      double sum = 0;
      for (std::size_t j = 0; j < got.size(); ++j) sum += std::pow(double{got[j]} - double{want[j]}, 2);
      errors[i] += std::sqrt(sum);
      if (ratios[i] == 1.0f) {
        EXPECT_LT(difference(got, want), 1e-3);
      }
    }
  }
  for (std::size_t i = 0; i + 1 < 4; ++i) EXPECT_GE(errors[i], errors[i + 1]) << i;
  EXPECT_GT(errors[0], 0.0);
}

// Rows that differ most in an early layer are candidates, and a later layer, behind the pages of all others, chooses.
TEST_P(BlendModel, ASecondLayerChoosesAmongThoseOfTheFirst) {
  const auto e = engine(4);
  const Ids source = random_ids(700, 3);
  Known known;
  add_pages(*e, source, &known);
  Ids ids = random_ids(140, 5);
  ids.insert(ids.end(), source.begin() + 200, source.begin() + 500);
  append(ids, random_ids(9, 6));
  known.moved.runs.push_back(moved_run(140, 440, 200));
  BlendOptions o{.ratio = 0.2f, .first_rows = 8, .check_layer = 1, .second_layer = 3};
  const BlendPlan none = plan_blend(0, static_cast<std::int64_t>(ids.size()), known.moved, o);
  kv::Sequence* prefix = e->cache().create();
  const auto repaired = [&](BlendOptions how) {
    BlendPlan plan = none;
    const AdoptedPages pages(e->cache(), known.moved, plan);
    repair(*e, *prefix, {ids}, known.moved, pages, how, &plan);
    EXPECT_EQ(plan.repaired, 8 + 60);
    EXPECT_EQ(plan.relocated, 300 - 68);
    EXPECT_GT(plan.deviation, 0);
    return std::set<std::int64_t>(plan.fresh.begin(), plan.fresh.end());
  };
  const std::set<std::int64_t> both = repaired(o);
  BlendPlan wide = none;
  const std::vector<float> first = deviations(*e, *prefix, {ids}, known.moved, wide, 1);
  add_repairs(&wide, first, kCandidates * o.ratio);
  for (const std::int64_t t : both) EXPECT_TRUE(std::binary_search(wide.fresh.begin(), wide.fresh.end(), t)) << t;
  {
    const AdoptedPages pages(e->cache(), known.moved, wide);
    const std::vector<float> second = deviations(*e, *prefix, {ids}, known.moved, wide, 3, &pages);
    float chosen = 1e9f, left = -1;
    for (std::int64_t t = 148; t < 440; ++t) {
      const float d = second[static_cast<std::size_t>(t - 140)];
      EXPECT_EQ(d < 0, !std::binary_search(wide.fresh.begin(), wide.fresh.end(), t)) << t;
      if (both.contains(t)) chosen = std::min(chosen, d);
      if (!both.contains(t)) left = std::max(left, d);
    }
    EXPECT_GE(chosen, left);
  }
  o.second_layer = 0;
  EXPECT_NE(repaired(o), both);
  e->cache().release(prefix);
  e->cache().check_integrity();
  EXPECT_EQ(e->cache().stats().free_pages, e->cache().memory().pages);
}

// The text of documents and questions of a server's requests.
Ids document(const text::Tokenizer& tokenizer, std::size_t from, std::size_t n = 400) {
  const Ids all = tokenizer.encode(read_text_file(kSource + "/docs/results/reasons.md"));
  return {all.begin() + static_cast<std::ptrdiff_t>(from), all.begin() + static_cast<std::ptrdiff_t>(from + n)};
}

ServiceRequest request(const Ids& prompt, const std::string& reuse, float ratio = 0.15f,
                       const std::string& tenant = "") {
  ServiceRequest r;
  r.request.prompt = prompt;
  r.request.max_tokens = 6;
  r.request.sampling.temperature = 0;
  r.request.ignore_eos = true;
  r.request.top_logprobs = 5;
  r.reuse = reuse != "off";
  r.blend.reuse = reuse == "off" ? "" : reuse;
  r.blend.ratio = ratio;
  r.tenant = tenant;
  return r;
}

// A model whose layers have windows, of random weights; or the one with the repository.
struct ServedModel {
  explicit ServedModel(bool windows) {
    if (!windows) return;
    file = ::testing::TempDir() + "kvasir-blend-windows-" + std::to_string(getpid()) + ".gguf";
    Team team(2);
    model::write_synthetic_model(file, model::find_synth_shape("tiny-local"), "q8_0", 1, team, [](auto, auto) {});
  }
  ~ServedModel() {
    if (file != kBooks) std::filesystem::remove(file);
  }
  std::string file = kBooks;
};

std::string all_of(std::string text) { return text; }
void keep_windows(EngineOptions& o, Engine::Needs&) { o.whole_windows = true; }

using Served = std::tuple<const char*, bool>;  // codecs, whether layers have windows
std::string name_of(const ::testing::TestParamInfo<Served>& info) {
  return std::get<0>(info.param) + std::string(std::get<1>(info.param) ? "_windows" : "");
}

class BlendServer : public ::testing::TestWithParam<Served> {
 protected:
  ServedModel model_{std::get<1>(GetParam())};
  Server server_{std::get<0>(GetParam()), {"ram:?size=512MiB"}, {}, model_.file, {}, all_of, keep_windows, true};
  Ids first(std::vector<std::size_t> order) const {
    Ids ids = document(server_.tokenizer(), 5000, 50);
    for (const std::size_t d : order) append(ids, document(server_.tokenizer(), 400 * d));
    append(ids, document(server_.tokenizer(), 6000 + 31 * order[0], 20));
    return ids;
  }
};
INSTANTIATE_TEST_SUITE_P(Codecs, BlendServer,
                         ::testing::Combine(::testing::Values("exact", "balanced"), ::testing::Bool()), name_of);

TEST_P(BlendServer, ShuffledDocumentsAreRelocatedAndSaidToBe) {
  server_.ask(first({0, 1, 2, 3}), 1, true);
  const Ids shuffled = first({2, 0, 3, 1});
  const Reply reply = server_.submit(request(shuffled, "blend"))->wait();
  const Receipt& r = reply.outcome.receipt;
  EXPECT_EQ(r.blend.refused, "");
  EXPECT_GT(r.blend.relocated_tokens, 900);
  EXPECT_GT(r.blend.repaired_tokens, 100);
  EXPECT_GT(r.blend.deviation, 0.0);
  EXPECT_LT(r.reused_tokens, 100);  // the beginning alone
  EXPECT_EQ(r.reused_tokens + r.blend.relocated_tokens + r.computed(static_cast<std::int64_t>(shuffled.size())),
            static_cast<std::int64_t>(shuffled.size()));
  std::int64_t at = 0;
  std::set<std::string> sources;
  for (const Span& s : r.spans) {
    EXPECT_EQ(s.begin, at);
    at = s.end;
    sources.insert(s.source);
  }
  EXPECT_EQ(at, static_cast<std::int64_t>(shuffled.size()));
  EXPECT_TRUE(sources.count("relocated") && sources.count("computed"));
  EXPECT_EQ(server_.stats().relocated_tokens, static_cast<std::uint64_t>(r.blend.relocated_tokens));
  EXPECT_EQ(reply.tokens.size(), 6u);
}

// Nothing of a blended request is an exact page, whatever is asked afterwards, and requests beside it keep their bits.
TEST_P(BlendServer, ExactRequestsBesideAndBehindItKeepTheirBits) {
  const Ids plain = first({0, 1, 2, 3});
  const Ids shuffled = first({3, 1, 0, 2});
  const Reply want_plain = server_.ask(plain, 6, false);
  const Reply want_shuffled = server_.ask(shuffled, 6, false);
  server_.ask(plain, 1, true);
  std::vector<std::shared_ptr<Waiter>> blended, exact;
  for (int i = 0; i < 2; ++i) {
    blended.push_back(server_.submit(request(shuffled, "blend")));
    exact.push_back(server_.submit(request(i == 0 ? plain : shuffled, "exact")));
  }
  for (const auto& w : blended) EXPECT_GT(w->wait().outcome.receipt.blend.relocated_tokens, 0);
  expect_equal_bits(exact[0]->wait(), want_plain);
  expect_equal_bits(exact[1]->wait(), want_shuffled);
  const Reply behind = server_.submit(request(shuffled, "exact"))->wait();
  expect_equal_bits(behind, want_shuffled);
  EXPECT_FALSE(behind.outcome.receipt.blend.asked);
}

TEST_P(BlendServer, ABlendedTextIsNotOfferedToTheExactStore) {
  server_.ask(first({0, 1, 2, 3}), 1, true);
  const Ids shuffled = first({1, 3, 2, 0});
  const Reply reply = server_.submit(request(shuffled, "blend"))->wait();
  EXPECT_GT(reply.outcome.receipt.blend.relocated_tokens, 0);
  const Reply again = server_.submit(request(shuffled, "exact"))->wait();
  EXPECT_LE(again.outcome.receipt.reused_tokens, reply.outcome.receipt.reused_tokens);
}

// One token in front of a known text is another one: its own rows, the first ones and a few others are computed.
TEST_P(BlendServer, AChangedTokenInFrontCostsAFewRows) {
  const Ids plain = first({0, 1, 2, 3});
  server_.ask(plain, 1, true);
  Ids edited = plain;
  edited[1] = edited[1] == 77 ? 78 : 77;
  const Reply reply = server_.submit(request(edited, "blend", 0.05f))->wait();
  const BlendReceipt& b = reply.outcome.receipt.blend;
  const auto n = static_cast<std::int64_t>(edited.size());
  EXPECT_EQ(b.refused, "");
  EXPECT_GT(b.relocated_tokens, n * 3 / 4);  // what lies in the window was never a page
  EXPECT_LT(b.repaired_tokens, n / 10);
  EXPECT_GT(b.seconds, 0.0);
}

TEST_P(BlendServer, RatioOneIsFullPrefill) {
  server_.ask(first({0, 1, 2, 3}), 1, true);
  const Ids shuffled = first({2, 1, 3, 0});
  const Reply want = server_.ask(shuffled, 6, false);
  const Reply reply = server_.submit(request(shuffled, "blend", 1.0f))->wait();
  EXPECT_NE(reply.outcome.receipt.blend.refused, "");
  EXPECT_EQ(reply.outcome.receipt.blend.relocated_tokens, 0);
  expect_equal_bits(reply, want);
}

TEST_P(BlendServer, OtherTenantsAndNewTextsShareNothing) {
  server_.ask(first({0, 1, 2, 3}), 1, true, "a");
  const Reply other = server_.submit(request(first({2, 1, 3, 0}), "blend", 0.15f, "b"))->wait();
  EXPECT_EQ(other.outcome.receipt.blend.relocated_tokens, 0);
  EXPECT_NE(other.outcome.receipt.blend.refused, "");
  const Reply fresh = server_.submit(request(document(server_.tokenizer(), 9000, 700), "blend", 0.15f, "a"))->wait();
  EXPECT_EQ(fresh.outcome.receipt.blend.relocated_tokens, 0);
  expect_equal_bits(fresh, server_.ask(document(server_.tokenizer(), 9000, 700), 6, false));
}

// Servers one behind the other on one folder.
class BlendRestart : public ::testing::TestWithParam<bool> {
 protected:
  BlendRestart() { std::filesystem::remove_all(folder_); }
  ~BlendRestart() override { std::filesystem::remove_all(folder_); }
  std::unique_ptr<Server> server(const char* size = "1GiB", const store::Wrap& wrap = {}) const {
    return std::make_unique<Server>("balanced", std::vector<std::string>{"lmdb:" + folder_ + "?size=" + size}, wrap,
                                    model_.file, DraftOptions(), all_of, keep_windows, true);
  }
  static Ids text(const text::Tokenizer& tokenizer, std::vector<std::size_t> order) {
    Ids ids = document(tokenizer, 5000, 50);
    for (const std::size_t d : order) append(ids, document(tokenizer, 400 * d));
    append(ids, document(tokenizer, 6000 + 31 * order[0], 20));
    return ids;
  }
  const std::string folder_ = ::testing::TempDir() + "blend-restart-" + std::to_string(::getpid());
  const ServedModel model_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Models, BlendRestart, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "windows" : "full"; });

TEST_P(BlendRestart, StoredTextsAndTheVerdictAreFound) {
  Reply before;
  {
    const auto s = server();
    s->ask(text(s->tokenizer(), {0, 1, 2, 3}), 1, true);
    s->flush();
    before = s->submit(request(text(s->tokenizer(), {2, 0, 3, 1}), "blend"))->wait();
    EXPECT_GT(before.outcome.receipt.blend.relocated_tokens, 900);
    s->flush();
  }
  const auto s = server();
  const Ids shuffled = text(s->tokenizer(), {2, 0, 3, 1});
  const Reply want = s->ask(shuffled, 6, false);
  const int steps = s->steps();
  const Reply after = s->submit(request(shuffled, "blend"))->wait();
  EXPECT_EQ(after.outcome.receipt.blend.refused, "");
  EXPECT_EQ(after.outcome.receipt.blend.relocated_tokens, before.outcome.receipt.blend.relocated_tokens);
  EXPECT_EQ(after.outcome.receipt.blend.repaired_tokens, before.outcome.receipt.blend.repaired_tokens);
  expect_equal_bits(after, before);
  EXPECT_LT(s->steps() - steps, 40);  // no self-test, which computes some texts
  // Exact requests beside it, and of the tenant that knows nothing, keep their bits.
  expect_equal_bits(s->submit(request(shuffled, "exact"))->wait(), want);
  const Reply other = s->submit(request(shuffled, "blend", 0.15f, "b"))->wait();
  EXPECT_EQ(other.outcome.receipt.blend.relocated_tokens, 0);
  expect_equal_bits(other, want);
}

TEST_P(BlendRestart, EvictedPagesAreNotFoundAndNothingIsWrong) {
  Ids shuffled;
  std::int64_t most = 0;
  {
    const auto s = server("8MiB");  // room for a part of what follows
    for (std::size_t i = 0; i < 6; ++i) s->ask(text(s->tokenizer(), {i, i + 1, i + 2, i + 3}), 1, true);
    s->flush();
    shuffled = text(s->tokenizer(), {2, 0, 3, 1});
    most = static_cast<std::int64_t>(shuffled.size());
  }
  const auto s = server("8MiB");
  const Reply want = s->ask(shuffled, 6, false);
  const Reply reply = s->submit(request(shuffled, "blend"))->wait();
  EXPECT_LT(reply.outcome.receipt.blend.relocated_tokens, most);
  EXPECT_GE(reply.outcome.receipt.blend.lost_tokens, 0);
  if (reply.outcome.receipt.blend.relocated_tokens == 0) expect_equal_bits(reply, want);
  expect_equal_bits(s->submit(request(shuffled, "exact"))->wait(), want);
}

TEST_P(BlendRestart, DamagedRecordsAreNotRead) {
  {
    const auto s = server();
    s->ask(text(s->tokenizer(), {0, 1, 2, 3}), 1, true);
    s->flush();
  }
  // Every chunk says other tokens than it was made of, or has other bytes.
  for (const bool of_tokens : {true, false}) {
    {
      const auto disk = store::open_backend("lmdb:" + folder_ + "?size=1GiB");
      std::vector<store::Key> keys;
      ASSERT_TRUE(
          disk->list([&](const store::Listed& l) { return keys.push_back(l.key), true; }, store::within(kPatience))
              .ok());
      for (const store::Key& key : keys) {
        store::Answer answer;
        ASSERT_TRUE(disk->get({&key, 1}, store::within(kPatience), {&answer, 1}).ok());
        const store::Parsed parsed = store::parse_record(answer.bytes.bytes, store::Check::kHead);
        if (!parsed || parsed.record.head.kind != store::Kind::kChunk) continue;
        store::SharedBytes changed = store::copy_bytes(answer.bytes.bytes);
        auto* const bytes = const_cast<std::byte*>(changed.bytes.data());
        bytes[of_tokens ? store::kEnvelopeBytes : changed.bytes.size() - 1] ^= std::byte{1};
        const store::Offer offer{key, changed, parsed.record.head};
        store::PutOutcome outcome;  // a record with the same checksum is not written again, so it goes first
        ASSERT_TRUE(disk->erase({&key, 1}, store::within(kPatience)).ok());
        ASSERT_TRUE(disk->put({&offer, 1}, store::within(kPatience), {&outcome, 1}).ok());
        EXPECT_EQ(outcome, store::PutOutcome::kStored);
      }
    }
    const auto s = server();
    const Ids shuffled = text(s->tokenizer(), {2, 0, 3, 1});
    const Reply want = s->ask(shuffled, 6, false);
    const Reply reply = s->submit(request(shuffled, "blend"))->wait();
    EXPECT_EQ(reply.outcome.receipt.blend.relocated_tokens, 0);
    expect_equal_bits(reply, want);
  }
}

// What cannot be scanned has an index.
class Blind final : public store::Decorator {
 public:
  using Decorator::Decorator;
  store::Traits traits() const override {
    store::Traits t = Decorator::traits();
    t.scans = false;
    return t;
  }
  store::Status scan(FunctionRef<bool(const store::Seen&)>, store::Deadline) override {
    ADD_FAILURE() << "it was scanned";
    return {"blind"};
  }
};

TEST_P(BlendRestart, TiersThatCannotBeScannedHaveAnIndex) {
  const store::Wrap blind = [](std::unique_ptr<store::Backend> b) { return std::make_unique<Blind>(std::move(b)); };
  {
    const auto s = server("1GiB", blind);
    s->ask(text(s->tokenizer(), {0, 1, 2, 3}), 1, true);
    s->ask(text(s->tokenizer(), {4, 5, 2}), 1, true, "b");
    s->flush();
  }
  const auto s = server("1GiB", blind);
  const Ids shuffled = text(s->tokenizer(), {2, 0, 3, 1});
  const Reply want = s->ask(shuffled, 6, false);
  const Reply found = s->submit(request(shuffled, "blend"))->wait();
  EXPECT_EQ(found.outcome.receipt.blend.refused, "");
  EXPECT_GT(found.outcome.receipt.blend.relocated_tokens, 800);
  // Of the other tenant one document is known, and that alone.
  const Ids other = text(s->tokenizer(), {2, 0});
  const Reply b = s->submit(request(other, "blend", 0.15f, "b"))->wait();
  EXPECT_LT(b.outcome.receipt.blend.relocated_tokens, 400);
  expect_equal_bits(s->submit(request(shuffled, "exact"))->wait(), want);
}

TEST(BlendRedis, TextsOfOtherMachinesAreFound) {
  if (!store::RedisServer::available()) GTEST_SKIP() << "no redis-server";
  const store::RedisServer redis;
  const std::vector<std::string> tiers{"redis:" + redis.address()};
  Server here("balanced", tiers), there("balanced", tiers, {}, kBooks, {}, all_of, {}, true);
  const auto text = [&](std::vector<std::size_t> order) {
    Ids ids = document(here.tokenizer(), 5000, 50);
    for (const std::size_t d : order) append(ids, document(here.tokenizer(), 400 * d));
    append(ids, document(here.tokenizer(), 6000, 20));
    return ids;
  };
  EXPECT_EQ(there.submit(request(text({2, 0, 3, 1}), "blend"))->wait().outcome.receipt.blend.relocated_tokens, 0);
  here.ask(text({0, 1, 2, 3}), 1, true, "a");
  here.flush();
  const Reply reply = there.submit(request(text({3, 1, 2, 0}), "blend", 0.15f, "a"))->wait();
  EXPECT_EQ(reply.outcome.receipt.blend.refused, "");
  EXPECT_GT(reply.outcome.receipt.blend.relocated_tokens, 800);
  // What goes on from a known text is found, too, and of the other tenant nothing is.
  Ids longer = text({0, 1, 2, 3});
  append(longer, document(here.tokenizer(), 4800, 500));
  here.ask(longer, 1, true, "a");
  here.flush();
  Ids moved = document(here.tokenizer(), 5300, 40);
  append(moved, document(here.tokenizer(), 4800, 300));
  append(moved, document(here.tokenizer(), 5700, 30));
  EXPECT_GT(there.submit(request(moved, "blend", 0.05f, "a"))->wait().outcome.receipt.blend.relocated_tokens, 150);
  EXPECT_EQ(there.submit(request(moved, "blend", 0.05f, "b"))->wait().outcome.receipt.blend.relocated_tokens, 0);
}

// No request pays for the self-test: without --reuse blend it is run when nothing else is, and until then the model
// does not blend.
TEST(BlendProof, IsMadeBetweenRequests) {
  const auto text = [](const Server& s, std::vector<std::size_t> order, std::size_t begin = 5000) {
    Ids ids = document(s.tokenizer(), begin, 50);
    for (const std::size_t d : order) append(ids, document(s.tokenizer(), 400 * d));
    append(ids, document(s.tokenizer(), 6000 + 31 * order[0], 20));
    return ids;
  };
  Server s("balanced", {"ram:?size=64MiB"});
  s.ask(text(s, {0, 1, 2, 3}), 1, true);
  const Ids shuffled = text(s, {2, 0, 3, 1});
  const Reply want = s.ask(shuffled, 6, false);
  const Reply first = s.submit(request(shuffled, "blend"))->wait();
  EXPECT_NE(first.outcome.receipt.blend.refused.find("not tested yet"), std::string::npos)
      << first.outcome.receipt.blend.refused;
  expect_equal_bits(first, want);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  std::chrono::milliseconds pause(100);
  Reply later;
  std::size_t begin = 5000;
  do {  // with pauses that get longer, for the test makes way for requests, and another beginning, for nothing to reuse
    std::this_thread::sleep_for(pause);
    pause *= 2;
    later = s.submit(request(text(s, {3, 2, 0, 1}, begin += 7), "blend"))->wait();
  } while (later.outcome.receipt.blend.relocated_tokens == 0 && std::chrono::steady_clock::now() < until);
  EXPECT_GT(later.outcome.receipt.blend.relocated_tokens, 300) << later.outcome.receipt.blend.refused;
}

// A server that was not told to blend keeps what windows see, and says so.
TEST(BlendWindows, PagesThatWereGivenBackAreTheReason) {
  const ServedModel model(true);
  Server s("balanced", {"ram:?size=64MiB"}, {}, model.file);
  const Ids prompt = document(s.tokenizer(), 0, 600);
  const Reply want = s.ask(prompt, 6, false);
  const Reply reply = s.submit(request(prompt, "blend"))->wait();
  EXPECT_NE(reply.outcome.receipt.blend.refused.find("--reuse blend"), std::string::npos);
  expect_equal_bits(reply, want);
}

TEST(BlendVerdicts, NotesThatAreNotOfTheseOptionsAreNoVerdict) {
  BlendVerdict v;
  v.allowed = true;
  v.ratio = 0.3f;
  v.kl = 0.05;
  const BlendOptions o;
  const std::string note = to_note(v, o);
  const auto back = from_note(note, o);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->ratio, v.ratio);
  EXPECT_EQ(back->kl, v.kl);
  BlendOptions other = o;
  other.ratio = 0.2f;
  EXPECT_FALSE(from_note(note, other));
  for (std::size_t i = 0; i < note.size(); ++i) from_note(note.substr(0, i), o);  // no crash
  EXPECT_FALSE(from_note(note.substr(0, note.size() - 1), o));
  EXPECT_FALSE(from_note("[]", o));
  v.why = "both allowed and not";
  EXPECT_FALSE(from_note(to_note(v, o), o));
}

TEST(Blend, LayersThatDoNotAllowItAreNamed) {
  model::ModelSpec spec;
  model::Attention a;
  a.k.name = "k";
  const auto with = [&](const model::Attention& attention) {
    model::ModelSpec s = spec;
    s.layers.resize(2);
    s.layers[0].mixer = a;
    s.layers[1].mixer = attention;
    return model::why_not_relocated(s, false);
  };
  EXPECT_EQ(with(a), "");
  model::Attention bad = a;
  bad.rope = -1;
  EXPECT_EQ(with(bad), "");
  bad = a, bad.window = 512;
  EXPECT_NE(with(bad).find("layer 1 has a window"), std::string::npos);
  EXPECT_EQ(model::why_not_relocated(
                [&] {
                  model::ModelSpec s;
                  s.layers.resize(1);
                  s.layers[0].mixer = bad;
                  return s;
                }(),
                true),
            "");
  bad = a, bad.slopes = {0.5f};
  EXPECT_NE(with(bad).find("linear biases"), std::string::npos);
  bad = a, bad.norm_after_rope = true, bad.k_norm.kind = model::NormKind::kRms;
  EXPECT_NE(with(bad).find("norms its keys"), std::string::npos);
  bad = a, bad.latent.rank = 16;
  EXPECT_NE(with(bad).find("latent"), std::string::npos);
  spec.layers.resize(1);
  spec.layers[0].mixer = model::Delta{};
  EXPECT_NE(model::why_not_relocated(spec, true).find("recurrent"), std::string::npos);
  spec.layers[0].mixer = a;
  spec.embedding.positions.name = "p";
  EXPECT_NE(model::why_not_relocated(spec, true).find("learned positions"), std::string::npos);
}

}  // namespace blend_test
}  // namespace kvasir::run
