#include "store/passages.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/clock.hpp"
#include "kv/page.hpp"
#include "store/tail.hpp"

namespace kvasir::store {

using kv::kPageTokens;

namespace {

constexpr std::size_t kMostChunks = (std::size_t{4} << 20) / kPageTokens;  // of stored texts that are learnt
constexpr auto kScanTime = std::chrono::seconds(5);

}  // namespace

Passages::Passages(const kv::Cache& cache, const Fingerprint& fingerprint, std::span<const std::shared_ptr<Tier>> tiers)
    : cache_(cache), fingerprint_(fingerprint), tiers_(tiers.begin(), tiers.end()) {
  for (const auto& tier : tiers_) immediate_ = immediate_ && tier->immediate();
}

// Chunks name their parents and hold their ids, so the tiers are their own index, and what was evicted is not in it.
// Those that were used last are kept. Nothing is believed: keys have to follow from parents and ids.
void Passages::scan_stored() {
  struct Chunk {
    Key parent;
    Stored stored;
  };
  std::vector<Chunk> chunks;
  const auto shorten = [&](std::size_t most) {
    if (chunks.size() <= most) return;
    std::nth_element(chunks.begin(), chunks.begin() + static_cast<std::ptrdiff_t>(most), chunks.end(),
                     [](const Chunk& a, const Chunk& b) { return a.stored.used > b.stored.used; });
    chunks.resize(most);
  };
  for (const auto& tier : tiers_) {
    if (!tier->scans()) continue;
    const auto see = [&](const Seen& s) {
      if (s.head.fingerprint != fingerprint_ || s.ids.size() != static_cast<std::size_t>(kPageTokens) ||
          chunk_key(s.head.parent, s.ids) != s.key)
        return true;
      chunks.push_back({s.head.parent, {s.key, s.ids, s.used}});
      if (chunks.size() >= 2 * kMostChunks) shorten(kMostChunks);
      return true;
    };
    tier->scan(see, within(kScanTime));  // what was not seen in time is computed as before
  }
  shorten(kMostChunks);
  for (Chunk& c : chunks) {
    std::vector<Stored>& beside = stored_[c.parent];
    if (std::none_of(beside.begin(), beside.end(), [&](const Stored& s) { return s.key == c.stored.key; }))
      beside.push_back(std::move(c.stored));
  }
}

// The tenant's stored texts, from its root on to every last page.
void Passages::learn(const std::string& tenant) {
  const std::lock_guard lock(stored_mutex_);
  if (!std::exchange(scanned_, true)) scan_stored();
  if (!learnt_.insert(tenant).second || stored_.empty()) return;
  struct Node {
    Stored stored;
    std::ptrdiff_t parent;  // -1: the root
    std::size_t pages;      // of the text that ends here
  };
  std::vector<Node> nodes;
  const auto grow = [&](const Key& key, std::ptrdiff_t parent, std::size_t pages) {
    const auto next = stored_.find(key);
    if (next == stored_.end()) return false;
    for (Stored& s : next->second) nodes.push_back({std::move(s), parent, pages + 1});
    stored_.erase(next);  // no chunk has two parents
    return true;
  };
  grow(root_key(fingerprint_, tenant), -1, 0);
  std::vector<std::size_t> last;  // pages of texts
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (!grow(Key(nodes[i].stored.key), static_cast<std::ptrdiff_t>(i), nodes[i].pages)) last.push_back(i);
  // The newest that there is room for, and the oldest of them first, so that it is the first to go.
  std::sort(last.begin(), last.end(), [&](std::size_t a, std::size_t b) {
    return nodes[a].stored.used != nodes[b].stored.used ? nodes[a].stored.used > nodes[b].stored.used : a < b;
  });
  std::size_t pages = 0, count = 0;
  while (count < last.size() && (pages += nodes[last[count]].pages) <= kMostChunks) ++count;
  for (std::size_t i = count; i-- > 0;) {
    std::vector<const Stored*> way;
    for (auto at = static_cast<std::ptrdiff_t>(last[i]); at >= 0; at = nodes[static_cast<std::size_t>(at)].parent)
      way.push_back(&nodes[static_cast<std::size_t>(at)].stored);
    std::vector<std::int32_t> ids;
    std::vector<Key> keys;
    for (auto s = way.rbegin(); s != way.rend(); ++s) {
      ids.insert(ids.end(), (*s)->ids.begin(), (*s)->ids.end());
      keys.push_back((*s)->key);
    }
    content_.add(tenant, ids, keys);
  }
}

void Passages::remember(Chain& chain, std::string_view tenant, std::span<const std::int32_t> ids,
                        std::int64_t sealed_tokens, std::span<const std::int64_t> borders) {
  const std::span<const Key> keys = chain.extend(ids);
  const auto pages = static_cast<std::size_t>(sealed_tokens / kPageTokens);
  if (tiers_.empty() || pages == 0 || pages > keys.size()) return;
  const std::span<const std::int32_t> whole = ids.first(pages * kPageTokens);
  const std::vector<std::int64_t> begins = content_.add(tenant, whole, keys.first(pages), borders);
  if (!begins.empty()) index_pieces(std::string(tenant), whole, begins);
}

Moved Passages::find(std::string_view tenant, std::span<const std::int32_t> ids, ContentIndex::Scope scope,
                     Deadline deadline) {
  const double start = steady_seconds();
  Moved moved;
  learn(std::string(tenant));
  scope.skip = cache_.rules().sinks();
  const auto matches = content_.find(tenant, ids, scope);
  // Chunks that several runs lie in are read once.
  std::vector<Key> keys;
  std::map<Key, std::size_t> index;
  const auto first_page = [](const ContentIndex::Match& m) { return m.made_at / kPageTokens; };
  const auto last_page = [](const ContentIndex::Match& m) { return (m.made_at + m.end - m.begin - 1) / kPageTokens; };
  std::vector<std::pair<const ContentIndex::Text*, std::int64_t>> wanted;  // whose page a key is
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
      if (run.end - run.begin >= kLeastPiece) moved.runs.push_back(run);
      run = {};
    };
    for (std::int64_t i = first_page(m); i <= last_page(m); ++i) {
      const std::size_t at = index.at(m.text->keys[static_cast<std::size_t>(i)]);
      if (!found[at]) {
        whole = false;
        moved.lost += std::min(m.end, m.begin + (i + 1) * kPageTokens - m.made_at) -
                      std::max(m.begin, m.begin + i * kPageTokens - m.made_at);
        close();
        continue;
      }
      const std::int64_t made_at = std::max(m.made_at, i * kPageTokens);
      if (run.pages.empty()) run.begin = m.begin + made_at - m.made_at, run.made_at = made_at;
      run.pages.push_back(at);
      run.end = std::min(m.end, m.begin + (i + 1) * kPageTokens - m.made_at);
    }
    close();
    if (!whole && immediate_) content_.forget(m.text);  // of slower tiers they may wait to be written
  }
  for (const Found& f : found)
    if (f) moved.bytes += f.bytes.bytes.size();
  moved.pages = std::move(found);
  moved.seconds = steady_seconds() - start;
  return moved;
}

}  // namespace kvasir::store
