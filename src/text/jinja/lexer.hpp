// Template text to tokens, with Jinja's whitespace control as Hugging Face sets it: trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::text::jinja {

enum class TokenKind { kData, kBlockBegin, kBlockEnd, kPrintBegin, kPrintEnd, kName, kString, kInt, kReal, kOp, kEof };

struct Token {
  TokenKind kind = TokenKind::kEof;
  std::string text;  // of a string: what it stands for
  int line = 1;
};

// Line breaks become \n and one at the end is dropped, as Jinja does. Throws Error(kBadInput) with the line as context.
// The last token is kEof. REQUIRES: `source` is UTF-8.
std::vector<Token> lex(std::string_view source);

// Throws Error(kBadInput) that names the line.
[[noreturn]] void fail_at(int line, const std::string& message);

// What Python's str.isspace and the \s of its regular expressions take for white space.
bool is_space(std::uint32_t code);
// `text` without white space at its end.
std::string_view rstrip(std::string_view text);

}  // namespace kvasir::text::jinja
