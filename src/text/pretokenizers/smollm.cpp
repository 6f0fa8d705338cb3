// Every number character alone, then GPT-2's pattern on what lies between.
#include "text/split.hpp"

namespace kvasir::text::entries::pretokenizers {
namespace {

void split(std::string_view text, Emit emit) {
  const auto one_number = [](const Scanner& s, std::size_t i) {
    const auto c = s.at(i);
    return c.number() ? i + c.size : i;
  };
  isolate(text, one_number, [&](std::string_view part) { split_gpt2(part, emit); });
}

constexpr std::string_view kNames[] = {"smollm",    "starcoder", "refact",    "command-r",
                                       "codeshell", "exaone",    "minerva-7b"};

}  // namespace

extern const Pretokenizer smollm;
const Pretokenizer smollm{.serves = kNames, .split = split};

}  // namespace kvasir::text::entries::pretokenizers
