// Which of the 16384 parts of a Redis Cluster a key belongs to (Redis Cluster specification, "Key distribution model").
#pragma once

#include <cstdint>
#include <string_view>

namespace kvasir::store::redis {

constexpr int kSlots = 16384;

// CRC-16/XMODEM: polynomial 0x1021, no reflection, from 0; "123456789" gives 0x31c3.
constexpr std::uint16_t crc16(std::string_view bytes) {
  std::uint16_t crc = 0;
  for (const char c : bytes) {
    crc = static_cast<std::uint16_t>(crc ^ (static_cast<unsigned char>(c) << 8));
    for (int bit = 0; bit < 8; ++bit)
      crc = static_cast<std::uint16_t>((crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1);
  }
  return crc;
}

// Only what stands between the first '{' and the next '}' counts, unless that is nothing.
constexpr int slot_of(std::string_view key) {
  const std::size_t open = key.find('{');
  if (open != std::string_view::npos) {
    const std::size_t close = key.find('}', open + 1);
    if (close != std::string_view::npos && close > open + 1) key = key.substr(open + 1, close - open - 1);
  }
  return crc16(key) % kSlots;
}

static_assert(crc16("123456789") == 0x31c3);

}  // namespace kvasir::store::redis
