#include "base/rss.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/error.hpp"

namespace kvasir {
namespace {

constexpr char kStatus[] = "/proc/self/status";

// "VmRSS:\t  1234 kB" -> bytes
std::uint64_t field(const std::string& status, const std::string& name) {
  const std::size_t at = ("\n" + status).find("\n" + name + ":");
  if (at == std::string::npos)
    throw Error(Code::kUnsupported, "has no line " + name + ", expected the process status of Linux", kStatus);
  return std::strtoull(status.c_str() + at + name.size() + 1, nullptr, 10) * 1024;
}

}  // namespace

Rss parse_rss(const std::string& status) {
  return {field(status, "VmRSS"), field(status, "RssAnon"), field(status, "RssFile"), field(status, "VmHWM")};
}

Rss process_rss() {
  std::ifstream in(kStatus);
  if (!in) throw Error(Code::kUnsupported, "cannot be read, expected the process status of Linux", kStatus);
  std::ostringstream text;
  text << in.rdbuf();
  return parse_rss(text.str());
}

std::optional<Rss> find_process_rss() {
  try {
    return process_rss();
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool reset_peak_rss() {
  std::FILE* f = std::fopen("/proc/self/clear_refs", "w");
  if (!f) return false;
  const bool wrote = std::fputs("5", f) >= 0;  // 5: reset the high-water mark (proc(5))
  return std::fclose(f) == 0 && wrote;
}

}  // namespace kvasir
