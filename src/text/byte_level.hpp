// GPT-2's table: bytes as printable characters. Printable Latin-1 bytes stand for themselves, the others for U+0100,
// U+0101, … in increasing order.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/ranks.hpp"
#include "text/vocabulary.hpp"

namespace kvasir::text {

std::string bytes_as_characters(std::string_view bytes);

// The bytes that a token is written for; a token with characters outside the table stands for its own UTF-8.
std::string token_bytes(std::string_view token);

// The token of every byte; -1: none.
std::array<std::int32_t, 256> byte_ids(const Vocabulary& vocabulary);

}  // namespace kvasir::text
