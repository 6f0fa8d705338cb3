// A way to cut text before merging: copy to src/text/pretokenizers/NAME.cpp and rename `skeleton` to NAME. Contract:
// text/pretokenizer.hpp.
#include "text/pretokenizer.hpp"

namespace kvasir::text::pretokenizers_skeleton {
namespace {

constexpr std::string_view kNames[] = {"skeleton"};  // values of tokenizer.ggml.pre

void split(std::string_view text, Emit emit) {
  if (!text.empty()) emit(text);
}

}  // namespace

const Pretokenizer entry{.serves = kNames, .split = split};

}  // namespace kvasir::text::pretokenizers_skeleton
