#include "device/fold.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.hpp"
#include "device/texts.hpp"
#include "kv/families/rotated/integer_levels.hpp"
#include "kv/page.hpp"

namespace kvasir::device {
namespace {

constexpr std::uint32_t kNoStart = 0xffffffff;
constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: added and taken off it rounds to the nearest even integer

// Sum of n floats in the order of the processor's vectors: 16 lanes, then halves.
float sum_of(const float* x, int n) {
  float lane[16] = {};
  for (int i = 0; i < n; i += 16)
    for (int l = 0; l < 16; ++l) lane[l] += x[i + l];
  for (int half = 8; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
  return lane[0];
}

struct Quantized {
  float scale;
  int sum;
};

// As kv/families/packed/int8_row.hpp. n: a multiple of 16
Quantized quantize(const float* x, int n, std::int8_t* to) {
  float most[16] = {};
  float finite[16] = {};
  for (int i = 0; i < n; i += 16)
    for (int l = 0; l < 16; ++l) {
      most[l] = std::max(most[l], std::fabs(x[i + l]));
      finite[l] += x[i + l] * 0.0f;
    }
  float m = 0;
  float all = 0;
  for (int l = 0; l < 16; ++l) m = std::max(m, most[l]), all += finite[l];
  if (!(all == 0.0f)) {
    std::memset(to, 0, static_cast<std::size_t>(n));
    return {std::numeric_limits<float>::quiet_NaN(), 0};
  }
  const bool usable = m >= 1.5e-36f;
  const float inverse = usable ? 127.0f / m : 0.0f;
  int sum = 0;
  for (int i = 0; i < n; ++i) {
    const float y = x[i] * inverse;
    const int q = static_cast<int>((y + kRound) - kRound);
    to[i] = static_cast<std::int8_t>(q);
    sum += q;
  }
  return {usable ? m / 127.0f : 0.0f, sum};
}

}  // namespace

void pack_rows(const Constants& constants, int d, const float* q, int rows, std::byte* block) {
  std::memset(block, 0, block_bytes(constants, d));
  auto* const floats = reinterpret_cast<float*>(block);
  std::memcpy(floats, q, static_cast<std::size_t>(rows * d) * sizeof(float));
  if (constants.k.layout != Layout::kRotated && constants.k.layout != Layout::kColumnScaled) return;
  const bool rotated = constants.k.layout == Layout::kRotated;
  const int group = rotated ? d : constants.k.group;
  const float middle =
      rotated ? (constants.k.bits == 8 ? 0.0f : kv::integer_levels(constants.k.bits).offset)
              : static_cast<float>((1 << constants.k.bits) - 1) / 2 - (constants.k.bits == 8 ? 128.0f : 0.0f);
  auto* const x = reinterpret_cast<std::int8_t*>(floats + 8 * d);
  for (int r = 0; r < rows; ++r)
    for (int from = 0, j = 0; from < d; from += group, ++j) {
      const int n = std::min(group, d - from);
      const float* const row = q + static_cast<std::ptrdiff_t>(r) * d + from;
      const Quantized s = quantize(row, n, x + r * d + from);
      float* const to = floats + 10 * d + 24 * j + r;
      to[0] = s.scale;
      to[8] = -s.scale * (middle * static_cast<float>(s.sum));
      to[16] = rotated ? 0.0f : sum_of(row, n);
    }
}

Folder::Folder(const Context& context, Programs& programs, const Shape& shape, const std::string& options,
               std::size_t state_bytes)
    : context_(context),
      shape_(shape),
      state_bytes_(state_bytes),
      constants_(constants(shape, context.device().limits.in_line_ptx)) {
  const std::string text = constants_.text + (context.device().limits.integer_dots ? "#define IDOT\n" : "") +
                           texts::kCommon + (constants_.matrix_units ? texts::kFoldMma : texts::kFold) + texts::kTotal;
  const Program program = programs.get(context, text, options);
  fold_ = program.kernel("fold");
  total_ = program.kernel("total");
  turns_ = context.make(16);
}

void Folder::set_turns(std::span<const float> turns) {
  if (turns.empty()) return;
  room(turns_, turns.size_bytes());
  context_.write(turns_, 0, turns.data(), turns.size_bytes());
}

// Grows by halves more than is needed, so that a growing context does not allocate at every page.
void Folder::room(Buffer& buffer, std::size_t bytes) {
  if (buffer && buffer.size() >= bytes) return;
  buffer = Buffer();
  buffer = context_.make((bytes + bytes / 2 + 4095) / 4096 * 4096);
}

void Folder::upload(Table& t) {
  const std::size_t bytes = t.words.size() * sizeof(std::uint32_t);
  if (t.buffer && t.buffer.size() >= bytes && t.words == t.there) return;
  room(t.buffer, bytes);
  t.there = t.words;
  context_.write(t.buffer, 0, t.there.data(), bytes, true);
}

void Folder::add(const Ask& ask) {
  const bool totals = ask.groups == nullptr;
  const auto first_page = static_cast<std::uint32_t>(pages_.words.size() / 2);
  const auto count = static_cast<std::uint32_t>(ask.pages.size());
  for (const PlacedPage& p : ask.pages) pages_.words.insert(pages_.words.end(), {p.at, p.where});
  const std::uint32_t groups = (count + kv::kGroupPages - 1) / kv::kGroupPages;
  for (int row = 0; row < ask.rows; row += kBlockRows) {
    const int rows = std::min(kBlockRows, ask.rows - row);
    const std::size_t at = staged_.size();
    staged_.resize(at + block_bytes());
    pack_rows(constants_, shape_.d, ask.q + static_cast<std::ptrdiff_t>(row) * shape_.d, rows, staged_.data() + at);
    if (totals && waves_.back().sums > 0 &&
        (waves_.back().states + groups) * state_floats() * sizeof(float) > state_bytes_) {
      const Wave& last = waves_.back();
      waves_.push_back({last.first_job + last.jobs, 0, last.first_sum + last.sums, 0, 0, {}});
    }
    Wave& wave = waves_.back();
    const std::uint32_t first_state = (totals ? kept_states_ : 0) + wave.states;
    for (std::uint32_t g = 0; g < groups; ++g)
      jobs_.words.insert(jobs_.words.end(), {first_page + g * kv::kGroupPages,
                                             std::min<std::uint32_t>(kv::kGroupPages, count - g * kv::kGroupPages),
                                             blocks_, first_state + g, ask.k_at, ask.v_at,
                                             static_cast<std::uint32_t>(ask.head), static_cast<std::uint32_t>(rows)});
    wave.jobs += groups;
    wave.states += groups;
    if (totals) {
      sums_.words.insert(sums_.words.end(), {first_state, groups, ask.start ? starts_count_ : kNoStart, totals_count_++,
                                             static_cast<std::uint32_t>(rows), 0, 0, 0});
      ++wave.sums;
    }
    if (totals && ask.start) {
      const auto pitch_in = kernel::out_pitch(shape_.dv);
      starts_.resize(starts_.size() + static_cast<std::size_t>(kBlockRows * pitch()));
      float* const to =
          starts_.data() + static_cast<std::size_t>(starts_count_++) * static_cast<std::size_t>(kBlockRows * pitch());
      for (int r = 0; r < rows; ++r) {
        std::memcpy(to + r * pitch(), ask.start->out + static_cast<std::ptrdiff_t>(row + r) * pitch_in,
                    static_cast<std::size_t>(shape_.dv) * sizeof(float));
        to[r * pitch() + shape_.dv] = ask.start->max[row + r];
        to[r * pitch() + shape_.dv + 1] = ask.start->sum[row + r];
      }
    }
    ++blocks_;
  }
}

void Folder::start(std::span<const Ask> asks, const std::array<const Buffer*, kArenas>& arenas, std::uint32_t layer_at,
                   std::uint32_t turn_at, bool timed) {
  asks_ = asks;
  timed_ = timed;
  pages_.words.clear(), jobs_.words.clear(), sums_.words.clear(), staged_.clear(), starts_.clear();
  blocks_ = kept_states_ = starts_count_ = totals_count_ = 0;
  waves_.clear();
  waves_.push_back({0, 0, 0, 0, 0, {}});
  for (const Ask& a : asks) KVASIR_CHECK(!a.pages.empty() && a.rows > 0);
  for (const Ask& a : asks)
    if (a.groups) add(a);
  std::swap(kept_states_, waves_.back().states);  // what the wave has besides are its totals' states
  for (const Ask& a : asks)
    if (!a.groups) add(a);
  if (jobs_.words.empty()) return;
  upload(pages_);
  upload(jobs_);
  if (totals_count_ > 0) upload(sums_);
  const std::size_t starts_at = staged_.size();
  staged_.resize(starts_at + starts_.size() * sizeof(float));
  if (!starts_.empty()) std::memcpy(staged_.data() + starts_at, starts_.data(), starts_.size() * sizeof(float));
  room(queries_, staged_.size());
  context_.write(queries_, 0, staged_.data(), staged_.size(), true);
  std::uint32_t most = 0;
  for (const Wave& w : waves_) most = std::max(most, w.states);
  room(states_, (kept_states_ + most) * state_floats() * sizeof(float));
  if (totals_count_ > 0) room(totals_, totals_count_ * state_floats() * sizeof(float));
  std::vector<Argument> fold;
  for (const Buffer* a : arenas) fold.emplace_back(*(a ? a : arenas[0]));
  fold.insert(fold.end(), {Argument(pages_.buffer), Argument(jobs_.buffer), Argument(queries_), Argument(turns_),
                           Argument(states_), Argument(layer_at), Argument(turn_at), Argument(std::uint32_t{0})});
  for (Wave& w : waves_) {
    fold.back() = Argument(w.first_job);
    context_.launch(fold_, w.jobs, constants_.matrix_units ? 256 : 128, fold, timed);
    if (w.sums > 0) {
      const Argument sum[] = {
          states_, queries_, totals_, sums_.buffer, static_cast<std::uint32_t>(starts_at / sizeof(float)), w.first_sum};
      const bool more = &w != &waves_.back();
      context_.launch(total_, w.sums * std::size_t{kBlockRows}, 128, sum, timed, {}, more ? &w.done : nullptr);
    }
    context_.flush();
  }
}

void Folder::finish() {
  for (const Wave& w : waves_) context_.wait(w.done);  // each has the deadline for itself
  for (const bool totals : {false, true}) {
    const std::size_t floats = (totals ? totals_count_ : kept_states_) * state_floats();
    if (floats == 0) continue;
    answer_.resize(floats);
    context_.read(totals ? totals_ : states_, 0, answer_.data(), floats * sizeof(float));
    take(totals, answer_.data());
  }
  if (timed_) seconds_ = context_.finish();
}

// States from the answer to where the asks want them.
void Folder::take(bool totals, const float* from) {
  const int pitch_out = kernel::out_pitch(shape_.dv);
  const auto copy = [&](const kernel::States& to, int row, int rows) {
    for (int r = 0; r < rows; ++r) {
      std::memcpy(to.out + static_cast<std::ptrdiff_t>(row + r) * pitch_out, from + r * pitch(),
                  static_cast<std::size_t>(shape_.dv) * sizeof(float));
      to.max[row + r] = from[r * pitch() + shape_.dv];
      to.sum[row + r] = from[r * pitch() + shape_.dv + 1];
    }
    from += state_floats();
  };
  for (const Ask& a : asks_) {
    if (totals != (a.groups == nullptr)) continue;
    const std::size_t groups = (a.pages.size() + kv::kGroupPages - 1) / kv::kGroupPages;
    for (int row = 0; row < a.rows; row += kBlockRows) {
      const int rows = std::min(kBlockRows, a.rows - row);
      if (totals) copy(a.total, row, rows);
      for (std::size_t g = 0; !totals && g < groups; ++g) copy(a.groups[g], row, rows);
    }
  }
}

}  // namespace kvasir::device
