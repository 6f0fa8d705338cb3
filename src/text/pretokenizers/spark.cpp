// Spark: DeepSeek V3's parts, newlines and numbers one by one.
#include "text/signs.hpp"

namespace kvasir::text::pretokenizers_spark {
namespace {

void split(std::string_view text, Emit emit) {
  const auto match = [](const Scanner& s, std::size_t i) { return signs_match(s, i, true); };
  isolate(text, three_numbers, [&](std::string_view a) {
    isolate(a, han_or_kana,
            [&](std::string_view b) { isolate(b, match, [&](std::string_view c) { isolate(c, one_number, emit); }); });
  });
}

constexpr std::string_view kNames[] = {"spark2_5"};

}  // namespace

const Pretokenizer entry{.serves = kNames, .split = split};

}  // namespace kvasir::text::pretokenizers_spark
