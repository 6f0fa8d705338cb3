#include "serve/log.hpp"

namespace kvasir::serve {

std::string log_value(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 200)) {
    const bool plain = static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != 0x7f;
    out += plain ? c : '?';
  }
  return out.find(' ') == std::string::npos && !out.empty() ? out : '"' + out + '"';
}

}  // namespace kvasir::serve
