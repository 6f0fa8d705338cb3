// Any bytes as a model's name and as a hub's list of files: refused with an error that says why, or files that stay in
// their folder, all parts of one model.
//
// Input: the name, a line break, the list.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "client/hub.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();  // what the fuzzer reports as a finding
}

void require_plain(std::string_view path) {
  require(!path.empty() && path.front() != '/' && path.find('\0') == path.npos && path.find("//") == path.npos);
  require(("/" + std::string(path) + "/").find("/../") == std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvasir::client;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(all.find('\n'), size);
  HubName name{.owner = "a", .repo = "b"};
  try {
    name = parse_hub_name(all.substr(0, end));
    require_plain(name.owner);
    require_plain(name.repo);
    require(parse_hub_name(name.text()).text() == name.text());
  } catch (const kvasir::Error& e) {
    require(!e.message().empty());
  }
  try {
    const std::string next = next_page(all, "https://hub");
    require(next.empty() || next.starts_with("https://hub/"));
  } catch (const kvasir::Error& e) {
    require(!e.message().empty());
  }
  try {
    const auto files = parse_listing(end < size ? all.substr(end + 1) : std::string_view(), "list");
    for (const HubFile& f : files) require_plain(f.path);
    require(!choose_files(files, name).empty());
  } catch (const kvasir::Error& e) {
    require(!e.message().empty() && !e.context().empty());
  }
  return 0;
}
