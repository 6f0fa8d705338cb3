// Answers whose tags are cut, doubled and dropped, in every form. KVASIR_MUTATIONS=N runs N for each, and
// KVASIR_MUTATIONS_FROM is the first one's seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "text/tool_mutations_fixture.hpp"

namespace kvasir::text {
namespace {

std::uint64_t number_from(const char* name, std::uint64_t other) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : other;
}

TEST(ToolMutations, NothingLeaksAndStreamsAreAsWholeAnswers) {
  const std::uint64_t runs = number_from("KVASIR_MUTATIONS", 500), from = number_from("KVASIR_MUTATIONS_FROM", 1);
  const char* only = std::getenv("KVASIR_MUTATIONS_FORM");
  std::uint64_t all = 0;
  for (const auto& form : tool_forms()) {
    if (only && form.name != only) continue;
    int faults = 0;
    for (std::uint64_t seed = from; seed < from + runs && faults < 4; ++seed, ++all) {
      AnswerMutator answer(form, seed);
      const std::string fault = answer.fault();
      faults += !fault.empty();
      EXPECT_EQ(fault, "") << form.name << ", seed " << seed << "\n"
                           << answer.text() << "\n  made of\n"
                           << answer.original();
    }
  }
  std::printf("%llu answers\n", static_cast<unsigned long long>(all));
}

}  // namespace
}  // namespace kvasir::text
