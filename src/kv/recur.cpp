#include "kv/recur.hpp"

#include <algorithm>

#include "kernel/recurrence.hpp"

namespace kvasir::kv {
namespace {

constexpr int kPiece = 512;  // floats of a row, and channels of a convolution alone, that a thread takes

int pieces(int n) { return (n + kPiece - 1) / kPiece; }

// Recurrent::row_taps: channels [first, first + width) of n tokens, whose rows lie as Past::window gives them.
void convolve_rows(const Recurrent& how, const RecurrentShape& s, const float* const* rows, std::int64_t n,
                   std::int64_t first, std::int64_t width, const float* own, float* out) {
  const std::int64_t group = s.channels / how.groups;
  for (std::int64_t i = 0; i < n; ++i, own += how.groups * s.taps, out += s.channels) {
    std::fill_n(out, width, 0.0f);
    for (int j = 0; j < s.taps; ++j) {
      const float* const x = rows[i + s.taps - 1 - j];
      const float* const taps = how.taps + std::int64_t{j} * s.channels + first;
      for (std::int64_t c = 0; c < width; ++c) out[c] += (taps[c] + own[(first + c) / group * s.taps + j]) * x[c];
    }
  }
}

}  // namespace

Recurrence::Recurrence(Team& team, const Arena& arena)
    : team_(team),
      arena_(arena),
      worker_floats_(arena.layout.recurrent_worker_floats()),
      workers_(tensor::Tag::kScratch, static_cast<std::size_t>(team.size()) * worker_floats_ * sizeof(float)),
      zeros_(tensor::Tag::kScratch, arena.layout.widest_row() * sizeof(float)) {
  std::fill_n(zeros_.as<float>(), arena.layout.widest_row(), 0.0f);
}

struct Recurrence::Past {
  const Slice& slice;
  const LayerLayout& layer;
  const RecurrentShape& shape;
  const float* x;  // of the step
  const float* zeros;
  std::int64_t begin;     // tokens before the step
  std::int64_t boundary;  // of these
  float* columns;
  float* rows;
  float* states;  // at the boundary
  float* live;
  float* mark;

  Past(const Arena& arena, const Slice& s, const Tensors& t, const float* nothing)
      : slice(s),
        layer(arena.layer_at(t.layer)),
        shape(layer.shape.recurrent),
        x(t.x),
        zeros(nothing),
        begin(s.sequence->length),
        boundary(boundary_of(begin)),
        columns(arena.recurrent(*s.sequence, layer.recurrent.columns)),
        rows(arena.recurrent(*s.sequence, layer.recurrent.rows)),
        states(arena.recurrent(*s.sequence, layer.recurrent.boundary)),
        live(arena.recurrent(*s.sequence, layer.recurrent.live)),
        mark(arena.recurrent(*s.sequence, layer.recurrent.mark)) {}

  // Where states go on from when they are not there: where the last drafted step began, if that was behind the
  // boundary, whose rows are kept.
  bool from_mark() const { return slice.sequence->marked >= std::max<std::int64_t>(boundary, 1); }
  std::int64_t kept() const { return from_mark() ? slice.sequence->marked : boundary; }

  std::int64_t end() const { return begin + slice.count; }
  // Channels of the token at a position, which may be before the text.
  const float* row(std::int64_t p) const {
    if (p < 0) return zeros;
    if (p >= begin) return x + (slice.row + p - begin) * shape.channels;
    if (p >= boundary) return rows + (p - boundary) * shape.row();
    return columns + (p - boundary + shape.reach()) * shape.channels;
  }
  // Rows that a convolution reads for `count` tokens from p on, at channel `first`: with a dilation, of one token.
  void window(std::int64_t p, std::int64_t count, std::int64_t first, const float** to) const {
    for (std::int64_t i = 0; i < count + shape.taps - 1; ++i)
      to[i] = row(p - shape.reach() + i * shape.dilation) + first;
  }
};

struct Recurrence::Span {
  std::int64_t begin, end;  // positions
  const float* gates;       // of the first
  std::int64_t pitch;       // from token to token
  float* out;               // of the first, or null
};

// f(past, unit, worker) for all units of every slice.
template <class F>
void Recurrence::each(std::span<const Slice> slices, const Tensors& x, int units, F f) {
  team_.parallel_for(static_cast<std::int64_t>(slices.size()) * units, 1,
                     [&](std::int64_t begin, std::int64_t end, int worker) {
                       for (std::int64_t i = begin; i < end; ++i) {
                         const Past past(arena_, slices[static_cast<std::size_t>(i / units)], x, zeros_.as<float>());
                         f(past, static_cast<int>(i % units), worker);
                       }
                     });
}

void Recurrence::convolve(std::span<const Slice> slices, const Tensors& x) {
  const int channels = arena_.layer_at(x.layer).shape.recurrent.channels;
  each(slices, x, pieces(channels), [&](const Past& past, int piece, int) { convolve(past, x, piece); });
}

void Recurrence::run(std::span<const Slice> slices, const Tensors& x) {
  const RecurrentShape& shape = arena_.layer_at(x.layer).shape.recurrent;
  if (shape.heads > 0)
    each(slices, x, shape.heads, [&](const Past& past, int head, int worker) { take(past, x, head, worker); });
  else
    convolve(slices, x);
  // Not before: other heads and channels read the rows that are replaced.
  each(slices, x, pieces(shape.row()), [&](const Past& past, int piece, int) { keep(past, x, piece); });
}

// One head through the step.
void Recurrence::take(const Past& past, const Tensors& x, int head, int worker) const {
  const RecurrentShape& s = past.shape;
  float* const scratch = workers_.as<float>() + static_cast<std::size_t>(worker) * worker_floats_;
  const std::int64_t floats = std::int64_t{s.key_dim} * s.pitch();
  const bool live = past.slice.sequence->live;
  const std::int64_t kept = past.kept();
  if (past.begin == 0 || (!live && kept == 0))
    std::fill_n(past.live + head * floats, floats, 0.0f);
  else if (!live)
    std::copy_n((past.from_mark() ? past.mark : past.states) + head * floats, floats, past.live + head * floats);
  if (!live) {
    const float* const gates = past.rows + (kept - past.boundary) * s.row() + s.channels;
    advance(past, x, head, {kept, past.begin, gates, s.row(), nullptr}, scratch);
  }
  if (arena_.layout.drafts && past.slice.decode && past.slice.count > 1)
    std::copy_n(past.live + head * floats, floats, past.mark + head * floats);
  advance(past, x, head,
          {past.begin, past.end(), x.gates + std::int64_t{past.slice.row} * s.gates(), s.gates(),
           x.out + std::int64_t{past.slice.row} * s.outputs()},
          scratch);
}

void Recurrence::advance(const Past& past, const Tensors& x, int head, const Span& span, float* scratch) const {
  const auto& kernels = kernel::recurrence();
  const RecurrentShape& s = past.shape;
  const Recurrent& how = x.how;
  const std::int64_t d = s.key_dim, pitch = s.pitch(), floats = d * pitch;
  float* const state = past.live + head * floats;
  const int key_head = how.tiled ? head % s.key_heads : head / (s.heads / s.key_heads);
  float *const q = scratch, *const k = q + kRecurrentTokens * d, *const v = k + kRecurrentTokens * d;
  for (std::int64_t p = span.begin; p < span.end;) {
    if (p % kPageTokens == 0) std::copy_n(state, floats, past.states + head * floats);
    const std::int64_t n = std::min({span.end - p, kPageTokens - p % kPageTokens, std::int64_t{kRecurrentTokens}});
    // Channels [from + first, from + first + width) of a part of `channels`, whose convolution may be its own.
    const auto convolved = [&](const float* own, std::int64_t channels, std::int64_t from, std::int64_t first,
                               std::int64_t width, float* to, std::int64_t to_pitch) {
      const float* rows[kRecurrentTokens + kMostTaps];
      const std::int64_t at = from + first;
      past.window(p, n, at, rows);
      kernels.convolve({rows, n, s.taps, own ? own + first : how.taps + at, own ? channels : s.channels,
                        how.bias ? how.bias + at : nullptr, width, how.silu, to, to_pitch});
    };
    const std::int64_t keys = std::int64_t{s.key_heads} * d, column = std::int64_t{head} * s.value_dim;
    convolved(how.v_taps, s.outputs(), how.v, column, s.value_dim, v, pitch);
    const std::int64_t done = p - span.begin;
    const float* const gates = span.gates + done * span.pitch;
    float* const out = span.out ? span.out + done * s.outputs() + column : nullptr;
    if (s.forgetting == Forgetting::kByElement) {
      const std::int64_t all = s.outputs();
      kernels.scan({n, d, s.value_dim, pitch, v, pitch, gates + column, gates + all, gates + all + d, span.pitch,
                    how.rates + column, all, how.skip + column, state, out, all});
      p += n;
      continue;
    }
    convolved(how.q_taps, keys, how.q, key_head * d, d, q, d);
    convolved(how.k_taps, keys, how.k, key_head * d, d, k, d);
    if (how.least_length > 0) {
      kernels.normalise(q, n, d, d, how.least_length, how.query_scale);
      kernels.normalise(k, n, d, d, how.least_length, 1.0f);
    }
    const bool by_key = s.forgetting == Forgetting::kByKey;
    const std::int64_t decays = by_key ? d : 1;
    kernels.update({n, d, s.value_dim, pitch, q, k, d, v, pitch, gates + head * decays, gates + s.heads * decays + head,
                    span.pitch, how.delta, how.skip ? how.skip[head] : 0.0f, state, out, s.outputs(), by_key});
    p += n;
  }
}

// Some channels of a layer without heads through the step.
void Recurrence::convolve(const Past& past, const Tensors& x, int piece) const {
  const RecurrentShape& s = past.shape;
  const std::int64_t first = std::int64_t{piece} * kPiece, width = std::min<std::int64_t>(kPiece, s.channels - first);
  for (std::int64_t p = past.begin; p < past.end();) {
    const std::int64_t n = s.dilation > 1 ? 1 : std::min<std::int64_t>(past.end() - p, kRecurrentTokens);
    const float* rows[kRecurrentTokens + kMostTaps];
    past.window(p, n, first, rows);
    const std::int64_t at = past.slice.row + p - past.begin;
    float* const out = x.out + at * s.channels + first;
    if (x.how.row_taps)
      convolve_rows(x.how, s, rows, n, first, width, x.how.row_taps + at * x.how.groups * s.taps, out);
    else
      kernel::recurrence().convolve({rows, n, s.taps, x.how.taps + first, s.channels,
                                     x.how.bias ? x.how.bias + first : nullptr, width, x.how.silu, out, s.channels});
    p += n;
  }
}

// Stores what the next step needs of the rows: those behind the new boundary, and before it as many as convolutions
// read. The latter are of this step or of the page that was filled.
void Recurrence::keep(const Past& past, const Tensors& x, int piece) const {
  const RecurrentShape& s = past.shape;
  const std::int64_t boundary = boundary_of(past.end());
  const std::int64_t first = std::int64_t{piece} * kPiece, last = std::min<std::int64_t>(first + kPiece, s.row());
  const std::int64_t channels = std::clamp<std::int64_t>(last, first, std::max<std::int64_t>(first, s.channels));
  if (boundary > past.boundary)
    for (std::int64_t i = 0; i < s.reach(); ++i) {
      const float* const row = past.row(boundary - s.reach() + i);
      std::copy(row + first, row + channels, past.columns + i * s.channels + first);
    }
  for (std::int64_t p = std::max(past.begin, boundary); p < past.end(); ++p) {
    float* const to = past.rows + (p - boundary) * s.row();
    std::copy(past.row(p) + first, past.row(p) + channels, to + first);
    if (s.heads == 0) continue;
    const float* const gates = x.gates + (past.slice.row + p - past.begin) * s.gates() - s.channels;
    std::copy(gates + channels, gates + last, to + channels);
  }
}

}  // namespace kvasir::kv
