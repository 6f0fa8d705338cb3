#include "text/split.hpp"

namespace kvasir::text::entries::pretokenizers {

constexpr std::string_view kNames[] = {"gpt-2", "phi-2", "olmo", "mpt", "jais", "trillion", "mellum", "gigachat"};
extern const Pretokenizer gpt2;
const Pretokenizer gpt2{.serves = kNames, .split = split_gpt2};

}  // namespace kvasir::text::entries::pretokenizers
