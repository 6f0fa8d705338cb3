// Pictures in a template's prompts: given as the template expects them, and found again where it shows them.
#include <fmt/format.h>

#include <algorithm>

#include "text/chat.hpp"
#include "text/chat_adapt.hpp"
#include "text/conversation.hpp"
#include "text/pictures.hpp"

namespace kvasir::text {
namespace {

// Bytes that may stand between a mark and what the template writes for its picture: blanks, "Picture 12: ".
constexpr std::size_t kMostLead = 24;

bool is_covered(const std::vector<std::size_t>& places, std::size_t begin, std::size_t end) {
  const auto at = std::lower_bound(places.begin(), places.end(), begin);
  return at != places.end() && *at < end;
}

}  // namespace

Json picture_parts(std::string_view content, const TemplateTraits& t) {
  Json parts = Json::array();
  const auto add = [&](std::string_view text) {
    if (!text.empty()) parts.push_back({{"type", "text"}, {"text", text}});
  };
  std::size_t done = 0;
  for (auto mark = next_mark(content); mark; mark = next_mark(content, mark->end)) {
    add(content.substr(done, mark->begin - done));
    add(content.substr(mark->begin, mark->end - mark->begin));
    const std::string& type =
        is_sound_mark(parts.back()["text"].get_ref<const std::string&>()) ? t.sound_type : t.picture_type;
    if (!type.empty()) parts.push_back({{"type", type}});
    done = mark->end;
  }
  add(content.substr(done));
  return parts;
}

void find_pictures(const Conversation& c, const TemplateTraits& t, Prompt& prompt) {
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
    const std::string& written = is_sound_mark(picture.mark) ? t.sound_text : t.picture_text;
    if (!written.empty()) {
      const std::string_view behind = text.substr(mark->end, kMostLead + written.size());
      const std::size_t at = behind.find(written), end = mark->end + at + written.size();
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
    refuse_message("messages", fmt::format("hold {} pictures and sounds, and the chat template shows {} of them",
                                           given.size(), found.size()));
}

}  // namespace kvasir::text
