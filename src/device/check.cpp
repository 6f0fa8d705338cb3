#include "device/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

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
struct Pages {
  const kv::Codec& codec;
  kv::Head head;
  std::size_t bytes;
  tensor::Buffer state;
  tensor::Buffer sealed;

  Pages(const kv::Codec& c, const kv::CodecParams& params, int d, kv::Side side, const Trial& trial)
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

struct Held {
  tensor::Buffer buffer;
  kernel::States states;
  Held(int rows, int dv)
      : buffer(tensor::Tag::kScratch, (2 * kv::round_up(static_cast<std::size_t>(rows)) +
                                       static_cast<std::size_t>(rows * kernel::out_pitch(dv))) *
                                          sizeof(float)) {
    auto* const p = buffer.as<float>();
    const std::size_t n = kv::round_up(static_cast<std::size_t>(rows));
    states = {p, p + n, p + 2 * n};
  }
};

// The first number of `mine` that is not `theirs`.
std::string compare(const kernel::States& theirs, const kernel::States& mine, int rows, int dv) {
  const auto differ = [](float a, float b) {
    return std::bit_cast<std::uint32_t>(a) != std::bit_cast<std::uint32_t>(b);
  };
  for (int r = 0; r < rows; ++r) {
    if (differ(theirs.max[r], mine.max[r]))
      return fmt::format("maximum of row {}: {:.9g} is {:.9g} on the device", r, theirs.max[r], mine.max[r]);
    if (differ(theirs.sum[r], mine.sum[r]))
      return fmt::format("sum of row {}: {:.9g} is {:.9g} on the device", r, theirs.sum[r], mine.sum[r]);
    for (int c = 0; c < dv; ++c) {
      const int i = r * kernel::out_pitch(dv) + c;
      if (differ(theirs.out[i], mine.out[i]))
        return fmt::format("channel {} of row {}: {:.9g} is {:.9g} on the device", c, r, theirs.out[i], mine.out[i]);
    }
  }
  return {};
}

}  // namespace

std::string check(const Context& context, Folder& folder, const Trial& trial) {
  const Shape& shape = folder.shape();
  const Pages k(*shape.k, shape.k_params, shape.d, kv::Side::kKeys, trial);
  const Pages v(*shape.v, shape.v_params, shape.dv, kv::Side::kValues, trial);
  tensor::Buffer queries(tensor::Tag::kScratch, static_cast<std::size_t>(trial.rows * shape.d) * sizeof(float));
  std::uint64_t seed = trial.seed + 77;
  for (int i = 0; i < trial.rows * shape.d; ++i) queries.as<float>()[i] = 0.4f * next(seed);
  // The processor.
  const kv::FoldSize size{trial.rows, shape.d, shape.dv, kv::kGroupPages};
  kv::FoldScratch scratch{};
  tensor::Buffer room(tensor::Tag::kScratch, scratch.place(nullptr, size) * sizeof(float));
  scratch.place(room.as<float>(), size);
  const kv::Rows rows{queries.as<float>(), trial.rows, trial.rows, std::int64_t{trial.pages} * kv::kPageTokens};
  kv::Fold fold(rows, size, scratch);
  const kv::Segment segment{shape.k, shape.v, k.head, v.head};
  const Held start(trial.rows, shape.dv), total(trial.rows, shape.dv), group(trial.rows, shape.dv),
      mine(trial.rows, shape.dv);
  const auto& kernels = kernel::attention();
  kernels.clear(trial.rows, shape.dv, start.states);
  if (trial.start)
    for (int r = 0; r < trial.rows; ++r) {
      start.states.max[r] = next(seed);
      start.states.sum[r] = 1.5f;
      for (int c = 0; c < shape.dv; ++c) start.states.out[r * kernel::out_pitch(shape.dv) + c] = next(seed);
    }
  std::memcpy(total.buffer.data(), start.buffer.data(), start.buffer.size());
  std::vector<DevicePage> pages;
  const std::size_t slot = k.bytes + v.bytes;
  for (int p = 0; p < trial.pages; p += kv::kGroupPages) {
    std::vector<kv::FoldPage> list;
    for (int i = p; i < std::min(p + kv::kGroupPages, trial.pages); ++i) {
      const int begin = i == 0 ? trial.first : 0;
      const int end = i + 1 == trial.pages ? trial.last : kv::kPageTokens;
      list.push_back({{k.at(i), begin, end, kv::kPageTokens},
                      {v.at(i), begin, end, kv::kPageTokens},
                      std::int64_t{i} * kv::kPageTokens});
      pages.push_back(DevicePage::of(static_cast<std::size_t>(i) * slot, 0, begin, end));
    }
    kernels.clear(trial.rows, shape.dv, group.states);
    fold.add(segment, list, true, group.states);
    kernels.fold(trial.rows, shape.dv, group.states, total.states);
  }
  // The device.
  const Buffer arena = context.make(slot * static_cast<std::size_t>(trial.pages));
  for (int p = 0; p < trial.pages; ++p) {
    context.write(arena, static_cast<std::size_t>(p) * slot, k.at(p), k.bytes);
    context.write(arena, static_cast<std::size_t>(p) * slot + k.bytes, v.at(p), v.bytes);
  }
  if (folder.turn_floats() > 0)
    folder.set_turns({reinterpret_cast<const float*>(v.head.state), static_cast<std::size_t>(folder.turn_floats())});
  if (shape.k->k.to_basis) shape.k->k.to_basis(k.head, trial.rows, queries.as<float>(), shape.d);
  std::array<const Buffer*, kArenas> arenas{};
  arenas[0] = &arena;
  Ask ask;
  ask.pages = pages;
  ask.v_at = static_cast<std::uint32_t>(k.bytes / 16);
  ask.q = queries.as<float>();
  ask.rows = trial.rows;
  ask.start = trial.start ? &start.states : nullptr;
  ask.total = mine.states;
  folder.run({&ask, 1}, arenas, 0, 0);
  const std::string difference = compare(total.states, mine.states, trial.rows, shape.dv);
  return difference.empty()
             ? difference
             : fmt::format("{}, {} rows, {} pages: {}", name_of(shape), trial.rows, trial.pages, difference);
}

void require(const Context& context, Folder& folder) {
  for (const Trial& trial : {Trial{}, Trial{3, 5, 4, 77, 2, true}})
    if (const std::string why = check(context, folder, trial); !why.empty())
      throw Error(Code::kUnsupported, "it computes other bits than the processor: " + why, context.device().name);
}

}  // namespace kvasir::device
