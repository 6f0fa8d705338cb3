#include "kv/rules.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "kv/arena.hpp"
#include "kv/recur.hpp"

namespace kvasir::kv {

std::int64_t Rules::sinks() const { return arena_.layout.sinks; }

std::int64_t Rules::sealed_pages(std::int64_t n) const { return arena_.layout.sealed_at(n - 1); }

std::size_t Rules::tail_bytes(std::int64_t n) const {
  KVASIR_CHECK(n >= 0);
  Sequence s;  // the sizes depend on its length alone
  s.length = n;
  std::size_t bytes = 0;
  visit_tail(arena_, s, [&](const std::byte*, std::size_t size) { bytes += size; });
  return bytes;
}

std::size_t Rules::recurrent_bytes(std::int64_t n) const {
  Sequence s;
  s.length = n;
  std::size_t bytes = 0;
  visit_states(arena_, s, [&](const std::byte*, std::size_t size) { bytes += size; });
  return bytes;
}

bool Rules::keeps_tail(std::int64_t length, std::int64_t n) const {
  if (n <= length && pages_suffice() && !arena_.pages.on_disk()) return true;
  for (const LayerLayout& layer : arena_.layout.layers)
    if (layer.first_kept(n) < layer.first_kept(length)) return false;
  if (arena_.layout.recurs && boundary_of(n) < boundary_of(length)) return false;
  return n <= length && sealed_pages(n) == sealed_pages(length);
}

std::int64_t Rules::tail_kept_to(std::int64_t n) const {
  return std::min((n + kPageTokens - 1) / kPageTokens * kPageTokens, arena_.layout.next_seal(n - 1));
}

std::int64_t Rules::tail_kept_from(std::int64_t n) const {
  const std::int64_t sealed = sealed_pages(n), begin = (n - 1) / kPageTokens * kPageTokens + 1;
  return sealed > 0 ? std::max(begin, sealed * kPageTokens + arena_.layout.residual) : begin;
}

bool Rules::pages_suffice() const {
  const Layout& l = arena_.layout;
  return l.attends && l.lossless && !l.recurs &&
         std::none_of(l.layers.begin(), l.layers.end(), [](const LayerLayout& layer) { return layer.local(); });
}

bool Rules::can_draft() const {
  const Layout& l = arena_.layout;
  return (l.drafts || !l.recurs) && (!l.selects() || !l.selector->keeps_state());
}

bool Rules::can_truncate(const Sequence& s, std::int64_t text) const {
  // What is cut within a text that is not the sequence's own would leave it without a fresh last token.
  if (s.borrowed && text > 0 && (s.length < s.borrowed->places().end() || s.own_of(text) < s.borrowed->places().end()))
    return text == s.text_length();
  const std::int64_t n = s.own_of(text);
  const std::int64_t keep = sealed_pages(n);
  const std::int64_t last = n > 0 ? (n - 1) / kPageTokens : -1;
  const Layout& l = arena_.layout;
  for (const LayerLayout& layer : l.layers)
    if (n > 0 && layer.first_kept(n) < layer.first_kept(s.length)) return false;
  if (l.recurs && n > 0 && boundary_of(n) < boundary_of(s.length)) return false;
  return keep >= sealed_pages(s.length) || last < keep || l.lossless;
}

std::int64_t Rules::draft_room(const Sequence& s) const {
  if (s.borrowed) return 0;
  return std::min((s.length / kPageTokens + 1) * kPageTokens, arena_.layout.next_seal(s.length)) - 1 - s.length;
}

std::int64_t Rules::exact_tokens(const Sequence& s) { return std::min(s.exact, s.length); }

std::int64_t Rules::exact_prompt(const PageSelector* selector, std::int64_t n) const {
  const Layout& l = arena_.layout;
  if (!selector) selector = l.selector.get();
  return selector && !selector->dense() ? selector->exact_prompt(l, n) : n;
}

double Rules::packed_share(std::int64_t first, std::int64_t count, bool decode) const {
  const Layout& l = arena_.layout;
  double all = 0;
  double packed = 0;
  for (const LayerLayout& layer : l.layers) {
    if (!layer.attends()) continue;
    double seen = 0;
    double sealed = 0;
    for (std::int64_t p = first; p < first + count; ++p) {
      const std::int64_t w = layer.shape.window;
      const std::int64_t begin = w == 0 ? 0 : layer.shape.chunked ? p - p % w : std::max<std::int64_t>(0, p + 1 - w);
      seen += static_cast<double>(p + 1 - begin);
      sealed += static_cast<double>(
          std::max<std::int64_t>(0, l.sealed_at(p) * kPageTokens - std::max<std::int64_t>(l.sinks, begin)));
    }
    const auto side = [&](const Codec& codec, int d) {
      const double products = static_cast<double>(layer.shape.query_heads) * d;
      all += products * seen;
      if (layer.shape.latent) return;
      if (codec.packed_prompts || (decode && !codec.lossless)) packed += products * sealed;
    };
    side(*layer.k, layer.shape.head_dim);
    side(*layer.v, layer.shape.head_dim_v);
  }
  return all > 0 ? packed / all : 0;
}

}  // namespace kvasir::kv
