// Llama 3's pattern with single digits.
#include "text/split.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"qwen2", "deepseek-r1-qwen", "megrez", "kormo", "stablelm2"};
extern const Pretokenizer qwen2;
const Pretokenizer qwen2{
    .serves = kNames,
    .split = [](std::string_view text, Emit emit) { split_llama3(text, 1, emit); },
};

}  // namespace kvasir::text::entries::pretokenizers
