#include "client/download.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/error.hpp"
#include "client/curl.hpp"

namespace kvasir::client {
namespace {

constexpr std::size_t kLongestText = std::size_t{32} << 20;
constexpr std::size_t kLongestLink = std::size_t{16} << 10;
constexpr int kTries = 5;  // without a byte that came

// One transfer.
class Transfer {
 public:
  Transfer(const std::string& url, const std::string& token) {
    if (!curl().missing.empty()) throw Error(Code::kUnsupported, curl().missing, url);
    handle_.reset(curl().easy_init());
    if (!handle_) throw Error(Code::kIo, "libcurl does not start", url);
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, 10L);
    // Never from a secured connection to another kind, nor to a file.
    if (!keep_to_web(handle_.get(), url.starts_with("https:")))
      throw Error(Code::kUnsupported, "this libcurl cannot be kept to HTTP");
    set(CURLOPT_FAILONERROR, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, 30L);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, 60L);
    set(CURLOPT_USERAGENT, "kvasir");
    set(CURLOPT_ERRORBUFFER, error_);
    if (!token.empty()) {  // libcurl does not send it to other hosts
      headers_.reset(curl().slist_append(nullptr, ("Authorization: Bearer " + token).c_str()));
      set(CURLOPT_HTTPHEADER, headers_.get());
    }
  }

  template <class Value>
  bool set(CURLoption option, Value value) {
    return curl().easy_setopt(handle_.get(), option, value) == CURLE_OK;
  }

  CURLcode run() {
    error_[0] = '\0';
    return curl().easy_perform(handle_.get());
  }
  long status() const {
    long status = 0;
    curl().easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
    return status;
  }
  std::string why(CURLcode code) const { return error_[0] ? error_ : curl().easy_strerror(code); }

  [[noreturn]] void fail(CURLcode code, const std::string& what) const {
    const long http = status();
    if (code == CURLE_HTTP_RETURNED_ERROR && (http == 401 || http == 403))
      throw Error(
          Code::kBadInput,
          fmt::format("the server answered {}: it is not there, or needs a token that may read it (HF_TOKEN)", http),
          what);
    if (code == CURLE_HTTP_RETURNED_ERROR && http == 404) throw Error(Code::kBadInput, "is not there (404)", what);
    throw Error(Code::kIo, why(code), what);
  }

 private:
  std::unique_ptr<CURL, CurlEnd> handle_;
  std::unique_ptr<curl_slist, CurlEnd> headers_;
  char error_[CURL_ERROR_SIZE] = {};
};

bool worth_another_try(CURLcode code, long status) {
  switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_HTTP2_STREAM:
      return true;
    case CURLE_HTTP_RETURNED_ERROR:
      return status == 429 || status >= 500;
    default:
      return false;
  }
}

void pause(int tries) { std::this_thread::sleep_for(std::chrono::milliseconds(250) * (1 << tries)); }

// Header lines of all answers on the way; the last one counts.
std::size_t take_header(char* data, std::size_t, std::size_t n, void* to) {
  auto& link = *static_cast<std::string*>(to);
  const std::string_view line(data, n);
  if (line.starts_with("HTTP/")) link.clear();
  constexpr std::string_view kName = "link:";
  const bool is_link = std::equal(kName.begin(), kName.end(), line.begin(), line.begin() + std::min(n, kName.size()),
                                  [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b + 32 : b); });
  if (is_link && link.size() + n < kLongestLink)
    link += (link.empty() ? "" : ",") + std::string(line.substr(kName.size()));
  return n;
}

std::size_t take_text(char* data, std::size_t, std::size_t n, void* to) {
  auto& text = *static_cast<std::string*>(to);
  if (text.size() + n > kLongestText) return 0;
  text.append(data, n);
  return n;
}

// A file that only this process appends to.
class Output {
 public:
  explicit Output(const std::string& path)
      : path_(path), file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (file_ < 0) fail();
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      ::close(file_);
      throw Error(Code::kBusy, "another process is downloading it", path);
    }
    struct stat s {};
    if (::fstat(file_, &s) != 0) fail();
    size_ = static_cast<std::uint64_t>(s.st_size);
  }
  ~Output() { ::close(file_); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  std::uint64_t size() const { return size_; }
  void clear() {
    if (::ftruncate(file_, 0) != 0) fail();
    size_ = 0;
  }
  bool append(const char* data, std::size_t n) {
    while (n > 0) {
      const ssize_t written = ::pwrite(file_, data, n, static_cast<off_t>(size_));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      data += written;
      n -= static_cast<std::size_t>(written);
      size_ += static_cast<std::uint64_t>(written);
    }
    return true;
  }
  void sync() {
    if (::fsync(file_) != 0) fail();
  }

 private:
  [[noreturn]] void fail() const { throw Error(Code::kIo, std::strerror(errno), path_); }

  const std::string path_;
  const int file_;
  std::uint64_t size_ = 0;
};

struct Receiver {
  Output& out;
  const Download& asked;
  const std::function<bool(std::uint64_t, std::uint64_t)>& progress;
  int failed = 0;  // errno

  static std::size_t take(char* data, std::size_t, std::size_t n, void* self) {
    auto& s = *static_cast<Receiver*>(self);
    if (s.out.append(data, n)) return n;
    s.failed = errno;
    return 0;
  }
  static int tell(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    auto& s = *static_cast<Receiver*>(self);
    return s.progress(s.out.size(), s.asked.size) ? 0 : 1;
  }
};

void check_space(const Download& d, std::uint64_t have) {
  std::error_code unknown;
  const auto space = std::filesystem::space(std::filesystem::path(d.path).parent_path(), unknown);
  if (unknown || d.size <= have || space.available >= d.size - have) return;
  throw Error(Code::kIo,
              fmt::format("needs {} MB more, the disk has {} MB", (d.size - have) / 1000000, space.available / 1000000),
              d.path);
}

}  // namespace

Page fetch_page(const std::string& url, const std::string& token, const std::string& what) {
  for (int tries = 0;; ++tries) {
    Transfer transfer(url, token);
    Page page;
    transfer.set(CURLOPT_WRITEFUNCTION, &take_text);
    transfer.set(CURLOPT_WRITEDATA, &page.text);
    transfer.set(CURLOPT_HEADERFUNCTION, &take_header);
    transfer.set(CURLOPT_HEADERDATA, &page.link);
    const CURLcode code = transfer.run();
    if (code == CURLE_OK) return page;
    if (tries + 1 >= kTries || code == CURLE_COULDNT_CONNECT || !worth_another_try(code, transfer.status()))
      transfer.fail(code, what);
    pause(tries);
  }
}

void download(const Download& d, const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
  Output out(d.path);
  if (d.size == 0 || out.size() > d.size) out.clear();
  check_space(d, out.size());
  int tries = 0;
  while (d.size == 0 || out.size() < d.size) {
    const std::uint64_t had = out.size();
    Transfer transfer(d.url, d.token);
    Receiver receiver{out, d, progress};
    transfer.set(CURLOPT_WRITEFUNCTION, &Receiver::take);
    transfer.set(CURLOPT_WRITEDATA, &receiver);
    transfer.set(CURLOPT_XFERINFOFUNCTION, &Receiver::tell);
    transfer.set(CURLOPT_XFERINFODATA, &receiver);
    transfer.set(CURLOPT_NOPROGRESS, 0L);
    if (had > 0) transfer.set(CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(had));
    const CURLcode code = transfer.run();
    if (code == CURLE_OK) {
      if (d.size == 0 || out.size() == d.size) break;
      if (out.size() > d.size)
        throw Error(Code::kIo, fmt::format("came with {} bytes, expected {}", out.size(), d.size), d.url);
    } else if (code == CURLE_ABORTED_BY_CALLBACK) {
      out.sync();
      throw Error(Code::kCancelled, "stopped; the same command goes on from here", d.path);
    } else if (code == CURLE_WRITE_ERROR && receiver.failed != 0) {
      throw Error(Code::kIo, std::strerror(receiver.failed), d.path);
    } else if (code == CURLE_RANGE_ERROR) {
      out.clear();  // this server sends whole files only
    } else if (!worth_another_try(code, transfer.status())) {
      transfer.fail(code, d.url);
    }
    tries = out.size() > had ? 0 : tries + 1;
    if (tries >= kTries) {
      if (code != CURLE_OK) transfer.fail(code, d.url);
      throw Error(Code::kIo, fmt::format("came with {} bytes, expected {}", out.size(), d.size), d.url);
    }
    pause(tries);
  }
  out.sync();
}

}  // namespace kvasir::client
