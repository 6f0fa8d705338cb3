// Pictures and sounds at http(s) URLs, for a server whose clients name them: the URL is not trusted. libcurl fetches
// them; builds without it refuse (client/no_download.cpp).
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::client {

// Where pictures may be fetched: "public" is every host whose addresses are all public ones; HOST and HOST:PORT are
// this one, whatever its addresses are.
struct PictureHosts {
  std::vector<std::string> allowed;

  // Throws Error(kBadInput) naming an entry that is none.
  void check() const;
  bool names(std::string_view host, int port) const;
  bool all_public() const;
};

// Whether an IPv4 or IPv6 address, as text, is one of the internet: not private, loopback, link-local, multicast,
// documentation or reserved, nor one of these in IPv6's clothes.
bool is_public_address(const std::string& address);

enum class Fetched { kPicture, kSound };  // whose types servers may say

struct PictureFetch {
  PictureHosts hosts;
  Fetched kind = Fetched::kPicture;
  std::size_t most_bytes = std::size_t{32} << 20;
  std::chrono::steady_clock::time_point until;  // all redirects included
  std::function<bool()> go_on;                  // false: Error(kCancelled)
};

// The bytes at `url`. Every host on the way, redirects too, must be allowed; its name is looked up once, every address
// is checked, and the connection goes to one of those. No proxy is used, nothing is sent but the request. Throws Error:
// kBadInput for what is not allowed, not there, of another kind by its type, too large or too slow, with a message for
// whoever sent the URL; kUnsupported in builds without libcurl.
std::string fetch_picture(const std::string& url, const PictureFetch& how);

}  // namespace kvasir::client
