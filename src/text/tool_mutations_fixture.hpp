// Valid answers of each form of tool calls, with tags cut, doubled and dropped, and what has to hold for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/splitmix.hpp"
#include "text/call_check.hpp"
#include "text/tool_form.hpp"

namespace kvasir::text {

inline const Json& mutation_tools() {
  static const Json tools = Json::parse(R"([{"type": "function", "function": {"name": "look_up", "parameters":
    {"type": "object", "properties": {"day": {"type": "integer"}, "note": {"type": "string"}, "exact": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string"}}, "more": {"type": "object"}, "any": {}}}}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}])");
  return tools;
}

class AnswerMutator {
 public:
  AnswerMutator(const Entry<ToolForm>& form, std::uint64_t seed) : form_(form), seed_(seed) {
    tags_ = tags_for(form);
    watched_ = pick(8) == 0;
    make();
    original_ = text_;
    for (std::uint64_t n = 1 + pick(3); n > 0; --n) mutate();
  }

  const std::string& text() const { return text_; }
  const std::string& original() const { return original_; }

  // What does not hold for this answer; "": all does.
  std::string fault() {
    const std::string rest = without_tags();
    // A tag that only comes to be where another one is taken out is text.
    std::erase_if(tags_, [&](const std::string& tag) { return rest.find(tag) != rest.npos; });
    const ToolOutput whole = parse(text_.size() + 1, cut_);
    const ToolOutput pieces = parse(1 + pick(20), cut_);
    if (!grew_) return "content shrank, or calls changed";
    if (pieces.content != whole.content || pieces.reasoning != whole.reasoning) return "streamed content differs";
    if (pieces.calls.size() != whole.calls.size()) return "streamed calls differ";
    for (std::size_t i = 0; i < whole.calls.size(); ++i) {
      const ToolCall &a = whole.calls[i], &b = pieces.calls[i];
      if (a.name != b.name || a.arguments != b.arguments) return "a streamed call differs: " + b.arguments;
      if (a.name.empty()) return "a call has no name";
      for (const std::string& tag : tags_)
        if (!foreign_ && a.arguments.find(tag) != a.arguments.npos) return "markup in arguments: " + a.arguments;
      if (!Json::accept(a.arguments) && call_faults(a, mutation_tools()).empty())
        return "a broken call is not said to be";
    }
    const std::string content = unquoted(whole.content);
    for (const std::string& tag : tags_)
      if (content.find(tag) != content.npos && unquoted(content_apart()).find(tag) != content.npos)
        return "markup in content: " + whole.content;
    std::string all = whole.content;
    for (const ToolCall& call : whole.calls) all += call.name + call.arguments;
    if (!cut_ && !hurt_ && text_.find(kFront) != text_.npos && whole.content.find(kFront) == whole.content.npos)
      return "text is lost";
    if (!hurt_ && !cut_ && text_.find(kBehind) != text_.npos && all.find(kBehind) == all.npos)
      return "text behind the calls is lost";
    return {};
  }

 private:
  // The content with a line's end at each call: what stands in front of one and behind it may together look like a tag
  // that nobody wrote, and no parser can take back what it gave.
  std::string content_apart() {
    std::string content = parse(1, cut_).content;
    for (; !joins_.empty(); joins_.pop_back()) content.insert(joins_.back(), "\n");
    return content;
  }

  // The text but for tags in quotes, where it speaks of them. (A tag may hold another one.)
  std::string unquoted(std::string text) const {
    for (const std::string& tag : tags_)
      for (std::size_t at = text.find(tag); at != text.npos; at = text.find(tag, at + 1)) {
        const std::size_t end = at + tag.size();
        const bool quoted = at > 0 && end < text.size() && text[at - 1] == text[end] &&
                            std::string_view("\"'`*").find(text[end]) != std::string_view::npos;
        if (quoted) text.erase(at, tag.size());
      }
    return text;
  }

  static constexpr std::string_view kFront = "I look", kBehind = "Donedone";

  std::uint64_t pick(std::uint64_t n) { return splitmix64(seed_) % n; }

  static std::vector<std::string> make_tags(const Entry<ToolForm>& form) {
    std::vector<std::string> all;
    const auto add = [&](std::string_view tag) {
      if (tag.size() > 3 && std::find(all.begin(), all.end(), tag) == all.end()) all.emplace_back(tag);
    };
    const Json arguments{{"day", 1}, {"note", "x"}, {"tags", {"x"}}};
    const ToolCall calls[] = {{"look_up", arguments.dump()}, {"now", "{}"}};
    const std::string text = write_tool_calls(form, calls);
    for (const auto& [at, size] : tags_of(text)) add(std::string_view(text).substr(at, size));
    for (const std::string_view mark : form.value->marks) add(mark);
    return all;
  }
  static const std::vector<std::string>& tags_for(const Entry<ToolForm>& form) {
    static std::map<const ToolForm*, std::vector<std::string>> all;
    const auto at = all.find(form.value);
    return at != all.end() ? at->second : all.emplace(form.value, make_tags(form)).first->second;
  }

  // Where <...> and [CAPITALS] stand.
  static std::vector<std::pair<std::size_t, std::size_t>> tags_of(std::string_view text) {
    std::vector<std::pair<std::size_t, std::size_t>> all;
    for (std::size_t at = text.find_first_of("<["); at != text.npos; at = text.find_first_of("<[", at + 1)) {
      const std::size_t end = text.find(text[at] == '<' ? '>' : ']', at);
      if (end == text.npos || end - at > 60 || text.substr(at + 1, end - at - 1).find_first_of("<\n") != text.npos)
        continue;
      const bool capitals =
          text.substr(at + 1, end - at - 1).find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == text.npos;
      if (text[at] == '<' ? text[at + 1] != ' ' : capitals && end - at > 3) all.emplace_back(at, end + 1 - at);
    }
    return all;
  }

  std::string without_tags() const {
    std::string rest;
    for (std::size_t at = 0; at < text_.size();) {
      std::size_t most = 0;
      for (const std::string& tag : tags_)
        if (text_.compare(at, tag.size(), tag) == 0) most = std::max(most, tag.size());
      if (most == 0) rest += text_[at];
      at += std::max<std::size_t>(most, 1);
    }
    return rest;
  }

  std::string word() {
    constexpr std::string_view kWords[] = {"a b", "it's",       "say \"hi\"", "x < y > z", "{k: 1}",  "[1, 2",
                                           "ü ☃", "line\nline", "\\n \\\\",   "</b>",      "a, b=3",  "",
                                           "3",   "true",       "```",        "call(x)",   "a: b; c", "}"};
    return std::string(kWords[pick(std::size(kWords))]);
  }

  void make() {
    std::vector<ToolCall> calls;
    for (std::uint64_t n = 1 + pick(2); n > 0; --n) {
      if (pick(5) == 0) {
        calls.push_back({"now", "{}"});
        continue;
      }
      Json a = Json::object();
      if (pick(2) == 0) a["day"] = static_cast<int>(pick(100)) - 50;
      if (pick(2) == 0) a["note"] = word();
      if (pick(3) == 0) a["exact"] = pick(2) == 0;
      if (pick(3) == 0) a["tags"] = Json::array({word(), word()});
      if (pick(4) == 0) a["more"] = {{"k", word()}, {"n", {1.5, nullptr}}};
      if (pick(4) == 0) a["any"] = pick(2) == 0 ? Json(word()) : Json(7);
      calls.push_back({"look_up", a.dump()});
    }
    text_ = write_tool_calls(form_, calls);
    if (pick(2) == 0) text_ = (form_.name == "functionary_recipient" ? "all\nI look.>>>" : "I look.\n") + text_;
    if (pick(8) == 0 && form_.name != "functionary_recipient" && form_.name != "gpt_oss") text_ += "\nDonedone";
  }

  void mutate() {
    const auto tags = tags_of(text_);
    const std::uint64_t kind = pick(tags.empty() ? 3 : 10);
    if (kind == 0 && !cut_) {  // the answer is cut
      std::size_t size = pick(text_.size() + 1);
      while (size < text_.size() && (static_cast<unsigned char>(text_[size]) & 0xc0) == 0x80) ++size;
      text_.erase(size);
      cut_ = pick(2) == 0;
      hurt_ = true;
    } else if (kind == 1 && !text_.empty()) {  // a byte is left out
      const std::size_t at = pick(text_.size());
      if (static_cast<unsigned char>(text_[at]) < 0x80) text_.erase(at, 1);
      hurt_ = true;
    } else if (kind == 2) {  // a tag of the form stands beside another one
      const std::size_t at = tags.empty() ? 0 : tags[pick(tags.size())].first;
      if (!tags_.empty()) text_.insert(at, tags_[pick(tags_.size())]);
      foreign_ = true;
    } else if (!tags.empty()) {
      const auto [at, size] = tags[pick(tags.size())];
      const std::string tag = text_.substr(at, size);
      if (kind < 6) {
        text_.erase(at, size);
      } else if (kind < 8) {
        text_.insert(at + size, (pick(2) == 0 ? "\n" : "") + tag);
      } else {  // half of it
        std::size_t from = whole_character(at + pick(size)), to = whole_character(at + size - pick(size / 2));
        if (to > from) text_.erase(from, to - from);
        hurt_ = true;
      }
    }
  }

  std::size_t whole_character(std::size_t at) const {
    while (at < text_.size() && (static_cast<unsigned char>(text_[at]) & 0xc0) == 0x80) ++at;
    return at;
  }

  ToolOutput parse(std::size_t piece, bool cut) {
    const auto parser = make_tool_parser(&form_, &mutation_tools());
    ToolOutput out;
    std::string content;
    std::vector<ToolCall> calls;
    grew_ = true;
    joins_.clear();
    for (std::size_t i = 0; i < text_.size(); i += piece) {
      const std::size_t before = out.calls.size();
      parser->push(std::string_view(text_).substr(i, piece), out);
      if (out.calls.size() > before) joins_.push_back(out.content.size());
      if (watched_) grow(out, content, calls);
    }
    parser->finish(out, cut);
    if (watched_) grow(out, content, calls);
    return out;
  }

  void grow(const ToolOutput& out, std::string& content, std::vector<ToolCall>& calls) {
    grew_ = grew_ && out.content.starts_with(content) && out.calls.size() >= calls.size();
    for (std::size_t i = 0; grew_ && i < calls.size(); ++i)
      grew_ = out.calls[i].name == calls[i].name &&
              (i + 1 < calls.size() ? out.calls[i].arguments == calls[i].arguments
                                    : out.calls[i].arguments.starts_with(calls[i].arguments));
    content = out.content;
    calls = out.calls;
  }

  const Entry<ToolForm>& form_;
  std::uint64_t seed_;
  std::vector<std::string> tags_;  // of the form
  std::string text_, original_;
  std::vector<std::size_t> joins_;  // where calls stand in the content, byte by byte
  bool cut_ = false, grew_ = true;
  bool watched_ = false;  // whether it only grows
  bool foreign_ = false;  // a tag that does not belong there, which a text may hold
  bool hurt_ = false;     // other bytes than those of tags are missing
};

}  // namespace kvasir::text
