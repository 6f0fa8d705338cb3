// Pictures in a template's prompts: given as the template expects them, and found again where it shows them.
#include <fmt/format.h>

#include <algorithm>

#include "text/chat.hpp"
#include "text/conversation.hpp"
#include "text/pictures.hpp"

namespace kvasir::text {
namespace {

constexpr const char* kAnyBlank = " \t\r\n\f\v";
// Bytes that may stand between a mark and what the template writes for its picture: blanks, "Picture 12: ".
constexpr std::size_t kMostLead = 24;

// Of what a template writes for a picture the special tokens: without blanks and words around them.
std::string tokens_of(std::string_view text) {
  const std::size_t first = text.find_first_of("<["), last = text.find_last_of(">]");
  if (first != text.npos && last != text.npos && first < last) return std::string(text.substr(first, last + 1 - first));
  const std::size_t begin = std::min(text.find_first_not_of(kAnyBlank), text.size());
  return std::string(text.substr(begin, text.find_last_not_of(kAnyBlank) + 1 - begin));
}

bool is_covered(const std::vector<std::size_t>& places, std::size_t begin, std::size_t end) {
  const auto at = std::lower_bound(places.begin(), places.end(), begin);
  return at != places.end() && *at < end;
}

}  // namespace

// What it writes for a part that is a picture, behind a part that is text.
void ChatTemplate::probe_pictures() {
  if (content_ == Content::kText) return;
  const std::string mark = picture_mark("kvasir-probe");
  const auto text = [](const std::string& value) { return Json{{"type", "text"}, {"text", value}}; };
  const auto behind_mark = [&](const Json& parts) -> std::optional<std::string> {
    const std::string shown = probe(Json::array({{{"role", "user"}, {"content", parts}}}), false);
    const std::size_t at = shown.find(mark), end = at == shown.npos ? at : shown.find("kvasir-behind", at);
    if (end == shown.npos) return std::nullopt;
    return shown.substr(at + mark.size(), end - at - mark.size());
  };
  const Json before = text(mark), behind = text("kvasir-behind");
  const std::optional<std::string> without = behind_mark(Json::array({before, behind}));
  for (const char* type : {"image", "image_url"}) {
    const std::optional<std::string> with = behind_mark(Json::array({before, {{"type", type}}, behind}));
    if (!without || !with || *with == *without) continue;
    picture_type_ = type;
    picture_text_ = tokens_of(*with);
    return;
  }
}

// Each picture behind a part that is its mark, so that it is found in the prompt.
Json ChatTemplate::picture_parts(std::string_view content) const {
  Json parts = Json::array();
  const auto add = [&](std::string_view text) {
    if (!text.empty()) parts.push_back({{"type", "text"}, {"text", text}});
  };
  std::size_t done = 0;
  for (auto mark = next_mark(content); mark; mark = next_mark(content, mark->end)) {
    add(content.substr(done, mark->begin - done));
    add(content.substr(mark->begin, mark->end - mark->begin));
    parts.push_back({{"type", picture_type_}});
    done = mark->end;
  }
  add(content.substr(done));
  return parts;
}

void ChatTemplate::find_pictures(const Conversation& c, Prompt& prompt) const {
  std::vector<std::string> given, found;
  for (const Json& message : c.messages) {
    const auto content = message.find("content");
    if (content == message.end() || !content->is_string()) continue;
    const std::vector<std::string> marks = marks_in(content->get_ref<const std::string&>());
    given.insert(given.end(), marks.begin(), marks.end());
  }
  const std::string_view text = prompt.text;
  for (auto mark = next_mark(text); mark; mark = next_mark(text, mark->end)) {
    Prompt::Picture picture{mark->begin, mark->end, std::string(text.substr(mark->begin, mark->end - mark->begin)), {}};
    found.push_back(picture.mark);
    if (!picture_text_.empty()) {
      const std::string_view behind = text.substr(mark->end, kMostLead + picture_text_.size());
      const std::size_t at = behind.find(picture_text_), end = mark->end + at + picture_text_.size();
      if (at != behind.npos && !is_covered(prompt.plain, mark->end + at, end)) {
        picture.lead = behind.substr(0, at);
        picture.end = end;
      }
    }
    prompt.pictures.push_back(std::move(picture));
  }
  std::sort(given.begin(), given.end());
  std::sort(found.begin(), found.end());
  if (given != found)
    refuse_message("messages",
                   fmt::format("hold {} pictures, and the chat template shows {} of them", given.size(), found.size()));
}

}  // namespace kvasir::text
