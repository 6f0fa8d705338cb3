// What a client of an OpenAI-compatible server gets, and when: for measurements of any such server.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http.hpp"

namespace kvasir::serve {

// Where a server's API is.
struct Endpoint {
  std::string host, port;
  std::string path;     // before "/chat/completions": "/v1" unless the URL has another
  std::string root;     // `path` without a final "/v1": before "/v1/stats"
  std::string key;      // of the API; "": none
  bool tls = false;     // the server's certificate is then held against `host`
  std::string ca_file;  // authorities (PEM) that may have signed it; "": those of the system
};

// "http[s]://HOST[:PORT][/PATH]". Throws Error(kBadInput) naming `option`: another scheme, no host.
Endpoint parse_endpoint(std::string_view url, const std::string& option);

struct ApiAnswer {
  enum class End {
    kComplete,
    kRefused,  // 429 or 503: the server has too much to do
    kError,    // another status, or an error in the stream
    kDropped,  // no answer, or one that ends in the middle
  };
  End end = End::kDropped;
  std::string error;  // its kind, few different ones: "429 rate_limit_exceeded", "closed in the middle"
  int status = 0;     // 0: none came
  double retry_after = 0;

  // On the clock of steady_seconds; 0: it never came to it.
  double sent = 0, first = 0, last = 0;  // request, first and last piece of text
  double ended = 0;
  std::vector<float> gaps;  // seconds between pieces of text

  std::string text;                                                          // of the first choice
  std::int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;  // of "usage"; 0 without
  bool has_usage = false;
  Json body;    // whole answers only
  Json kvasir;  // the receipt; null from other servers
};

// Puts an answer together from the bytes of its body as they come.
class AnswerReader {
 public:
  AnswerReader(double sent, int status, bool stream) : stream_(stream) {
    answer_.sent = sent;
    answer_.status = status;
  }
  void feed(std::string_view bytes, double now);
  // The body is over (`whole`) or the connection is.
  ApiAnswer finish(bool whole, double now);

 private:
  void line(std::string_view text, double now);
  void event(std::string_view data, double now);
  void read_usage(const Json& json);
  void add_text(const std::string& text, double now);
  void fail(const Json& json);

  const bool stream_;
  ApiAnswer answer_;
  std::string pending_;  // of a line, or the whole body
  std::string data_;     // of an event
  bool done_ = false;    // [DONE] was read
};

}  // namespace kvasir::serve
