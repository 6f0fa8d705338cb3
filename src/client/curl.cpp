#include "client/curl.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <type_traits>

namespace kvasir::client {
namespace {

constexpr auto kProtocols = static_cast<CURLoption>(181);          // CURLOPT_PROTOCOLS, deprecated in newer headers
constexpr auto kRedirectProtocols = static_cast<CURLoption>(182);  // CURLOPT_REDIR_PROTOCOLS

}  // namespace

Curl::Curl() {
  void* library = nullptr;
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib"})
    if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);  // stays open
  if (!library) {
    missing = "downloads need libcurl.so.4: install libcurl4 (Debian, Ubuntu) or libcurl";
    return;
  }
  const auto take = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function) missing = fmt::format("libcurl has no {}", name);
  };
  take(global_init, "curl_global_init");
  take(easy_init, "curl_easy_init");
  take(easy_setopt, "curl_easy_setopt");
  take(easy_perform, "curl_easy_perform");
  take(easy_getinfo, "curl_easy_getinfo");
  take(easy_strerror, "curl_easy_strerror");
  take(easy_cleanup, "curl_easy_cleanup");
  take(url, "curl_url");
  take(url_cleanup, "curl_url_cleanup");
  take(url_set, "curl_url_set");
  take(url_get, "curl_url_get");
  take(free, "curl_free");
  take(slist_append, "curl_slist_append");
  take(slist_free_all, "curl_slist_free_all");
  if (missing.empty() && global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) missing = "libcurl does not start";
}

const Curl& curl() {
  static const Curl library;
  return library;
}

bool keep_to_web(CURL* handle, bool secured) {
  const auto set = [&](CURLoption option, auto value) { return curl().easy_setopt(handle, option, value) == CURLE_OK; };
#if LIBCURL_VERSION_NUM >= 0x075500
  const char* const names = secured ? "https" : "http,https";
  if (set(CURLOPT_PROTOCOLS_STR, names) && set(CURLOPT_REDIR_PROTOCOLS_STR, names)) return true;
#endif
  const long bits = secured ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS;
  return set(kProtocols, bits) && set(kRedirectProtocols, bits);
}

}  // namespace kvasir::client
