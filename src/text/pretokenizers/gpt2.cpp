#include "text/split.hpp"

namespace kvasir::text::pretokenizers_gpt2 {

constexpr std::string_view kNames[] = {"gpt-2",       "phi-2",      "jais",       "trillion",   "mellum",
                                       "gigachat",    "jina-es",    "jina-de",    "a.x-4.0",    "granite-docling",
                                       "modern-bert", "exaone4",    "jina-v2-es", "jina-v2-de", "jina-v2-code",
                                       "jina-v1-en",  "roberta-bpe"};
const Pretokenizer entry{.serves = kNames, .split = split_gpt2};

}  // namespace kvasir::text::pretokenizers_gpt2
