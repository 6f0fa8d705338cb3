// A kind of tokenizer: copy to src/text/tokenizers/NAME.cpp and rename `skeleton` to NAME. Contract:
// text/tokenizer.hpp.
#include "text/tokenizer.hpp"

namespace kvasir::text::entries::tokenizers {
namespace {

constexpr std::string_view kNames[] = {"skeleton"};  // values of tokenizer.ggml.model

}  // namespace

extern const TokenizerKind skeleton;
const TokenizerKind skeleton{.serves = kNames};

}  // namespace kvasir::text::entries::tokenizers
