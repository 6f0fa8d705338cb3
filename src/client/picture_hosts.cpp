#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "base/error.hpp"
#include "client/picture_url.hpp"

namespace kvasir::client {
namespace {

constexpr std::string_view kPublic = "public";

struct Range {
  std::uint32_t first;
  int bits;
};
// IANA's registry of special addresses, and multicast.
constexpr std::array kSpecial = {
    Range{0x00000000, 8},  Range{0x0a000000, 8},  Range{0x64400000, 10}, Range{0x7f000000, 8},  Range{0xa9fe0000, 16},
    Range{0xac100000, 12}, Range{0xc0000000, 24}, Range{0xc0000200, 24}, Range{0xc0586300, 24}, Range{0xc0a80000, 16},
    Range{0xc6120000, 15}, Range{0xc6336400, 24}, Range{0xcb007100, 24}, Range{0xe0000000, 4},  Range{0xf0000000, 4},
};

bool is_public_v4(std::uint32_t address) {
  return std::none_of(kSpecial.begin(), kSpecial.end(),
                      [&](const Range& r) { return (address ^ r.first) >> (32 - r.bits) == 0; });
}

std::uint32_t word(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

bool is_public_v6(const std::uint8_t* a) {
  const std::uint32_t first = word(a), second = word(a + 4), third = word(a + 8);
  if (first == 0 && second == 0 && third == 0xffff) return is_public_v4(word(a + 12));      // ::ffff:0:0/96
  if (first == 0x0064ff9b && second == 0 && third == 0) return is_public_v4(word(a + 12));  // 64:ff9b::/96
  if (first >> 16 == 0x2002) return is_public_v4((first & 0xffff) << 16 | second >> 16);    // 6to4
  const bool special =
      first == 0x20010db8 || first >> 12 == 0x3fff0 || first >> 9 == 0x20010000 >> 9;  // the last one /23
  return first >> 29 == 1 && !special;                                                 // 2000::/3
}

}  // namespace

bool is_public_address(const std::string& address) {
  std::array<std::uint8_t, 16> bytes{};
  if (inet_pton(AF_INET, address.c_str(), bytes.data()) == 1) return is_public_v4(word(bytes.data()));
  return inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1 && is_public_v6(bytes.data());
}

// HOST, HOST:PORT; IPv6 in brackets. Port -1: any.
static bool split_host(std::string_view entry, std::string_view& host, int& port) {
  port = -1;
  std::size_t end = entry.starts_with('[') ? entry.find(']') : std::min(entry.find(':'), entry.size());
  if (end == entry.npos) return false;
  if (entry.starts_with('[')) ++end;
  host = entry.substr(0, end);
  std::string_view rest = entry.substr(end);
  if (host.empty() || host.find_first_of("/@?# ") != host.npos) return false;
  if (rest.empty()) return true;
  rest.remove_prefix(1);
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), port);
  return entry[end] == ':' && error == std::errc() && stop == rest.data() + rest.size() && port > 0 && port < 65536;
}

void PictureHosts::check() const {
  std::string_view host;
  int port = 0;
  for (const std::string& entry : allowed)
    if (!split_host(entry, host, port))
      throw Error(Code::kBadInput, "is '" + entry + "', expected public, HOST or HOST:PORT", "--image-urls");
}

bool PictureHosts::all_public() const { return std::find(allowed.begin(), allowed.end(), kPublic) != allowed.end(); }

bool PictureHosts::names(std::string_view host, int port) const {
  const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  const auto same = [&](char a, char b) { return small(a) == small(b); };
  return std::any_of(allowed.begin(), allowed.end(), [&](const std::string& entry) {
    std::string_view name;
    int its_port = 0;
    return entry != kPublic && split_host(entry, name, its_port) && (its_port < 0 || its_port == port) &&
           std::equal(host.begin(), host.end(), name.begin(), name.end(), same);
  });
}

}  // namespace kvasir::client
