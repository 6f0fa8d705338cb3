#include "serve/picture_urls.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"
#include "base/threads.hpp"
#include "serve/body.hpp"
#include "serve/exchange.hpp"

namespace kvasir::serve {
namespace {

constexpr int kFetchThreads = 4;
constexpr std::size_t kMostTasks = 64;
constexpr std::size_t kMostUrls = 16;                             // of a request
constexpr std::size_t kMostUrlBytes = std::size_t{64} << 20;      // of all of a request's together
constexpr std::size_t kMostPictureBytes = std::size_t{32} << 20;  // of one
constexpr std::chrono::seconds kFetchTime{20};                    // for all of a request's

}  // namespace

std::shared_ptr<const std::string> PictureUrls::find(client::Fetched kind, const std::string& url) {
  const Found& found = found_[{kind, url}];
  if (!found.why.empty()) throw Error(Code::kBadInput, found.why);
  return found.bytes;
}

void PictureUrls::check() const {
  if (found_.size() > kMostUrls)
    bad_field("messages",
              fmt::format("has pictures and sounds at {} URLs, expected at most {}", found_.size(), kMostUrls),
              "invalid_value");
  for (const auto& [what, found] : found_)
    if (!found.fetched) throw Missing();
}

PictureFetcher::PictureFetcher(std::vector<std::string> allowed) : hosts_{std::move(allowed)} { hosts_.check(); }

PictureFetcher::~PictureFetcher() { stop(); }

void PictureFetcher::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  join_all(threads_);
}

void PictureFetcher::fetch(std::shared_ptr<PictureUrls> urls, std::function<void()> then) {
  const std::lock_guard lock(mutex_);
  if (stop_ || tasks_.size() >= kMostTasks)
    throw ApiException({.status = 503,
                        .message = stop_ ? "the server is ending" : "too many pictures are being fetched",
                        .type = "server_error",
                        .code = "busy",
                        .retry_after = 5});
  while (std::ssize(threads_) < kFetchThreads) threads_.emplace_back([this] { work(); });
  tasks_.push_back([this, urls = std::move(urls), then = std::move(then)] {
    fetch_all(*urls);
    then();
  });
  wake_.notify_one();
}

// What waits at the end is still answered: its pictures are refused at once.
void PictureFetcher::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

void PictureFetcher::fetch_all(PictureUrls& urls) const {
  client::PictureFetch how{.hosts = hosts_,
                           .kind = client::Fetched::kPicture,
                           .most_bytes = kMostPictureBytes,
                           .until = std::chrono::steady_clock::now() + kFetchTime,
                           .go_on = [this] {
                             const std::lock_guard lock(mutex_);
                             return !stop_;
                           }};
  std::size_t left = kMostUrlBytes;
  for (auto& [what, found] : urls.found_) {
    if (std::exchange(found.fetched, true)) continue;
    how.kind = what.first;
    how.most_bytes = std::min(kMostPictureBytes, left);
    try {
      found.bytes = std::make_shared<const std::string>(client::fetch_picture(what.second, how));
      left -= found.bytes->size();
    } catch (const Error& e) {
      found.why = e.message();
    } catch (const std::exception& e) {
      found.why = "could not be fetched";
    }
  }
}

void with_picture_urls(const std::shared_ptr<Exchange>& exchange, std::function<void(PictureUrls* urls)> f) {
  PictureFetcher& fetcher = exchange->context()->shared->picture_urls;
  if (!fetcher.on()) return f(nullptr);
  const auto urls = std::make_shared<PictureUrls>();
  try {
    f(urls.get());
  } catch (const PictureUrls::Missing&) {
    fetcher.fetch(urls, [exchange, urls, f] { guarded(exchange, [&] { f(urls.get()); }); });
  }
}

}  // namespace kvasir::serve
