// Pictures in templates' prompts: where they stand, whatever the template writes for them, and never where a text only
// says so.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/base64.hpp"
#include "base/error.hpp"
#include "text/chat.hpp"
#include "text/conversation.hpp"
#include "text/pictures.hpp"

namespace kvasir::text {
namespace {

const std::string kCat = picture_mark("cat"), kDog = picture_mark("dog");
constexpr const char* kPlain = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}";
// As Gemma 3's (texts are trimmed), and Qwen's with a number in front of each picture.
constexpr const char* kTrimmed =
    "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content | trim }}{% else %}{% for p in "
    "m.content %}{% if p.type == 'image' %}<start_of_image>{% else %}{{ p.text | trim }}{% endif %}{% endfor %}{% "
    "endif %}{{ '\\n' }}{% endfor %}";
constexpr const char* kCounted =
    "{% set n = namespace(i=0) %}{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% "
    "else %}{% for p in m.content %}{% if p.type == 'image' and m.role != 'tool' %}{% set n.i = n.i + 1 %}Picture {{ "
    "n.i }}: <|vision_start|><|image_pad|><|vision_end|>{% elif 'text' in p %}{{ p.text }}{% endif %}{% endfor %}{% "
    "endif %}{{ '\\n' }}{% endfor %}";

struct Seen {
  std::string text;  // with [cat] and [dog] in place of the pictures
  std::vector<std::string> leads;
};

Seen seen(const char* source, Json messages) {
  Conversation c;
  c.messages = std::move(messages);
  c.add_generation_prompt = false;
  const SpecialMatcher none;
  const Prompt prompt = ChatTemplate(source, "", "").prompt(c, none);
  Seen out;
  std::size_t done = 0;
  for (const Prompt::Picture& p : prompt.pictures) {
    out.text += prompt.text.substr(done, p.begin - done) + p.lead + (p.mark == kCat ? "[cat]" : "[dog]");
    out.leads.push_back(p.lead);
    done = p.end;
  }
  out.text += prompt.text.substr(done);
  return out;
}

Json user(const std::string& content) { return Json::array({{{"role", "user"}, {"content", content}}}); }

TEST(ChatPictures, StandBetweenTextsWhateverTheTemplateWritesForThem) {
  const Json messages = user("A " + kCat + " and " + kDog + ".");
  EXPECT_EQ(seen(kPlain, messages).text, "<user>A [cat] and [dog].\n");
  EXPECT_EQ(seen(kTrimmed, messages).text, "<user>A[cat]and[dog].\n");  // as it trims each part
  EXPECT_EQ(seen(kCounted, messages).text, "<user>A Picture 1: [cat] and Picture 2: [dog].\n");
  for (const char* source : {kPlain, kTrimmed, kCounted}) {
    EXPECT_EQ(seen(source, user(kCat)).leads.size(), 1u);
    EXPECT_EQ(seen(source, user("no picture")).text, "<user>no picture\n");
    const std::string twice = seen(source, user(kCat + kCat)).text;
    EXPECT_NE(twice.find("[cat]"), twice.rfind("[cat]"));
    EXPECT_EQ(twice.find("image"), twice.npos) << twice;  // the template's own token went with the mark
  }
}

TEST(ChatPictures, StandInResultsOfToolsWhereTheTemplateWritesNothingForThem) {
  Json messages = user("look");
  messages.push_back({{"role", "tool"}, {"content", "seen: " + kDog + "!"}});
  EXPECT_EQ(seen(kCounted, messages).text, "<user>look\n<tool>seen: [dog]!\n");
}

TEST(ChatPictures, WhatATemplateDoesNotShowIsRefused) {
  const auto refusal = [](const char* source, const Json& messages) -> std::string {
    try {
      return "accepted: " + seen(source, messages).text;
    } catch (const Error& e) {
      return e.what();
    }
  };
  EXPECT_NE(refusal("{% for m in messages %}{{ m.content[:3] }}{% endfor %}", user("abc" + kCat)).find("1 pictures"),
            std::string::npos);
  EXPECT_NE(refusal("{% for m in messages %}{{ m.content ~ m.content }}{% endfor %}", user(kCat)).find("shows 2"),
            std::string::npos);
}

TEST(ChatPictures, NoTextSpellsAMark) {
  Json value{{"a" + kCat, Json::array({kCat, 1, "b"})}};
  drop_marks(value);
  EXPECT_TRUE(marks_in(value.dump()).empty());
  EXPECT_EQ(value.dump().size(), Json({{"a" + kCat, Json::array({kCat, 1, "b"})}}).dump().size());
  EXPECT_EQ(marks_in("x" + kCat + kDog), (std::vector{kCat, kDog}));
  EXPECT_NE(kCat, kDog);
}

TEST(ChatPictures, PartsBecomeMarks) {
  const std::string url = "data:image/png;base64," + to_base64("cat");
  Json messages = Json::array({{{"role", "user"},
                                {"content", Json::array({{{"type", "text"}, {"text", "a" + kDog}},
                                                         {{"type", "image_url"}, {"image_url", {{"url", url}}}},
                                                         {{"type", "text"}, {"text", "b"}}})}}});
  const std::vector<PictureFile> files = take_pictures(messages);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(*files[0].bytes, "cat");
  EXPECT_EQ(files[0].field, "messages[0].content[1]");
  EXPECT_EQ(marks_in(messages[0]["content"].get<std::string>()), std::vector{kCat});
  messages[0]["content"] = Json::array({{{"type", "audio"}}, {{"type", "image_url"}, {"image_url", {{"url", url}}}}});
  EXPECT_THROW(take_pictures(messages), Error);
}

TEST(ChatPictures, DataUrls) {
  EXPECT_EQ(read_data_url("data:image/png;base64,Y2F0"), "cat");
  EXPECT_EQ(read_data_url("DATA:;BASE64,Y2F0cw"), "cats");  // without padding
  EXPECT_EQ(read_data_url("data:image/png;base64,Y2\nF0"), "cat");
  for (const char* bad : {"http://x/y.png", "data:image/png,cat", "data:image/png;base64,",
                          "data:image/png;base64,Y*F0", "data:", "file:///etc/passwd", "", "data:image/png;base64"})
    EXPECT_THROW(read_data_url(bad), Error) << bad;
}

}  // namespace
}  // namespace kvasir::text
