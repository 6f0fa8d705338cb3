#include "kv/cache.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "kv/cache_state.hpp"

namespace kvasir::kv {

CacheState::CacheState(Team& team_in, const CacheShape& shape, const CacheOptions& options)
    : team(team_in),
      arena(make_layout(shape, options, team.size()), options.max_sequences, options.key_factors, options.key_metrics,
            options.disk, options.device),
      attention(team, arena, options.max_sequences),
      recurrence(team, arena),
      memory(arena.layout.memory),
      attended(arena.layout.layers.size()),
      recurred(arena.layout.layers.size()),
      given(shape),
      shares(std::any_of(shape.layers.begin(), shape.layers.end(), [](const LayerShape& l) { return l.kv_of >= 0; })),
      step_tokens(options.step_tokens) {
  // One sequence can be as long as the pool allows: its page table never grows in a step.
  arena.pages.place(options.placement);
  for (auto& s : arena.sequences) s->pages.reserve(static_cast<std::size_t>(memory.pages));
  slices.reserve(static_cast<std::size_t>(options.max_sequences));
}

Sequence* CacheState::create() {
  KVASIR_CHECK(!open);
  for (auto& s : arena.sequences) {
    if (s->used) continue;
    s->used = true;
    s->length = 0;
    s->exact = kAllExact;
    s->live = true;
    s->marked = -1;
    s->selector = arena.layout.selector;
    selection().reset(*s);
    return s.get();
  }
  throw Error(Code::kMemory, "all " + std::to_string(arena.sequences.size()) + " sequences are in use",
              "cache option max_sequences");
}

void CacheState::drop_own(Sequence* s, std::int64_t keep) {
  while (static_cast<std::int64_t>(s->pages.size()) > keep) {
    arena.drop(s->pages.back());
    s->pages.pop_back();
  }
}

void CacheState::drop_all(Sequence* s) {
  drop_own(s, 0);
  if (!s->borrowed) return;
  for (const BorrowedPage& page : s->borrowed->pages()) arena.drop(page.slot);
  s->borrowed.reset();
}

void CacheState::abort() {
  if (!open) return;  // a disk that failed has given it up already
  open = false;
  for (const Slice& s : slices) {
    drop_all(s.sequence);
    selection().forget(*s.sequence);
    s.sequence->length = 0;
    s.sequence->exact = kAllExact;
    s.sequence->live = true;
    s.sequence->marked = -1;
  }
}

void CacheState::check_disk() {
  try {
    arena.pages.check();
  } catch (const Error&) {
    abort();
    throw;
  }
}

Cache::Cache(Team& team, const CacheShape& shape, const CacheOptions& options)
    : state_(std::make_unique<CacheState>(team, shape, options)) {}
Cache::~Cache() = default;

const CacheShape& Cache::shape() const { return state_->given; }
const MemoryPlan& Cache::memory() const { return state_->memory; }
std::int64_t Cache::length(const Sequence& sequence) { return sequence.text_length(); }
std::int64_t Cache::position(const Sequence& sequence, std::int64_t ahead) {
  return sequence.place(sequence.length + ahead);
}
const Rules& Cache::rules() const { return state_->rules; }
SequenceBytes& Cache::bytes() { return state_->bytes; }
Borrowing& Cache::borrowing() { return state_->borrowing; }
std::unique_ptr<Reader> Cache::reader(std::span<const ReaderLayer> layers, int sequences) {
  return std::make_unique<Reader>(state_->team, *state_, layers, sequences);
}
Sequence* Cache::create() { return state_->create(); }

void Cache::release(Sequence* s) {
  KVASIR_CHECK(!state_->open);
  state_->check_handle(s);
  state_->drop_all(s);
  s->length = 0;
  s->used = false;
}

Sequence* Cache::fork(const Sequence& from) {
  state_->check_handle(&from);
  Sequence* to = create();
  to->length = from.length;
  to->exact = from.exact;
  to->live = from.live;
  to->selector = from.selector;
  state_->selection().copy(from, *to);
  for (const auto slot : from.pages) {
    state_->arena.pool.share(slot);
    to->pages.push_back(slot);
  }
  state_->arena.copy_own(from, *to);
  if (from.borrowed) {
    for (const BorrowedPage& page : from.borrowed->pages()) state_->arena.pool.share(page.slot);
    to->borrowed = std::make_unique<Borrowed>(*from.borrowed);
  }
  return to;
}

void Cache::truncate(Sequence* s, std::int64_t n) {
  KVASIR_CHECK(!state_->open);
  state_->check_handle(s);
  KVASIR_CHECK(n >= 0 && n <= s->text_length());
  const Arena& arena = state_->arena;
  const std::int64_t text = n;
  const bool possible = state_->rules.can_truncate(*s, text);
  if (possible) n = s->own_of(text);
  const std::int64_t sealed = state_->rules.sealed_pages(s->length);
  const std::int64_t keep = state_->rules.sealed_pages(n);
  // Pages [keep, last] become raw; of them [sealed, last] still are.
  const std::int64_t last = n > 0 ? (n - 1) / kPageTokens : -1;
  if (!possible)
    throw Error(Code::kUnsupported,
                "a sequence of " + std::to_string(s->text_length()) + " tokens cannot be cut to " +
                    std::to_string(text) +
                    ": what must be raw again exists only compressed, a layer with a window has given it back, or a "
                    "recurrent layer has gone on",
                "truncate");
  visit_heads(arena.layout, [&](int l, int h) {
    const LayerLayout& layer = arena.layer_at(l);
    for (auto page = std::max(keep, layer.first_kept(n)); layer.seals() && page < sealed && page <= last; ++page)
      Sealer::unseal(arena, l, h, *s, page);
  });
  n == 0 ? state_->drop_all(s) : state_->drop_own(s, keep);
  if (n < s->length) {
    state_->selection().cut(*s, n);
    s->live = n == 0;
    if (n < s->marked) s->marked = -1;
  }
  if (n <= s->exact) s->exact = kAllExact;
  s->length = n;
}

void Cache::begin(std::span<const Slice> slices) {
  CacheState& m = *state_;
  KVASIR_CHECK(!m.open);
  KVASIR_CHECK(slices.size() <= m.arena.sequences.size());
  std::int64_t needed = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Slice& s = slices[i];
    m.check_handle(s.sequence);
    KVASIR_CHECK(s.count >= 1 && s.row >= 0 && (!m.shares || s.count <= m.step_tokens));
    for (std::size_t j = 0; j < i; ++j) KVASIR_CHECK(slices[j].sequence != s.sequence);
    const std::int64_t length = s.sequence->length + s.count;
    if (s.sequence->place(length - 1) >= m.memory.tokens ||
        (s.sequence->borrowed && !m.holds(length, *s.sequence->borrowed)))
      throw Error(Code::kMemory,
                  "a sequence of " + std::to_string(length) + " tokens exceeds the capacity of " +
                      std::to_string(m.memory.tokens),
                  "KV cache");
    needed += m.rules.sealed_pages(length) - static_cast<std::int64_t>(s.sequence->pages.size());
  }
  if (needed > m.arena.pool.free())
    throw Error(Code::kMemory,
                "the step needs " + std::to_string(needed) + " pages, " + std::to_string(m.arena.pool.free()) + " of " +
                    std::to_string(m.arena.pool.total()) + " are free",
                "KV cache");
  m.attention.reserve(slices);
  for (const Slice& s : slices) m.selection().begin_step(*s.sequence);
  m.memory.scratch_bytes = m.attention.scratch_bytes() + m.recurrence.scratch_bytes();
  for (const Slice& s : slices) m.arena.grow(s.sequence, m.rules.sealed_pages(s.sequence->length + s.count));
  m.slices.assign(slices.begin(), slices.end());
  std::fill(m.attended.begin(), m.attended.end(), 0);
  std::fill(m.recurred.begin(), m.recurred.end(), 0);
  m.open = true;
}

void Cache::attend(int layer, const float* q, const float* k, const float* v, float* out, const Scoring& scoring) {
  CacheState& m = *state_;
  KVASIR_CHECK(m.open && layer >= 0 && layer < m.arena.layout.model_layers);
  char& attended = m.attended[static_cast<std::size_t>(layer)];
  const int owner = m.arena.layer_at(layer).owner;
  const int index = m.arena.layer_at(layer).shape.chosen_by;
  KVASIR_CHECK(!attended && m.arena.layer_at(layer).attends() &&
               (owner == layer || m.attended[static_cast<std::size_t>(owner)]));
  attended = 1;
  m.attention.run(m.slices, {layer, q, k, v, out, scoring,
                             index < 0 ? Chosen() : m.attention.chosen(m.arena.layout.index_layer(index))});
  m.check_disk();
}

void Cache::choose(int index, const float* q, const float* k, const float* weights) {
  CacheState& m = *state_;
  const Layout& l = m.arena.layout;
  KVASIR_CHECK(m.open && index >= 0 && index < static_cast<int>(l.shape.indexes.size()));
  char& attended = m.attended[static_cast<std::size_t>(l.index_layer(index))];
  KVASIR_CHECK(!attended);
  attended = 1;
  m.attention.choose(m.slices, {l.index_layer(index), q, k, nullptr, nullptr, {}}, weights);
  m.check_disk();
}

void Cache::recur(int layer, const Recurrent& recurrent, const float* x, const float* gates, float* out) {
  CacheState& m = *state_;
  KVASIR_CHECK(m.open && layer >= 0 && layer < m.arena.layout.shape.count());
  char& recurred = m.recurred[static_cast<std::size_t>(layer)];
  KVASIR_CHECK(!recurred && m.arena.layer_at(layer).shape.recurrent);
  recurred = 1;
  m.recurrence.run(m.slices, {layer, recurrent, x, gates, out});
}

void Cache::convolve(int layer, const Recurrent& recurrent, const float* x, float* out) {
  CacheState& m = *state_;
  KVASIR_CHECK(m.open && layer >= 0 && layer < m.arena.layout.shape.count());
  KVASIR_CHECK(!m.recurred[static_cast<std::size_t>(layer)] && m.arena.layer_at(layer).shape.recurrent);
  m.recurrence.convolve(m.slices, {layer, recurrent, x, nullptr, out});
}

void Cache::commit(int layers) {
  CacheState& m = *state_;
  KVASIR_CHECK(m.open);
  const std::size_t whole = layers < 0 ? m.attended.size() : static_cast<std::size_t>(layers);
  for (std::size_t l = 0; l < whole; ++l) {
    const LayerShape& shape = m.arena.layer_at(static_cast<int>(l)).shape;
    KVASIR_CHECK((m.attended[l] || !shape.attends()) && (m.recurred[l] || !shape.recurrent));
  }
  for (const Slice& s : m.slices) {
    Sequence& sequence = *s.sequence;
    // What was computed with a selection of pages is not what the tokens alone say.
    sequence.exact = std::min(sequence.exact, m.selection().left_out_from(sequence));
    if (layers >= 0) sequence.exact = std::min(sequence.exact, sequence.length);
    if (m.arena.layout.drafts && s.decode && s.count > 1) sequence.marked = sequence.length;
    const std::int64_t sealed = m.rules.sealed_pages(sequence.length);
    sequence.length += s.count;
    for (auto page = static_cast<std::size_t>(sealed); layers < 0 && page < sequence.pages.size(); ++page)
      m.arena.pages.on_seal(sequence.pages[page]);
    sequence.live = true;
  }
  m.open = false;
}

void Cache::abort() { state_->abort(); }

void Cache::set_selection(Sequence* s, std::shared_ptr<const PageSelector> selector) {
  KVASIR_CHECK(!state_->open);
  state_->check_handle(s);
  const auto text_of = [](const PageSelector* of) { return std::string(of ? of->text() : "all"); };
  const PageSelector* const own = state_->arena.layout.selector.get();
  if (!selector) selector = state_->arena.layout.selector;
  const std::string text = text_of(selector.get());
  if (selector && !selector->dense()) {
    if (!state_->given.indexes.empty())
      throw Error(Code::kBadInput,
                  "'" + text + "' cannot choose: layers of this model choose the tokens that they read themselves",
                  "select");
    if (const char* why = own ? selector->refused_in(*own) : "this cache was made without a selector")
      throw Error(Code::kBadInput, "'" + text + "' does not suit a cache with '" + text_of(own) + "': " + why,
                  "select");
  }
  if (text != text_of(s->selector.get())) state_->selection().forget(*s);  // choices that another one made
  s->selector = std::move(selector);
}

// By one decode step of a sequence, all layers.
static std::size_t bytes_read(CacheState& m, const Sequence& s) {
  const Layout& l = m.arena.layout;
  const std::int64_t sealed = m.rules.sealed_pages(s.length);
  std::size_t bytes = m.selection().bytes_read(s);
  for (const LayerLayout& layer : l.layers) {
    if (const RecurrentShape& r = layer.shape.recurrent)
      bytes += sizeof(float) * (layer.recurrent.boundary_floats +
                                static_cast<std::size_t>(r.reach()) * static_cast<std::size_t>(r.channels));
    if (!layer.attends()) continue;
    const std::int64_t first = layer.first_page(s.length - 1);
    const std::int64_t begin = layer.shape.window > 0 ? std::max<std::int64_t>(0, s.length - layer.shape.window) : 0;
    const std::int64_t raw = s.length - std::max(begin, sealed * kPageTokens);
    const auto heads = static_cast<std::size_t>(layer.shape.kv_heads);
    if (layer.shape.window > 0 || !s.selects())
      bytes += static_cast<std::size_t>(std::max<std::int64_t>(0, sealed - first)) * heads *
               (layer.sealed.k_bytes + layer.sealed.v_bytes);
    bytes += static_cast<std::size_t>(raw) * heads * ((layer.raw.k_bytes + layer.raw.v_bytes) / kPageTokens);
    if (!s.borrowed) continue;
    const std::int64_t seen =
        layer.shape.window > 0 ? std::max<std::int64_t>(0, s.text_length() - layer.shape.window) : 0;
    const auto pages = s.borrowed->pages();
    const auto in_sight = std::count_if(pages.begin(), pages.end(),
                                        [&](const BorrowedPage& page) { return page.position + page.end > seen; });
    bytes += static_cast<std::size_t>(in_sight) * heads * (layer.sealed.k_bytes + layer.sealed.v_bytes);
  }
  return bytes;
}

CacheStats Cache::stats() const {
  const Arena& arena = state_->arena;
  const PageDevice* const device = arena.pages.device();
  return {.free_pages = arena.pool.free(),
          .shared_pages = arena.pool.shared(),
          .choosing_seconds = state_->attention.selection().seconds(),
          .disk = arena.pages.disk_stats(),
          .device = device ? device->stats() : DeviceStats()};
}

SequenceStats Cache::stats(const Sequence& s) const {
  state_->check_handle(&s);
  return {.sealed_tokens = state_->rules.sealed_pages(s.length) * kPageTokens,
          .kv_bytes_read = bytes_read(*state_, s),
          .select = s.selects() ? s.selector->text() : std::string_view(),
          .selection = state_->selection().stats(s)};
}

void Cache::check_integrity() const {
  const Arena& arena = state_->arena;
  std::vector<std::int32_t> expected(static_cast<std::size_t>(arena.pool.total()), 0);
  for (const auto& s : arena.sequences) {
    KVASIR_CHECK(s->used || (s->pages.empty() && s->length == 0));
    if (!state_->open)
      KVASIR_CHECK(static_cast<std::int64_t>(s->pages.size()) == state_->rules.sealed_pages(s->length));
    for (const auto slot : s->pages) {
      KVASIR_CHECK(slot >= 0 && slot < arena.pool.total());
      ++expected[static_cast<std::size_t>(slot)];
    }
    if (s->borrowed)
      for (const BorrowedPage& page : s->borrowed->pages()) ++expected[static_cast<std::size_t>(page.slot)];
  }
  for (const std::int32_t slot : state_->adopted) ++expected[static_cast<std::size_t>(slot)];
  arena.pool.check(expected);
}

}  // namespace kvasir::kv
