// Files over HTTP(S), by libcurl. Builds without it refuse (client/no_download.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace kvasir::client {

struct Page {
  std::string text;
  std::string link;  // the header Link, where further pages are named; "": none
};
// What a GET answers, at most 32 MiB. `what` is how errors call it. `token` goes to the URL's own host only. Throws
// Error: kBadInput where the server says that it is not there or may not be read, kIo for everything else, kUnsupported
// in builds without libcurl.
Page fetch_page(const std::string& url, const std::string& token, const std::string& what);

struct Download {
  std::string url, token;
  std::string path;        // goes on behind what it holds
  std::uint64_t size = 0;  // of the whole file; 0: not known
};
// Tries again when a connection ends early. `progress(done, total)` is called several times a second; false:
// Error(kCancelled), and the file keeps what came. Throws as fetch_page, kIo for a full disk, kBusy where another
// process writes the file.
void download(const Download& download, const std::function<bool(std::uint64_t, std::uint64_t)>& progress);

}  // namespace kvasir::client
