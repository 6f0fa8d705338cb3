#include "client/picture_url.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <span>

#include "base/error.hpp"
#include "client/curl.hpp"

namespace kvasir::client {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostRedirects = 5;
// What servers call files that we read, and what object stores call everything.
constexpr std::string_view kPictureTypes[] = {"image/jpeg", "image/jpg", "image/png", "image/webp"};
constexpr std::string_view kSoundTypes[] = {"audio/wav",  "audio/x-wav", "audio/wave",   "audio/vnd.wave",
                                            "audio/mpeg", "audio/mp3",   "audio/flac",   "audio/x-flac",
                                            "audio/ogg",  "audio/opus",  "audio/vorbis", "application/ogg"};
constexpr std::string_view kAnyTypes[] = {"application/octet-stream", "binary/octet-stream"};

bool is_one_of(std::string_view type, std::span<const std::string_view> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

[[noreturn]] void refuse_url(const std::string& why) { throw Error(Code::kBadInput, why); }

// As libcurl reads it, which is what connects: two readers of one URL may disagree about its host.
struct PartsOfUrl {
  std::string text, scheme, host;  // the host in small letters, IPv6 in brackets
  int port = 0;

  explicit PartsOfUrl(const std::string& url) {
    const std::unique_ptr<CURLU, CurlEnd> handle(curl().url());
    if (!handle || curl().url_set(handle.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK)
      refuse_url("is no URL that can be read");
    const auto part = [&](CURLUPart which, unsigned flags = 0) {
      char* value = nullptr;
      if (curl().url_get(handle.get(), which, &value, flags) != CURLUE_OK) return std::string();
      std::string out(value);
      curl().free(value);
      return out;
    };
    scheme = part(CURLUPART_SCHEME);
    host = part(CURLUPART_HOST);
    std::transform(host.begin(), host.end(), host.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
    const std::string number = part(CURLUPART_PORT, CURLU_DEFAULT_PORT);
    std::from_chars(number.data(), number.data() + number.size(), port);
    if (scheme != "http" && scheme != "https") refuse_url("is of another kind than http and https");
    if (!part(CURLUPART_USER).empty() || !part(CURLUPART_PASSWORD).empty())
      refuse_url("has a user or a password, which are not sent");
    if (host.empty() || port < 1 || host.find('%') != host.npos) refuse_url("is no URL that can be read");
    text = part(CURLUPART_URL);
  }
};

struct Addresses {
  std::vector<sockaddr_storage> all;

  bool has(const sockaddr* a) const {
    return std::any_of(all.begin(), all.end(), [&](const sockaddr_storage& s) {
      if (s.ss_family != a->sa_family) return false;
      if (s.ss_family == AF_INET)
        return std::memcmp(&reinterpret_cast<const sockaddr_in&>(s).sin_addr,
                           &reinterpret_cast<const sockaddr_in*>(a)->sin_addr, sizeof(in_addr)) == 0;
      return std::memcmp(&reinterpret_cast<const sockaddr_in6&>(s).sin6_addr,
                         &reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr, sizeof(in6_addr)) == 0;
    });
  }
};

std::string text_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = {};
  const void* const bytes = address.ss_family == AF_INET
                                ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
                                : &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  inet_ntop(address.ss_family, bytes, text, sizeof text);
  return text;
}

// What a name stands for, now. One that also stands for an address within is within.
Addresses look_up(const PartsOfUrl& url, const PictureHosts& hosts) {
  const bool named = hosts.names(url.host, url.port);
  if (!named && !hosts.all_public())
    refuse_url(fmt::format("{} is no host that this server fetches from (--image-urls)", url.host));
  const std::string name = url.host.starts_with('[') ? url.host.substr(1, url.host.size() - 2) : url.host;
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &wanted, &found) != 0)
    refuse_url(fmt::format("{} is not known to the name service", url.host));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> end(found, freeaddrinfo);
  Addresses out;
  for (const addrinfo* a = found; a; a = a->ai_next) {
    if (a->ai_family != AF_INET && a->ai_family != AF_INET6) continue;
    sockaddr_storage& address = out.all.emplace_back();
    std::memcpy(&address, a->ai_addr, a->ai_addrlen);
    if (!named && !is_public_address(text_of(address)))
      refuse_url(fmt::format("{} is no public host, and this server does not name it (--image-urls)", url.host));
  }
  if (out.all.empty()) refuse_url(fmt::format("{} has no address", url.host));
  return out;
}

// One answer of one server.
struct PictureAnswer {
  const PictureFetch& how;
  const Addresses& addresses;
  CURL* handle;
  std::string bytes, why;  // why it was given up

  static std::size_t take(char* data, std::size_t, std::size_t n, void* self) {
    auto& a = *static_cast<PictureAnswer*>(self);
    if (a.bytes.empty() && !a.is_of_its_kind()) return 0;
    if (a.bytes.size() + n > a.how.most_bytes) {
      a.why = fmt::format("is larger than {} bytes", a.how.most_bytes);
      return 0;
    }
    a.bytes.append(data, n);
    return n;
  }
  static int tell(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const auto& a = *static_cast<PictureAnswer*>(self);
    return a.how.go_on && !a.how.go_on() ? 1 : 0;
  }
  // The last word about where a connection goes, whatever the name service says by now.
  static curl_socket_t open(void* self, curlsocktype, curl_sockaddr* to) {
    const auto& a = *static_cast<PictureAnswer*>(self);
    if (!a.addresses.has(&to->addr)) return CURL_SOCKET_BAD;
    return ::socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
  }
  long status() const {
    long status = 0;
    curl().easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    return status;
  }
  bool is_of_its_kind() {
    if (status() != 200) return true;  // its page is read to its end, up to the limit, and thrown away
    const char* given = nullptr;
    curl().easy_getinfo(handle, CURLINFO_CONTENT_TYPE, &given);
    std::string type = given ? given : "";
    type = type.substr(0, type.find(';'));
    while (type.ends_with(' ')) type.pop_back();
    std::transform(type.begin(), type.end(), type.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
    const bool sound = how.kind == Fetched::kSound;
    if (is_one_of(type, kAnyTypes) || (sound ? is_one_of(type, kSoundTypes) : is_one_of(type, kPictureTypes)))
      return true;
    why = fmt::format("is of the type '{}', expected {}", type,
                      sound ? "audio/wav, audio/mpeg, audio/flac or audio/ogg" : "image/jpeg, image/png or image/webp");
    return false;
  }
};

// The picture, or where the server says that it is.
std::string ask(const PartsOfUrl& url, const PictureFetch& how, std::string* moved) {
  const Addresses addresses = look_up(url, how.hosts);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(how.until - Clock::now()).count();
  if (left <= 0) refuse_url("took too long");
  const std::unique_ptr<CURL, CurlEnd> handle(curl().easy_init());
  if (!handle) throw Error(Code::kIo, "libcurl does not start");
  PictureAnswer answer{how, addresses, handle.get(), {}, {}};
  const auto set = [&](CURLoption option, auto value) {
    if (curl().easy_setopt(handle.get(), option, value) != CURLE_OK)
      throw Error(Code::kUnsupported, fmt::format("this libcurl does not know option {}", static_cast<int>(option)));
  };
  std::string pinned = fmt::format("{}:{}:", url.host, url.port);
  for (const sockaddr_storage& a : addresses.all) {
    const std::string text = text_of(a);
    pinned += (pinned.ends_with(':') ? "" : ",") + (a.ss_family == AF_INET6 ? "[" + text + "]" : text);
  }
  const std::unique_ptr<curl_slist, CurlEnd> names(curl().slist_append(nullptr, pinned.c_str()));
  set(CURLOPT_URL, url.text.c_str());
  if (!keep_to_web(handle.get(), url.scheme == "https"))
    throw Error(Code::kUnsupported, "this libcurl cannot be kept to HTTP");
  set(CURLOPT_RESOLVE, names.get());
  set(CURLOPT_OPENSOCKETFUNCTION, &PictureAnswer::open);
  set(CURLOPT_OPENSOCKETDATA, &answer);
  set(CURLOPT_PROXY, "");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(left));
  set(CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(how.most_bytes));
  set(CURLOPT_USERAGENT, "kvasir");
  set(CURLOPT_WRITEFUNCTION, &PictureAnswer::take);
  set(CURLOPT_WRITEDATA, &answer);
  set(CURLOPT_XFERINFOFUNCTION, &PictureAnswer::tell);
  set(CURLOPT_XFERINFODATA, &answer);
  set(CURLOPT_NOPROGRESS, 0L);
  const CURLcode code = curl().easy_perform(handle.get());
  const long status = answer.status();
  if (code == CURLE_ABORTED_BY_CALLBACK) throw Error(Code::kCancelled, "the server is ending");
  if (!answer.why.empty()) refuse_url(answer.why);
  if (code == CURLE_FILESIZE_EXCEEDED) refuse_url(fmt::format("is larger than {} bytes", how.most_bytes));
  if (code == CURLE_OPERATION_TIMEDOUT) refuse_url("took too long");
  if (code != CURLE_OK) refuse_url(fmt::format("could not be fetched: {}", curl().easy_strerror(code)));
  if (status >= 300 && status < 400) {
    const char* to = nullptr;
    curl().easy_getinfo(handle.get(), CURLINFO_REDIRECT_URL, &to);
    if (!to) refuse_url(fmt::format("could not be fetched: the server answered {}", status));
    *moved = to;
    return {};
  }
  if (status != 200) refuse_url(fmt::format("could not be fetched: the server answered {}", status));
  if (answer.bytes.empty()) refuse_url("is empty");
  return std::move(answer.bytes);
}

}  // namespace

std::string fetch_picture(const std::string& url, const PictureFetch& how) {
  if (!curl().missing.empty()) throw Error(Code::kUnsupported, curl().missing);
  std::string at = url;
  bool secured = false;
  for (int redirects = 0; redirects <= kMostRedirects; ++redirects) {
    const PartsOfUrl parts(at);
    if (secured && parts.scheme != "https") refuse_url("is moved from https to http");
    secured = parts.scheme == "https";
    std::string moved;
    std::string bytes = ask(parts, how, &moved);
    if (moved.empty()) return bytes;
    at = std::move(moved);
  }
  refuse_url(fmt::format("is moved more than {} times", kMostRedirects));
}

}  // namespace kvasir::client
