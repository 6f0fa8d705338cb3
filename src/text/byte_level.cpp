#include "text/byte_level.hpp"

#include "unicode/utf8.hpp"

namespace kvasir::text {
namespace {

constexpr bool printable(unsigned b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; }

constexpr std::uint32_t kTableEnd = 0x100 + 68;  // 68 bytes are not printable

constexpr std::array<std::uint32_t, 256> kCharacterOf = [] {
  std::array<std::uint32_t, 256> table{};
  std::uint32_t next = 0x100;
  for (unsigned b = 0; b < 256; ++b) table[b] = printable(b) ? b : next++;
  return table;
}();

// Character -> byte, -1 for characters that are not in the table.
constexpr std::array<std::int16_t, kTableEnd> kByteOf = [] {
  std::array<std::int16_t, kTableEnd> table{};
  for (auto& t : table) t = -1;
  for (std::size_t b = 0; b < 256; ++b) table[kCharacterOf[b]] = static_cast<std::int16_t>(b);
  return table;
}();

}  // namespace

std::string bytes_as_characters(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) unicode::append_utf8(out, kCharacterOf[static_cast<unsigned char>(c)]);
  return out;
}

std::string token_bytes(std::string_view token) {
  std::string bytes;
  for (std::size_t i = 0; i < token.size();) {
    const unicode::Char c = unicode::decode_char(token.substr(i));
    if (c.code >= kTableEnd || kByteOf[c.code] < 0) return std::string(token);
    bytes.push_back(static_cast<char>(kByteOf[c.code]));
    i += c.size;
  }
  return bytes;
}

std::array<std::int32_t, 256> byte_ids(const Vocabulary& vocabulary) {
  std::array<std::int32_t, 256> ids{};
  for (std::size_t b = 0; b < 256; ++b) {
    std::string token;
    unicode::append_utf8(token, kCharacterOf[b]);
    ids[b] = find_written(vocabulary, token, token_bytes);
  }
  return ids;
}

}  // namespace kvasir::text
