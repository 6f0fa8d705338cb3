// What followed the same tokens in earlier requests of the tenant.
#include <charconv>
#include <map>

#include "base/error.hpp"
#include "run/drafter.hpp"
#include "run/match_sureness.hpp"
#include "run/text_memory.hpp"

namespace kvasir::run::entries::drafters {
namespace {

constexpr std::size_t kTokens = 1 << 20;  // of all tenants together; about 40 bytes each
constexpr std::size_t kMostTenants = 64;

class Text final : public DraftText {
 public:
  explicit Text(TextMemory& of_tenant) : memory(of_tenant) {}
  TextMemory& memory;
};

class Store final : public Drafter {
 public:
  explicit Store(std::size_t tokens) : tokens_(tokens) {}

  std::unique_ptr<DraftText> begin(const std::string& tenant, bool reuse, const Answer&, std::size_t) override {
    if (!reuse) return nullptr;
    auto found = memories_.find(tenant);
    if (found == memories_.end()) {
      if (memories_.size() == kMostTenants) return nullptr;
      found = memories_.try_emplace(tenant, tokens_ / (memories_.empty() ? 1 : 8)).first;
    }
    return std::make_unique<Text>(found->second);
  }

  void draft(std::span<Round* const> rounds) override {
    for (Round* round : rounds) {
      const TextMemory::Found found = static_cast<Text*>(round->text)->memory.find(round->ids);
      if (found.equal == 0) continue;
      const auto most = std::min(found.followed.size(), static_cast<std::size_t>(round->most));
      for (std::size_t i = 0; i < most; ++i)
        round->guesses->push_back({found.followed[i], sureness_of_match(found.equal + static_cast<std::int64_t>(i))});
    }
  }

  void end(std::unique_ptr<DraftText> text, std::span<const std::int32_t> ids) override {
    static_cast<Text*>(text.get())->memory.add(ids);
  }

 private:
  std::size_t tokens_;
  std::map<std::string, TextMemory> memories_;  // by tenant
};

std::unique_ptr<Drafter> make(Engine&, int, const std::string& parameters) {
  std::size_t tokens = kTokens;
  if (!parameters.empty()) {
    const char* const end = parameters.data() + parameters.size();
    const auto [stop, error] = std::from_chars(parameters.data(), end, tokens);
    if (error != std::errc() || stop != end || tokens < 1024 || tokens > (std::size_t{1} << 28))
      throw Error(Code::kBadInput, "has '" + parameters + "', expected a number of tokens from 1024 to 2^28",
                  "--draft store");
  }
  return std::make_unique<Store>(tokens);
}

}  // namespace

extern const DrafterKind store;
const DrafterKind store = {"store[:TOKENS]: what followed the same tokens in earlier requests", make};

}  // namespace kvasir::run::entries::drafters
