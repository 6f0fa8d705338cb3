// DeepSeek V3: numbers by threes, Chinese and Japanese, then words and signs.
#include "text/signs.hpp"

namespace kvasir::text::pretokenizers_deepseek_v3 {
namespace {

void split(std::string_view text, Emit emit) {
  const auto match = [](const Scanner& s, std::size_t i) { return signs_match(s, i); };
  isolate(text, three_numbers,
          [&](std::string_view a) { isolate(a, han_or_kana, [&](std::string_view b) { isolate(b, match, emit); }); });
}

constexpr std::string_view kNames[] = {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"};

}  // namespace

const Pretokenizer entry{.serves = kNames, .split = split};

}  // namespace kvasir::text::pretokenizers_deepseek_v3
