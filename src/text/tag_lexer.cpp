#include "text/tag_lexer.hpp"

#include <algorithm>

namespace kvasir::text {
namespace {

constexpr std::string_view kTagBlanks = " \t\r\n";
using LexedKind = Tag::Kind;

// The name in a tag: <function=f>, <invoke name="f">.
std::string name_in_tag(std::string_view inside) {
  const auto skip = [&](std::string_view what) {
    inside.remove_prefix(count_space(inside));
    if (inside.starts_with(what)) inside.remove_prefix(what.size());
    inside.remove_prefix(count_space(inside));
  };
  skip("name");
  skip("=");
  skip(":");
  if (inside.empty()) return {};
  const char quote = inside[0];
  if (quote == '"' || quote == '\'') {
    inside.remove_prefix(1);
    return std::string(inside.substr(0, inside.find(quote)));
  }
  return std::string(inside.substr(0, inside.find_first_of(kTagBlanks)));
}

Tag damaged_tag(std::size_t size) { return {.kind = LexedKind::kDamaged, .size = size}; }

}  // namespace

TagLexer::TagLexer(const TagStyle& style) : own_(style.own) {
  const auto add = [&](std::string_view tag, LexedKind kind) {
    if (!tag.empty()) tags_.emplace_back(tag, kind);
  };
  for (const auto tag : style.section) add(tag, LexedKind::kSection);
  for (const auto tag : style.section_end) add(tag, LexedKind::kSectionEnd);
  add(style.call, LexedKind::kCall);
  add(style.call_end, LexedKind::kCallEnd);
  add(style.key, LexedKind::kKey);
  add(style.key_end, LexedKind::kKeyEnd);
  add(style.value, LexedKind::kValue);
  add(style.value_end, LexedKind::kValueEnd);
}

Tag TagLexer::find(std::string_view text, std::size_t from, bool end) const {
  const auto next = [&](std::size_t at) {
    const std::size_t open = text.find('<', at), own = own_.empty() ? text.npos : text.find(own_[0], at);
    return std::min(open, own);
  };
  for (std::size_t at = next(from); at != text.npos; at = next(at + 1)) {
    const std::string_view rest = text.substr(at);
    Known best{};
    bool may_come = false;
    for (const Known& tag : tags_) {
      if (rest.starts_with(tag.first) && tag.first.size() > best.first.size()) best = tag;
      may_come = may_come || (tag.first.size() > rest.size() && tag.first.starts_with(rest));
    }
    if (may_come && !end) return {.at = at};
    if (best.first.empty() && !own_.empty()) {
      std::optional<Tag> tag = unknown(rest, end);
      if (!tag) continue;
      tag->at = at;
      return *tag;
    }
    if (best.first.empty()) continue;
    if (best.first.ends_with('>')) return {.kind = best.second, .at = at, .size = best.first.size()};
    std::optional<Tag> tag = named(best, rest, end);
    if (!tag) continue;
    tag->at = at;
    return *tag;
  }
  return {.at = text.size()};
}

int TagLexer::ends_value(std::string_view text, const Tag& tag, bool end) const {
  const std::size_t behind = tag.at + tag.size;
  if (tag.at > 0 && text[tag.at - 1] == '\n') {
    if (behind == text.size()) return end ? 1 : -1;
    if (text[behind] == '\n') return 1;
  }
  for (std::size_t from = behind;;) {
    const Tag next = find(text, from, end);
    if (next.kind == LexedKind::kNone) return end ? 1 : -1;
    if (next.kind == LexedKind::kValueEnd) return 0;
    if (next.kind != LexedKind::kCallEnd && next.kind != LexedKind::kSectionEnd) return 1;
    from = next.at + next.size;
  }
}

std::vector<std::string_view> TagLexer::marks() const {
  std::vector<std::string_view> all;
  for (const Known& tag : tags_) all.push_back(tag.first);
  if (!own_.empty()) all.push_back(own_);
  return all;
}

// A tag of the form that is damaged: what stands in all of them is here.
std::optional<Tag> TagLexer::unknown(std::string_view rest, bool end) const {
  std::string_view inside = rest;
  for (const char c : {'<', '/'})
    if (inside.starts_with(c)) inside.remove_prefix(1);
  if (inside.size() < own_.size() && own_.starts_with(inside) && !end) return Tag{};
  if (!inside.starts_with(own_)) return {};
  const std::size_t begin = rest.size() - inside.size() + own_.size();
  const std::size_t stop = rest.find_first_of("><\n", begin);
  if (stop == rest.npos && !end && rest.size() <= kLongest) return Tag{};
  const bool closed = stop != rest.npos && rest[stop] == '>';
  return damaged_tag(stop == rest.npos ? (end ? rest.size() : begin) : stop + closed);
}

// Nothing: it is none; kNone: nobody knows yet.
std::optional<Tag> TagLexer::named(const Known& tag, std::string_view rest, bool end) const {
  const std::string_view inside = rest.substr(tag.first.size());
  if (!inside.empty() && std::string_view(" =:\t>\n").find(inside[0]) == std::string_view::npos) return {};
  const std::size_t stop = inside.find_first_of("><\n");
  if (stop == inside.npos) {
    if (inside.size() > kLongest) return {};
    return end ? damaged_tag(rest.size()) : Tag{};
  }
  const std::string_view words = inside.substr(0, stop);
  const std::string name = name_in_tag(words);
  if (inside[stop] != '>' || name.empty() || name.find_first_of("{}") != name.npos)
    return damaged_tag(tag.first.size() + stop + (inside[stop] == '>'));
  Tag found{.kind = tag.second, .size = tag.first.size() + stop + 1, .name = name};
  if (words.find("string=\"true\"") != words.npos) found.text = true;
  if (words.find("string=\"false\"") != words.npos) found.text = false;
  return found;
}

}  // namespace kvasir::text
