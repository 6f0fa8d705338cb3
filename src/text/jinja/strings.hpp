// Operations on strings that filters and methods share. Positions are bytes; what Python counts in characters says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/meter.hpp"

namespace kvasir::text::jinja {

// Where `what` first stands in `text`, npos if nowhere. Linear time for every input.
std::size_t find_text(std::string_view text, std::string_view what, std::size_t from = 0);
std::size_t rfind_text(std::string_view text, std::string_view what);

// `count` below 0: all.
std::string replace_text(std::string_view text, std::string_view from, std::string_view to, std::int64_t count,
                         Meter& meter);
std::string repeat_text(std::string_view text, std::size_t times, Meter& meter);

// str.strip: `chars` is a set of characters, null white space.
std::string_view strip_text(std::string_view text, const std::string_view* chars, bool left, bool right);

// str.split and str.rsplit: `separator` null splits at white space; `limit` below 0: no limit.
std::vector<std::string_view> split_text(std::string_view text, const std::string_view* separator, std::int64_t limit);
std::vector<std::string_view> rsplit_text(std::string_view text, const std::string_view* separator, std::int64_t limit);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

// Begins of all characters, and the size behind the last one.
std::vector<std::size_t> character_starts(std::string_view text, Meter& meter);
std::int64_t count_characters(std::string_view text);

// Unicode's full case mappings that do not depend on the context (so a final sigma is no special case).
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);  // str.title

}  // namespace kvasir::text::jinja
