// Something that drafts the tokens behind a text: copy to src/run/drafters/NAME.cpp and rename `skeleton` to
// NAME. Contract: run/drafter.hpp.
#include "run/drafter.hpp"

namespace kvasir::run::drafters_skeleton {
namespace {

class Skeleton final : public Drafter {
 public:
  std::unique_ptr<DraftText> begin(const std::string& /*tenant*/, bool /*reuse*/, const Answer&, std::size_t) override {
    return nullptr;
  }
  void draft(std::span<Round* const> /*rounds*/) override {}
};

}  // namespace

const DrafterKind entry{
    "a drafter that has nothing for any text",
    [](Engine&, int, const std::string&) -> std::unique_ptr<Drafter> { return std::make_unique<Skeleton>(); }};

}  // namespace kvasir::run::drafters_skeleton
