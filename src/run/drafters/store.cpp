// What followed the same tokens in earlier requests of the tenant, of earlier processes, too, where a library keeps
// notes.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "run/drafter.hpp"
#include "run/match_confidence.hpp"
#include "run/text_memory.hpp"
#include "store/library.hpp"

namespace kvasir::run::drafters_store {
namespace {

constexpr std::size_t kTokens = 1 << 20;  // of all tenants together
constexpr std::int64_t kTokenBytes = 40;  // about
constexpr std::size_t kMostTenants = 64;

// A note of the tier is these bytes and int32 ids, TextMemory::kEnd behind each text (docs/formats/record.md).
constexpr char kMagic[8] = {'K', 'V', 't', 'x', 1, 0, 0, 0};
constexpr std::size_t kNoteTokens = 1 << 16;   // of a tenant
constexpr std::size_t kFreshTokens = 1 << 13;  // after which the note is written again
constexpr double kFreshSeconds = 30;           // likewise, if there are new ones at all
constexpr auto kReadTime = std::chrono::milliseconds(500);

struct Tenant {
  explicit Tenant(std::size_t tokens) : memory(tokens) {}
  TextMemory memory;
  std::size_t fresh = 0;  // tokens that the note has not
  double written = 0;     // when
};

class Text final : public DraftText {
 public:
  explicit Text(std::string name, Tenant& of) : tenant_name(std::move(name)), tenant(of) {}
  std::string tenant_name;
  Tenant& tenant;
};

class Store final : public Drafter {
 public:
  Store(std::size_t tokens, std::int64_t vocab) : tokens_(tokens), vocab_(vocab) {}

  std::unique_ptr<DraftText> begin(const std::string& tenant, bool reuse, const Answer&, std::size_t) override {
    if (!reuse) return nullptr;
    std::string message;
    auto found = tenants_.find(tenant);
    if (found == tenants_.end()) {
      if (tenants_.size() == kMostTenants) return nullptr;
      found = tenants_.try_emplace(tenant, tokens_ / (tenants_.empty() ? 1 : 8)).first;
      message = read(tenant, found->second);
    }
    auto text = std::make_unique<Text>(tenant, found->second);
    text->message = message;
    return text;
  }

  void draft(std::span<Round* const> rounds) override {
    for (Round* round : rounds) {
      const TextMemory::Found found = static_cast<Text*>(round->text)->tenant.memory.find(round->ids);
      if (found.equal == 0) continue;
      const auto most = std::min(found.followed.size(), static_cast<std::size_t>(round->most));
      for (std::size_t i = 0; i < most; ++i)
        round->draft_tokens->push_back(
            {found.followed[i], confidence_of_match(found.equal + static_cast<std::int64_t>(i))});
    }
  }

  void end(std::unique_ptr<DraftText> text, std::span<const std::int32_t> ids) override {
    const Text& ended = *static_cast<Text*>(text.get());
    Tenant& t = ended.tenant;
    const std::size_t before = t.memory.added();
    for (auto at = ids.begin(); at != ids.end();) {  // what stands between rows, each a text
      at = std::find_if(at, ids.end(), is_token);
      const auto rows = std::find_if_not(at, ids.end(), is_token);
      if (at != rows) t.memory.add({at, rows});
      at = rows;
    }
    t.fresh += t.memory.added() - before;
    if (t.fresh >= kFreshTokens || (t.fresh > 0 && steady_seconds() - t.written > kFreshSeconds))
      write(ended.tenant_name, t);
  }

  void open(store::Library& library) override { library_ = &library; }

  void keep() override {
    for (auto& [name, tenant] : tenants_)
      if (tenant.fresh > 0) write(name, tenant);
    library_ = nullptr;
  }

 private:
  static bool is_token(std::int32_t id) { return id >= 0; }
  static std::string note_of(const std::string& tenant) { return "texts " + tenant; }

  void write(const std::string& name, Tenant& tenant) {
    if (!library_) return;
    const std::vector<std::int32_t> ids = tenant.memory.newest(kNoteTokens);
    std::vector<std::byte> bytes(sizeof kMagic + 4 * ids.size());
    std::memcpy(bytes.data(), kMagic, sizeof kMagic);
    if (!ids.empty()) std::memcpy(bytes.data() + sizeof kMagic, ids.data(), 4 * ids.size());
    library_->notes().keep(note_of(name), bytes, store::Notes::kDear);
    tenant.fresh = 0;
    tenant.written = steady_seconds();
  }

  // What is wrong with what an earlier process left; empty: nothing, or it left nothing.
  std::string read(const std::string& name, Tenant& tenant) {
    tenant.written = steady_seconds();
    if (!library_) return {};
    const auto note = library_->notes().read(note_of(name), store::within(kReadTime));
    if (!note) return {};
    constexpr const char* kIgnored = "the texts that an earlier process kept for drafts are ignored: ";
    if (note->size() < sizeof kMagic || std::memcmp(note->data(), kMagic, sizeof kMagic) != 0)
      return std::string(kIgnored) + "they are of another version";
    std::vector<std::int32_t> ids((note->size() - sizeof kMagic) / 4);
    if (!ids.empty()) std::memcpy(ids.data(), note->data() + sizeof kMagic, 4 * ids.size());
    const bool whole = note->size() == sizeof kMagic + 4 * ids.size() && ids.size() <= kNoteTokens;
    if (!whole || !tenant.memory.add_all(ids, vocab_)) return std::string(kIgnored) + "they are damaged";
    return {};
  }

  std::size_t tokens_;
  std::int64_t vocab_;
  store::Library* library_ = nullptr;
  std::map<std::string, Tenant> tenants_;
};

std::size_t tokens_of(const std::string& parameters) {
  std::size_t tokens = kTokens;
  if (!parameters.empty()) {
    const char* const end = parameters.data() + parameters.size();
    const auto [stop, error] = std::from_chars(parameters.data(), end, tokens);
    if (error != std::errc() || stop != end || tokens < 1024 || tokens > (std::size_t{1} << 28))
      throw Error(Code::kBadInput, "has '" + parameters + "', expected a number of tokens from 1024 to 2^28",
                  "--draft store");
  }
  return tokens;
}

Beside memory(const EngineOptions&, int, std::int64_t, const std::string& parameters) {
  return {.others = kTokenBytes * static_cast<std::int64_t>(tokens_of(parameters))};
}

std::unique_ptr<Drafter> make(Engine& engine, int, const std::string& parameters) {
  return std::make_unique<Store>(tokens_of(parameters), engine.model().spec().vocab);
}

}  // namespace

const DrafterKind entry = {"store[:TOKENS]: what followed the same tokens in earlier requests", make, memory};

}  // namespace kvasir::run::drafters_store
