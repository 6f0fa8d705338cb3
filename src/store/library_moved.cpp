// The library's half that finds texts at other places.
#include <algorithm>

#include "base/clock.hpp"
#include "kv/page.hpp"
#include "store/library.hpp"

namespace kvasir::store {

using kv::kPageTokens;

void Library::remember_segments(Chain& chain, std::string_view tenant, std::span<const std::int32_t> ids,
                                std::int64_t sealed_tokens, std::span<const std::int64_t> borders) {
  const std::span<const Key> keys = chain.extend(ids);
  const auto pages = static_cast<std::size_t>(sealed_tokens / kPageTokens);
  if (tiers_.empty() || pages == 0 || pages > keys.size()) return;
  segments_.add(tenant, ids.first(pages * kPageTokens), keys.first(pages), borders);
}

Moved Library::find_moved(std::string_view tenant, std::span<const std::int32_t> ids, std::int64_t from,
                          std::int64_t to, Deadline deadline) {
  const double start = steady_seconds();
  Moved moved;
  const std::int64_t sinks = cache_.sinks();
  const auto matches = segments_.find(tenant, ids, from, to, sinks);
  // Chunks that several runs lie in are read once.
  std::vector<Key> keys;
  std::map<Key, std::size_t> index;
  const auto first_page = [](const Segments::Match& m) { return m.made_at / kPageTokens; };
  const auto last_page = [](const Segments::Match& m) { return (m.made_at + m.end - m.begin - 1) / kPageTokens; };
  std::vector<std::pair<const Segments::Text*, std::int64_t>> wanted;  // whose page a key is
  for (const auto& m : matches)
    for (std::int64_t i = first_page(m); i <= last_page(m); ++i)
      if (index.try_emplace(m.text->keys[static_cast<std::size_t>(i)], keys.size()).second) {
        keys.push_back(m.text->keys[static_cast<std::size_t>(i)]);
        wanted.emplace_back(m.text.get(), i);
      }
  std::vector<Found> found(keys.size());
  for (const auto& tier : tiers_) {
    std::vector<Key> missing;
    std::vector<std::size_t> at;
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (!found[i]) missing.push_back(keys[i]), at.push_back(i);
    if (missing.empty()) break;
    auto answers = tier->get(missing, {.fingerprint = fingerprint_, .deadline = deadline}).take(deadline);
    for (std::size_t i = 0; i < at.size(); ++i) {
      const auto& [text, page] = wanted[at[i]];
      const std::span<const std::int32_t> page_ids =
          std::span(text->ids).subspan(static_cast<std::size_t>(page * kPageTokens), kPageTokens);
      if (answers[i] && answers[i].record.head.kind == Kind::kChunk && answers[i].record.tokens_are(page_ids) &&
          answers[i].record.payload.size() == cache_.memory().chunk_bytes)
        found[at[i]] = std::move(answers[i]);
    }
  }
  // Runs end where a chunk is gone.
  for (const auto& m : matches) {
    Moved::Run run;
    bool whole = true;
    const auto close = [&] {
      if (run.end - run.begin >= kLeastSegment) moved.runs.push_back(run);
      run = {};
    };
    for (std::int64_t i = first_page(m); i <= last_page(m); ++i) {
      const std::size_t at = index.at(m.text->keys[static_cast<std::size_t>(i)]);
      if (!found[at]) {
        whole = false;
        close();
        continue;
      }
      const std::int64_t made_at = std::max(m.made_at, i * kPageTokens);
      if (run.pages.empty()) run.begin = m.begin + made_at - m.made_at, run.made_at = made_at;
      run.pages.push_back(at);
      run.end = std::min(m.end, m.begin + (i + 1) * kPageTokens - m.made_at);
    }
    close();
    if (!whole && immediate_) segments_.forget(m.text);  // of slower tiers they may wait to be written
  }
  for (const Found& f : found)
    if (f) moved.bytes += f.bytes.bytes.size();
  moved.pages = std::move(found);
  moved.seconds = steady_seconds() - start;
  return moved;
}

}  // namespace kvasir::store
