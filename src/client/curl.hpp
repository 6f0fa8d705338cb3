// libcurl as the system has it, opened when it is first used: nothing else needs it.
#pragma once

#include <curl/curl.h>

#include <string>

namespace kvasir::client {

struct Curl {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_setopt) easy_setopt = nullptr;
  decltype(&curl_easy_perform) easy_perform = nullptr;
  decltype(&curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
  decltype(&curl_url) url = nullptr;
  decltype(&curl_url_cleanup) url_cleanup = nullptr;
  decltype(&curl_url_set) url_set = nullptr;
  decltype(&curl_url_get) url_get = nullptr;
  decltype(&curl_free) free = nullptr;
  std::string missing;  // why it cannot be used; empty: it can

  Curl();
};

const Curl& curl();

struct CurlEnd {
  void operator()(CURL* handle) const { curl().easy_cleanup(handle); }
  void operator()(curl_slist* list) const { curl().slist_free_all(list); }
  void operator()(CURLU* url) const { curl().url_cleanup(url); }
};

// Nothing but HTTP, or HTTPS where `secured`. False: this libcurl cannot be told. It may be older than the header:
// names are known from 7.85 on, bits before.
bool keep_to_web(CURL* handle, bool secured);

}  // namespace kvasir::client
