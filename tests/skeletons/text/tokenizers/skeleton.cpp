// A kind of tokenizer: copy to src/text/tokenizers/NAME.cpp and rename `skeleton` to NAME. Contract:
// text/tokenizer.hpp.
#include "text/tokenizer.hpp"

namespace kvasir::text::tokenizers_skeleton {
namespace {

constexpr std::string_view kNames[] = {"skeleton"};  // values of tokenizer.ggml.model

}  // namespace

const TokenizerKind entry{.serves = kNames};

}  // namespace kvasir::text::tokenizers_skeleton
