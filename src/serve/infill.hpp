// Prompts that ask a model to fill a gap in a text (FIM, arXiv:2207.14255).
#pragma once

#include <cstdint>
#include <vector>

#include "serve/request.hpp"
#include "text/tokenizer.hpp"

namespace kvasir::serve {

//   [BOS] ([repository] NAME \n)? ([file] NAME \n TEXT)* ([file] \n)? [prefix] PREFIX [suffix] SUFFIX [middle]
// The repository's form (arXiv:2409.12186) only with files; without tokens for it the files stand in front, each behind
// a line "--- NAME ---". What the texts spell is text. Throws ApiException(400) where the vocabulary has no such
// tokens.
std::vector<std::int32_t> encode_gap(const text::Tokenizer& tokenizer, const Gap& gap);

}  // namespace kvasir::serve
