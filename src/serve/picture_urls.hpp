// Pictures and sounds that a request names by http(s) URLs. Reading the request notes those that are not there yet;
// they are fetched on threads of their own, and the request is read again:
//
//   with_picture_urls(exchange, [=](PictureUrls* urls) { ... parse_chat(body, {.urls = urls}) ... });
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/picture_url.hpp"

namespace kvasir::serve {

class Exchange;

// Of one request, by one thread at a time.
class PictureUrls {
 public:
  struct Missing {};  // some are to be fetched

  // What is at `url`; null when it is not known yet, which is noted. Throws Error(kBadInput), without a context, saying
  // why there is nothing.
  std::shared_ptr<const std::string> find(client::Fetched kind, const std::string& url);
  // Throws Missing where find() noted some, ApiException for more than a request may have.
  void check() const;

 private:
  friend class PictureFetcher;
  struct Found {
    std::shared_ptr<const std::string> bytes;  // null: `why` not, or not fetched yet
    std::string why;
    bool fetched = false;
  };
  std::map<std::pair<client::Fetched, std::string>, Found> found_;
};

class PictureFetcher {
 public:
  // Throws Error(kBadInput) naming what is no host.
  explicit PictureFetcher(std::vector<std::string> allowed);
  ~PictureFetcher();

  bool on() const { return !hosts_.allowed.empty(); }
  // Fetches what `urls` lacks and calls `then`, which must not throw, on a thread of the fetcher's. Throws
  // ApiException(503) when too many wait.
  void fetch(std::shared_ptr<PictureUrls> urls, std::function<void()> then);
  // Ends what is being fetched and returns when nothing runs any more.
  void stop();

 private:
  void work();
  void fetch_all(PictureUrls& urls) const;

  client::PictureHosts hosts_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stop_ = false;
  std::vector<std::thread> threads_;  // started by the first picture
};

// Runs f, and once more when the pictures are there that it lacked. urls: null where this server fetches none. `f`
// outlives this call. Throws what f throws; what it throws later is answered.
void with_picture_urls(const std::shared_ptr<Exchange>& exchange, std::function<void(PictureUrls* urls)> f);

}  // namespace kvasir::serve
