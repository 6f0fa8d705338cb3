// Base64 with padding (RFC 4648, section 4).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvasir {

std::string to_base64(std::string_view bytes);

// Nothing for what is no such text.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace kvasir
