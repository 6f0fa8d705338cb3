#include "base/error.hpp"
#include "client/download.hpp"
#include "client/picture_url.hpp"

namespace kvasir::client {
namespace {

[[noreturn]] void refuse(const std::string& url) {
  throw Error(Code::kUnsupported, "this build cannot download: install libcurl4-openssl-dev and build again", url);
}

}  // namespace

Page fetch_page(const std::string& url, const std::string&, const std::string&) { refuse(url); }

void download(const Download& d, const std::function<bool(std::uint64_t, std::uint64_t)>&) { refuse(d.url); }

std::string fetch_picture(const std::string& url, const PictureFetch&) { refuse(url); }

}  // namespace kvasir::client
