#include "device/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/splitmix.hpp"
#include "kernel/rotate.hpp"
#include "kv/fold.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::device {
namespace {

// Roughly normal numbers.
float next(std::uint64_t& seed) {
  const std::uint64_t x = splitmix64(seed);
  float sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<float>(x >> 16 * i & 0xffff) / 65536.0f - 0.5f;
  return 1.7f * sum;
}

const kv::Codec& raw_of(const kv::Codec& codec) {
  const char* const name = codec.raw_type == kv::RawType::kF32    ? "f32"
                           : codec.raw_type == kv::RawType::kBf16 ? "bf16"
                                                                  : "f16";
  return *find(kv::codecs(), name);
}

// One side of a head: its codec's state and its sealed pages, one behind the other.
struct SideOfPages {
  const kv::Codec& codec;
  kv::Head head;
  std::size_t bytes;
  tensor::Buffer state;
  tensor::Buffer sealed;

  SideOfPages(const kv::Codec& c, const kv::CodecParams& params, int d, kv::Side side, const Trial& trial)
      : codec(c), head{d, params, nullptr} {
    const bool keys = side == kv::Side::kKeys;
    const kv::CodecSide& s = keys ? c.k : c.v;
    bytes = (s.bytes(d, params) + 15) / 16 * 16;
    if (c.state_bytes && c.state_bytes(d) > 0) {
      state = tensor::Buffer(tensor::Tag::kCache, c.state_bytes(d));
      c.init_state(state.data(), d, side, 3, 1);
      head.state = state.data();
    }
    const auto n = static_cast<std::size_t>(kv::kPageTokens) * static_cast<std::size_t>(d);
    sealed = tensor::Buffer(tensor::Tag::kCache, bytes * static_cast<std::size_t>(trial.pages) + 64);
    tensor::Buffer raw(tensor::Tag::kScratch, n * 4 + 64);
    tensor::Buffer rows(tensor::Tag::kScratch, n * 4);
    tensor::Buffer scratch(tensor::Tag::kScratch, kv::seal_floats(d) * sizeof(float));
    std::uint64_t seed = trial.seed * 2 + (keys ? 0 : 1);
    for (int p = 0; p < trial.pages; ++p) {
      for (std::size_t i = 0; i < n; ++i)
        rows.as<float>()[i] = next(seed) * (i % 7 == 0 ? 3.0f : 1.0f) +
                              static_cast<float>(i % static_cast<std::size_t>(d)) / static_cast<float>(d);
      const auto write = keys ? raw_of(c).write_k : raw_of(c).write_v;
      write(raw.data(), kv::kPageTokens, 0, kv::kPageTokens, rows.as<float>(), d, d);
      s.seal(head, raw.data(), p == 0 ? trial.first : 0, scratch.as<float>(), at(p));
    }
  }
  std::byte* at(int page) const { return sealed.data() + static_cast<std::size_t>(page) * bytes; }
};

}  // namespace

Case::Held::Held(int rows, int dv) {
  // States are read and written in whole vectors.
  const std::size_t n = kv::round_up(static_cast<std::size_t>(rows));
  room.resize(2 * n + static_cast<std::size_t>(rows * kernel::out_pitch(dv)) + kv::kFloatsPerLine);
  float* p = room.data();
  while (reinterpret_cast<std::uintptr_t>(p) % 64 != 0) ++p;
  states = {p, p + n, p + 2 * n};
}

std::string compare(const kernel::States& expected, const kernel::States& got, int rows, int dv) {
  const auto differ = [](float a, float b) {
    return std::bit_cast<std::uint32_t>(a) != std::bit_cast<std::uint32_t>(b);
  };
  for (int r = 0; r < rows; ++r) {
    if (differ(expected.max[r], got.max[r]))
      return fmt::format("maximum of row {}: {:.9g} is {:.9g} on the device", r, expected.max[r], got.max[r]);
    if (differ(expected.sum[r], got.sum[r]))
      return fmt::format("sum of row {}: {:.9g} is {:.9g} on the device", r, expected.sum[r], got.sum[r]);
    for (int c = 0; c < dv; ++c) {
      const int i = r * kernel::out_pitch(dv) + c;
      if (differ(expected.out[i], got.out[i]))
        return fmt::format("channel {} of row {}: {:.9g} is {:.9g} on the device", c, r, expected.out[i], got.out[i]);
    }
  }
  return {};
}

Case make_case(const Shape& shape, int turn_floats, const Trial& trial) {
  const SideOfPages k(*shape.k, shape.k_params, shape.d, kv::Side::kKeys, trial);
  const SideOfPages v(*shape.v, shape.v_params, shape.dv, kv::Side::kValues, trial);
  Case c{{}, {}, 0, {}, {}, {trial.rows, shape.dv}, {trial.rows, shape.dv}};
  c.queries.resize(static_cast<std::size_t>(trial.rows * shape.d));
  std::uint64_t seed = trial.seed + 77;
  for (float& x : c.queries) x = 0.4f * next(seed);
  const kv::FoldSize size{trial.rows, shape.d, shape.dv, kv::kGroupPages};
  kv::FoldScratch scratch{};
  tensor::Buffer room(tensor::Tag::kScratch, scratch.place(nullptr, size) * sizeof(float));
  scratch.place(room.as<float>(), size);
  const kv::Rows rows{c.queries.data(), trial.rows, trial.rows, std::int64_t{trial.pages} * kv::kPageTokens};
  kv::Fold fold(rows, size, scratch);
  const kv::Segment segment{shape.k, shape.v, k.head, v.head};
  const Case::Held group(trial.rows, shape.dv);
  const auto& kernels = kernel::attention();
  for (const kernel::States* s : {&c.start.states, &c.total.states}) kernels.clear(trial.rows, shape.dv, *s);
  for (int r = 0; trial.start && r < trial.rows; ++r) {
    c.start.states.max[r] = c.total.states.max[r] = next(seed);
    c.start.states.sum[r] = c.total.states.sum[r] = 1.5f;
    for (int i = 0, at = r * kernel::out_pitch(shape.dv); i < shape.dv; ++i)
      c.start.states.out[at + i] = c.total.states.out[at + i] = next(seed);
  }
  const std::size_t slot = k.bytes + v.bytes;
  c.arena.resize(slot * static_cast<std::size_t>(trial.pages));
  c.v_at = static_cast<std::uint32_t>(k.bytes / 16);
  std::vector<kv::FoldPage> list;
  for (int i = 0; i < trial.pages; ++i) {
    const int begin = i == 0 ? trial.first : 0;
    const int end = i + 1 == trial.pages ? trial.last : kv::kPageTokens;
    const std::size_t at = static_cast<std::size_t>(i) * slot;
    std::memcpy(c.arena.data() + at, k.at(i), k.bytes);
    std::memcpy(c.arena.data() + at + k.bytes, v.at(i), v.bytes);
    c.pages.push_back(PlacedPage::of(at, 0, begin, end));
    list.push_back({{k.at(i), begin, end, kv::kPageTokens},
                    {v.at(i), begin, end, kv::kPageTokens},
                    std::int64_t{i} * kv::kPageTokens});
    if (static_cast<int>(list.size()) < kv::kGroupPages && i + 1 < trial.pages) continue;
    const double began = steady_seconds();
    kernels.clear(trial.rows, shape.dv, group.states);
    fold.add(segment, list, true, group.states);
    kernels.fold(trial.rows, shape.dv, group.states, c.total.states);
    const double took = steady_seconds() - began;
    c.group_seconds = c.group_seconds > 0 ? std::min(c.group_seconds, took) : took;
    list.clear();
  }
  if (turn_floats > 0) {
    const auto* const from = static_cast<const float*>(v.head.state);
    c.turns.assign(from, from + turn_floats);
  }
  if (shape.k->k.to_basis) shape.k->k.to_basis(k.head, trial.rows, c.queries.data(), shape.d);
  return c;
}

std::string check(const Context& context, Folder& folder, const Trial& trial) {
  const Shape& shape = folder.shape();
  const Case c = make_case(shape, folder.turn_floats(), trial);
  const Buffer arena = context.make(c.arena.size());
  context.write(arena, 0, c.arena.data(), c.arena.size());
  folder.set_turns(c.turns);
  const Case::Held got(trial.rows, shape.dv);
  Ask ask;
  ask.pages = c.pages;
  ask.v_at = c.v_at;
  ask.q = c.queries.data();
  ask.rows = trial.rows;
  ask.start = trial.start ? &c.start.states : nullptr;
  ask.total = got.states;
  std::array<const Buffer*, kArenas> arenas{};
  arenas[0] = &arena;
  folder.run({&ask, 1}, arenas, 0, 0);
  const std::string why = compare(c.total.states, got.states, trial.rows, shape.dv);
  return why.empty() ? why : fmt::format("{}, {} rows, {} pages: {}", name_of(shape), trial.rows, trial.pages, why);
}

void require(const Context& context, Folder& folder) {
  for (const Trial& trial : {Trial{}, Trial{3, 5, 4, 77, 2, true}})
    if (const std::string why = check(context, folder, trial); !why.empty())
      throw Error(Code::kUnsupported, "it computes other bits than the processor: " + why, context.device().name);
}

}  // namespace kvasir::device
