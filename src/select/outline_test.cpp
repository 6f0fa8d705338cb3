// Outlines: their error, their bits on every instruction set, and whether what they leave out would have been chosen.
#include "select/outline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "kv/cache_fixture.hpp"
#include "kv/outputs_fixture.hpp"
#include "select/choice.hpp"
#include "select/summaries.hpp"
#include "simd/half.hpp"
#include "simd/isa_fixture.hpp"

namespace kvasir::select {
namespace {

using namespace kv;

constexpr float kPi = 3.14159265f;

// Keys with what real ones have: channels of very different sizes, most of them constant but for a rotation by
// position, and neighbours that resemble each other.
struct Keys {
  int d;
  float outlier;  // size of channel 3's constant part
  std::vector<float> near;
  explicit Keys(int d_in, float outlier_in) : d(d_in), outlier(outlier_in), near(static_cast<std::size_t>(d_in)) {}

  // (d, 128) of page `page`.
  std::vector<float> page(std::int64_t page) {
    std::vector<float> keys(static_cast<std::size_t>(d * kPageTokens));
    for (int t = 0; t < kPageTokens; ++t) {
      const std::int64_t at = page * kPageTokens + t;
      for (int c = 0; c < d / 2; ++c) {
        float pair[2];
        for (int i = 0; i < 2; ++i) {
          float& x = near[static_cast<std::size_t>(2 * c + i)];
          x = 0.9f * x +
              0.6f * fixture::noise(static_cast<std::uint64_t>(7 + 2 * c + i), static_cast<std::uint64_t>(at));
          pair[i] = x + (i == 0 ? (c == 3 ? outlier : 1.0f) : 0.0f);
        }
        const float angle = std::fmod(static_cast<float>(at) * std::pow(1e4f, -2.0f * c / d), 2 * kPi);
        keys[static_cast<std::size_t>(c * kPageTokens + t)] = pair[0] * std::cos(angle) - pair[1] * std::sin(angle);
        keys[static_cast<std::size_t>((c + d / 2) * kPageTokens + t)] =
            pair[0] * std::sin(angle) + pair[1] * std::cos(angle);
      }
    }
    return keys;
  }
};

// Pages with their summaries and outlines, page i in slot slots[i].
struct Pages {
  SelectSpec spec;
  int d, pitch, blocks;
  std::vector<std::vector<std::byte>> summaries;
  std::vector<std::byte> tiles;
  std::vector<std::int64_t> slots;
  std::vector<float> center, reach;

  Pages(const std::string& select, int d_in, std::int64_t pages, float outlier, std::vector<std::int64_t> slots_in)
      : spec(parse_select(select, "test")), d(d_in), slots(std::move(slots_in)) {
    pitch = summary_pitch(*spec.selector, d);
    blocks = spec.blocks_per_page();
    center.resize(static_cast<std::size_t>(pitch));
    reach.resize(static_cast<std::size_t>(pitch));
    const std::int64_t most = *std::max_element(slots.begin(), slots.end());
    tiles.resize(static_cast<std::size_t>(most / slots_per_tile(blocks) + 1) * outline_tile_bytes(pitch));
    Keys keys(d, outlier);
    std::vector<float> scratch(summary_floats(spec, d));
    for (std::int64_t i = 0; i < pages; ++i) {
      summaries.emplace_back(summary_bytes(spec, d));
      summarise(spec, d, keys.page(i).data(), i == 0 ? 4 : 0, nullptr, scratch.data(), summaries.back().data());
    }
  }
  std::byte* tile(std::int64_t page) {
    return tiles.data() + static_cast<std::size_t>(slots[static_cast<std::size_t>(page)] / slots_per_tile(blocks)) *
                              outline_tile_bytes(pitch);
  }
  int lane(std::int64_t page) const {
    return static_cast<int>(slots[static_cast<std::size_t>(page)] % slots_per_tile(blocks)) * blocks;
  }
  void frame(std::int64_t page) {
    const FramePages pages = frame_of(page);
    const std::byte* from[FramePages::kMost];
    for (int i = 0; i < pages.count; ++i) from[i] = summaries[static_cast<std::size_t>(pages.from[i])].data();
    outlines().frame(from, pages.count, blocks, spec.selector->width(d), pitch, {center.data(), reach.data()});
  }
  void draw() {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(summaries.size()); ++i) {
      frame(i);
      outlines().draw(summaries[static_cast<std::size_t>(i)].data(), blocks, pitch, {center.data(), reach.data()},
                      tile(i), lane(i));
    }
  }
  std::vector<float> asked(int rows, std::uint64_t seed) const {
    std::vector<float> q(static_cast<std::size_t>(d)), all(static_cast<std::size_t>(rows * pitch));
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < d; ++c)
        q[static_cast<std::size_t>(c)] =
            fixture::noise(seed + static_cast<std::uint64_t>(r), static_cast<std::uint64_t>(c));
      float* const to = all.data() + static_cast<std::ptrdiff_t>(r) * pitch;
      spec.selector->ask ? spec.selector->ask(q.data(), d, to) : void(std::copy_n(q.data(), d, to));
    }
    return all;
  }
  // (rows, blocks of all pages)
  std::vector<float> exact(const std::vector<float>& q, int rows) const {
    std::vector<const std::byte*> at;
    for (const auto& s : summaries) at.push_back(s.data());
    const std::ptrdiff_t stride = static_cast<std::ptrdiff_t>(at.size()) * blocks;
    std::vector<float> scores(static_cast<std::size_t>(rows * stride));
    select::summaries().scores(at.data(), static_cast<std::int64_t>(at.size()), blocks, pitch, q.data(), rows,
                               scores.data(), stride);
    return scores;
  }
  // The same of outlines. errors: what they may differ by at most.
  std::vector<float> outlined(const std::vector<float>& q, int rows, std::vector<double>* errors) {
    const auto n = static_cast<std::int64_t>(summaries.size());
    const std::ptrdiff_t stride = n * blocks;
    std::vector<float> scores(static_cast<std::size_t>(rows * stride), -7.0f);
    errors->assign(scores.size(), 0);
    std::vector<std::int8_t> codes(static_cast<std::size_t>(rows * pitch));
    std::vector<float> factor(static_cast<std::size_t>(rows)), base(factor.size());
    std::vector<std::int32_t> start(factor.size());
    const OutlineRows to{codes.data(), factor.data(), base.data(), start.data()};
    for (std::int64_t page = 0; page < n;) {
      const std::int64_t end = std::min(n, frame_of(page).end);
      frame(page);
      outlines().ask(q.data(), rows, pitch, {center.data(), reach.data()}, to);
      while (page < end) {
        const std::int64_t first = page;
        do ++page;
        while (page < end && slots[static_cast<std::size_t>(page)] == slots[static_cast<std::size_t>(page - 1)] + 1);
        outlines().scores(tile(first), lane(first), (page - first) * blocks, pitch, to, rows,
                          scores.data() + first * blocks, stride);
        for (std::int64_t i = first * blocks; i < page * blocks; ++i)
          for (int r = 0; r < rows; ++r) {
            const float scale = reinterpret_cast<const float*>(tile(i / blocks))[lane(i / blocks) + i % blocks];
            double error = 0, size = 0;
            for (int c = 0; c < pitch; ++c) {
              const double x =
                  double{q[static_cast<std::size_t>(r * pitch + c)]} * double{reach[static_cast<std::size_t>(c)]};
              const double code =
                  double{factor[static_cast<std::size_t>(r)]} * codes[static_cast<std::size_t>(r * pitch + c)];
              error += 0.5 * std::abs(x) + 63 * std::abs(x - code);
              size += 64 * std::abs(x) * double{scale} + std::abs(double{q[static_cast<std::size_t>(r * pitch + c)]} *
                                                                  double{center[static_cast<std::size_t>(c)]});
            }
            (*errors)[static_cast<std::size_t>(r * stride + i)] = error * double{scale} + 1e-5 * size + 1e-6;
          }
      }
    }
    return scores;
  }
};

std::vector<std::int64_t> in_order(std::int64_t n, std::int64_t first = 0) {
  std::vector<std::int64_t> slots;
  for (std::int64_t i = 0; i < n; ++i) slots.push_back(first + i);
  return slots;
}

TEST(Outline, FramesComeFromPagesBefore) {
  for (std::int64_t page = 0; page < 900; ++page) {
    const FramePages f = frame_of(page);
    EXPECT_TRUE(f.first <= page && page < f.end) << page;
    EXPECT_EQ(frame_of(f.end).first, f.end) << page;
    for (int i = 0; i < f.count; ++i) EXPECT_TRUE(f.from[i] >= 0 && f.from[i] <= f.first) << page;
  }
}

TEST(Outline, ScoresAreWithinTheirErrorOnEveryInstructionSet) {
  std::map<std::string, std::vector<float>> first;
  simd::on_every_isa([&] {
    for (const char* select : {"quest", "quest:block=16", "mean:block=128", "spread:block=32", "max"})
      for (const int d : {24, 64})
        for (const int rows : {1, 4, 7}) {
          Pages p(select, d, 70, 100, in_order(70, 3));
          p.draw();
          const std::vector<float> q = p.asked(rows, 500);
          std::vector<double> errors;
          const std::vector<float> scores = p.outlined(q, rows, &errors);
          const std::vector<float> exact = p.exact(q, rows);
          const std::string name = select + std::string(" ") + std::to_string(d) + " " + std::to_string(rows);
          for (std::size_t i = 0; i < scores.size(); ++i)
            ASSERT_LE(std::abs(double{scores[i]} - double{exact[i]}), errors[i]) << name << " block " << i;
          auto& before = first[name];
          if (before.empty()) before = scores;
          ASSERT_EQ(before, scores) << name;
        }
  });
}

// Which slots pages have, and what lies beside them, never shows.
TEST(Outline, SlotsNeverShow) {
  std::vector<std::int64_t> scattered;
  for (std::int64_t i = 0; i < 70; ++i) scattered.push_back(i < 20 ? 90 - 3 * i : i + 101);
  for (const char* select : {"quest", "spread:block=16", "mean:block=128"}) {
    Pages a(select, 32, 70, 10, in_order(70)), b(select, 32, 70, 10, scattered);
    a.draw();
    std::fill(b.tiles.begin(), b.tiles.end(), std::byte{0x5a});
    b.draw();
    const std::vector<float> q = a.asked(5, 20);
    std::vector<double> errors;
    EXPECT_EQ(a.outlined(q, 5, &errors), b.outlined(q, 5, &errors)) << select;
  }
}

// Keys and queries that are no numbers, too large, or nothing but zeros: the same on every set, and no score of another
// block changes.
TEST(Outline, WhatIsNoNumberStaysInItsBlock) {
  std::map<std::string, std::vector<float>> first;
  simd::on_every_isa([&] {
    Pages p("quest", 32, 8, 1, in_order(8));
    Pages spoilt("quest", 32, 8, 1, in_order(8));
    const std::uint16_t nan = 0x7e00, large = 0x7bff;
    std::memcpy(spoilt.summaries[5].data(), &nan, 2);
    std::memcpy(spoilt.summaries[6].data() + 8, &large, 2);
    std::fill(spoilt.summaries[7].begin(), spoilt.summaries[7].end(), std::byte{0});
    p.draw();
    spoilt.draw();
    const std::vector<float> q = p.asked(3, 9);
    std::vector<double> errors;
    const std::vector<float> a = p.outlined(q, 3, &errors), b = spoilt.outlined(q, 3, &errors);
    for (int r = 0; r < 3; ++r)
      for (int i = 0; i < 16; ++i)
        if (i != 10 && i != 12 && i != 14 && i != 15) {
          EXPECT_EQ(a[static_cast<std::size_t>(16 * r + i)], b[static_cast<std::size_t>(16 * r + i)]) << i;
        }
    auto& before = first["scores"];
    if (before.empty()) before = b;
    EXPECT_EQ(before.size(), b.size());
    for (const float x : b) EXPECT_TRUE(std::isfinite(x));
    EXPECT_EQ(std::memcmp(before.data(), b.data(), b.size() * sizeof(float)), 0);
  });
}

// The share of blocks that votes of representatives would choose and that are not among the best `again` by outlines.
double missed(Pages& p, int rows, std::int64_t count, std::int64_t again) {
  const auto n = static_cast<std::int64_t>(p.summaries.size()) * p.blocks;
  std::vector<float> powers(static_cast<std::size_t>(n)), votes(powers.size());
  std::vector<RowVote> counts(static_cast<std::size_t>(rows));
  const auto top = [&](const std::vector<float>& scores, std::int64_t k) {
    vote(Vote::kMass, scores.data(), n, rows, 0, n, powers.data(), counts.data(), votes.data());
    std::vector<std::int32_t> to(static_cast<std::size_t>(n));
    best(votes.data(), 0, n, k, powers.data(), to.data());
    return std::set<std::int32_t>(to.begin(), to.begin() + k);
  };
  double all = 0, out = 0;
  for (std::uint64_t seed = 1000; seed < 1200; seed += 10) {
    const std::vector<float> q = p.asked(rows, seed);
    std::vector<double> errors;
    const auto wanted = top(p.exact(q, rows), count), kept = top(p.outlined(q, rows, &errors), again);
    for (const std::int32_t i : wanted) {
      ++all;
      out += !kept.count(i);
    }
  }
  return out / all;
}

TEST(Outline, WhatIsChosenIsAmongWhatIsScoredAgain) {
  for (const char* select : {"quest", "spread:block=16", "mean"})
    for (const float outlier : {1.0f, 30.0f, 300.0f}) {
      Pages p(select, 64, 500, outlier, in_order(500));
      p.draw();
      const double alone = missed(p, 4, 24, 24), twice = missed(p, 4, 24, 48), four = missed(p, 4, 24, 96);
      // Alone they would choose otherwise.
      EXPECT_LT(alone, 0.15) << select << " " << outlier;
      EXPECT_LT(twice, 0.005) << select << " " << outlier;
      EXPECT_EQ(four, 0) << select << " " << outlier;
    }
}

}  // namespace
}  // namespace kvasir::select
