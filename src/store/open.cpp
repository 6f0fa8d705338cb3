#include "store/open.hpp"

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "store/spec.hpp"

namespace kvasir::store {
namespace {

const TierKind& kind_of(const Spec& spec) {
  if (const TierKind* kind = find(tiers(), spec.name())) return *kind;
  std::vector<std::string> known;
  for (const auto& e : tiers()) known.emplace_back(e.name);
  throw Error(Code::kBadInput,
              "unknown tier '" + spec.name() + "'" + did_you_mean(spec.name(), known) +
                  ", expected one of: " + names(tiers()) + " (as 'lmdb:/var/cache/kvasir?size=10GiB')",
              "tier");
}

void check_address(const TierKind& kind, const Spec& spec) {
  if (kind.place == Place::kNone && !spec.address().empty())
    throw Error(Code::kBadInput, std::string("expected nothing behind the colon, as in ") + kind.usage, spec.shown());
  if (kind.place != Place::kNone && spec.address().empty())
    throw Error(
        Code::kBadInput,
        std::string(kind.place == Place::kFolder ? "a folder" : "HOST:PORT") + " is missing, as in " + kind.usage,
        spec.shown());
}

// What a tier adds to its backend.
TierOptions tier_options(Spec& spec, const TierKind& kind) {
  constexpr std::uint64_t kTera = std::uint64_t{1} << 40;
  TierOptions options;
  options.name = spec.shown();
  options.writer.queue_bytes = spec.bytes("queue", options.writer.queue_bytes, 0, kTera);
  options.writer.rate = spec.rate("rate", 0);
  options.reader.limit = spec.time("timeout", options.reader.limit);
  options.reader.threads = 0;  // as many as the backend likes
  const std::string check = spec.choice("check", kind.place == Place::kNone ? "head" : "full", {"full", "head"});
  options.reader.check = check == "head" ? Check::kHead : Check::kFull;
  return options;
}

}  // namespace

std::unique_ptr<Tier> open_tier(std::string_view specification, const Wrap& wrap) {
  Spec spec(specification);
  const TierKind& kind = kind_of(spec);
  check_address(kind, spec);
  TierOptions options = tier_options(spec, kind);
  auto backend = kind.open(spec);
  if (wrap) backend = wrap(std::move(backend));
  return std::make_unique<Tier>(std::move(backend), std::move(options));
}

std::unique_ptr<Backend> open_backend(std::string_view specification) {
  Spec spec(specification);
  const TierKind& kind = kind_of(spec);
  check_address(kind, spec);
  tier_options(spec, kind);
  return kind.open(spec);
}

}  // namespace kvasir::store
